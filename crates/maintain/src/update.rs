//! DNS UPDATE (RFC 2136): from a message to the edits of a zone, or to a response code.
//!
//! ```text
//! message        the sections are read and their forms checked: FORMERR, NOTZONE           message
//! permission     who may change which names and types: REFUSED                             plan
//! prerequisites  compared with the zone: NXDOMAIN, YXDOMAIN, NXRRSET, YXRRSET              plan
//! steps          become edits; what the RFC passes over is left out                        plan
//! commit         grouped, durable, served, then answered                                    queue
//! ```
//! Nothing here has sockets, and but for the queue no threads. The zone comes in as [`RecordsAt`], so that one function judges zones in memory and
//! zones of databases, within the commit that makes the change ([`ConditionalChange`]).

#[doc(hidden)]
pub mod fuzzing;
mod message;
mod plan;
mod queue;

pub use message::{Prerequisite, UpdateRequest, UpdateStep};
pub use plan::{UpdateChange, UpdatePermission};
pub use queue::{DatabaseUpdates, UpdateDone, UpdateJob, UpdateOutcome, Updates, is_kept_frozen};

#[cfg(doc)]
use nameward_zone::change::{ConditionalChange, RecordsAt};
