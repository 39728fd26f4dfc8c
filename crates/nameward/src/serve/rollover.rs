//! Wiring of key management by DNSSEC policies: parent queries and the gauges.

use std::{io, sync::Arc};

use nameward_keys::rollover::driver;
use nameward_peers::parent::ParentClient;
use nameward_stats::Gauge;

use super::core::ServerCore;

/// Starts the key management thread.
pub fn start(core: &ServerCore) -> io::Result<()> {
    let (shared, handle) = (&core.shared, &core.key_driver);
    let runtime = core.outgoing_runtime.clone();
    let parent = ParentClient::new(Arc::clone(shared), runtime, handle.clone());
    let waiting = handle.clone();
    let stats = &shared.stats;
    stats.gauge_from(Gauge::DnssecWaitingForParent, move || waiting.waiting());
    let signed = handle.clone();
    stats.gauge_from(Gauge::DnssecSignedZones, move || signed.signed().zones);
    let expiry = handle.clone();
    stats.gauge_from(Gauge::DnssecSignatureSecondsLeft, move || {
        expiry.signed().seconds_left
    });
    let notifier = core.notifier.clone();
    driver::start(
        Arc::clone(&core.rollover),
        handle,
        Box::new(parent),
        move |zone| {
            notifier.changed(zone);
        },
    )
}
