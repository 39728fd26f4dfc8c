//! Key storage: one interface to the keys of a zone, wherever they are ([`super::storages`] decides).
//!
//! A storage makes each change durable before it takes effect, and refuses one after which the zone would be bogus.
//! What a change means is the same everywhere: commands, rollovers and status displays do not depend on where keys are.

use super::local::{KeyPlan, KeyProgress, SigningSettings, ZoneKey, ZoneKeysError};
use nameward_dnssec::rollover::{KeyRole, KeyState, RolloverTimes};
use nameward_dnssec::{DenialSettings, KeyUse, SigningPolicy, SoaEdit};

/// The keys of one zone.
pub trait KeyStorage {
    /// Reads the keys, with their rollover states, sorted by number. Unused keys with an unknown algorithm are left out.
    fn keys(&self) -> Result<Vec<ZoneKey>, ZoneKeysError>;

    /// Lists the keys, including unusable ones if the storage can list these.
    fn list(&self) -> Result<Vec<KeyEntry>, ZoneKeysError> {
        let keys = self.keys()?.into_iter().map(Box::new);
        Ok(keys.map(KeyEntry::Usable).collect())
    }

    /// Checks whether there are keys, usable or not.
    fn has_keys(&self) -> Result<bool, ZoneKeysError>;

    /// Refuses keys for a zone that cannot be signed with them.
    fn check_signable(&self) -> Result<(), ZoneKeysError>;

    /// Adds the first key, and signs as requested from then on. Returns its number.
    fn sign(
        &self,
        key: ZoneKey,
        request: &RequestedSigning,
        now: u64,
    ) -> Result<u32, ZoneKeysError>;

    /// Changes how the zone is signed; returns whether that is a change.
    fn change_signing(&self, request: &RequestedSigning, now: u64) -> Result<bool, ZoneKeysError>;

    /// Adds a key; returns its number.
    fn add(&self, key: ZoneKey, now: u64) -> Result<u32, ZoneKeysError>;

    /// Changes the use of a key, unless it is the only one that signs.
    fn change_use(&self, number: u32, change: UseChange, now: u64) -> Result<(), ZoneKeysError>;

    /// Removes a key, unless it is the only one that signs.
    fn remove(&self, number: u32, now: u64) -> Result<(), ZoneKeysError>;

    /// Removes all keys and the signing settings; returns how many keys there were.
    fn remove_all(&self, now: u64) -> Result<usize, ZoneKeysError>;

    /// Checks whether the zone uses NSEC3, or will when it is signed.
    fn uses_nsec3(&self) -> Result<bool, ZoneKeysError>;

    /// Reads the signing settings in the state store: those of the policy that manages the zone, if one does.
    fn settings(&self) -> Result<SigningSettings, ZoneKeysError>;

    /// Reads the signing policy of a zone that is not signed by the zone table; `None` for others.
    fn stored_policy(&self) -> Result<Option<SigningPolicy>, ZoneKeysError>;

    /// Checks whether a policy can manage the keys.
    fn manageability(&self) -> Result<Manageability, ZoneKeysError>;

    /// Raises delays to the actual TTLs of the zone.
    fn raise_times(&self, times: &mut RolloverTimes) -> Result<(), ZoneKeysError>;

    /// Returns since when the zone has been signed with these keys; `None` if that is not recorded.
    fn signed_since(&self, keys: &[ZoneKey], now: u64) -> Option<u64>;

    /// Takes all steps that are due: those of a plan, or those that need no policy.
    fn advance(&self, plan: Option<&KeyPlan>, now: u64) -> Result<KeyProgress, ZoneKeysError>;

    /// Changes the rollover state of one key, or of all keys that have one.
    fn change_states(
        &self,
        number: Option<u32>,
        change: &mut dyn FnMut(&mut KeyState),
    ) -> Result<(), ZoneKeysError>;
}

/// A listed key.
pub enum KeyEntry {
    /// A key that can sign.
    Usable(Box<ZoneKey>),
    /// A key that cannot.
    Unusable(UnusableKey),
}

/// A key that cannot sign, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableKey {
    /// Its number.
    pub number: u32,
    /// The flags of its DNSKEY.
    pub flags: u16,
    /// The algorithm, if it is readable and not supported.
    pub algorithm: Option<u8>,
    /// Whether it should sign.
    pub is_active: bool,
    /// Whether it should be published.
    pub is_published: bool,
    /// The reason.
    pub reason: String,
}

/// A change of a key's use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseChange {
    /// Whether it signs.
    Active(bool),
    /// Whether its DNSKEY is in the zone.
    Published(bool),
}

impl UseChange {
    /// Checks whether it takes the key out of use.
    pub(super) fn is_withdrawal(self) -> bool {
        matches!(self, UseChange::Active(false) | UseChange::Published(false))
    }

    /// Returns the use of a key of this role after the change.
    pub(super) fn apply(self, role: KeyRole, usage: KeyUse) -> KeyUse {
        match self {
            UseChange::Active(is_active) => manual_use(role, is_active, usage.published),
            UseChange::Published(is_published) => manual_use(role, usage.is_active(), is_published),
        }
    }
}

/// Returns the use of a key that no policy manages.
pub fn manual_use(role: KeyRole, is_active: bool, is_published: bool) -> KeyUse {
    KeyUse {
        published: is_published,
        signs_keys: is_active && role.signs_keys(),
        signs_zone: is_active && role.signs_zone(),
        asks_ds: is_published && role.signs_keys(),
    }
}

/// Requested signing settings; missing ones stay, or get the default.
#[derive(Debug, Clone, Default)]
pub struct RequestedSigning {
    /// The denial of existence method.
    pub denial: Option<DenialSettings>,
    /// The served serial.
    pub soa_edit: Option<SoaEdit>,
}

impl RequestedSigning {
    /// Checks whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.denial.is_none() && self.soa_edit.is_none()
    }

    /// Returns settings with the requested ones replaced.
    pub(super) fn over(&self, settings: SigningSettings) -> SigningSettings {
        SigningSettings {
            denial: self.denial.clone().unwrap_or(settings.denial),
            soa_edit: self.soa_edit.unwrap_or(settings.soa_edit),
            ..settings
        }
    }
}

/// Whether, and by which policy, the keys of a zone can be managed.
#[derive(Debug, Clone, Default)]
pub struct Manageability {
    /// The policy that the storage names; `None` if the configuration decides.
    pub policy: Option<String>,
    /// Why no policy can manage the keys.
    pub obstacle: Option<ZoneKeysError>,
}
