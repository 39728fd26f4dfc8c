//! Simulates a database zone with a test clock. Every pair of a DNSKEY RRset and other records that caches may have
//! at one time is verified by another implementation, with each DS RRset that they may have then, and the server is
//! killed between its writes to the database and to the state store.

mod succession;

use super::*;
use crate::database::KeyDatabase;
use nameward_sql::write::KeyRefusal;
use nameward_sql::{DatabaseAddress, LiveZone, SqlBackend, SqlOptions, db};
use std::path::PathBuf;

/// The rank of the database.
const RANK: u16 = 1;
/// The time until every server has a new version, and the TTLs of DNSKEY and of the longest other record.
const SPREAD: u64 = 300;
const DNSKEY_TTL: u64 = 3600;
const ZONE_TTL: u64 = 172_800;
const DS_TTL: u64 = DAY + HOUR;

/// Something that caches have until some time after it was replaced.
#[derive(Clone)]
struct CachedText {
    text: String,
    replaced_at: Option<u64>,
}

struct StoredLife {
    directory: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    backend: SqlBackend,
    keeper: Option<Arc<RolloverManager>>,
    table: Arc<TableWriter>,
    now: u64,
    policy: Option<KeyPlan>,
    parent: Vec<Vec<u8>>,
    /// Served versions of the zone, and when each was replaced.
    versions: Vec<(Arc<Zone>, Option<u64>)>,
    parents: Vec<CachedText>,
    verified: usize,
    kills: usize,
}

fn in_caches(all: impl Iterator<Item = CachedText>, ttl: u64, now: u64) -> Vec<String> {
    let is_there = |one: &CachedText| one.replaced_at.is_none_or(|at| at + ttl > now);
    let mut texts: Vec<String> = all.filter(is_there).map(|one| one.text).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

impl StoredLife {
    fn new(policy: KeyPlan) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let path = directory.path().join("pdns.db");
        let address = DatabaseAddress::Sqlite(path);
        runtime.block_on(db::init(&address)).unwrap();
        let backend = {
            let _within = runtime.enter();
            SqlBackend::new(SqlOptions::for_tests(address)).unwrap()
        };
        let mut life = StoredLife {
            directory,
            runtime,
            backend,
            keeper: None,
            table: Arc::default(),
            now: BEGIN,
            policy: Some(policy),
            parent: Vec::new(),
            versions: Vec::new(),
            parents: Vec::new(),
            verified: 0,
            kills: 0,
        };
        life.sql("INSERT INTO domains (id, name, type) VALUES (1, 'example', 'NATIVE')");
        for (name, rtype, ttl, content) in [
            (
                "example",
                "SOA",
                3600,
                "ns1.example host.example 7 7200 3600 1209600 3600",
            ),
            ("example", "NS", 3600, "ns1.example"),
            ("ns1.example", "A", 60, "192.0.2.1"),
            ("*.wild.example", "A", 60, "192.0.2.2"),
            ("long.example", "TXT", 172_800, "\"two days\""),
        ] {
            life.sql(&format!(
                "INSERT INTO records (domain_id, name, type, ttl, content, prio, auth) \
                 VALUES (1, '{name}', '{rtype}', {ttl}, '{content}', 0, 1)"
            ));
        }
        life.start();
        life
    }

    fn sql(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.directory.path().join("pdns.db"));
        let connection = connection.unwrap();
        let time_limit = std::time::Duration::from_secs(30);
        connection.busy_timeout(time_limit).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn keeper_in(&self, state: &Path) -> RolloverManager {
        let bounds = JournalBounds {
            octets: 1 << 20,
            entries: 10,
        };
        std::fs::create_dir_all(state).unwrap();
        let store = StateStore::open(state, bounds).unwrap();
        let cache = Arc::new(SignatureCache::new(10_000));
        let zones = Arc::new(PolicyTable::default());
        let (table, policies) = (Arc::clone(&self.table), Arc::clone(&zones));
        let keys = Arc::new(ZoneKeys::new(Some(store), table, cache, policies));
        let mut set = PolicySet::default();
        let mut policies = DnssecPolicies::new();
        if let Some(policy) = &self.policy {
            set.default.dnssec_policy = Some("p".into());
            policies.insert("p".into(), policy.clone());
        }
        zones.set(PolicySource::Configured, set);
        let database = KeyDatabase {
            rank: RANK,
            backend: self.backend.clone(),
            publish: Box::new(|_| Ok(())),
            runtime: self.runtime.handle().clone(),
        };
        let storages = KeyStorages::new(keys, vec![database]);
        let keeper = RolloverManager::new(storages, Arc::clone(&self.table), zones);
        keeper.set_policies(policies);
        keeper
    }

    /// Starts the server, on what the previous one left.
    fn start(&mut self) {
        self.keeper = None;
        self.load();
        self.keeper = Some(Arc::new(self.keeper_in(&self.state())));
    }

    /// Serves the contents of the database, as a resident zone.
    fn load(&self) {
        let apex: NameBuf = "example.".parse().unwrap();
        let mut builder = ZoneBuilder::new(apex.as_name());
        let zone = LiveZone { id: 1, apex };
        let report = self.backend.load_zone(&zone, &mut builder);
        let report = self.runtime.block_on(report).unwrap();
        let mut zone = builder.finish().0.unwrap();
        zone.set_rank(RANK);
        zone.set_resident_signing(report.signing);
        self.table.publish(&[TableChange::Offer(Arc::new(zone))]);
    }

    fn look(&mut self) -> Result<KeyProgress, RolloverError> {
        let zone: NameBuf = "example.".parse().unwrap();
        let looked = self
            .keeper
            .as_ref()
            .unwrap()
            .take_due_steps(zone.as_name(), self.now);
        self.load();
        looked
    }

    fn keys(&self) -> Vec<ZoneKey> {
        let zone: NameBuf = "example.".parse().unwrap();
        let storage = self.keeper.as_ref().unwrap().storage(zone.as_name());
        storage.unwrap().keys().unwrap()
    }

    /// Processes the zone, and is killed before the database write is recorded.
    fn look_and_die(&mut self) {
        self.keeper = None;
        let copy = self.directory.path().join("copy");
        std::fs::create_dir_all(&copy).unwrap();
        let files = |from: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(from).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        for file in files(&self.state()) {
            std::fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
        }
        self.start();
        self.look().unwrap();
        self.keeper = None;
        for file in files(&self.state()) {
            std::fs::remove_file(file).unwrap();
        }
        for file in files(&copy) {
            std::fs::rename(&file, self.state().join(file.file_name().unwrap())).unwrap();
        }
        self.kills += 1;
        self.start();
    }

    fn served(&self) -> Arc<Zone> {
        let apex: NameBuf = "example.".parse().unwrap();
        let table = self.table.load();
        Arc::clone(table.exact(apex.as_name()).unwrap())
    }

    fn rrset(&self, rtype: Type) -> Vec<Vec<u8>> {
        let served = self.served();
        let rrset = served.apex().rrset(rtype);
        let records = rrset.into_iter().flat_map(|rrset| rrset.records());
        records.map(|record| record.rdata.to_vec()).collect()
    }

    fn live_until(&mut self, end: u64) {
        let mut round = 0;
        while self.now < end {
            round += 1;
            if round % 3 == 0 && self.served().signing().online().is_some() {
                self.look_and_die();
            }
            let progress = match self.look() {
                Ok(progress) => progress,
                Err(RolloverError::NoPolicy) => return self.note_version(),
                Err(error) => panic!("{error}"),
            };
            self.note_version();
            self.now = next_look(&progress, self.now).min(end);
            self.act_as_parent();
            let answer = ParentAnswer {
                zone: "example.".parse().unwrap(),
                servers: vec![Some(self.parent.clone())],
            };
            let keeper = Arc::clone(self.keeper.as_ref().unwrap());
            keeper.take_answer(&answer, self.now);
        }
    }

    fn act_as_parent(&mut self) {
        let Some(wanted) = ds_of_cds(self.rrset(Type::CDS)) else {
            return;
        };
        if wanted == self.parent {
            return;
        }
        self.parent = wanted;
        let zone: NameBuf = "example.".parse().unwrap();
        let lines = self.parent.iter();
        let text: String = lines.map(|ds| line(zone.as_name(), Type::DS, ds)).collect();
        if let Some(last) = self.parents.last_mut() {
            last.replaced_at = Some(self.now);
        }
        self.parents.push(CachedText {
            text,
            replaced_at: None,
        });
        self.verify();
    }

    fn note_version(&mut self) {
        let served = self.served();
        if let Some((last, replaced_at)) = self.versions.last_mut() {
            if last.serial() == served.serial() && print(last) == print(&served) {
                return;
            }
            let keys = |zone: &Zone| zone.apex().rrset(Type::DNSKEY).map(|keys| keys.count());
            let is_raised = served.serial().is_after(last.serial());
            assert!(
                is_raised || keys(last) == keys(&served),
                "keys without a new serial"
            );
            *replaced_at = Some(self.now);
        }
        self.versions.push((served, None));
        self.verify();
    }

    /// Returns the keys of a version and its other records, as last served.
    fn parts(&self, (zone, replaced_at): &(Arc<Zone>, Option<u64>)) -> [CachedText; 2] {
        let signed_at = replaced_at.unwrap_or(self.now) as u32;
        let text = match zone.signing().online() {
            Some(signing) => print(&signed_copy(zone, signing, signed_at).unwrap().0),
            None => print(zone),
        };
        let is_of_keys =
            |line: &&str| line.contains(" IN DNSKEY ") || line.contains(" RRSIG DNSKEY ");
        [true, false].map(|of_keys| {
            let lines = text.lines().filter(|line| is_of_keys(line) == of_keys);
            CachedText {
                text: lines.map(|line| format!("{line}\n")).collect(),
                replaced_at: *replaced_at,
            }
        })
    }

    /// Verifies everything that caches may have now.
    fn verify(&mut self) {
        let parents = in_caches(self.parents.iter().cloned(), DS_TTL, self.now);
        // If some caches no longer have a DS, others may have the last one.
        let parents: Vec<String> = parents.into_iter().filter(|ds| !ds.is_empty()).collect();
        let is_late = |at: &Option<u64>| at.is_none_or(|at| at + SPREAD + ZONE_TTL > self.now);
        let late = self.versions.iter().filter(|(_, at)| is_late(at));
        let parts: Vec<[CachedText; 2]> = late.map(|version| self.parts(version)).collect();
        let part = |at: usize| parts.iter().map(move |parts| parts[at].clone());
        let keys = in_caches(part(0), SPREAD + DNSKEY_TTL, self.now);
        let rests = in_caches(part(1), SPREAD + ZONE_TTL, self.now);
        let (file, anchor) = (
            self.directory.path().join("zone"),
            self.directory.path().join("anchor"),
        );
        for ds in &parents {
            std::fs::write(&anchor, ds).unwrap();
            for (keys, rest) in keys
                .iter()
                .flat_map(|keys| rests.iter().map(move |r| (keys, r)))
            {
                std::fs::write(&file, format!("{rest}{keys}")).unwrap();
                let (is_good, said) = ldns_verify(&file, &anchor, self.now);
                assert!(is_good, "at {}: {said}\n{ds}\n{rest}{keys}", self.now);
                self.verified += 1;
            }
        }
    }

    /// Counts the keys that were ever in the zone.
    fn made(&self) -> usize {
        let rrsets = self.versions.iter();
        let rrsets = rrsets.filter_map(|(zone, _)| zone.apex().rrset(Type::DNSKEY));
        let keys = rrsets.flat_map(|rrset| rrset.records());
        let keys: HashSet<Vec<u8>> = keys.map(|key| key.rdata.to_vec()).collect();
        keys.len()
    }
}

fn split(algorithm: u8) -> KeyPlan {
    policy(&[
        (KeyRole::KeySigning, algorithm, 150),
        (KeyRole::ZoneSigning, algorithm, 60),
    ])
}

#[test]
fn a_year_of_a_zone_in_a_database_is_valid_in_all_caches_and_through_kills() {
    let mut life = StoredLife::new(split(13));
    life.live_until(BEGIN + 330 * DAY);
    assert!((7..=12).contains(&life.made()), "{}", life.made());
    assert!(life.parents.len() >= 3, "{}", life.parents.len());
    assert!(
        life.verified > 50 && life.kills > 10,
        "{} {}",
        life.verified,
        life.kills
    );
    // The policy is removed: the DS is removed first, then the rest, and no trace stays.
    life.policy = None;
    life.start();
    life.live_until(life.now + 60 * DAY);
    assert!(life.parent.is_empty() && !life.served().signing().is_signed());
    let path = life.directory.path().join("pdns.db");
    let connection = rusqlite::Connection::open(path).unwrap();
    let count = |sql: &str| -> i64 { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT COUNT(*) FROM cryptokeys"), 0);
    assert_eq!(count("SELECT COUNT(*) FROM domainmetadata"), 0);
    assert_eq!(
        count("SELECT COUNT(*) FROM records WHERE type LIKE 'CD%'"),
        0
    );
    assert!(
        life.keeper
            .as_ref()
            .unwrap()
            .storages()
            .recorded_zones()
            .is_empty()
    );
}

#[test]
fn keys_made_by_hand_in_a_database_change_their_kind_and_algorithm_without_a_gap() {
    let mut life = StoredLife::new(policy(&[(KeyRole::Combined, 13, 0)]));
    let private = nameward_dnssec::PrivateKey::generate(13, 0).unwrap();
    life.sql(&format!(
        "INSERT INTO cryptokeys (domain_id, flags, active, published, content) VALUES (1, 257, 1, 1, '{}')",
        private.to_stored_text().reveal()
    ));
    let flags = nameward_dnssec::KeyUse::EVERYTHING;
    let key = nameward_dnssec::SigningKey::new(&private, 257, flags).unwrap();
    let zone: NameBuf = "example.".parse().unwrap();
    let ds = key.ds(zone.as_name(), 2).unwrap();
    life.parents.push(CachedText {
        text: line(zone.as_name(), Type::DS, &ds),
        replaced_at: None,
    });
    life.parent = vec![ds];
    life.start();
    life.live_until(BEGIN + 40 * DAY);
    assert_eq!(life.made(), 1, "the key is what the policy asks for");
    life.policy = Some(split(13));
    life.start();
    life.live_until(life.now + 50 * DAY);
    assert_eq!(life.rrset(Type::DNSKEY).len(), 2);
    life.policy = Some(policy(&[(KeyRole::Combined, 15, 0)]));
    life.start();
    life.live_until(life.now + 60 * DAY);
    let algorithms: Vec<u8> = life.rrset(Type::DNSKEY).iter().map(|key| key[3]).collect();
    assert_eq!(algorithms, [15]);
    assert!(life.verified > 20, "{}", life.verified);
}

#[test]
fn changes_by_others_are_found() {
    let mut life = StoredLife::new(split(13));
    life.live_until(BEGIN + 10 * DAY);
    let before = life.rrset(Type::DNSKEY);
    assert_eq!(before.len(), 2);
    // The zone-signing key is deactivated manually: it is retired, and a new one replaces it.
    life.sql("UPDATE cryptokeys SET active = 0 WHERE flags = 256");
    life.start();
    let progress = life.look().unwrap();
    assert_eq!(progress.made.len(), 1);
    let keys = life.keys();
    let states: Vec<_> = keys
        .iter()
        .map(|key| KeyStatus::from_key(key).state)
        .collect();
    assert_eq!(keys.len(), 3, "{states:?}");
    life.live_until(life.now + 20 * DAY);
    let after = life.rrset(Type::DNSKEY);
    assert_eq!(after.len(), 2);
    let stayed = after.iter().filter(|key| before.contains(key)).count();
    let keys = life.keys();
    let states: Vec<_> = keys
        .iter()
        .map(|key| KeyStatus::from_key(key).state)
        .collect();
    assert_eq!(stayed, 1, "{states:?} {before:?} {after:?}");
    life.verify();
    // One that vanished is replaced as well.
    life.sql("DELETE FROM cryptokeys WHERE flags = 256");
    life.versions.clear();
    life.start();
    life.look().unwrap();
    life.live_until(life.now + 20 * DAY);
    assert_eq!(life.rrset(Type::DNSKEY).len(), 2);
    life.verify();
}

#[test]
fn a_step_that_was_planned_with_other_keys_is_not_taken() {
    use nameward_sql::write::{KeyRefusal, KeyStep, WriteError};
    let mut life = StoredLife::new(split(13));
    life.look().unwrap();
    let zone: NameBuf = "example.".parse().unwrap();
    let row = life
        .runtime
        .block_on(life.backend.find_zone(zone.as_name()));
    let row = row.unwrap().unwrap();
    let expected = life
        .runtime
        .block_on(life.backend.stored_keys(&row))
        .unwrap();
    let mut step = KeyStep {
        expected: expected[1..].to_vec(),
        server: life
            .keeper
            .as_ref()
            .unwrap()
            .storages()
            .server_name()
            .unwrap(),
        changes: Vec::new(),
        parent: None,
        raises_serial: true,
        now: std::time::UNIX_EPOCH,
    };
    let take = |step: &KeyStep| {
        life.runtime
            .block_on(life.backend.take_key_step(row.id, step))
    };
    let refused = take(&step).unwrap_err();
    assert!(matches!(
        refused,
        WriteError::Keys(KeyRefusal::ChangedMeanwhile)
    ));
    step.expected = expected;
    let serial = life.served().serial();
    let taken = take(&step).unwrap();
    assert!(taken.serial.is_after(serial), "{}", taken.serial);
    step.server.push('x');
    let refused = take(&step).unwrap_err();
    assert!(matches!(refused, WriteError::Keys(KeyRefusal::OtherServer)));
}
