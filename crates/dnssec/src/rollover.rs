//! Key rollovers as a pure function: policy, keys with their states, and the time yield steps and the time of the next
//! check.
//!
//! ```text
//!             step: published                delay is over
//!   Hidden ----------------> Rumoured -----------------------> Omnipresent
//!     ^                      some caches have it               every cache that has the RRset has it
//!     |   delay is over                                             |
//!     +------------------- Unretentive <----------------------------+
//!                          some caches still have it       step: withdrawn
//! ```
//! Each key has three records with such a state: its DNSKEY (with the signature over the DNSKEY RRset, if it makes one:
//! they form one RRset and reach caches together), its signatures over the rest of the zone, and its DS. The times at
//! which states started determine which versions of each RRset caches may have. A step is only taken if every
//! combination of those versions validates ([`versions`]), so correctness does not depend on the order of steps.
//! [`steps`] proposes the steps, which amount to:
//!
//! - zone-signing key: pre-publication (RFC 6781 section 4.1.1.1, RFC 7583 section 3.2.1)
//! - key-signing key: double-signature (RFC 6781 section 4.1.2, double-KSK in RFC 7583 section 3.3.1), one visit to the
//!   parent; or double-DS (section 3.3.2), two visits and a smaller DNSKEY RRset
//! - combined key: both at once
//! - algorithm: signatures, then keys, then DS; removed in the opposite order (RFC 6781 section 4.1.4, the conservative
//!   approach)
//! - insecure: DS removed first (RFC 8078 section 4 notifies the parent), then everything else
//!
//! Delays (RFC 7583 section 3.1): Ipub and Iret are propagation, TTL and a margin; DS waits until it is seen at the
//! parent (Dreg cannot be known in advance).

mod key_state;
mod steps;
mod versions;

pub use key_state::{DsSight, KeyGoal, KeyRecordState, KeyRole, KeyState, RecordPhase};
use steps::KeyRing;

/// Maximum number of keys a zone has at a time, including retiring ones. A policy that changes faster than the parent
/// acts waits at this limit.
pub const MAX_KEYS: usize = 16;

/// A key required by a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyKey {
    /// The records it signs.
    pub role: KeyRole,
    /// The algorithm number.
    pub algorithm: u8,
    /// Seconds until it is replaced; `None` for a key that is never replaced.
    pub lifetime: Option<u64>,
}

/// Delays in seconds. A TTL is the longest that caches may have for the RRset: a TTL that was lowered counts until the
/// longer one has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RolloverTimes {
    /// TTL of the DNSKEY RRset (TTLkey).
    pub dnskey_ttl: u64,
    /// Longest TTL in the zone (TTLsig).
    pub zone_ttl: u64,
    /// TTL of negative answers.
    pub negative_ttl: u64,
    /// Time until every server of the zone has a new version (Dprp).
    pub zone_propagation: u64,
    /// TTL of the DS RRset, or of its absence (TTLds).
    pub ds_ttl: u64,
    /// Time until every server of the parent has a new version (DprpP).
    pub parent_propagation: u64,
    /// Time the parent is expected to take for a new DS (Dreg); a rollover starts earlier by it.
    pub parent_registration: u64,
    /// Margin added to each delay.
    pub safety: u64,
    /// How long a key is kept after it is no longer used.
    pub purge_after: u64,
}

/// How a key-signing key is replaced by another one of its algorithm (RFC 6781 section 4.1.2). A combined key and a new
/// algorithm always use the first method: signatures in caches need the old DNSKEY next to the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KskRollover {
    /// Both keys are published and sign the DNSKEY RRset, then the DS is replaced.
    #[default]
    DoubleSignature,
    /// The parent has the DS of both keys, then the DNSKEY is replaced.
    DoubleDs,
}

/// The rollover policy of a zone. Without keys the zone becomes insecure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloverPolicy {
    /// The keys, at most one per role and algorithm.
    pub keys: Vec<PolicyKey>,
    /// How key-signing keys are replaced.
    pub ksk_rollover: KskRollover,
    /// The delays.
    pub times: RolloverTimes,
}

impl RolloverTimes {
    /// Returns the time after which no cache has another version of the DNSKEY RRset, or its absence.
    fn dnskey_delay(&self) -> u64 {
        self.zone_propagation + self.dnskey_ttl.max(self.negative_ttl) + self.safety
    }

    fn zone_rrsig_delay(&self) -> u64 {
        let ttl = self.zone_ttl.max(self.dnskey_ttl).max(self.negative_ttl);
        self.zone_propagation + ttl + self.safety
    }

    fn ds_delay(&self) -> u64 {
        self.parent_propagation + self.ds_ttl + self.safety
    }

    /// Returns the time after which no cache has any zone data from before.
    pub fn settled_after(&self) -> u64 {
        self.dnskey_delay().max(self.zone_rrsig_delay())
    }
}

impl RolloverPolicy {
    /// Returns how long before it is needed a successor is generated.
    fn lead(&self, role: KeyRole) -> u64 {
        let times = &self.times;
        let parent = times.parent_registration + times.ds_delay();
        match (role, self.ksk_rollover) {
            (KeyRole::ZoneSigning, _) => times.dnskey_delay(),
            // RFC 7583 section 3.3.2: only the DS must be known in advance.
            (KeyRole::KeySigning, KskRollover::DoubleDs) => parent,
            _ => times.dnskey_delay() + parent,
        }
    }
}

impl PolicyKey {
    fn asks_for(&self, key: &KeyState) -> bool {
        key.role == self.role && key.algorithm == self.algorithm
    }

    /// Returns the time at which the successor of a key must be generated.
    fn successor_at(&self, key: &KeyState, policy: &RolloverPolicy) -> Option<u64> {
        let lifetime = self.lifetime?;
        // A lifetime shorter than the lead would cause permanent rollovers.
        let lead = policy.lead(self.role).min(lifetime / 2);
        Some(key.in_use_since()?.saturating_add(lifetime - lead))
    }
}

/// A step that was taken, for the log and for the code that acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloverStep {
    /// The DNSKEY is published in the zone.
    Publish(u32),
    /// The DNSKEY is removed from the zone.
    Unpublish(u32),
    /// The key starts signing the zone.
    Activate(u32),
    /// The key stops signing the zone.
    Deactivate(u32),
    /// The DS is requested from the parent.
    SubmitDs(u32),
    /// The parent is requested to remove the DS.
    WithdrawDs(u32),
    /// The key can be deleted.
    Remove(u32),
}

/// The result of policy, keys and time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rollover {
    /// Keys that must be generated. The caller adds them to the keys and calls again; no step is taken before.
    pub missing: Vec<PolicyKey>,
    /// The current state of the keys.
    pub keys: Vec<KeyState>,
    /// The steps that were taken.
    pub steps: Vec<RolloverStep>,
    /// When to call again; `None` if nothing happens until the policy changes or a DS is seen.
    pub next_at: Option<u64>,
}

/// The DS RRset that the zone requests from its parent (RFC 7344, RFC 8078).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentRequest {
    /// No request: the parent leaves the DS RRset unchanged.
    Nothing,
    /// The DS of these keys.
    Keys(Vec<u32>),
    /// No DS.
    Removal,
}

/// Takes all steps that are due and safe now. Calling it late, even by a year, delays steps but breaks nothing.
pub fn advance(policy: &RolloverPolicy, keys: &[KeyState], now: u64) -> Rollover {
    let mut ring = KeyRing::new(policy, keys, now);
    let mut steps = Vec::new();
    ring.end_due_transitions();
    ring.remove_hidden(&mut steps);
    let missing = ring.missing_keys();
    let next_at = if missing.is_empty() {
        ring.set_goals();
        ring.take_steps(&mut steps);
        ring.next_at()
    } else {
        Some(now)
    };
    Rollover {
        missing,
        keys: ring.keys,
        steps,
        next_at,
    }
}

/// Records that the parent's servers were seen with or without the DS of a key. Returns whether that was awaited. A
/// contrary observation cancels an earlier one.
pub fn note_ds(
    keys: &mut [KeyState],
    id: u32,
    (sight, now): (DsSight, u64),
    times: &RolloverTimes,
) -> bool {
    let Some(key) = keys.iter_mut().find(|key| key.id == id) else {
        return false;
    };
    let awaited = match key.ds.phase {
        RecordPhase::Rumoured => DsSight::Seen,
        RecordPhase::Unretentive => DsSight::Gone,
        RecordPhase::Hidden | RecordPhase::Omnipresent => return false,
    };
    if sight != awaited {
        key.ds.settles_at = None;
        return false;
    }
    // A parent may act on CDS records that it read before they changed, and restore a DS that was seen to be removed.
    let acts_until = key.ds.since + times.zone_propagation + times.parent_registration;
    let is_early = sight == DsSight::Gone && now < acts_until;
    if is_early || key.ds.settles_at.is_some() {
        return false;
    }
    key.ds.settles_at = Some(now.max(key.ds.since).saturating_add(times.ds_delay()));
    true
}

/// Returns the DS RRset that the zone requests from its parent.
pub fn parent_request(policy: &RolloverPolicy, keys: &[KeyState]) -> ParentRequest {
    let shown = keys.iter().filter(|key| key.ds.is_shown());
    let shown: Vec<u32> = shown.map(|key| key.id).collect();
    let is_leaving = keys
        .iter()
        .any(|key| key.ds.phase == RecordPhase::Unretentive);
    match (shown.is_empty(), policy.keys.is_empty() && is_leaving) {
        (false, _) => ParentRequest::Keys(shown),
        (true, true) => ParentRequest::Removal,
        (true, false) => ParentRequest::Nothing,
    }
}
