//! The way of a NOTIFY that was let in to the life of secondary zones.

use nameward_maintain::notify::{Notification, NotifyOutcome, NotifySink};
use nameward_maintain::secondary::driver::LifeHandle;

use super::PrimaryClient;

/// Takes NOTIFY messages for secondary zones.
pub struct SecondarySink {
    life: LifeHandle,
    outgoing: PrimaryClient,
}

impl SecondarySink {
    /// Hands over to the life of secondary zones.
    pub fn new(life: LifeHandle, outgoing: PrimaryClient) -> Self {
        SecondarySink { life, outgoing }
    }
}

impl NotifySink for SecondarySink {
    fn notified(&self, notification: &Notification<'_>) -> NotifyOutcome {
        // It is there, whatever it did not answer a moment ago.
        self.outgoing.heard_from(notification.peer.ip());
        self.life.notified(notification.zone, notification.serial);
        NotifyOutcome::Taken
    }
}
