//! `pdnsutil secure-all-zones`: one line for each zone when it is signed, and the totals.

use std::io::Write;

use nameward_control::operations::{ListedItem, OperationRequest};

use super::{bare, increase_serial};
use crate::{
    cli::print::exit_code, command_error::CommandResult, config::Overrides, remote, terminal,
};

/// Whether the serials of zones are incremented when they are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SerialRaise {
    Raised,
    Preserved,
}

/// Signs all zones, and prints each result at once. Exits with 1 if one was not signed.
pub fn run(raise: SerialRaise, overrides: &Overrides) -> CommandResult {
    let (mut secured, mut failed) = (Vec::new(), 0);
    remote::send(OperationRequest::ZoneSecureAll, overrides, &mut |item| {
        let ListedItem::Secured(one) = item else {
            return;
        };
        let place = format!("[{}/{}] {}", one.number, one.of, bare(&one.zone));
        match (one.tag, one.problem) {
            (_, Some(problem)) => {
                failed += 1;
                eprintln!("{}", terminal::line(format!("{place}: {problem}")));
            }
            (Some(tag), None) => {
                print_line(&format!("{place}: secured, key tag {tag}"));
                secured.push(one.zone);
            }
            (None, None) => {}
        }
    })?;
    if raise == SerialRaise::Raised {
        for zone in &secured {
            print_line(increase_serial(zone, overrides)?.trim_end());
        }
    }
    print_line(&format!(
        "Secured: {} zones. Errors: {failed}",
        secured.len()
    ));
    Ok(exit_code(failed == 0))
}

/// Prints a line at once; a reader that closed the pipe does not stop the work.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", terminal::line(line)).and_then(|()| out.flush());
}
