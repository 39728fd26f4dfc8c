//! The keys of one zone in the state store, as a [`KeyStorage`].

use super::{KeyPlan, KeyProgress};
use super::{SigningSettings, ZoneKey, ZoneKeys, ZoneKeysError};
use crate::storage::{KeyStorage, Manageability, RequestedSigning, UseChange};
use nameward_dnssec::rollover::{KeyState, RolloverTimes};
use nameward_dnssec::{Denial, KeyUse, SigningPolicy};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{SigningState, Zone, ZoneWalk};
use std::sync::Arc;

/// A zone whose keys are in the state store.
pub(crate) struct LocalZoneKeys<'k> {
    pub(crate) keys: &'k ZoneKeys,
    pub(crate) zone: NameBuf,
    /// Whether a backend has the zone.
    pub(crate) is_served: bool,
}

impl LocalZoneKeys<'_> {
    fn name(&self) -> Name<'_> {
        self.zone.as_name()
    }

    /// Returns the version in memory, without the records that signing adds.
    fn version(&self) -> Option<Arc<Zone>> {
        let table = self.keys.table.load();
        table.exact(self.name()).map(Zone::unsigned)
    }

    fn loaded(&self) -> Result<Arc<Zone>, ZoneKeysError> {
        let version = self.version().filter(|version| !version.is_stub());
        version.ok_or(ZoneKeysError::NotLoaded)
    }

    fn is_presigned(&self) -> bool {
        let version = self.version();
        version.is_some_and(|version| matches!(version.signing(), SigningState::Stored(_)))
    }
}

impl KeyStorage for LocalZoneKeys<'_> {
    fn keys(&self) -> Result<Vec<ZoneKey>, ZoneKeysError> {
        self.keys.keys(self.name())
    }

    fn has_keys(&self) -> Result<bool, ZoneKeysError> {
        self.keys.is_signed(self.name())
    }

    fn check_signable(&self) -> Result<(), ZoneKeysError> {
        match (self.is_served, self.is_presigned()) {
            (false, _) => Err(ZoneKeysError::NoSuchZone),
            (true, true) => Err(ZoneKeysError::Presigned),
            (true, false) => Ok(()),
        }
    }

    fn sign(
        &self,
        key: ZoneKey,
        request: &RequestedSigning,
        now: u64,
    ) -> Result<u32, ZoneKeysError> {
        // Before the key, with which signing starts.
        self.keys.change_terms(self.name(), now, |kept| {
            let serial = kept.serial;
            *kept = request.over(SigningSettings::default());
            kept.serial = serial;
        })?;
        self.add(key, now)
    }

    fn change_signing(&self, request: &RequestedSigning, now: u64) -> Result<bool, ZoneKeysError> {
        let before = self.settings()?;
        let is_changed = request.over(before.clone()) != before;
        if is_changed {
            let change = |kept: &mut SigningSettings| *kept = request.over(kept.clone());
            self.keys.change_terms(self.name(), now, change)?;
        }
        Ok(is_changed)
    }

    fn add(&self, key: ZoneKey, now: u64) -> Result<u32, ZoneKeysError> {
        Ok(self.keys.add(self.name(), key, now)?.number)
    }

    fn change_use(&self, number: u32, change: UseChange, now: u64) -> Result<(), ZoneKeysError> {
        if change.is_withdrawal() {
            self.keys.check_others(self.name(), number)?;
        }
        let set = |role, usage: &mut KeyUse| *usage = change.apply(role, *usage);
        self.keys.set_usage((self.name(), number), now, set)?;
        Ok(())
    }

    fn remove(&self, number: u32, now: u64) -> Result<(), ZoneKeysError> {
        self.keys.check_others(self.name(), number)?;
        self.keys.remove(self.name(), number, now)
    }

    fn remove_all(&self, now: u64) -> Result<usize, ZoneKeysError> {
        self.keys.remove_all(self.name(), now)
    }

    fn uses_nsec3(&self) -> Result<bool, ZoneKeysError> {
        Ok(matches!(self.settings()?.denial.denial, Denial::Nsec3(_)))
    }

    fn settings(&self) -> Result<SigningSettings, ZoneKeysError> {
        self.keys.terms(self.name())
    }

    fn stored_policy(&self) -> Result<Option<SigningPolicy>, ZoneKeysError> {
        Ok(None)
    }

    fn manageability(&self) -> Result<Manageability, ZoneKeysError> {
        if !self.loaded()?.is_ready() {
            return Err(ZoneKeysError::NotLoaded);
        }
        if self.is_presigned() {
            return Err(ZoneKeysError::Presigned);
        }
        Ok(Manageability::default())
    }

    fn raise_times(&self, times: &mut RolloverTimes) -> Result<(), ZoneKeysError> {
        let version = self.loaded()?;
        let walk = ZoneWalk::new(Arc::clone(&version));
        let mut place = walk.first();
        while let Some(at) = place {
            for rrset in walk.node(at).rrsets() {
                times.zone_ttl = times.zone_ttl.max(rrset.ttl().into());
            }
            place = walk.next(at);
        }
        // RFC 2308 section 5: the TTL of negative answers is at most that of the SOA.
        let negative = version.soa().map_or(0, |soa| soa.ttl());
        times.negative_ttl = times.negative_ttl.max(negative.into());
        Ok(())
    }

    fn signed_since(&self, keys: &[ZoneKey], now: u64) -> Option<u64> {
        let signing = keys.iter().filter(|key| key.usage.is_active());
        let since = signing.map(|key| key.shown_since(now)).min();
        Some(since.unwrap_or(now))
    }

    fn advance(&self, plan: Option<&KeyPlan>, now: u64) -> Result<KeyProgress, ZoneKeysError> {
        let files = self.keys.read_files(self.name(), now)?;
        if let Some(plan) = plan {
            let mut progress = self.keys.advance(self.name(), plan, now)?;
            progress.is_visible |= files.is_visible;
            if !progress.keys.is_empty() {
                // The serial changes when signatures are renewed, so that secondaries fetch them.
                let renewal = plan.signatures.next_period_at(now);
                progress.next_at = Some(progress.next_at.map_or(renewal, |at| at.min(renewal)));
            }
            return Ok(progress);
        }
        let renewal = self.keys.renew(self.name(), now)?;
        if !files.has_files && renewal.is_none() {
            return Err(ZoneKeysError::NoPolicy);
        }
        let renewed_at = renewal.map(|(_, at)| at);
        Ok(KeyProgress {
            next_at: files.next_at.into_iter().chain(renewed_at).min(),
            is_visible: files.is_visible || renewal.is_some_and(|(is_raised, _)| is_raised),
            ..KeyProgress::default()
        })
    }

    fn change_states(
        &self,
        number: Option<u32>,
        change: &mut dyn FnMut(&mut KeyState),
    ) -> Result<(), ZoneKeysError> {
        self.keys.change_states((self.name(), number), change)
    }
}
