//! Key management by named policies: which zones have one, what is due for each, and what is pending.
//!
//! ```text
//! policy     [[dnssec_policy]] by name; a zone names its own (maintain::policy)
//! look       one zone at one time: steps of dnssec::rollover, taken and stored (keys::storage)
//! driver     one thread: zones whose time has come, zones that changed, answers of parents
//! parent     which DS the parent's servers have; queries go through a trait
//! ```
//! A zone whose policy is removed goes insecure in order: CDS and CDNSKEY request the removal of the DS, and the zone stays
//! signed until that is confirmed and no cache has the DS. The time is passed as a parameter.

pub mod driver;
mod parent;
mod status;

pub use parent::{ParentAnswer, ParentQuery, QueryParent};
pub use status::{DsReadiness, KeyStatus, NextStep, ZoneSigningStatus};

use crate::local::{KeyPlan, KeyProgress, ZoneKey, ZoneKeys, ZoneKeysError};
use crate::storage::KeyStorage;
use crate::storages::KeyStorages;
use arc_swap::ArcSwap;
use nameward_dnssec::rollover::{self, DsSight, KeyGoal, KeyRole, RolloverStep};
use nameward_maintain::change_feed::{FeedSettingChange, SettingSubject};
use nameward_maintain::policy::PolicyTable;
use nameward_maintain::table::TableWriter;
use nameward_sql::write::KeyRefusal;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::Zone;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The keyword for a zone that is excluded from a default policy.
pub const NO_POLICY: &str = "none";

/// All policies by name. Delays in a zone with longer TTLs are longer.
pub type DnssecPolicies = HashMap<String, KeyPlan>;

/// Manages the keys of zones with policies.
pub struct RolloverManager {
    storages: KeyStorages,
    table: Arc<TableWriter>,
    zones: Arc<PolicyTable>,
    policies: ArcSwap<DnssecPolicies>,
}

/// Why nothing is done for a zone that has a policy.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RolloverError {
    #[error("no [[dnssec_policy]] {0:?} is configured")]
    NoSuchPolicy(String),
    #[error("the zone is not loaded")]
    NotLoaded,
    #[error(
        "the zone is presigned: its signatures are served unchanged and dnssec_policy is ignored"
    )]
    Presigned,
    #[error("the zone has no dnssec_policy")]
    NoPolicy,
    /// The keys cannot be read or written.
    #[error("{0}")]
    Keys(ZoneKeysError),
}

impl From<ZoneKeysError> for RolloverError {
    fn from(error: ZoneKeysError) -> Self {
        match error {
            ZoneKeysError::NotLoaded => RolloverError::NotLoaded,
            ZoneKeysError::Presigned => RolloverError::Presigned,
            ZoneKeysError::NoPolicy => RolloverError::NoPolicy,
            error => RolloverError::Keys(error),
        }
    }
}

/// A zone with its current policy.
struct ManagedZone<'k> {
    storage: Box<dyn KeyStorage + 'k>,
    plan: KeyPlan,
    /// The name of its policy; `None` if that was removed.
    policy: Option<String>,
}

impl RolloverManager {
    /// Manages the zones of a table, by the policies that the policy table names for them.
    pub fn new(storages: KeyStorages, table: Arc<TableWriter>, zones: Arc<PolicyTable>) -> Self {
        RolloverManager {
            storages,
            table,
            zones,
            policies: ArcSwap::default(),
        }
    }

    /// Sets the available policies.
    pub fn set_policies(&self, policies: DnssecPolicies) {
        self.policies.store(Arc::new(policies));
    }

    /// Returns the storages of keys.
    pub fn storages(&self) -> &KeyStorages {
        &self.storages
    }

    /// Returns the keys in the state store.
    pub fn local_keys(&self) -> &Arc<ZoneKeys> {
        self.storages.local()
    }

    /// Returns the storage of a zone's keys.
    fn storage(&self, zone: Name<'_>) -> Result<Box<dyn KeyStorage + '_>, RolloverError> {
        let rank = self.table.load().exact(zone).map(|served| served.rank());
        Ok(self.storages.find(zone, rank)?)
    }

    /// Returns the name of a zone's configured policy.
    pub fn policy_name(&self, zone: Name<'_>) -> Option<String> {
        let policies = self.zones.load();
        let name = policies.get(zone).dnssec_policy.clone()?;
        (name != NO_POLICY).then_some(name)
    }

    /// Lists the zones to check: those with a policy or a key directory, and those whose keys had one.
    pub fn all_zones(&self) -> Vec<NameBuf> {
        let mut all: HashSet<NameBuf> = self.managed_zones().into_iter().collect();
        // A zone whose policy was removed is known by its keys.
        all.extend(self.storages.recorded_zones());
        all.into_iter().collect()
    }

    /// Checks whether a zone may use this policy name.
    pub fn knows_policy(&self, name: &str) -> bool {
        name == NO_POLICY || self.policies.load().contains_key(name)
    }

    /// Checks whether there are policies at all.
    pub fn has_policies(&self) -> bool {
        !self.policies.load().is_empty()
    }

    /// Lists the zones that have a policy or a key directory.
    pub fn managed_zones(&self) -> Vec<NameBuf> {
        let (table, policies) = (self.table.load(), self.zones.load());
        let is_wanted = |zone: &&Arc<Zone>| {
            let own = policies.get(zone.id());
            let policy = own.dnssec_policy.as_deref();
            policy.is_some_and(|name| name != NO_POLICY) || own.key_directory.is_some()
        };
        let wanted = table.zones().filter(is_wanted);
        wanted.map(|zone| zone.id().into()).collect()
    }

    /// Counts the signed zones in memory, and finds the earliest expiration of their signatures: for zones with
    /// stored signatures, that over the SOA.
    pub fn count_signed(&self, now: u64) -> (u64, Option<u64>) {
        let table = self.table.load();
        let (mut count, mut first) = (0, None::<u64>);
        for zone in table.zones().filter(|zone| zone.signing().is_signed()) {
            count += 1;
            let ends = signatures_end(zone, now);
            first = [first, ends].into_iter().flatten().min();
        }
        (count, first)
    }

    /// Takes the steps that are due for a zone.
    pub fn take_due_steps(&self, zone: Name<'_>, now: u64) -> Result<KeyProgress, RolloverError> {
        let managed = match self.managed(zone) {
            // Commands change its keys, or the times in their files.
            Err(RolloverError::NoPolicy) => return Ok(self.storage(zone)?.advance(None, now)?),
            managed => managed?,
        };
        let progress = managed.storage.advance(Some(&managed.plan), now)?;
        for step in &progress.steps {
            let (key, words) = step_words(step);
            let text = match progress.keys.iter().find(|other| other.number == key) {
                Some(key) => key_words(key),
                None => format!("key {key}"),
            };
            tracing::info!("zone {zone}: {text}: {words}");
            self.table.feed().record_setting(FeedSettingChange {
                zone: Some(zone.into()),
                subject: SettingSubject::Keys,
                operation: format!("key {key}: {words}"),
                author: None,
            });
        }
        let is_ended = progress.keys.is_empty() && !progress.steps.is_empty();
        if is_ended {
            tracing::info!("zone {zone}: no longer signed");
        }
        Ok(progress)
    }

    /// Records that the parent has the DS of a key (of all that wait, if none is named), or has none; takes the steps
    /// that follow.
    pub fn note_ds(
        &self,
        (zone, key): (Name<'_>, Option<u32>),
        sight: DsSight,
        now: u64,
    ) -> Result<(Vec<u32>, KeyProgress), RolloverError> {
        let noted = self.record_ds((zone, key), sight, now)?;
        let words = match sight {
            DsSight::Seen => "DS seen at the parent",
            DsSight::Gone => "DS no longer at the parent",
        };
        for number in &noted {
            tracing::info!("zone {zone}: key {number}: {words}");
        }
        Ok((noted, self.take_due_steps(zone, now)?))
    }

    /// Records the DS state at the parent; returns the keys that waited for it.
    fn record_ds(
        &self,
        (zone, key): (Name<'_>, Option<u32>),
        sight: DsSight,
        now: u64,
    ) -> Result<Vec<u32>, RolloverError> {
        let storage = self.storage(zone)?;
        let managed = storage.settings()?.managed.ok_or(RolloverError::NoPolicy)?;
        let mut noted = Vec::new();
        storage.change_states(key, &mut |state| {
            let id = state.id;
            let one = std::slice::from_mut(state);
            if rollover::note_ds(one, id, (sight, now), &managed.times) {
                noted.push(id);
            }
        })?;
        Ok(noted)
    }

    /// Starts the rollover of the keys of a role, as soon as that is safe, and takes the first steps. Returns the keys
    /// being replaced.
    pub fn roll(
        &self,
        zone: Name<'_>,
        role: Option<KeyRole>,
        now: u64,
    ) -> Result<(Vec<u32>, KeyProgress), RolloverError> {
        let managed = self.managed(zone)?;
        if managed.policy.is_none() {
            return Err(RolloverError::NoPolicy);
        }
        let mut rolled = Vec::new();
        managed.storage.change_states(None, &mut |state| {
            let is_meant = role.is_none_or(|role| state.role == role);
            if is_meant && state.goal == KeyGoal::Present && state.dnskey.is_shown() {
                state.is_rolled_by_hand = true;
                rolled.push(state.id);
            }
        })?;
        Ok((rolled, self.take_due_steps(zone, now)?))
    }

    /// Returns the policy that manages the keys of a zone, so that commands leave them alone. In a database, a policy
    /// has no effect on keys that are not ours to roll, such as those of a secondary zone.
    pub fn manager(&self, zone: Name<'_>, rank: Option<u16>, now: u64) -> Option<String> {
        if !rank.is_some_and(|rank| self.storages.is_database(rank)) {
            return self.policy_name(zone);
        }
        match self.status(zone, now) {
            Ok(status) => Some(status.policy.unwrap_or_else(|| NO_POLICY.into())),
            Err(RolloverError::Keys(ZoneKeysError::Refused(KeyRefusal::OtherServer))) => {
                self.policy_name(zone)
            }
            Err(_) => None,
        }
    }

    /// Determines the policy and the plan of a zone.
    fn managed(&self, zone: Name<'_>) -> Result<ManagedZone<'_>, RolloverError> {
        if self.table.load().exact(zone).is_none() {
            return Err(RolloverError::NotLoaded);
        }
        let storage = self.storage(zone)?;
        let manageability = storage.manageability()?;
        let policy = match manageability.policy {
            Some(name) => Some(name).filter(|name| name != NO_POLICY),
            None => self.policy_name(zone),
        };
        let mut plan = match &policy {
            Some(name) => {
                let found = self.policies.load().get(name).cloned();
                found.ok_or_else(|| RolloverError::NoSuchPolicy(name.clone()))?
            }
            None => {
                let settings = match storage.settings() {
                    Err(ZoneKeysError::NoStore) => return Err(RolloverError::NoPolicy),
                    settings => settings?,
                };
                let managed = settings.managed.as_ref().ok_or(RolloverError::NoPolicy)?;
                KeyPlan::insecure(&settings, managed)
            }
        };
        if let Some(obstacle) = manageability.obstacle {
            return Err(obstacle.into());
        }
        storage.raise_times(&mut plan.rollover.times)?;
        Ok(ManagedZone {
            storage,
            plan,
            policy,
        })
    }
}

/// Finds the earliest expiration of a zone's current signatures; for a zone with stored signatures, that over the
/// SOA.
pub fn signatures_end(zone: &Zone, now: u64) -> Option<u64> {
    match zone.signing().online() {
        Some(online) => Some(online.earliest_end(now)),
        None => {
            let stored = zone.apex().signatures(Type::SOA);
            stored.filter_map(stored_end).min()
        }
    }
}

/// Reads the expiration of a signature (RFC 4034 section 3.1.5).
fn stored_end(rrsig: &[u8]) -> Option<u64> {
    let ends = rrsig.get(8..12)?.try_into().ok()?;
    Some(u32::from_be_bytes(ends).into())
}

/// Describes a key in the log.
fn key_words(key: &ZoneKey) -> String {
    let role = role_word(key.role);
    match key.key() {
        Ok(made) => format!("key {} ({role}, key tag {})", key.number, made.tag()),
        Err(_) => format!("key {} ({role})", key.number),
    }
}

fn role_word(role: KeyRole) -> &'static str {
    match role {
        KeyRole::Combined => "csk",
        KeyRole::KeySigning => "ksk",
        KeyRole::ZoneSigning => "zsk",
    }
}

/// Returns the key of a step, and its description.
pub fn step_words(step: &RolloverStep) -> (u32, &'static str) {
    match step {
        RolloverStep::Publish(key) => (*key, "published"),
        RolloverStep::Unpublish(key) => (*key, "unpublished"),
        RolloverStep::Activate(key) => (*key, "activated"),
        RolloverStep::Deactivate(key) => (*key, "deactivated"),
        RolloverStep::SubmitDs(key) => (*key, "DS submission (CDS and CDNSKEY published)"),
        RolloverStep::WithdrawDs(key) => (*key, "DS withdrawal requested"),
        RolloverStep::Remove(key) => (*key, "removed"),
    }
}

#[cfg(test)]
mod tests;
