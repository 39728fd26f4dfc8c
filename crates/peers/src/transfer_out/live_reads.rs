//! Reads whole zones from databases for transfers: one at a time per database, shared by clients of the same version.

use nameward_base::sync::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use nameward_zone::{LookupRequest, Zone};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::OutgoingTransfers;
use super::client_disconnect::ClientDisconnect;
use super::fault::PrepareFault;
use super::sent::SentVersions;
use nameward_serve::pipeline::ServingState;

/// Serializes work with equal keys, without blocking a thread while waiting.
pub(super) struct Turns<K>(Mutex<HashMap<K, Weak<AsyncMutex<()>>>>);

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Turns(Mutex::default())
    }
}

impl<K: Hash + Eq> Turns<K> {
    /// Waits for a turn, which ends when the returned guard is dropped.
    pub(super) async fn wait(&self, key: K) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(&key).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(key, Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}

/// Reads of whole zones from databases. A database is read by one client at a time, and a client that requests a
/// version that was just read, and is still being sent to another client, gets the same.
#[derive(Default)]
pub(super) struct LiveReads {
    pub(super) turns: Turns<u32>,
    /// By zone number: its generation, and its contents as long as they are in use.
    read: Mutex<HashMap<u64, (u32, Weak<Zone>)>>,
}

impl LiveReads {
    /// Reads a zone as one version. The caller has the turn of its database.
    pub(super) fn read(
        &self,
        transfers: &OutgoingTransfers,
        shared: &ServingState,
        (stub, disconnect): (&Zone, &ClientDisconnect),
    ) -> Result<Arc<Zone>, PrepareFault> {
        let live = stub.live().ok_or(PrepareFault::Gone)?;
        // Read first: later changes are newer than the contents read here.
        let generation = live.generation();
        let found = self.find(live.number(), generation);
        if let Some(zone) = found.filter(|zone| is_being_sent(zone, &transfers.copies.sent)) {
            return Ok(zone);
        }
        let source = shared
            .live
            .source(live.backend())
            .ok_or(PrepareFault::Gone)?;
        let apex = stub.apex_name();
        let request = LookupRequest {
            zone: live.id(),
            apex,
            name: apex,
        };
        let zone = transfers
            .runtime
            .block_on(disconnect.or(source.read_zone(request)))
            .ok_or(PrepareFault::Gone)?;
        let zone = Arc::new(zone.map_err(PrepareFault::Backend)?);
        zone.set_id(stub.id());
        let mut read = self.read.lock();
        read.retain(|_, (_, zone)| zone.strong_count() > 0);
        read.insert(live.number(), (generation, Arc::downgrade(&zone)));
        Ok(zone)
    }

    fn find(&self, number: u64, generation: u32) -> Option<Arc<Zone>> {
        let read = self.read.lock();
        let (read_at, zone) = read.get(&number)?;
        zone.upgrade().filter(|_| *read_at == generation)
    }
}

/// Checks whether a version that was read is being sent to a client. A version that is merely stored to compute
/// differences may be old: not every database change is noticed at once.
fn is_being_sent(zone: &Arc<Zone>, sent: &SentVersions) -> bool {
    // The caller holds one reference, and the stored versions possibly another.
    Arc::strong_count(zone) > 1 + usize::from(sent.contains(zone))
}
