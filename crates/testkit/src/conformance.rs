//! The conformance suite: text files with zones, queries and the answers that an RFC requires.
//!
//! `tests/conformance/README.md` describes the grammar. A file is parsed into a [`Suite`], a server
//! is started with its zones, and [`run`] sends every query through any
//! [`Exchange`](crate::wire::Exchange): the sockets of any server, or an engine without sockets.

mod check;
mod parse;
mod run;
mod send;

use crate::TestFailure;
pub use run::{Failure, Judge, Outcome, run};
use std::path::{Path, PathBuf};

/// One file.
#[derive(Debug)]
pub struct Suite {
    /// Where it was read from.
    pub path: PathBuf,
    /// Zones to serve.
    pub zones: Vec<ZoneText>,
    /// Lines to add to Nameward's configuration file; empty if the defaults suffice.
    pub config: String,
    /// Peers that refuse one of the zones, with the reason.
    pub unloadable: Vec<(String, String)>,
    /// Queries in order.
    pub cases: Vec<Case>,
}

/// A zone written out in the file.
#[derive(Debug, Clone)]
pub struct ZoneText {
    /// The zone name without the final dot.
    pub name: String,
    /// Zone file text; relative names are completed with the zone name.
    pub text: String,
}

impl ZoneText {
    /// Returns the zone as a file that needs no other origin.
    pub fn file_text(&self) -> String {
        format!("$ORIGIN {}.\n{}", self.name, self.text)
    }
}

/// One query with the expected answer.
#[derive(Debug)]
pub struct Case {
    /// Line of the query.
    pub line: usize,
    /// The sentence of the last `test` line.
    pub title: String,
    /// Peers that answer differently, with the reason.
    pub differs: Vec<(String, String)>,
    /// The message to send.
    pub send: Outgoing,
    /// The transports to use.
    pub transports: Vec<crate::wire::Transport>,
    /// The expected answer.
    pub expect: Expect,
}

/// A message to send.
#[derive(Debug)]
pub enum Outgoing {
    /// A query with its flags, from which the message is built.
    Query(Box<send::Query>),
    /// The octets themselves.
    Octets(Vec<u8>),
}

/// The expected reaction.
#[derive(Debug)]
pub enum Expect {
    /// No reply at all.
    Silence,
    /// A reply.
    Reply(Box<Reply>),
}

/// The expected reply.
#[derive(Debug, Default)]
pub struct Reply {
    /// Acceptable response codes.
    pub rcodes: Vec<u16>,
    /// The flags among AA, TC, AD and CD that must be set; the others must be clear.
    pub flags: u16,
    /// Flags that may be either.
    pub either: u16,
    /// The question section may be missing.
    pub question_optional: bool,
    /// Maximum size in octets.
    pub max_size: Option<usize>,
    /// Answer, authority, additional.
    pub sections: [Section; 3],
    /// The OPT record.
    pub edns: ExpectedEdns,
}

/// The expected records of a section.
#[derive(Debug, Default)]
pub struct Section {
    /// The records, each with whether it may be missing.
    pub records: Vec<Line>,
    /// Exactly one complete RRset of those listed.
    pub one_rrset: bool,
    /// Other records are allowed.
    pub open: bool,
}

/// One expected record.
#[derive(Debug, Clone)]
pub struct Line {
    /// Line in the file.
    pub line: usize,
    /// Its RRset may be missing as a whole.
    pub optional: bool,
    /// The record as normalised text: `owner ttl type data`.
    pub record: String,
    /// `owner type` in lower case: the RRset it belongs to.
    pub rrset: String,
}

/// The expected OPT record.
#[derive(Debug, Default)]
pub struct ExpectedEdns {
    /// `Some(false)`: must be absent; `Some(true)`: must be present; `None`: as in the query.
    pub present: Option<bool>,
    /// Its payload size.
    pub size: Option<u16>,
    /// An extended error with one of these codes; empty: any or none.
    pub ede: Vec<u16>,
    /// An NSID with this text (empty: any text).
    pub nsid: Option<String>,
}

/// Reads one file; errors name `file:line`.
pub fn read(path: &Path) -> Result<Suite, TestFailure> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse::parse(path, &text)
}

/// Reads every `*.test` file in a directory, sorted by name.
pub fn read_all(directory: &Path) -> Result<Vec<Suite>, TestFailure> {
    let entries =
        std::fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "test"))
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}
