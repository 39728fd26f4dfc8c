//! Wiring of key management by DNSSEC policies: parent queries, policy changes, and the gauges.

use std::{io, sync::Arc};

use nameward_maintain::{
    follow::databases::{Databases, FollowedDatabase},
    keys::database::KeyDatabase,
    keys::rollover::{
        RolloverManager,
        driver::{self, KeyDriverHandle},
    },
    policy::PolicyTable,
};
use nameward_serve::outgoing::ParentClient;
use nameward_stats::Gauge;
use nameward_wire::Name;
use tokio::runtime::Handle;

use super::core::ServerCore;

/// Maximum number of zones in a policy change that are checked one by one.
const MANY_ZONES: usize = 64;

/// Passes the databases that store the keys of their zones to the key keeper.
pub fn set_databases(keeper: &RolloverManager, databases: &Databases, runtime: &Handle) {
    let database = |followed: &FollowedDatabase| {
        let (own, runtime) = (followed.clone(), runtime.clone());
        KeyDatabase {
            rank: followed.rank,
            backend: followed.backend.clone(),
            publish: Box::new(move |committed| own.follow(&runtime, committed)),
        }
    };
    let all = databases.all().iter().map(database).collect();
    keeper.set_databases(all, runtime.clone());
}

/// Wakes the key keeper when zone policies change.
pub fn follow_policies(policies: &PolicyTable, handle: &KeyDriverHandle) {
    let handle = handle.clone();
    policies.on_change(move |change| match change.zones {
        zones if zones.len() > MANY_ZONES => handle.look_at_all(),
        zones => {
            for zone in zones {
                handle.look_at(Name::from_valid_wire(zone).into());
            }
        }
    });
}

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
        Arc::clone(&core.keeper),
        handle,
        Box::new(parent),
        move |zone| {
            notifier.changed(zone);
        },
    )
}
