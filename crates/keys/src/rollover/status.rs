//! The status of a zone's keys, for operators: the use of each, what is pending, and what comes next.

use super::{RolloverError, RolloverManager, role_word, step_words};
use crate::local::ZoneKey;
use nameward_dnssec::rollover::{
    self, DsSight, KeyGoal, KeyState, RecordPhase, Rollover, RolloverPolicy, RolloverStep,
    RolloverTimes,
};
use nameward_wire::Name;

/// The next change of a zone's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    /// When, in seconds since 1970; `None` if it waits for the parent.
    pub at: Option<u64>,
    /// The description of the step.
    pub words: String,
}

/// One key and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyStatus {
    /// Its number.
    pub number: u32,
    /// Its state, in a word or two.
    pub state: &'static str,
    /// The DS observation at the parent that it waits for.
    pub awaited: Option<DsSight>,
}

/// How a zone under a policy is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSigningStatus {
    /// The policy; `None` for a zone that goes insecure because its policy was removed.
    pub policy: Option<String>,
    /// The keys.
    pub keys: Vec<KeyStatus>,
    /// The next step.
    pub next: Option<NextStep>,
    /// The earliest expiration of the current signatures.
    pub earliest_end: u64,
}

impl RolloverManager {
    /// Returns the state of a zone's keys; an error if no policy manages them.
    pub fn status(&self, zone: Name<'_>, now: u64) -> Result<ZoneSigningStatus, RolloverError> {
        let managed = self.managed(zone)?;
        let keys = managed.storage.keys()?;
        let lives = states(&keys);
        let awaited = keys
            .iter()
            .find_map(|key| Some((key.number, key.awaited_ds()?)));
        let timed = next_step(&managed.plan.rollover, &lives, now);
        let waiting = awaited.map(|(key, sight)| NextStep {
            at: None,
            words: match sight {
                DsSight::Seen => format!("key {key}: waiting for the DS at the parent"),
                DsSight::Gone => format!("key {key}: waiting until the parent removes the DS"),
            },
        });
        Ok(ZoneSigningStatus {
            policy: managed.policy,
            keys: keys.iter().map(KeyStatus::from_key).collect(),
            next: waiting.or(timed),
            earliest_end: managed.plan.signatures.earliest_end(now),
        })
    }
}

/// When the DS of a zone may be sent to the parent, as far as caches are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DsReadiness {
    /// Now: no cache has an unsigned answer any longer.
    Ready,
    /// At this time, in seconds since 1970.
    At(u64),
    /// This many seconds after the zone was signed, at an unknown time.
    AfterSigning(u64),
}

impl RolloverManager {
    /// Determines when no cache has an answer without the signatures that a DS promises. Secondaries that are behind
    /// are not considered.
    pub fn ds_readiness(&self, zone: Name<'_>, now: u64) -> Result<DsReadiness, RolloverError> {
        let managed = match self.managed(zone) {
            Err(RolloverError::NoPolicy) => return self.ds_readiness_by_hand(zone, now),
            managed => managed?,
        };
        let lives = states(&managed.storage.keys()?);
        let is_requested = |life: &KeyState| life.goal == KeyGoal::Present && life.ds.is_shown();
        if lives.iter().any(is_requested) {
            return Ok(DsReadiness::Ready);
        }
        let is_ds = |rollover: &Rollover| {
            let mut steps = rollover.steps.iter();
            steps.any(|step| matches!(step, RolloverStep::SubmitDs(_)))
        };
        let found = simulate_until(&managed.plan.rollover, &lives, now, is_ds);
        Ok(match found {
            Some((at, _)) if at > now => DsReadiness::At(at),
            _ => DsReadiness::Ready,
        })
    }

    /// Like [`RolloverManager::ds_readiness`], for keys that are changed by commands.
    fn ds_readiness_by_hand(&self, zone: Name<'_>, now: u64) -> Result<DsReadiness, RolloverError> {
        let storage = self.storage(zone)?;
        let mut times = RolloverTimes::default();
        storage.raise_times(&mut times)?;
        let delay = times.settled_after();
        let Some(since) = storage.signed_since(&storage.keys()?, now) else {
            return Ok(DsReadiness::AfterSigning(delay));
        };
        let at = since.saturating_add(delay);
        Ok(if at > now {
            DsReadiness::At(at)
        } else {
            DsReadiness::Ready
        })
    }
}

fn states(keys: &[ZoneKey]) -> Vec<KeyState> {
    keys.iter().filter_map(|key| key.life.clone()).collect()
}

/// Maximum number of moments examined to find the next step: the records of all keys settle one after the other, and
/// most of these moments have no step.
const LOOK_AHEAD: usize = 4 * rollover::MAX_KEYS;

/// Simulates the rollover, as far as it gets without the parent, until something is found; returns when that will be.
fn simulate_until(
    policy: &RolloverPolicy,
    lives: &[KeyState],
    now: u64,
    is_it: impl Fn(&Rollover) -> bool,
) -> Option<(u64, Rollover)> {
    let mut at = now;
    let mut keys = lives.to_vec();
    for _ in 0..LOOK_AHEAD {
        let then = rollover::advance(policy, &keys, at);
        if is_it(&then) {
            return Some((at, then));
        }
        at = then.next_at.filter(|next| *next > at)?;
        keys = then.keys;
    }
    None
}

/// Finds the next step that is taken automatically.
fn next_step(policy: &RolloverPolicy, lives: &[KeyState], now: u64) -> Option<NextStep> {
    let has_steps = |then: &Rollover| !then.steps.is_empty() || !then.missing.is_empty();
    let (at, then) = simulate_until(policy, lives, now, has_steps)?;
    let steps = then.steps.iter().map(step_words);
    let steps = steps.map(|(key, words)| format!("key {key}: {words}"));
    let made = then.missing.iter();
    let made = made.map(|wanted| format!("generate a new {}", role_word(wanted.role)));
    let words: Vec<String> = made.chain(steps).collect();
    Some(NextStep {
        at: Some(at),
        words: words.join("; "),
    })
}

impl KeyStatus {
    /// Returns the status of a key; one without a state is managed manually.
    pub fn from_key(key: &ZoneKey) -> Self {
        KeyStatus {
            number: key.number,
            state: key.life.as_ref().map_or("by hand", state_word),
            awaited: key.awaited_ds(),
        }
    }
}

/// Returns the keyword for the state of a key, as in RFC 7583 section 3.1.
fn state_word(life: &KeyState) -> &'static str {
    let use_phase = if life.role.signs_keys() {
        life.ds.phase
    } else {
        life.zone_rrsig.phase
    };
    match (life.goal, use_phase, life.dnskey.phase) {
        _ if life.is_hidden() && life.goal == KeyGoal::Present => "generated",
        _ if life.is_hidden() => "dead",
        // Double-DS: the DS is published before the key.
        (KeyGoal::Present, RecordPhase::Omnipresent, RecordPhase::Hidden)
            if life.role.signs_keys() =>
        {
            "ready"
        }
        (KeyGoal::Present, RecordPhase::Omnipresent, _) => "active",
        (KeyGoal::Present, RecordPhase::Rumoured, _) if life.role.signs_keys() => "ready",
        (KeyGoal::Present, RecordPhase::Rumoured, _) => "active",
        (KeyGoal::Present, _, _) => "published",
        (
            KeyGoal::Gone,
            RecordPhase::Omnipresent | RecordPhase::Rumoured,
            RecordPhase::Omnipresent | RecordPhase::Rumoured,
        ) => "active",
        // Double-DS: the DS is removed after the key.
        (KeyGoal::Gone, RecordPhase::Omnipresent, _) if life.role.signs_keys() => "retired",
        (KeyGoal::Gone, _, RecordPhase::Unretentive) => "removed",
        (KeyGoal::Gone, _, _) => "retired",
    }
}
