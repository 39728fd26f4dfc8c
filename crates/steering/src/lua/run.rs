//! One run of a script: its query, its environment, and its result.
//!
//! A run never waits: a script that needs records which are not known yet ends, the caller finds them, and the script runs
//! again.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use nameward_wire::{NameBuf, Type};

/// The sender of a query, as scripts see it.
#[derive(Debug, Clone, Copy)]
pub struct ScriptClient {
    /// The address that the query was sent from.
    pub address: SocketAddr,
    /// The address it was sent to, if known.
    pub local: Option<SocketAddr>,
    /// The client subnet in the query, if it is believed (RFC 7871).
    pub subnet: Option<IpNet>,
}

impl ScriptClient {
    /// Returns the best known address of the client: the network of its subnet option, else its address.
    pub fn best_address(&self) -> IpAddr {
        self.subnet
            .map_or(self.address.ip(), |subnet| subnet.network())
            .to_canonical()
    }
}

/// A query that a script answers.
#[derive(Debug, Clone)]
pub struct ScriptQuery {
    /// The queried name.
    pub name: NameBuf,
    /// The zone of the LUA record.
    pub zone: NameBuf,
    /// The number of the zone in its database; 0 if it is in none.
    pub zone_id: u64,
    /// The sender.
    pub client: ScriptClient,
    /// Whether it was received over a stream.
    pub is_stream: bool,
    /// Whether DNSSEC records are requested.
    pub dnssec_ok: bool,
    /// The size of UDP messages that the client accepts; 0 without EDNS.
    pub udp_payload: u16,
    /// The header of the message.
    pub header: [u8; 12],
}

/// Records that a script needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededRecords {
    /// The records of a name in our zones.
    Records(NameBuf, Type),
    /// The records that a resolver finds for a name, which may be anywhere.
    Resolved(NameBuf, Type),
}

/// Records that were found for a script; empty if there are none.
#[derive(Debug, Clone)]
pub struct FoundRecords {
    /// The need that they meet.
    pub need: NeededRecords,
    /// Record data in wire form.
    pub records: Vec<Vec<u8>>,
    /// Their TTL in seconds.
    pub ttl: u32,
}

/// Why a script has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFailure {
    /// The data of the LUA record is malformed.
    #[error("the LUA record is malformed")]
    Malformed,
    /// There is no interpreter.
    #[error("this build has no LUA records")]
    NotBuilt,
    /// The script cannot be compiled.
    #[error("{0}")]
    Syntax(String),
    /// The script raised an error.
    #[error("{0}")]
    Error(String),
    /// It made too many calls and loop iterations.
    #[error("it exceeds instructions_max ({0})")]
    Instructions(u32),
    /// It used too much memory.
    #[error("it needs more than {0} KiB of memory")]
    Memory(usize),
    /// The result is not data of the computed type.
    #[error("invalid {0} record data {1:?}")]
    Result(Type, String),
    /// The result is neither text nor a list of texts.
    #[error("it returned {0}, not a string or a list of strings")]
    Kind(&'static str),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptAnswer {
    /// Data of the computed type, possibly none.
    Records(Type, Vec<Vec<u8>>),
    /// Records that must be found before the script runs again.
    Needs(Box<NeededRecords>),
    /// No result.
    Failed(ScriptFailure),
}
