//! Simulates years of a zone's keys with a test clock: each version is signed with the clock's time and verified by
//! another implementation, with the DS that the parent has then.

mod ahead;
mod in_files;
mod stored;

use super::*;
use crate::local::{ParentSettings, PrivateKeyLocation};
use nameward_base::calendar::UtcTime;
use nameward_dnssec::rollover::{KskRollover, PolicyKey, RolloverPolicy, RolloverTimes};
use nameward_dnssec::{DenialSettings, SignatureCache, SignatureTimes};
use nameward_maintain::policy::{PolicyFragment, PolicySet, PolicySource};
use nameward_peers::transfer_out::encode::signed_copy;
use nameward_state::{JournalBounds, StateStore};
use nameward_wire::Type;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{TableChange, ZoneBuilder};
use std::path::Path;
use std::process::Command;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const BEGIN: u64 = 1_800_000_000;
const TEXT: &str = "@ 3600 SOA ns1 host 7 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 60 A 192.0.2.1\n\
    *.wild 60 A 192.0.2.2\nsub 60 NS ns.sub\nns.sub 60 A 192.0.2.3\nlong 172800 TXT \"two days\"\n";

fn policy(keys: &[(KeyRole, u8, u64)]) -> KeyPlan {
    let key = |&(role, algorithm, days): &(KeyRole, u8, u64)| PolicyKey {
        role,
        algorithm,
        lifetime: (days > 0).then_some(days * DAY),
    };
    KeyPlan {
        rollover: RolloverPolicy {
            keys: keys.iter().map(key).collect(),
            ksk_rollover: KskRollover::default(),
            times: RolloverTimes {
                dnskey_ttl: HOUR,
                zone_ttl: DAY,
                negative_ttl: 0,
                zone_propagation: 300,
                ds_ttl: DAY,
                parent_propagation: HOUR,
                parent_registration: DAY,
                safety: HOUR,
                purge_after: 30 * DAY,
            },
        },
        rsa_bits: 2048,
        denial: DenialSettings::default(),
        signatures: SignatureTimes {
            validity: 14 * DAY as u32,
            refresh: 7 * DAY as u32,
            inception_offset: HOUR as u32,
            jitter: 12 * HOUR as u32,
        },
        dnskey_ttl: HOUR as u32,
        shows_cds: true,
        parent: ParentSettings::default(),
    }
}

/// A zone, its server and its parent.
struct Life {
    directory: tempfile::TempDir,
    key_directory: Option<tempfile::TempDir>,
    keeper: Option<RolloverManager>,
    zone: NameBuf,
    now: u64,
    parent: Vec<Vec<u8>>,
    /// Served serials and DNSKEY RRsets, each new one once.
    versions: Vec<(u32, Vec<Vec<u8>>)>,
    /// Number of DS RRsets that the parent had.
    parents: usize,
    verified: usize,
    policy: Option<KeyPlan>,
}

impl Life {
    fn new(policy: KeyPlan) -> Self {
        let mut life = Life {
            directory: tempfile::tempdir().unwrap(),
            key_directory: None,
            keeper: None,
            zone: "example.".parse().unwrap(),
            now: BEGIN,
            parent: Vec::new(),
            versions: Vec::new(),
            parents: 0,
            verified: 0,
            policy: Some(policy),
        };
        life.start();
        life
    }

    /// Starts the server, on what the previous one left on disk.
    fn start(&mut self) {
        self.keeper = None;
        let bounds = JournalBounds {
            octets: 1 << 20,
            entries: 10,
        };
        let store = StateStore::open(self.directory.path(), bounds).unwrap();
        let table = Arc::new(TableWriter::default());
        let cache = Arc::new(SignatureCache::new(10_000));
        let mut builder = ZoneBuilder::new(self.zone.as_name());
        parse_bytes(
            "zone",
            TEXT.as_bytes(),
            &Options::new(self.zone),
            &mut builder,
        );
        let zone = Arc::new(builder.finish().0.unwrap());
        table.publish(&[TableChange::Offer(zone)]);
        let zones = Arc::new(PolicyTable::default());
        let mut set = PolicySet::default();
        let mut policies = DnssecPolicies::new();
        if let Some(policy) = &self.policy {
            set.default = PolicyFragment {
                dnssec_policy: Some("p".into()),
                ..PolicyFragment::default()
            };
            policies.insert("p".into(), policy.clone());
        }
        let directory = self.key_directory.as_ref();
        set.default.key_directory = directory.map(|directory| directory.path().to_path_buf());
        zones.set(PolicySource::Configured, set);
        let keys = ZoneKeys::new(Some(store), Arc::clone(&table), cache, Arc::clone(&zones));
        let keys = Arc::new(keys);
        keys.apply(self.now).unwrap();
        let keeper = RolloverManager::new(KeyStorages::new(keys, Vec::new()), table, zones);
        keeper.set_policies(policies);
        self.keeper = Some(keeper);
    }

    fn keeper(&self) -> &RolloverManager {
        self.keeper.as_ref().unwrap()
    }

    fn served(&self) -> Arc<Zone> {
        let table = self.keeper().table.load();
        Arc::clone(table.exact(self.zone.as_name()).unwrap())
    }

    fn rrset(&self, rtype: Type) -> Vec<Vec<u8>> {
        let served = self.served();
        let rrset = served.apex().rrset(rtype);
        let records = rrset.into_iter().flat_map(|rrset| rrset.records());
        records.map(|record| record.rdata.to_vec()).collect()
    }

    /// Lets time pass until `end`, with a parent that polls CDS every six hours, and a server that is killed now and
    /// then.
    fn live_until(&mut self, end: u64) {
        let mut round = 0;
        while self.now < end {
            let progress = match self.keeper().take_due_steps(self.zone.as_name(), self.now) {
                Ok(progress) => progress,
                // Insecure, and no policy: nothing is managed.
                Err(RolloverError::NoPolicy) => return,
                Err(error) => panic!("{error}"),
            };
            self.note_version();
            self.now = next_look(&progress, self.now).min(end);
            self.act_as_parent();
            let answer = ParentAnswer {
                zone: self.zone,
                servers: vec![Some(self.parent.clone())],
            };
            self.keeper().take_answer(&answer, self.now);
            round += 1;
            if round % 11 == 0 {
                let before = (self.served().serial(), self.rrset(Type::DNSKEY));
                self.start();
                assert_eq!(before, (self.served().serial(), self.rrset(Type::DNSKEY)));
            }
        }
    }

    /// Acts as the parent according to CDS.
    fn act_as_parent(&mut self) {
        let Some(wanted) = ds_of_cds(self.rrset(Type::CDS)) else {
            return;
        };
        if wanted != self.parent {
            self.parent = wanted;
            self.parents += 1;
            self.verify();
        }
    }

    fn note_version(&mut self) {
        let version = (self.served().serial().0, self.rrset(Type::DNSKEY));
        if self.versions.last() == Some(&version) {
            return;
        }
        if let (Some((last, _)), false) = (self.versions.last(), version.1.is_empty()) {
            assert!(version.0 > *last, "a change without a new serial");
        }
        self.versions.push(version);
        self.verify();
    }

    /// Verifies the whole zone as of now, with the DS that the parent has.
    fn verify(&mut self) {
        if self.parent.is_empty() {
            return;
        }
        let served = self.served();
        let signing = served.signing().online().expect("a DS, and no signatures");
        let (copy, _) = signed_copy(&served, signing, self.now as u32).unwrap();
        let (file, anchor) = (
            self.directory.path().join("zone"),
            self.directory.path().join("anchor"),
        );
        std::fs::write(&file, print(&copy)).unwrap();
        let ds = self
            .parent
            .iter()
            .map(|ds| line(self.zone.as_name(), Type::DS, ds));
        std::fs::write(&anchor, ds.collect::<String>()).unwrap();
        let (is_good, said) = ldns_verify(&file, &anchor, self.now);
        assert!(is_good, "at {}: {said}\n{}", self.now, print(&copy));
        self.verified += 1;
    }

    fn dnskeys(&self) -> usize {
        let all = self.versions.iter().flat_map(|(_, keys)| keys);
        all.collect::<HashSet<_>>().len()
    }
}

/// Returns when the keys are processed next: when a step is due, and every six hours while a DS change is pending.
fn next_look(progress: &KeyProgress, now: u64) -> u64 {
    let due = progress.next_at.unwrap_or(u64::MAX).max(now + 1);
    let is_awaited = progress.keys.iter().any(|key| key.awaited_ds().is_some());
    if is_awaited {
        due.min(now + 6 * HOUR)
    } else {
        due
    }
}

/// Returns the DS that a parent makes of CDS; `None` if there is no request (RFC 7344 section 6.2, RFC 8078 section
/// 4).
fn ds_of_cds(cds: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    match &cds[..] {
        [] => None,
        [removal] if removal[..] == [0, 0, 0, 0, 0] => Some(Vec::new()),
        _ => Some(cds),
    }
}

fn line(owner: Name<'_>, rtype: Type, rdata: &[u8]) -> String {
    let mut data = String::new();
    nameward_wire::rdata::write_text(rtype, rdata, &mut data).unwrap();
    format!("{owner} 3600 IN {rtype} {data}\n")
}

fn print(zone: &Zone) -> String {
    let mut text = String::new();
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                let mut data = String::new();
                let (owner, ttl, rtype) = (node.name(), rrset.ttl(), rrset.rtype());
                nameward_wire::rdata::write_text(rtype, record.rdata, &mut data).unwrap();
                text += &format!("{owner} {ttl} IN {rtype} {data}\n");
            }
        }
    }
    text
}

fn ldns_verify(file: &Path, anchor: &Path, now: u64) -> (bool, String) {
    let time = UtcTime::from_unix(now);
    let (hour, minute, second) = (time.hour, time.minute, time.second);
    let time = format!("{:08}{hour:02}{minute:02}{second:02}", time.date_number());
    let output = Command::new("ldns-verify-zone")
        .args(["-t", &time, "-k"])
        .args([anchor, file])
        .output()
        .unwrap_or_else(|error| panic!("ldns-verify-zone: {error}: run scripts/install-deps"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

#[test]
fn two_years_of_a_split_pair_of_keys_are_valid_at_every_step() {
    let split = [
        (KeyRole::KeySigning, 13, 200),
        (KeyRole::ZoneSigning, 13, 60),
    ];
    let mut life = Life::new(policy(&split));
    life.live_until(BEGIN + 730 * DAY);
    // A first pair, three further key-signing keys and eleven further zone-signing keys.
    assert!((14..=19).contains(&life.dnskeys()), "{}", life.dnskeys());
    assert!((4..=10).contains(&life.parents), "{}", life.parents);
    assert!(life.verified > 100, "{}", life.verified);
    // The verifier checks the anchor: with another DS nothing validates.
    let file = life.directory.path().join("zone");
    let anchor = life.directory.path().join("anchor");
    life.verify();
    assert!(ldns_verify(&file, &anchor, life.now).0);
    let mut other = life.parent[0].clone();
    other[4] ^= 1;
    std::fs::write(&anchor, line(life.zone.as_name(), Type::DS, &other)).unwrap();
    assert!(!ldns_verify(&file, &anchor, life.now).0);
    // The longest TTL of the zone is two days, whatever the policy says: the old key stays that long.
    let keys = life.keys();
    assert!(keys.len() <= 6, "{}", keys.len());
    let status = life.keeper().status(life.zone.as_name(), life.now).unwrap();
    assert_eq!(status.policy.as_deref(), Some("p"));
    assert!(status.earliest_end >= life.now + 7 * DAY, "{status:?}");
}

/// Returns a policy with double-DS.
fn by_ds(days: u64) -> KeyPlan {
    let mut policy = policy(&[
        (KeyRole::KeySigning, 13, days),
        (KeyRole::ZoneSigning, 13, 0),
    ]);
    policy.rollover.ksk_rollover = KskRollover::DoubleDs;
    policy
}

#[test]
fn a_year_of_double_ds_is_valid_at_every_step_with_two_keys_in_the_zone() {
    let mut life = Life::new(by_ds(60));
    life.live_until(BEGIN + 330 * DAY);
    // A first pair, and further key-signing keys that replace each other.
    assert!((6..=8).contains(&life.dnskeys()), "{}", life.dnskeys());
    assert!(life.versions.iter().all(|(_, keys)| keys.len() <= 2));
    // Each of them needs two changes at the parent.
    assert!((9..=13).contains(&life.parents), "{}", life.parents);
    assert!(life.verified > 40, "{}", life.verified);
}

#[test]
fn the_new_ds_is_submitted_before_its_key_is_published_and_the_method_may_change() {
    let mut life = Life::new(by_ds(0));
    let zone = life.zone;
    let zone = zone.as_name();
    life.live_until(BEGIN + 20 * DAY);
    let first = (life.rrset(Type::DNSKEY), life.rrset(Type::CDS));
    let now = life.now;
    let (rolled, _) = life
        .keeper()
        .roll(zone, Some(KeyRole::KeySigning), now)
        .unwrap();
    assert_eq!(rolled, [1]);
    let states = |life: &Life, now| -> Vec<_> {
        let keys = life.keeper().status(zone, now).unwrap().keys;
        keys.iter().map(|key| key.state).collect()
    };
    assert_eq!(states(&life, now), ["active", "active", "ready"]);
    // Years without a response from the parent, and a restart: both DS are requested, and the key stays as it is.
    life.start();
    life.keeper().take_due_steps(zone, now + 900 * DAY).unwrap();
    assert_eq!(life.rrset(Type::DNSKEY), first.0);
    assert_eq!(life.rrset(Type::CDS).len(), 2);
    assert_eq!(life.rrset(Type::CDNSKEY).len(), 2);
    // The policy changes to the other method, and back again: the new key is published next to the old one, and that
    // continues.
    let mut other = by_ds(0);
    other.rollover.ksk_rollover = KskRollover::DoubleSignature;
    life.policy = Some(other);
    life.start();
    life.keeper().take_due_steps(zone, now + 901 * DAY).unwrap();
    assert_eq!(life.rrset(Type::DNSKEY).len(), 3);
    life.policy = Some(by_ds(0));
    life.start();
    let seen = life
        .keeper()
        .note_ds((zone, None), DsSight::Seen, now + 902 * DAY);
    assert_eq!(seen.unwrap().0, [3]);
    life.keeper().take_due_steps(zone, now + 910 * DAY).unwrap();
    let gone = life
        .keeper()
        .note_ds((zone, Some(1)), DsSight::Gone, now + 912 * DAY);
    assert_eq!(gone.unwrap().0, [1]);
    life.keeper().take_due_steps(zone, now + 920 * DAY).unwrap();
    assert_eq!(life.rrset(Type::DNSKEY).len(), 2);
    let cds = life.rrset(Type::CDS);
    assert!(cds.len() == 1 && cds != first.1);
}

#[test]
fn a_combined_key_changes_its_algorithm_and_its_kind_and_the_zone_goes_insecure_and_comes_back() {
    let mut life = Life::new(policy(&[(KeyRole::Combined, 13, 100)]));
    life.live_until(BEGIN + 250 * DAY);
    assert_eq!(life.dnskeys(), 3);
    life.policy = Some(policy(&[
        (KeyRole::KeySigning, 15, 0),
        (KeyRole::ZoneSigning, 15, 0),
    ]));
    life.start();
    life.live_until(life.now + 60 * DAY);
    let algorithms = |life: &Life| -> Vec<u8> {
        let mut all: Vec<u8> = life.rrset(Type::DNSKEY).iter().map(|key| key[3]).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(algorithms(&life), [15, 15]);
    let verified = life.verified;
    // The policy is removed: the DS is removed first, then the rest.
    let serial = life.served().serial();
    life.policy = None;
    life.start();
    life.live_until(life.now + 60 * DAY);
    assert!(life.parent.is_empty() && life.verified > verified);
    assert!(!life.served().signing().is_signed() && algorithms(&life).is_empty());
    assert!(life.served().serial().0 > serial.0);
    assert!(life.keys().is_empty());
    life.policy = Some(policy(&[(KeyRole::Combined, 13, 0)]));
    life.versions.clear();
    life.start();
    life.live_until(life.now + 30 * DAY);
    assert_eq!((algorithms(&life), life.parent.len()), (vec![13], 1));
}

#[test]
fn a_key_is_replaced_by_hand_and_waits_for_the_operator_who_sees_the_ds() {
    let mut life = Life::new(policy(&[(KeyRole::Combined, 13, 0)]));
    let (zone, far) = (life.zone, BEGIN + 40 * DAY);
    let zone = zone.as_name();
    let look = |life: &Life, now| life.keeper().take_due_steps(zone, now).unwrap();
    look(&life, BEGIN);
    let early = life.keeper().note_ds((zone, None), DsSight::Seen, BEGIN);
    assert!(early.unwrap().0.is_empty());
    look(&life, BEGIN + 10 * DAY);
    let status = life.keeper().status(zone, BEGIN + 10 * DAY).unwrap();
    assert_eq!(
        status.next.unwrap().words,
        "key 1: waiting for the DS at the parent"
    );
    let noted = life
        .keeper()
        .note_ds((zone, None), DsSight::Seen, BEGIN + 10 * DAY);
    assert_eq!(noted.unwrap().0, [1]);
    look(&life, BEGIN + 20 * DAY);
    let (rolled, progress) = life.keeper().roll(zone, None, BEGIN + 20 * DAY).unwrap();
    assert_eq!((rolled, progress.made), (vec![1], vec![2]));
    let status = life.keeper().status(zone, BEGIN + 20 * DAY).unwrap();
    let next = status.next.unwrap();
    assert!(
        next.at.is_some() && next.words.contains("key 2: activated"),
        "{next:?}"
    );
    // Years without a response from the parent: the old key stays.
    look(&life, BEGIN + 30 * DAY);
    look(&life, BEGIN + 900 * DAY);
    assert_eq!(life.rrset(Type::DNSKEY).len(), 2);
    assert_eq!(life.rrset(Type::CDS).len(), 1);
    let seen = life
        .keeper()
        .note_ds((zone, Some(2)), DsSight::Seen, far + 900 * DAY);
    assert_eq!(seen.unwrap().0, [2]);
    let gone = life
        .keeper()
        .note_ds((zone, Some(1)), DsSight::Gone, far + 900 * DAY);
    assert_eq!(gone.unwrap().0, [1]);
    look(&life, far + 910 * DAY);
    assert_eq!(life.rrset(Type::DNSKEY).len(), 1);
    life.start();
    assert_eq!(life.rrset(Type::DNSKEY).len(), 1);
}

#[test]
fn keys_made_by_hand_are_taken_over_by_a_policy_without_a_gap() {
    let mut life = Life::new(policy(&[(KeyRole::Combined, 13, 0)]));
    life.policy = None;
    life.start();
    let private = nameward_dnssec::PrivateKey::generate(8, 2048).unwrap();
    let own = ZoneKey {
        number: 0,
        flags: 257,
        role: KeyRole::Combined,
        usage: nameward_dnssec::KeyUse::EVERYTHING,
        created: BEGIN - 90 * DAY,
        life: None,
        private,
        location: PrivateKeyLocation::Store,
    };
    let zone = life.zone;
    let keys = life.keeper().local_keys();
    keys.add(zone.as_name(), own, life.now).unwrap();
    life.parent = life.rrset(Type::CDS);
    assert_eq!(life.parent.len(), 1);
    life.verify();
    life.policy = Some(policy(&[(KeyRole::Combined, 13, 0)]));
    life.start();
    life.live_until(BEGIN + 60 * DAY);
    let algorithms: Vec<u8> = life.rrset(Type::DNSKEY).iter().map(|key| key[3]).collect();
    assert_eq!(algorithms, [13]);
    assert_eq!(life.parent[0][2], 13);
    assert!(life.verified > 5);
}
