//! The command line of `nameward audit-log`, and what it runs.

use clap::Args;
use nameward_base::time::now_seconds;
use nameward_control::operations::{AuditRequest, OperationRequest};

use super::{
    api_key::{BadTime, parse_time},
    print::OutputForm,
    request::run_request,
    target::RemoteArguments,
};
use crate::command_error::CommandResult;

/// The arguments of `nameward audit-log`.
#[derive(Args)]
pub struct AuditLogArguments {
    /// Only changes of this zone
    #[arg(long)]
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

impl AuditLogArguments {
    /// Prints the entries.
    pub fn run(self, form: OutputForm) -> CommandResult {
        let request = AuditRequest {
            zone: self.zone,
            key: self.key,
            since: self.since,
            before: None,
            limit: self.limit,
        };
        run_request(OperationRequest::AuditList(request), self.remote, form)
    }
}
