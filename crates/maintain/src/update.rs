//! DNS UPDATE (RFC 2136): from a message to the edits of a zone, or to a response code.
//!
//! ```text
//! message        the sections are read and their forms checked: FORMERR, NOTZONE           message
//! permission     who may change which names and types: REFUSED                             plan
//! prerequisites  compared with the zone: NXDOMAIN, YXDOMAIN, NXRRSET, YXRRSET              plan
//! steps          become edits; what the RFC passes over is left out                        plan
//! ```
//! Nothing here has sockets or a clock. The zone comes in as [`RecordsAt`], so that one function judges zones in memory and
//! zones of databases, within the commit that makes the change ([`ConditionalChange`]).

#[doc(hidden)]
pub mod fuzzing;
mod message;
mod plan;

pub use message::{Prerequisite, UpdateRequest, UpdateStep};
pub use plan::{UpdateChange, UpdatePermission};

#[cfg(doc)]
use nameward_zone::change::{ConditionalChange, RecordsAt};
