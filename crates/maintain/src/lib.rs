//! The maintenance half: the only writer of the zone table.
//!
//! ```text
//! table            the snapshot that serving reads, and its only writer
//! core             the components that all others work on
//! clock            wall-clock time that survives steps of the system clock
//! change_feed      the last changes of all zones, for clients that follow them
//! commit           a change of one zone: validate, write durably, apply, publish, notify
//! follow           follows zone files and databases
//! reconcile        compares a zone's journal with its stored contents at start
//! stored_views     views and networks that operators set, in the state store
//! policy           zone policies: kind, primaries, access to transfers, NOTIFY and UPDATE, TSIG keys
//! catalog          catalog zones (RFC 9432): consumer and producer
//! soa_times        the timers in a SOA
//! schedule         which zone event is due when; takes `now` and has no side effects
//! leases           work that one server does for all on a database
//! background       jobs that no change waits for: packing, digests, contents
//! contents         zones stored only in the state store
//! merge            a zone file edited while it lacked journaled changes
//! sync             writes journaled changes into the zone file
//! ```
//! Serving never waits for any of this: it reads the version that was published last.

#![forbid(unsafe_code)]

pub mod catalog;
pub mod change_feed;
pub mod clock;
pub mod commit;
mod contents;
mod core;
pub mod follow;
pub mod leases;
pub mod local_items;
mod merge;
pub mod policy;
mod reconcile;
pub mod schedule;
pub mod signature_watch;
mod soa_times;
pub mod stored_views;
pub mod sync;
pub mod table;

pub use commit::{
    CommitError, CommitListener, Commits, CommittedVersion, Durable, VersionSource, WrittenDone,
};
pub use contents::{ContentsReader, PART, contents_of, read_contents};
pub use core::Core;
pub use follow::databases::PublishError;
pub use schedule::{EventUrgency, Moment, Schedule, ZoneEvent};
pub use soa_times::SoaTimes;
pub use table::{Snapshot, TableWriter};
