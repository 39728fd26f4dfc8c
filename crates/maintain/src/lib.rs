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
//! schedule         which zone event is due when; takes `now` and has no side effects
//! leases           work that one server does for all on a database
//! keys             DNSSEC keys: storage in the state store, a directory or a database, and rollovers
//! zone             settings, timers and state of a secondary zone
//! background       jobs that no change waits for: packing, digests, contents
//! contents         zones stored only in the state store
//! outgoing         messages of outgoing transfers, made from one version of a zone
//! notify           hands a received NOTIFY to the secondary zones
//! transfer         incoming transfers: requests and the reader of replies, no sockets
//! merge            a zone file edited while it lacked journaled changes
//! sync             writes journaled changes into the zone file
//! update           DNS UPDATE: prerequisites and updates become a change, or a response code
//! secondary        secondary zones: refresh, transfer, expiry; connections come in by a trait
//! notify_out       the servers to notify and those that have not answered yet; no sockets
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
#[doc(hidden)]
pub mod fuzzing;
pub mod keys;
pub mod leases;
pub mod local_items;
mod merge;
pub mod notified_serials;
pub mod notify;
pub mod notify_out;
pub mod outgoing;
pub mod policy;
mod publish_error;
mod reconcile;
pub mod schedule;
pub mod secondary;
pub mod signature_watch;
pub mod stored_views;
pub mod sync;
pub mod table;
pub mod transfer;
pub mod update;
pub mod zone;

pub use commit::{
    CommitError, CommitListener, Commits, CommittedVersion, Durable, VersionSource, WrittenDone,
};
pub use contents::{contents_of, read_contents};
pub use core::Core;
pub use publish_error::PublishError;
pub use schedule::{EventUrgency, Moment, Schedule, ZoneEvent};
pub use table::{Snapshot, TableWriter};
