//! Sends the request of a command, and prints the reply.

use std::{sync::mpsc, thread};

use nameward_control::operations::OperationRequest;

use super::{
    print::{OutputForm, Printer, ended},
    target::RemoteArguments,
};
use crate::{
    command_error::{CommandError, CommandResult},
    remote,
};

/// Sends a request to the running server and prints its reply.
pub fn run_request(
    request: OperationRequest,
    remote: RemoteArguments,
    form: OutputForm,
) -> CommandResult {
    let overrides = remote.overrides();
    // Items wait here for a pager, not in the server, where they would hold a database connection.
    let (sender, items) = mpsc::channel();
    let sending = thread::spawn(move || {
        remote::send(request, &overrides, &mut |item| drop(sender.send(item)))
    });
    let mut printer = Printer::new(form);
    if let Err(error) = items.iter().try_for_each(|item| printer.item(&item)) {
        return ended(Err(error));
    }
    let result = sending.join().map_err(|_| CommandError::Interrupted)??;
    ended(printer.result(&result))
}
