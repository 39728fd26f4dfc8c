//! Owns the wiring of what looks after keys by policies: who asks parents, who is notified of changes, and the gauges.

use std::{io, sync::Arc};

use nameward_maintain::key_life::{
    KeyKeeper,
    driver::{self, KeyDriverHandle},
};
use nameward_serve::{outgoing::ParentClient, pipeline::ServingState};
use nameward_stats::Gauge;

use super::running::OutgoingParts;

/// The one who looks after keys by policies, and the way to wake it.
pub type KeyKeepers = (Arc<KeyKeeper>, KeyDriverHandle);

/// Starts the thread that looks after keys.
pub fn start(
    keeper: Arc<KeyKeeper>,
    handle: &KeyDriverHandle,
    (shared, outgoing): (&Arc<ServingState>, &OutgoingParts),
) -> io::Result<()> {
    let parent = ParentClient::new(Arc::clone(shared), outgoing.runtime.clone(), handle.clone());
    let waiting = handle.clone();
    let stats = &shared.stats;
    stats.gauge_from(Gauge::DnssecWaitingForParent, move || waiting.waiting());
    let signed = handle.clone();
    stats.gauge_from(Gauge::DnssecSignedZones, move || signed.signed().zones);
    let expiry = handle.clone();
    stats.gauge_from(Gauge::DnssecSignatureSecondsLeft, move || {
        expiry.signed().seconds_left
    });
    let notifier = outgoing.notifier.clone();
    driver::start(keeper, handle, Box::new(parent), move |zone| {
        notifier.changed(zone);
    })
}
