//! The way of a NOTIFY (RFC 1996) from the server that received it to whoever keeps secondary zones.
//!
//! Whether the sender may notify is decided before; the sink only learns that a zone may have changed.

use nameward_wire::Name;
use nameward_zone::Serial;
use std::net::SocketAddr;

/// A NOTIFY that was let in.
#[derive(Debug, Clone, Copy)]
pub struct Notification<'n> {
    /// The zone that may have changed.
    pub zone: Name<'n>,
    /// The serial in the SOA that came with it (RFC 1996 section 3.7): a hint and no more.
    pub serial: Option<Serial>,
    /// Who sent it.
    pub peer: SocketAddr,
    /// The TSIG key that it was signed with.
    pub key: Option<Name<'n>>,
}

/// The outcome of a NOTIFY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyOutcome {
    /// A check is made, now or with one that waits already.
    Taken,
    /// The zone is not a secondary here: NOTAUTH.
    NotAuth,
    /// The sender may not notify: REFUSED.
    Refused,
}

/// Takes NOTIFY messages. Called by workers, so it must not wait.
pub trait NotifySink: Send + Sync + 'static {
    /// Takes a NOTIFY for a zone that is a secondary here.
    fn notified(&self, notification: &Notification<'_>) -> NotifyOutcome;

    /// Takes a NOTIFY for a zone that is not served here: one that an autoprimary may have.
    fn notified_of_unknown(&self, _: &Notification<'_>) -> NotifyOutcome {
        NotifyOutcome::NotAuth
    }
}
