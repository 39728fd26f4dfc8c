//! The life of a zone's keys as a pure function: policy, keys with their states, and the time give steps and the time of
//! the next look.
//!
//! ```text
//!             step: shown                    delay is over
//!   Hidden ----------------> Rumoured -----------------------> Omnipresent
//!     ^                      some caches have it               every cache that has the RRset has it
//!     |   delay is over                                             |
//!     +------------------- Unretentive <----------------------------+
//!                          some caches have it still        step: taken away
//! ```
//! Each key has three records with such a state: its DNSKEY (with the signature over the DNSKEY RRset, if it makes one:
//! they are one RRset and reach caches together), its signatures over the rest of the zone, and its DS. The times at
//! which states began tell which versions of each RRset caches may have. A step is taken only if
//! every combination of those versions validates ([`versions`]), so no order of steps has to be
//! trusted. [`moves`] says which steps are wanted; they come out as:
//!
//! - zone-signing key: pre-publication (RFC 6781 section 4.1.1.1, RFC 7583 section 3.2.1)
//! - key-signing key: double-signature (RFC 6781 section 4.1.2, double-KSK in RFC 7583 section 3.3.1), one visit to the
//!   parent; or double-DS (section 3.3.2), two visits and a smaller DNSKEY RRset
//! - combined key: both at once
//! - algorithm: signatures, then keys, then DS; away in the opposite order (RFC 6781 section 4.1.4, the conservative way)
//! - insecure: DS away first (RFC 8078 section 4 asks the parent), then everything else
//!
//! Delays (RFC 7583 section 3.1): Ipub and Iret are propagation, TTL and a margin; DS waits until it is seen at the
//! parent (Dreg is nothing that can be known before).

mod key_state;
mod steps;
mod versions;

pub use key_state::{DsSight, KeyGoal, KeyLife, KeyRole, RecordLife, RecordPhase};
use steps::KeyRing;

/// Keys that a zone may have at a time, those on their way out included. A policy that changes faster than the parent acts
/// waits at this bound.
pub const MAX_KEYS: usize = 16;

/// A key that a policy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyKey {
    /// The records it signs.
    pub role: KeyRole,
    /// Its algorithm's number.
    pub algorithm: u8,
    /// Seconds until the next one takes its place; `None` for a key that stays.
    pub lifetime: Option<u64>,
}

/// Delays in seconds. A TTL is the longest that caches may have of the RRset: one that was lowered counts until the
/// longer one has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloverTimes {
    /// TTL of the DNSKEY RRset (TTLkey).
    pub dnskey_ttl: u64,
    /// Longest TTL of the zone (TTLsig).
    pub zone_ttl: u64,
    /// TTL of negative answers.
    pub negative_ttl: u64,
    /// Time until every server of the zone has a new version (Dprp).
    pub zone_propagation: u64,
    /// TTL of the DS RRset, or of its absence (TTLds).
    pub ds_ttl: u64,
    /// Time until every server of the parent has a new version (DprpP).
    pub parent_propagation: u64,
    /// Time that the parent is expected to take for a new DS (Dreg); a rollover begins earlier by it.
    pub parent_registration: u64,
    /// Margin on top of each delay.
    pub safety: u64,
    /// Time for which a key that is out of use is kept.
    pub purge_after: u64,
}

/// How a key-signing key takes the place of another one of its algorithm (RFC 6781 section 4.1.2). A combined key and a new
/// algorithm have the first way in any case: signatures that caches have need the old DNSKEY beside the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KskRollover {
    /// Both keys are published and sign the DNSKEY RRset, then the DS is replaced.
    #[default]
    DoubleSignature,
    /// The parent has the DS of both keys, then the DNSKEY is replaced.
    DoubleDs,
}

/// How the keys of a zone live. Without keys the zone goes insecure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloverPolicy {
    /// The keys, at most one of a role and an algorithm.
    pub keys: Vec<PolicyKey>,
    /// How key-signing keys are replaced.
    pub ksk_rollover: KskRollover,
    /// The delays.
    pub times: RolloverTimes,
}

impl RolloverTimes {
    /// No delay at all, to be raised to what a zone has.
    pub const NONE: RolloverTimes = RolloverTimes {
        dnskey_ttl: 0,
        zone_ttl: 0,
        negative_ttl: 0,
        zone_propagation: 0,
        ds_ttl: 0,
        parent_propagation: 0,
        parent_registration: 0,
        safety: 0,
        purge_after: 0,
    };

    /// The time after which no cache has another version of the DNSKEY RRset, or none of it.
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

    /// Returns the time after which no cache has anything of the zone that was not in it then.
    pub fn settled_after(&self) -> u64 {
        self.dnskey_delay().max(self.zone_rrsig_delay())
    }
}

impl RolloverPolicy {
    /// The time by which a successor comes before it is needed.
    fn lead(&self, role: KeyRole) -> u64 {
        let times = &self.times;
        let parent = times.parent_registration + times.ds_delay();
        match (role, self.ksk_rollover) {
            (KeyRole::ZoneSigning, _) => times.dnskey_delay(),
            // RFC 7583 section 3.3.2: the DS alone has to be known before.
            (KeyRole::KeySigning, KskRollover::DoubleDs) => parent,
            _ => times.dnskey_delay() + parent,
        }
    }
}

impl PolicyKey {
    fn asks_for(&self, key: &KeyLife) -> bool {
        key.role == self.role && key.algorithm == self.algorithm
    }

    /// The time at which the successor of a key has to be made.
    fn successor_at(&self, key: &KeyLife, policy: &RolloverPolicy) -> Option<u64> {
        let lifetime = self.lifetime?;
        // A lifetime that leaves no room for the lead would have a rollover at all times.
        let lead = policy.lead(self.role).min(lifetime / 2);
        Some(key.in_use_since()?.saturating_add(lifetime - lead))
    }
}

/// One step that was taken, in words for the log and for whoever has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloverStep {
    /// The DNSKEY is in the zone from now on.
    Publish(u32),
    /// The DNSKEY is no longer in the zone.
    Unpublish(u32),
    /// The key signs the zone from now on.
    Activate(u32),
    /// The key no longer signs the zone.
    Deactivate(u32),
    /// The parent is asked for the DS.
    SubmitDs(u32),
    /// The parent is asked to remove the DS.
    WithdrawDs(u32),
    /// The key can be forgotten.
    Remove(u32),
}

/// Everything that follows from policy, keys and time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rollover {
    /// Keys that have to be made. The caller adds them to the keys and asks again; no step is taken before.
    pub missing: Vec<PolicyKey>,
    /// The keys as they are now.
    pub keys: Vec<KeyLife>,
    /// The steps that led there.
    pub steps: Vec<RolloverStep>,
    /// When to ask again; `None` if nothing happens until the policy changes or a DS is seen.
    pub next_at: Option<u64>,
}

/// Records that ask the parent for a DS RRset (RFC 7344, RFC 8078).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentWish {
    /// None: the parent is to leave things as they are.
    Nothing,
    /// The DS of these keys.
    Keys(Vec<u32>),
    /// No DS.
    Removal,
}

/// Takes all steps that are wanted and safe now. Calling it late, or not for a year, delays steps and breaks nothing.
pub fn advance(policy: &RolloverPolicy, keys: &[KeyLife], now: u64) -> Rollover {
    let mut ring = KeyRing::new(policy, keys, now);
    let mut steps = Vec::new();
    ring.settle();
    ring.remove_hidden(&mut steps);
    let missing = ring.missing_keys();
    if missing.is_empty() {
        ring.set_goals();
        ring.take_steps(&mut steps);
    }
    let next_at = match missing.is_empty() {
        true => ring.next_at(),
        false => Some(now),
    };
    Rollover {
        missing,
        keys: ring.keys,
        steps,
        next_at,
    }
}

/// Notes that the parent's servers were seen with the DS of a key, or without it. Returns whether that was waited for.
/// A sight of the opposite takes back one that was noted before.
pub fn note_ds(
    keys: &mut [KeyLife],
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
    // A parent may act on CDS records that it read before they changed, and bring back a DS that was seen to be gone.
    let acts_until = key.ds.since + times.zone_propagation + times.parent_registration;
    let is_early = sight == DsSight::Gone && now < acts_until;
    if is_early || key.ds.settles_at.is_some() {
        return false;
    }
    key.ds.settles_at = Some(now.max(key.ds.since).saturating_add(times.ds_delay()));
    true
}

/// Returns the records that the zone shows to its parent.
pub fn parent_wish(policy: &RolloverPolicy, keys: &[KeyLife]) -> ParentWish {
    let wanted = keys.iter().filter(|key| key.ds.is_shown());
    let wanted: Vec<u32> = wanted.map(|key| key.id).collect();
    let is_leaving = keys
        .iter()
        .any(|key| key.ds.phase == RecordPhase::Unretentive);
    match (wanted.is_empty(), policy.keys.is_empty() && is_leaving) {
        (false, _) => ParentWish::Keys(wanted),
        (true, true) => ParentWish::Removal,
        (true, false) => ParentWish::Nothing,
    }
}
