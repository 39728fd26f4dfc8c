//! Key management by named policies: which zones have one, what is due for each, and what is pending.
//!
//! ```text
//! policy     [[dnssec_policy]] by name; a zone names its own (maintain::policy)
//! look       one zone at one time: steps of dnssec::rollover, taken and stored (keys::local::rollover, stored_keys)
//! storage    where the keys of a zone are: the state store, or the database that has the zone
//! driver     one thread: zones whose time has come, zones that changed, answers of parents
//! parent     which DS the parent's servers have; queries go through a trait
//! ```
//! A zone whose policy is removed goes insecure in order: the parent is asked to remove the DS, and the zone stays
//! signed until that is confirmed and no cache has the DS. The time is passed as a parameter.

pub mod driver;
mod parent;
mod status;
mod storage;

pub use parent::{ParentAnswer, ParentQuery, QueryParent};
pub use status::{DsReadiness, KeyStatus, NextStep, ZoneSigningStatus};
use storage::KeyLocation;

use crate::keys::database::{KeysOrDatabase, StoredKeys, StoredKeysError};
use crate::keys::local::{
    KeyFileProgress, KeyPlan, KeyProgress, ParentSettings, ZoneKey, ZoneKeys, ZoneKeysError,
};
use crate::policy::PolicyTable;
use crate::table::TableWriter;
use arc_swap::ArcSwap;
use nameward_dnssec::rollover::{
    DsSight, KeyRole, KskRollover, PolicyKey, RolloverPolicy, RolloverStep, RolloverTimes,
};
use nameward_dnssec::{DenialSettings, SignatureTimes};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{Zone, ZoneWalk};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The keyword for a zone that is excluded from a default policy.
pub const NO_POLICY: &str = "none";

/// A named policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnssecPolicy {
    /// Its name.
    pub name: String,
    /// The keys of a zone.
    pub keys: Vec<PolicyKey>,
    /// How key-signing keys are replaced.
    pub ksk_rollover: KskRollover,
    /// Size of RSA keys in bits.
    pub rsa_bits: usize,
    /// The denial of existence method.
    pub denial: DenialSettings,
    /// Inception, expiration and renewal of signatures.
    pub signatures: SignatureTimes,
    /// The TTL of DNSKEY, CDS and CDNSKEY.
    pub dnskey_ttl: u32,
    /// Whether CDS and CDNSKEY request the DS from the parent.
    pub shows_cds: bool,
    /// The delays; longer TTLs of the zone are used instead.
    pub times: RolloverTimes,
    /// How the parent is queried.
    pub parent: ParentSettings,
}

/// All policies by name.
pub type DnssecPolicies = HashMap<String, Arc<DnssecPolicy>>;

/// Manages the keys of zones with policies.
pub struct RolloverManager {
    keys: Arc<ZoneKeys>,
    /// Keys in databases.
    stored: StoredKeys,
    table: Arc<TableWriter>,
    zones: Arc<PolicyTable>,
    policies: ArcSwap<DnssecPolicies>,
    /// Ranks of databases that store the keys of their zones.
    databases: Vec<u16>,
}

/// Why nothing is done for a zone that has a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RolloverError {
    /// There is no such policy.
    #[error("no [[dnssec_policy]] {0:?} is configured")]
    NoSuchPolicy(String),
    /// The zone is not in memory yet.
    #[error("the zone is not loaded")]
    NotLoaded,
    /// The zone has its own signatures.
    #[error(
        "the zone is presigned: its signatures are served unchanged and dnssec_policy is ignored"
    )]
    Presigned,
    /// The zone is in a database whose keys cannot be managed.
    #[error("{0}")]
    Stored(StoredKeysError),
    /// No policy manages the zone.
    #[error("the zone has no dnssec_policy")]
    NoPolicy,
    /// The keys cannot be read or written.
    #[error("{0}")]
    Keys(#[from] ZoneKeysError),
}

impl From<KeysOrDatabase> for RolloverError {
    fn from(error: KeysOrDatabase) -> Self {
        match error {
            KeysOrDatabase::Keys(error) => RolloverError::Keys(error),
            KeysOrDatabase::Database(error) => RolloverError::Stored(error),
        }
    }
}

impl From<StoredKeysError> for RolloverError {
    fn from(error: StoredKeysError) -> Self {
        RolloverError::Stored(error)
    }
}

/// A zone with its current policy.
struct ManagedZone<'k> {
    home: KeyLocation<'k>,
    plan: KeyPlan,
    policy: Option<Arc<DnssecPolicy>>,
}

impl RolloverManager {
    /// Manages the zones of a table, by the policies that the policy table names for them.
    pub fn new(
        keys: Arc<ZoneKeys>,
        table: Arc<TableWriter>,
        zones: Arc<PolicyTable>,
        databases: Vec<u16>,
    ) -> Self {
        RolloverManager {
            stored: StoredKeys::new(keys.state_store().cloned()),
            keys,
            table,
            zones,
            policies: ArcSwap::default(),
            databases,
        }
    }

    /// Sets the available policies.
    pub fn set_policies(&self, policies: DnssecPolicies) {
        self.policies.store(Arc::new(policies));
    }

    /// Returns the keys.
    pub fn keys(&self) -> &Arc<ZoneKeys> {
        &self.keys
    }

    /// Returns the name of a zone's configured policy.
    pub fn policy_name(&self, zone: Name<'_>) -> Option<String> {
        let policies = self.zones.load();
        let name = policies.of(zone).dnssec_policy.clone()?;
        (name != NO_POLICY).then_some(name)
    }

    /// Lists the zones to check: those with a policy or a key directory, and those whose keys had one.
    pub fn all_zones(&self) -> Vec<NameBuf> {
        let mut all: HashSet<NameBuf> = self.zones_to_look_after().into_iter().collect();
        // A zone whose policy was removed is known by its keys.
        all.extend(self.keys.zones().unwrap_or_default());
        all.extend(self.stored.zones().unwrap_or_default());
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
    pub fn zones_to_look_after(&self) -> Vec<NameBuf> {
        let (table, policies) = (self.table.load(), self.zones.load());
        let is_wanted = |zone: &&Arc<Zone>| {
            let own = policies.of(zone.apex_name());
            let policy = own.dnssec_policy.as_deref();
            policy.is_some_and(|name| name != NO_POLICY) || own.key_directory.is_some()
        };
        let wanted = table.zones().filter(is_wanted);
        wanted.map(|zone| zone.apex_name().into()).collect()
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
    pub fn look(&self, zone: Name<'_>, now: u64) -> Result<KeyProgress, RolloverError> {
        let after = match self.looked_after(zone) {
            Err(RolloverError::NoPolicy) => None,
            after => Some(after?),
        };
        // Keys of a database are stored there, whatever directory others have.
        let files = if self.is_in_database(zone) {
            KeyFileProgress::default()
        } else {
            self.keys.read_files(zone, now)?
        };
        let Some(after) = after else {
            return self.look_without_policy(zone, files, now);
        };
        let mut progress = match &after.home {
            KeyLocation::Store => self.keys.advance(zone, &after.plan, now)?,
            KeyLocation::Database(home) => self.stored.advance(home, &after.plan, now)?,
        };
        progress.is_visible |= files.is_visible;
        for step in &progress.steps {
            let (key, words) = step_words(step);
            let text = match progress.keys.iter().find(|other| other.number == key) {
                Some(key) => key_words(key),
                None => format!("key {key}"),
            };
            tracing::info!("zone {zone}: {text}: {words}");
        }
        let is_ended = progress.keys.is_empty() && !progress.steps.is_empty();
        if is_ended {
            tracing::info!("zone {zone}: no longer signed");
        }
        if !progress.keys.is_empty() && matches!(after.home, KeyLocation::Store) {
            // The serial changes when signatures are renewed, so that secondaries fetch them.
            let renewal = after.plan.signatures.next_period_at(now);
            progress.next_at = Some(progress.next_at.map_or(renewal, |at| at.min(renewal)));
        }
        Ok(progress)
    }

    /// Takes the steps that are due for a zone whose keys are changed by commands or by the times in their files.
    fn look_without_policy(
        &self,
        zone: Name<'_>,
        files: KeyFileProgress,
        now: u64,
    ) -> Result<KeyProgress, RolloverError> {
        let renewal = if self.is_in_database(zone) {
            None
        } else {
            self.keys.renew(zone, now)?
        };
        if !files.has_files && renewal.is_none() {
            return Err(RolloverError::NoPolicy);
        }
        let renewed_at = renewal.map(|(_, at)| at);
        Ok(KeyProgress {
            next_at: files.next_at.into_iter().chain(renewed_at).min(),
            is_visible: files.is_visible || renewal.is_some_and(|(is_raised, _)| is_raised),
            ..KeyProgress::default()
        })
    }

    /// Records that the parent has the DS of a key (of all that wait, if none is named), or has none; takes the steps
    /// that follow.
    pub fn note_ds(
        &self,
        (zone, key): (Name<'_>, Option<u32>),
        sight: DsSight,
        now: u64,
    ) -> Result<(Vec<u32>, KeyProgress), RolloverError> {
        let noted = if self.is_in_database(zone) {
            self.stored.note_ds((zone, key), sight, now)?
        } else {
            self.keys.note_ds((zone, key), sight, now)?
        };
        let words = match sight {
            DsSight::Seen => "DS seen at the parent",
            DsSight::Gone => "DS no longer at the parent",
        };
        for number in &noted {
            tracing::info!("zone {zone}: key {number}: {words}");
        }
        Ok((noted, self.look(zone, now)?))
    }

    /// Starts the rollover of the keys of a role, and takes the first steps.
    pub fn roll(
        &self,
        zone: Name<'_>,
        role: Option<KeyRole>,
        now: u64,
    ) -> Result<(Vec<u32>, KeyProgress), RolloverError> {
        let after = self.looked_after(zone)?;
        if after.policy.is_none() {
            return Err(RolloverError::NoPolicy);
        }
        let rolled = match &after.home {
            KeyLocation::Store => self.keys.roll(zone, role)?,
            KeyLocation::Database(_) => self.stored.roll(zone, role)?,
        };
        Ok((rolled, self.look(zone, now)?))
    }
}

impl DnssecPolicy {
    fn plan(&self) -> KeyPlan {
        KeyPlan {
            rollover: RolloverPolicy {
                keys: self.keys.clone(),
                ksk_rollover: self.ksk_rollover,
                times: self.times,
            },
            rsa_bits: self.rsa_bits,
            denial: self.denial.clone(),
            signatures: self.signatures,
            dnskey_ttl: self.dnskey_ttl,
            shows_cds: self.shows_cds,
            parent: self.parent.clone(),
        }
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

/// Delays that follow the TTLs of a zone.
trait TtlSink {
    /// Raises the TTLs to the actual ones of the zone.
    fn take_ttls(&mut self, version: &Arc<Zone>);
}

impl TtlSink for RolloverTimes {
    fn take_ttls(&mut self, version: &Arc<Zone>) {
        let walk = ZoneWalk::new(Arc::clone(version));
        let mut place = walk.first();
        while let Some(at) = place {
            for rrset in walk.node(at).rrsets() {
                self.zone_ttl = self.zone_ttl.max(rrset.ttl().into());
            }
            place = walk.next(at);
        }
        // RFC 2308 section 5: the TTL of negative answers is at most that of the SOA.
        let negative = version.soa().map_or(0, |soa| soa.ttl());
        self.negative_ttl = self.negative_ttl.max(negative.into());
    }
}

/// Describes a key in the log.
fn key_words(key: &ZoneKey) -> String {
    let role = match key.role {
        KeyRole::Combined => "csk",
        KeyRole::KeySigning => "ksk",
        KeyRole::ZoneSigning => "zsk",
    };
    match key.key() {
        Ok(made) => format!("key {} ({role}, key tag {})", key.number, made.tag()),
        Err(_) => format!("key {} ({role})", key.number),
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
