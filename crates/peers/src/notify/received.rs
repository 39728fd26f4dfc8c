//! Passes a NOTIFY (RFC 1996) from the server that received it to the owner of secondary zones.
//!
//! Whether the sender is allowed is decided before; the sink only learns that a zone may have changed.

use nameward_wire::Name;
use nameward_zone::Serial;
use std::net::SocketAddr;

/// An accepted NOTIFY.
#[derive(Debug, Clone, Copy)]
pub struct Notification<'n> {
    /// The zone that may have changed.
    pub zone: Name<'n>,
    /// The serial of the SOA in the message (RFC 1996 section 3.7): only a hint.
    pub serial: Option<Serial>,
    /// Address of the sender.
    pub peer: SocketAddr,
    /// The TSIG key that signed it.
    pub key: Option<Name<'n>>,
}

/// The outcome of a NOTIFY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyOutcome {
    /// A check is made, now or with one that is already waiting.
    Taken,
    /// The zone is not a secondary here: NOTAUTH.
    NotAuth,
    /// The sender is not allowed: REFUSED.
    Refused,
}

/// Receives NOTIFY messages. Called by workers, so it must not block.
pub trait NotifySink: Send + Sync + 'static {
    /// Processes a NOTIFY for a secondary zone.
    fn notified(&self, notification: &Notification<'_>) -> NotifyOutcome;

    /// Processes a NOTIFY for a zone that is not served here: an autoprimary may have it.
    fn notified_of_unknown(&self, _: &Notification<'_>) -> NotifyOutcome {
        NotifyOutcome::NotAuth
    }
}
