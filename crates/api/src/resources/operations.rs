//! `/operations`: the requests of the control socket over HTTP, for `nameward --server`.
//!
//! The body is one request as on the control socket, the reply its lines. The rights of the key hold as for every other resource.

use nameward_control::operations::{ControlRequest, OperationError, ReplyLine};
use nameward_zone::change::MESSAGE_MAX;

use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult, REPLY_MAX, media};

/// Runs an operation. Its errors are lines of the reply, with status 200.
pub fn run(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let request: ControlRequest = serde_json::from_slice(&call.request.body)
        .map_err(|error| ApiError::invalid(format!("cannot read the request: {error}")))?;
    if request
        .message
        .as_ref()
        .is_some_and(|text| text.len() > MESSAGE_MAX)
    {
        return Err(ApiError::invalid(format!(
            "the message has more than {MESSAGE_MAX} octets"
        )));
    }
    let mut lines = Vec::new();
    let add = |lines: &mut Vec<u8>, line: &ReplyLine| {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *lines, line);
        lines.push(b'\n');
    };
    let result = call.run_with_message(request.message.as_deref(), &request.request, &mut |item| {
        add(&mut lines, &ReplyLine::Item(item));
        lines.len() <= REPLY_MAX
    });
    let last = match result {
        Ok(_) if lines.len() > REPLY_MAX => {
            lines.clear();
            ReplyLine::Failed(OperationError::refused(
                "the list is too long for the HTTP API: run the command on the server",
            ))
        }
        Ok(result) => ReplyLine::Done(result),
        Err(error) => ReplyLine::Failed(error),
    };
    add(&mut lines, &last);
    Ok(ApiResponse::text(200, media::LINES, lines))
}
