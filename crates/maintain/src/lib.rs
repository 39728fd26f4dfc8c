//! The maintenance half: the only writer of the zone table.
//!
//! ```text
//! table      the snapshot that serving reads, and its one writer
//! clock      wall-clock times that a clock which is set does not disturb
//! commit     a change of one zone: validate, write durably, apply, publish, notify
//! follow     what follows zone files and databases
//! reconcile  the journal of a zone compared with what its home has at start
//! policy     the policies of zones: kind, primaries, who may transfer, notify and update; keys of TSIG
//! catalog    catalog zones (RFC 9432): following those of others, making our own
//! schedule   what is due for which zone, and when; takes `now` and does nothing itself
//! stored_keys keys of zones in databases that a policy looks after
//! zone_keys  keys of zones that are signed here and have none in their home
//! zone       what is known of a zone that comes from a primary: settings, times, state
//! background work on zones that no change waits for: packing, digests, contents
//! contents   zones that have no other home than the state store
//! outgoing   the messages of transfers to secondaries, made from one version of a zone
//! notify     the way of a NOTIFY that was received to whoever keeps secondaries
//! transfer   transfers from primaries: questions and the readers of replies, no sockets
//! merge      a zone file that was edited while it lacked changes
//! sync       writes the changes that a zone file lacks into it
//! update     DNS UPDATE: prerequisites and steps become a change of a zone, or a response code
//! life       the life of secondary zones: checks, transfers, expiry; outgoing connections come in by a trait
//! key_life   the life of keys by policies: steps of rollovers, what parents have
//! notify_out the servers that are notified of changes, and those that have not answered yet; no sockets
//! ```
//! Serving never waits for any of this: it reads the version that was published last.

#![forbid(unsafe_code)]

mod background;
pub mod catalog;
pub mod clock;
pub mod commit;
mod contents;
pub mod follow;
#[doc(hidden)]
pub mod fuzzing;
pub mod key_life;
pub mod life;
mod merge;
pub mod notify;
pub mod notify_out;
pub mod outgoing;
pub mod policy;
mod reconcile;
pub mod schedule;
pub mod signature_watch;
pub mod spare;
pub mod stored_keys;
pub mod sync;
pub mod table;
pub mod transfer;
pub mod update;
pub mod zone;
pub mod zone_keys;

pub use commit::{CommitError, Commits, CommittedVersion, Durable, VersionSource, WrittenDone};
pub use contents::{contents_of, read_contents};
pub use schedule::{EventUrgency, Moment, Schedule, ZoneEvent};
pub use table::{Snapshot, TableWriter};
