//! The command line of `nameward audit-log`, and its conversion to a request.

use clap::Args;
use nameward_base::time::now_seconds;
use nameward_control::operations::{AuditRequest, OperationRequest};

use super::{
    RemoteArguments,
    api_key::{BadTime, parse_time},
};

/// The arguments of `nameward audit-log`.
#[derive(Args)]
pub struct AuditLogArguments {
    /// Only changes of this zone
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Only changes with the API key of this ID
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    /// Not older than this: 2027-01-31, 2027-01-31T12:00:00Z, or a period such as 2d or 12h
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<u64>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    remote: RemoteArguments,
}

fn parse_since(text: &str) -> Result<u64, BadTime> {
    parse_time(text, now_seconds(), |now, period| {
        Some(now.saturating_sub(period).max(0))
    })
}

/// Returns the request of `nameward audit-log`, and the server it is for.
pub fn request(arguments: AuditLogArguments) -> (OperationRequest, RemoteArguments) {
    let request = AuditRequest {
        zone: arguments.zone,
        key: arguments.key,
        since: arguments.since,
        before: None,
        limit: arguments.limit,
    };
    (OperationRequest::AuditList(request), arguments.remote)
}
