//! The conformance suite: text files of zones, queries and the answers an RFC names.
//!
//! `tests/conformance/README.md` is the grammar. A file is read into a [`Suite`], a server is
//! started with its zones, and [`run`] sends every query through anything that is an
//! [`Exchange`](crate::wire::Exchange): sockets of any server, or an engine without sockets.

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
    /// Lines to add to Nameward's configuration file; empty when the defaults will do.
    pub config: String,
    /// Peers that refuse one of the zones, with the reason.
    pub unloadable: Vec<(String, String)>,
    /// Queries in order.
    pub cases: Vec<Case>,
}

/// A zone written out in the file.
#[derive(Debug, Clone)]
pub struct ZoneText {
    /// Without the final dot.
    pub name: String,
    /// Zone file text; relative names end in the zone's name.
    pub text: String,
}

impl ZoneText {
    /// The zone as a file that needs no other origin.
    pub fn file_text(&self) -> String {
        format!("$ORIGIN {}.\n{}", self.name, self.text)
    }
}

/// One query with the answer that is due.
#[derive(Debug)]
pub struct Case {
    /// Line of the query.
    pub line: usize,
    /// The sentence of the last `test` line.
    pub title: String,
    /// Peers that answer otherwise, with the reason.
    pub differs: Vec<(String, String)>,
    /// The message to send.
    pub send: Outgoing,
    /// Over which transports.
    pub transports: Vec<crate::wire::Transport>,
    /// The answer that must come back.
    pub expect: Expect,
}

/// A message that is sent.
#[derive(Debug)]
pub enum Outgoing {
    /// A question with its flags; the message is built from it.
    Query(Box<send::Query>),
    /// The octets themselves.
    Octets(Vec<u8>),
}

/// An answer that must come back.
#[derive(Debug)]
pub enum Expect {
    /// Nothing at all.
    Silence,
    /// A reply.
    Reply(Box<Reply>),
}

/// The reply that is due.
#[derive(Debug, Default)]
pub struct Reply {
    /// Any one of these response codes.
    pub rcodes: Vec<u16>,
    /// Of AA, TC, AD and CD, those that are set; the others are not.
    pub flags: u16,
    /// Flags that may be either.
    pub either: u16,
    /// The question section may be missing.
    pub question_optional: bool,
    /// The largest size allowed.
    pub max_size: Option<usize>,
    /// Answer, authority, additional.
    pub sections: [Section; 3],
    /// The OPT record.
    pub edns: ExpectedEdns,
}

/// The records of a section that are due.
#[derive(Debug, Default)]
pub struct Section {
    /// Each with whether it may be missing.
    pub records: Vec<Line>,
    /// Exactly one complete RRset of those listed.
    pub one_rrset: bool,
    /// Others may be there too.
    pub open: bool,
}

/// One record that is due.
#[derive(Debug, Clone)]
pub struct Line {
    /// Line in the file.
    pub line: usize,
    /// Its RRset may be missing as a whole.
    pub optional: bool,
    /// The record as normal text: `owner ttl type data`.
    pub record: String,
    /// `owner type`, lower case: which RRset it belongs to.
    pub rrset: String,
}

/// The OPT record that must come back.
#[derive(Debug, Default)]
pub struct ExpectedEdns {
    /// `Some(false)`: none; `Some(true)`: must be there; `None`: as the query has.
    pub present: Option<bool>,
    /// Its payload size.
    pub size: Option<u16>,
    /// An extended error with one of these codes; empty: any or none.
    pub ede: Vec<u16>,
    /// An NSID with this text (empty: any text).
    pub nsid: Option<String>,
}

/// Reads one file; an error names `file:line`.
pub fn read(path: &Path) -> Result<Suite, TestFailure> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse::parse(path, &text)
}

/// Reads every `*.test` of a directory, in order of name.
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
