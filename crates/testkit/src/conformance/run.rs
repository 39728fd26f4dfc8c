//! Runs the cases of a file against one server.

use super::check::check;
use super::{Case, Expect, Outgoing, Suite};
use crate::wire::{Exchange, Message, Transport};
use std::fmt;

pub use super::check::Judge;

/// A failed case.
#[derive(Debug)]
pub struct Failure {
    /// `file:line`.
    pub place: String,
    /// The sentence of the test.
    pub title: String,
    /// How it was sent.
    pub transport: Transport,
    /// Everything that was wrong.
    pub wrong: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.place, self.transport, self.title)?;
        for line in &self.wrong {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Failed cases.
    pub failures: Vec<Failure>,
    /// `file:line` of cases in which the peer is declared to differ but does not.
    pub stale: Vec<String>,
    /// Number of messages sent.
    pub sent: usize,
}

/// Sends every case over each of its transports. A `peer` may differ where the file says so; our
/// own server may not.
pub fn run(suite: &Suite, server: &dyn Exchange, judge: Judge, peer: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    for case in &suite.cases {
        let place = format!("{}:{}", suite.path.display(), case.line);
        let mut failures = Vec::new();
        for &transport in &case.transports {
            outcome.sent += 1;
            let id = 0x1000 + outcome.sent as u16;
            let wrong = run_case(case, server, transport, judge, id);
            if !wrong.is_empty() {
                let (place, title) = (place.clone(), case.title.clone());
                failures.push(Failure {
                    place,
                    title,
                    transport,
                    wrong,
                });
            }
        }
        let excused = peer.is_some_and(|peer| case.differs.iter().any(|(known, _)| known == peer));
        match (excused, failures.is_empty()) {
            (true, true) => outcome.stale.push(place),
            (true, false) => {}
            (false, _) => outcome.failures.append(&mut failures),
        }
    }
    outcome
}

fn run_case(
    case: &Case,
    server: &dyn Exchange,
    transport: Transport,
    judge: Judge,
    id: u16,
) -> Vec<String> {
    let (octets, query) = match &case.send {
        Outgoing::Query(query) => (query.encode(id), Some(&**query)),
        Outgoing::Octets(octets) => (octets.clone(), None),
    };
    let received = match server.exchange(transport, &octets) {
        Ok(received) => received,
        Err(error) => return vec![error.to_string()],
    };
    match (received, &case.expect) {
        (None, Expect::Silence) => vec![],
        (None, Expect::Reply(_)) => vec!["no reply".into()],
        (Some(reply), Expect::Silence) => vec![format!(
            "a reply of {} octets instead of silence",
            reply.len()
        )],
        (Some(reply), Expect::Reply(due)) => match Message::read(&reply) {
            Err(error) => vec![format!("unreadable reply: {error}")],
            Ok(reply) if !octets.starts_with(&reply.id.to_be_bytes()) => vec!["another id".into()],
            Ok(reply) => check(query, &reply, due, transport, judge),
        },
    }
}
