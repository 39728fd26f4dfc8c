//! A zone, its parent and the caches of the world, for years: the checker that the rollover is held to.
//!
//! It knows nothing of states. It keeps the history of what was published and lets every resolver have each RRset as it was
//! at any moment of the last TTL and propagation delay, independent of the other RRsets.

use nameward_dnssec::rollover::{
    DsSight, KeyRole, KeyState, ParentRequest, RolloverPolicy, RolloverStep, advance, note_ds,
    parent_request,
};
use std::collections::{BTreeMap, BTreeSet};

pub type Ids = BTreeSet<u32>;

/// One RRset through time: when each version began.
#[derive(Default)]
pub struct History(Vec<(u64, Ids)>);

impl History {
    pub fn current(&self) -> Ids {
        self.0
            .last()
            .map(|(_, ids)| ids.clone())
            .unwrap_or_default()
    }

    pub fn publish(&mut self, now: u64, ids: Ids) -> bool {
        let is_new = self.current() != ids;
        if is_new {
            self.0.push((now, ids));
        }
        is_new
    }

    /// The version of a moment.
    fn at(&self, time: u64) -> Ids {
        let mut newest_first = self.0.iter().rev();
        let found = newest_first.find(|(begins, _)| *begins <= time);
        found.map(|(_, ids)| ids.clone()).unwrap_or_default()
    }

    /// All versions that a resolver may have at `now`: those that a server gave within the last `age` seconds.
    fn cached(&self, now: u64, age: u64) -> BTreeSet<Ids> {
        let from = now.saturating_sub(age);
        let later = self.0.iter().filter(|(begins, _)| *begins > from);
        let later = later.map(|(_, ids)| ids.clone());
        std::iter::once(self.at(from)).chain(later).collect()
    }
}

/// Numbers that look random, the same for the same seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound.max(1)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

pub struct World {
    pub policy: RolloverPolicy,
    pub keys: Vec<KeyState>,
    pub now: u64,
    pub log: Vec<(u64, RolloverStep)>,
    pub next_at: Option<u64>,
    made: BTreeMap<u32, (KeyRole, u8)>,
    pub dnskey: History,
    rrsig: History,
    pub ds: History,
    /// The DS records that the zone asked its parent for, through time; `None` asks for nothing.
    wishes: Vec<(u64, Option<Ids>)>,
    /// The parent does not go back to a wish that is older than one it has seen (RFC 7344 section 6.2).
    read_at: u64,
}

impl World {
    pub fn new(policy: RolloverPolicy) -> Self {
        World {
            policy,
            keys: Vec::new(),
            now: 1_800_000_000,
            log: Vec::new(),
            next_at: None,
            made: BTreeMap::new(),
            dnskey: History::default(),
            rrsig: History::default(),
            ds: History::default(),
            wishes: Vec::new(),
            read_at: 0,
        }
    }

    /// The server looks at its keys.
    pub fn look(&mut self) {
        for _ in 0..4 {
            let next = advance(&self.policy, &self.keys, self.now);
            let steps = next.steps.iter();
            self.log.extend(steps.map(|&step| (self.now, step)));
            (self.keys, self.next_at) = (next.keys, next.next_at);
            for wanted in &next.missing {
                let id = self.made.len() as u32 + 1;
                let kind = (wanted.role, wanted.algorithm);
                self.made.insert(id, kind);
                self.keys.push(KeyState::new(id, kind, self.now));
            }
            if next.missing.is_empty() {
                break;
            }
        }
        self.publish();
    }

    fn publish(&mut self) {
        let shown = |is_shown: fn(&KeyState) -> bool, keys: &[KeyState]| -> Ids {
            let keys = keys.iter().filter(|key| is_shown(key));
            keys.map(|key| key.id).collect()
        };
        let dnskey = shown(|key| key.dnskey.is_shown(), &self.keys);
        let rrsig = shown(|key| key.zone_rrsig.is_shown(), &self.keys);
        let mut is_new = self.dnskey.publish(self.now, dnskey);
        is_new |= self.rrsig.publish(self.now, rrsig);
        let request = match parent_request(&self.policy, &self.keys) {
            ParentRequest::Nothing => None,
            ParentRequest::Keys(ids) => Some(ids.into_iter().collect()),
            ParentRequest::Removal => Some(Ids::new()),
        };
        if self.wishes.last().is_none_or(|(_, last)| *last != request) {
            self.wishes.push((self.now, request));
        }
        if is_new {
            self.check();
        }
    }

    /// The parent acts on the wish of some time ago.
    pub fn act_as_parent(&mut self, read_at: u64, dice: &mut Dice) {
        self.read_at = self.read_at.max(read_at);
        let read_at = self.read_at;
        let request = self
            .wishes
            .iter()
            .rev()
            .find(|(since, _)| *since <= read_at);
        let Some(wanted) = request.and_then(|(_, request)| request.clone()) else {
            return;
        };
        let before = self.ds.current();
        // Some parents change it in one go, some people add first or remove first.
        let between: Ids = match dice.below(3) {
            0 => before.union(&wanted).copied().collect(),
            1 => before.intersection(&wanted).copied().collect(),
            _ => wanted.clone(),
        };
        for version in [between, wanted] {
            if self.ds.publish(self.now, version) {
                self.check();
            }
        }
    }

    /// An operator asks for a new key-signing key.
    pub fn roll_by_hand(&mut self) {
        let mut newest_first = self.keys.iter_mut().rev();
        let key = newest_first.find(|key| key.role.signs_keys());
        key.expect("a key that signs keys").is_rolled_by_hand = true;
    }

    /// Looks which DS the parent has.
    pub fn look_at_parent(&mut self) {
        let there = self.ds.current();
        let ids: Vec<u32> = self.keys.iter().map(|key| key.id).collect();
        for id in ids {
            let sight = if there.contains(&id) {
                DsSight::Seen
            } else {
                DsSight::Gone
            };
            note_ds(&mut self.keys, id, (sight, self.now), &self.policy.times);
        }
    }

    /// Every combination of what caches may have is valid.
    pub fn check(&self) {
        let times = &self.policy.times;
        let keys_age = times.zone_propagation + times.dnskey_ttl;
        let zone_age = times.zone_propagation + times.zone_ttl;
        let parent_age = times.parent_propagation + times.ds_ttl;
        for ds in self.ds.cached(self.now, parent_age) {
            for dnskey in self.dnskey.cached(self.now, keys_age) {
                for rrsig in self.rrsig.cached(self.now, zone_age) {
                    if let Err(reason) = self.validate(&ds, &dnskey, &rrsig) {
                        panic!(
                            "{reason}: DS {ds:?} DNSKEY {dnskey:?} RRSIG {rrsig:?} of {:?}\n{:#?}\n{:?}",
                            self.made, self.log, self.keys
                        );
                    }
                }
            }
        }
    }

    fn algorithms(&self, ids: &Ids) -> BTreeSet<u8> {
        ids.iter().map(|id| self.made[id].1).collect()
    }

    /// A validator that insists on every algorithm, as RFC 4035 section 2.2 lets it.
    fn validate(&self, ds: &Ids, dnskey: &Ids, rrsig: &Ids) -> Result<(), &'static str> {
        if ds.is_empty() {
            return Ok(());
        }
        let signs_keys = |id: &u32| self.made[id].0 != KeyRole::ZoneSigning;
        let of = |ids: &Ids, algorithm: u8| -> Vec<u32> {
            let all = ids.iter().copied();
            all.filter(|id| self.made[id].1 == algorithm).collect()
        };
        for algorithm in self.algorithms(ds) {
            let mut entries = of(ds, algorithm).into_iter();
            if !entries.any(|id| dnskey.contains(&id) && signs_keys(&id)) {
                return Err("a DS without its key");
            }
        }
        for algorithm in self.algorithms(dnskey) {
            let keys = of(dnskey, algorithm);
            if !keys.iter().any(signs_keys) {
                return Err("an algorithm that does not sign the keys");
            }
            if !keys.iter().any(|id| rrsig.contains(id)) {
                return Err("an algorithm that does not sign the zone");
            }
        }
        Ok(())
    }

    /// Lets time pass with a parent that acts at once, looking whenever something is due.
    pub fn live_until(&mut self, end: u64, dice: &mut Dice) {
        while self.now < end {
            self.look();
            let due = self.next_at.unwrap_or(end).max(self.now + 1);
            // The parent looks every few hours.
            self.now = due.min(self.now + 6 * 3600).min(end);
            self.act_as_parent(self.now, dice);
            self.look_at_parent();
        }
        self.look();
    }
}
