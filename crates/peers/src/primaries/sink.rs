//! Passes accepted NOTIFY messages to the refresh of secondary zones.

use crate::notify::received::{Notification, NotifyOutcome, NotifySink};
use crate::secondary::driver::SecondaryHandle;

use super::PrimaryClient;

/// Receives NOTIFY messages for secondary zones.
pub struct SecondarySink {
    life: SecondaryHandle,
    outgoing: PrimaryClient,
}

impl SecondarySink {
    /// Creates a sink that passes messages to the refresh of secondary zones.
    pub fn new(life: SecondaryHandle, outgoing: PrimaryClient) -> Self {
        SecondarySink { life, outgoing }
    }
}

impl NotifySink for SecondarySink {
    fn notified(&self, notification: &Notification<'_>) -> NotifyOutcome {
        // The primary is up, even if it did not respond a moment ago.
        self.outgoing.mark_responsive(notification.peer.ip());
        self.life.notified(notification.zone, notification.serial);
        NotifyOutcome::Taken
    }
}
