//! How the keys of a zone stand, for operators: what each does, what is waited for, and what comes next.

use super::{KeyHome, KeyKeeper, KeyLookError, step_words};
use crate::zone_keys::ZoneKey;
use nameward_dnssec::rollover::{self, DsSight, KeyGoal, KeyLife, RecordPhase};
use nameward_wire::Name;

/// The next thing that happens to the keys of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    /// When, in seconds since 1970; `None` if it waits for the parent.
    pub at: Option<u64>,
    /// The step in words.
    pub words: String,
}

/// One key and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyStatus {
    /// Its number.
    pub number: u32,
    /// How far it has come, in a word or two.
    pub state: &'static str,
    /// The sight of its DS at the parent that is waited for.
    pub awaited: Option<DsSight>,
}

/// How a zone under a policy is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSigningStatus {
    /// The policy; `None` for a zone that goes insecure because its policy went.
    pub policy: Option<String>,
    /// The keys.
    pub keys: Vec<KeyStatus>,
    /// The next step.
    pub next: Option<NextStep>,
    /// When the first signature ends that is given out now.
    pub earliest_end: u64,
}

impl KeyKeeper {
    /// Returns the state of the keys of a zone; an error if no policy looks after them.
    pub fn status(&self, zone: Name<'_>, now: u64) -> Result<ZoneSigningStatus, KeyLookError> {
        let after = self.looked_after(zone)?;
        let keys = match &after.home {
            KeyHome::Store(_) => self.keys.keys(zone)?,
            KeyHome::Database(home) => self.stored.keys(home)?,
        };
        let lives: Vec<KeyLife> = keys.iter().filter_map(|key| key.life.clone()).collect();
        let awaited = keys
            .iter()
            .find_map(|key| Some((key.number, key.awaited_ds()?)));
        let next = rollover::advance(&after.plan.rollover, &lives, now);
        let timed = next.next_at.and_then(|at| {
            // The same pure function says what it will do then.
            let then = rollover::advance(&after.plan.rollover, &next.keys, at);
            let steps = then.steps.iter().map(step_words);
            let steps = steps.map(|(key, words)| format!("key {key}: {words}"));
            let made = then.missing.iter().map(|wanted| {
                let role = match (wanted.role.signs_keys(), wanted.role.signs_zone()) {
                    (true, true) => "csk",
                    (true, false) => "ksk",
                    _ => "zsk",
                };
                format!("a new {role} is made")
            });
            let words: Vec<String> = made.chain(steps).collect();
            (!words.is_empty()).then(|| NextStep {
                at: Some(at),
                words: words.join("; "),
            })
        });
        let waiting = awaited.map(|(key, sight)| NextStep {
            at: None,
            words: match sight {
                DsSight::Seen => format!("key {key}: waits for its DS at the parent"),
                DsSight::Gone => format!("key {key}: waits until the parent has removed its DS"),
            },
        });
        Ok(ZoneSigningStatus {
            policy: after.policy.map(|policy| policy.name.clone()),
            keys: keys.iter().map(KeyStatus::of).collect(),
            next: waiting.or(timed),
            earliest_end: after.plan.signatures.earliest_end(now),
        })
    }
}

impl KeyStatus {
    /// Returns the status of a key; one without a life is looked after by hand.
    pub fn of(key: &ZoneKey) -> Self {
        KeyStatus {
            number: key.number,
            state: key.life.as_ref().map_or("by hand", state_word),
            awaited: key.awaited_ds(),
        }
    }
}

/// The word for how far a key has come: the states of RFC 7583 section 3.1.
fn state_word(life: &KeyLife) -> &'static str {
    let use_phase = match life.role.signs_keys() {
        true => life.ds.phase,
        false => life.zone_rrsig.phase,
    };
    match (life.goal, use_phase, life.dnskey.phase) {
        _ if life.is_hidden() && life.goal == KeyGoal::Present => "generated",
        _ if life.is_hidden() => "dead",
        // Double-DS: the DS is there before the key.
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
        // Double-DS: the DS goes after the key.
        (KeyGoal::Gone, RecordPhase::Omnipresent, _) if life.role.signs_keys() => "retired",
        (KeyGoal::Gone, _, RecordPhase::Unretentive) => "removed",
        (KeyGoal::Gone, _, _) => "retired",
    }
}
