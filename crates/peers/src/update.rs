//! DNS UPDATE (RFC 2136): converts a message to the edits of a zone, or to a response code.
//!
//! ```text
//! message        the sections are read and their format checked: FORMERR, NOTZONE          message
//! permission     which names and types the client may change: REFUSED                     plan
//! prerequisites  compared with the zone: NXDOMAIN, YXDOMAIN, NXRRSET, YXRRSET              plan
//! steps          become edits; steps that the RFC ignores are left out                    plan
//! commit         grouped, durable, served, then answered                                    queue
//! ```
//! Nothing here has sockets, and except for the queue no threads. The zone is passed as [`RecordsAt`], so that one
//! function judges zones in memory and database zones, within the commit that makes the change
//! ([`ConditionalChange`]).

#[doc(hidden)]
pub mod fuzzing;
mod message;
mod plan;
mod queue;
pub mod requests;

pub use message::{Prerequisite, UpdateRequest, UpdateStep};
pub use plan::{UpdateChange, UpdatePermission};
pub use queue::{UpdateDone, UpdateJob, UpdateOutcome, Updates, is_kept_frozen};

#[cfg(doc)]
use nameward_zone::change::{ConditionalChange, RecordsAt};
