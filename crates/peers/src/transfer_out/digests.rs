//! Zone digests computed by this server (ZONEMD, RFC 8976).
//!
//! A digest covers all records, signatures and the chain included, so computing it takes time in proportion to the
//! zone's size: no zone change waits for it. A transfer has the digest of its version in its last record, shared by
//! all clients that request the same version. Answers have the digest of the served version, or none until it is
//! computed: a thread computes it when the zone has changed, and then pauses four times as long as that took.

use nameward_serve::{give_way, seconds_since_1970};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use nameward_base::worker::panic_guard;
use nameward_dnssec::ZonemdHash;
use nameward_maintain::policy::{Policies, ZonemdRule};
use nameward_maintain::table::TableWriter;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::ChangeError;
use nameward_zone::{SigningState, Zone};

use super::OutgoingTransfers;
use super::version_state::VersionState;
use nameward_serve::pipeline::ServingState;

/// Interval between two checks for changed zones.
const DIGEST_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Pause after a digest, as a multiple of the time it took.
const DIGEST_PAUSE_FACTOR: u32 = 4;
/// Maximum pause.
const DIGEST_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Why a version has no digest.
#[derive(Debug, thiserror::Error)]
#[error("cannot compute its ZONEMD digest: {0}")]
pub(super) struct ZoneDigestFault(#[from] ChangeError);

/// Returns a version with a placeholder ZONEMD record, so that the chain lists the type.
pub(super) fn with_placeholder(zone: &Arc<Zone>) -> Result<Arc<Zone>, ZoneDigestFault> {
    let zonemd = zone.zonemd_placeholder();
    Ok(Arc::new(zone.with_digest(&[(Type::ZONEMD, zonemd)])?))
}

/// Returns an unsigned version with its digest.
pub(super) fn with_computed_digest(zone: &Arc<Zone>) -> Result<Arc<Zone>, ZoneDigestFault> {
    let zonemd = zone.zonemd(ZonemdHash::Sha384);
    Ok(Arc::new(zone.with_digest(&[(Type::ZONEMD, zonemd)])?))
}

impl OutgoingTransfers {
    /// Checks whether a zone is sent with a digest computed here: it is in memory, and its signatures, if any, are
    /// generated here.
    pub(super) fn computes_digest(&self, zone: &Zone) -> bool {
        let is_stored = matches!(zone.signing(), SigningState::Stored(_));
        if zone.is_stub() || is_stored {
            return false;
        }
        let policies = self.policies.load();
        policies.get(zone.id()).zonemd == ZonemdRule::Generate
    }

    /// Starts the thread that keeps the digests in answers current. It ends when the transfers are dropped.
    pub fn start_digest_updates(
        self: &Arc<Self>,
        shared: &Arc<ServingState>,
        table: &Arc<TableWriter>,
    ) -> io::Result<()> {
        let mut updater = DigestUpdater {
            transfers: Arc::downgrade(self),
            shared: Arc::clone(shared),
            table: Arc::clone(table),
            policies: None,
            digested: HashMap::new(),
        };
        let thread = thread::Builder::new().name("zone-digests".into());
        thread.spawn(move || {
            give_way();
            loop {
                let mut continues = true;
                panic_guard("computing zone digests", || continues = updater.update());
                if !continues {
                    return;
                }
                thread::sleep(DIGEST_CHECK_INTERVAL);
            }
        })?;
        Ok(())
    }
}

/// Keeps the digests in answers current.
struct DigestUpdater {
    transfers: Weak<OutgoingTransfers>,
    shared: Arc<ServingState>,
    table: Arc<TableWriter>,
    /// The policies checked last, and whether any of their zones has its digest computed here.
    policies: Option<(Arc<Policies>, bool)>,
    digested: HashMap<NameBuf, VersionState>,
}

impl DigestUpdater {
    /// Computes the digests of zones that have changed; false when the transfers no longer exist.
    fn update(&mut self) -> bool {
        let Some(transfers) = self.transfers.upgrade() else {
            return false;
        };
        if !self.is_needed(&transfers) && self.digested.is_empty() {
            return true;
        }
        let now = seconds_since_1970();
        let table = self.table.load();
        let zones: Vec<Arc<Zone>> = table
            .zones()
            .filter(|zone| transfers.computes_digest(zone))
            .cloned()
            .collect();
        let names: HashSet<NameBuf> = zones.iter().map(|zone| zone.id().into()).collect();
        let made = self.digested.keys().copied();
        let removed: Vec<NameBuf> = made.filter(|name| !names.contains(name)).collect();
        for name in removed {
            self.digested.remove(&name);
            self.table.set_digest(name.as_name(), None);
        }
        for zone in zones {
            let state = VersionState::from_zone(&zone, &transfers.policies.load(), now);
            let name = NameBuf::from(zone.id());
            let before = self.digested.get(&name);
            if before.is_some_and(|before| before.is_same(&state)) {
                continue;
            }
            let started = Instant::now();
            self.digest(&transfers, zone);
            self.digested.insert(name, state);
            thread::sleep((started.elapsed() * DIGEST_PAUSE_FACTOR).min(DIGEST_PAUSE_MAX));
        }
        true
    }

    fn is_needed(&mut self, transfers: &OutgoingTransfers) -> bool {
        let now = transfers.policies.load();
        let known = self.policies.as_ref();
        if let Some((_, is_needed)) = known.filter(|(before, _)| Arc::ptr_eq(before, &now)) {
            return *is_needed;
        }
        let is_needed = now.any(|policy| policy.zonemd == ZonemdRule::Generate);
        self.policies = Some((now, is_needed));
        is_needed
    }

    /// Computes a zone's digest and publishes it in answers.
    fn digest(&self, transfers: &Arc<OutgoingTransfers>, zone: Arc<Zone>) {
        let name = NameBuf::from(zone.id());
        let version = transfers.whole_version(zone, &self.shared);
        match transfers.runtime.block_on(version) {
            Ok(sent) => {
                if let Some(zonemd) = zonemd_of(&sent) {
                    self.table.set_digest(name.as_name(), Some(zonemd));
                }
            }
            Err(error) => {
                tracing::warn!("zone {name}: this version has no ZONEMD record: {error}");
            }
        }
    }
}

fn zonemd_of(zone: &Zone) -> Option<Vec<u8>> {
    let rrset = zone.apex().rrset(Type::ZONEMD)?;
    let record = rrset.records().next()?;
    Some(record.rdata.to_vec())
}
