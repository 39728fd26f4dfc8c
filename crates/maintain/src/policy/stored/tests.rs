//! Tests of policies kept in the state store.

use super::*;
use crate::policy::ZoneKind;
use nameward_state::JournalBounds;

fn bounds() -> JournalBounds {
    JournalBounds {
        octets: 1 << 20,
        entries: 10,
    }
}

fn key(name: &str, algorithm: TsigAlgorithm) -> StoredKeyRow {
    StoredKeyRow {
        name: name.parse().unwrap(),
        algorithm,
        secret: b"hunter2".to_vec().into(),
    }
}

#[test]
fn keys_and_secondaries_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let store = StateStore::open(dir.path(), bounds()).unwrap();
        let table = Arc::new(PolicyTable::default());
        let kept = StoredPolicies::new(Some(store), Arc::clone(&table));
        kept.apply(Templates::new()).unwrap();
        (kept, table)
    };
    let (kept, table) = start();
    let one = key("One.example.", TsigAlgorithm::HmacSha256);
    assert_eq!(kept.set_key(&one).unwrap(), None);
    let other = key("one.example.", TsigAlgorithm::HmacSha512);
    assert_eq!(kept.set_key(&other).unwrap(), Some(one));
    let secondary = AutoprimarySecondary {
        zone: "z.example.".parse().unwrap(),
        primary: "[2001:db8::1]:53".parse().unwrap(),
        template: "pool".into(),
        key: None,
    };
    let keyed = AutoprimarySecondary {
        zone: "zz.example.".parse().unwrap(),
        key: Some("one.example.".parse().unwrap()),
        ..secondary.clone()
    };
    kept.set_secondary(&secondary).unwrap();
    kept.set_secondary(&keyed).unwrap();
    assert_eq!(table.load().keys().len(), 1);
    drop((kept, table));
    let (kept, table) = start();
    assert_eq!(kept.keys().unwrap(), [other]);
    assert_eq!(kept.secondaries().unwrap(), [secondary.clone(), keyed]);
    let zone = secondary.zone.as_name();
    assert_eq!(table.load().get(zone).kind, ZoneKind::Secondary);
    assert!(
        kept.remove_key("ONE.example.".parse::<NameBuf>().unwrap().as_name())
            .unwrap()
    );
    assert!(!kept.remove_key(Name::ROOT).unwrap());
    assert!(kept.remove_zone(zone).unwrap());
    let policies = table.load();
    assert!(policies.keys().is_empty() && policies.own(zone).is_none());
}

#[test]
fn a_declared_zone_replaces_that_of_an_autoprimary_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = |template: &str| {
        let store = StateStore::open(dir.path(), bounds()).unwrap();
        let table = Arc::new(PolicyTable::default());
        let kept = StoredPolicies::new(Some(store), Arc::clone(&table));
        let pool = PolicyFragment {
            notify_at_once: Some(false),
            ..PolicyFragment::default()
        };
        kept.apply(HashMap::from([(template.into(), pool)]))
            .unwrap();
        (kept, table)
    };
    let (kept, table) = start("pool");
    let zone: NameBuf = "z.example.".parse().unwrap();
    kept.set_secondary(&AutoprimarySecondary {
        zone,
        primary: "192.0.2.1:53".parse().unwrap(),
        template: String::new(),
        key: None,
    })
    .unwrap();
    let mut settings = kept.zone(zone.as_name()).unwrap().unwrap();
    assert_eq!(settings.primaries.len(), 1);
    settings.template = "pool".into();
    settings.primaries[0].address = "192.0.2.2:53".parse().unwrap();
    kept.set_zone(zone.as_name(), &settings).unwrap();
    assert!(kept.secondaries().unwrap().is_empty());
    let is_right = |table: &PolicyTable, at_once| {
        let policies = table.load();
        let policy = policies.own(zone.as_name()).unwrap();
        assert_eq!(policy.primaries, settings.primaries);
        assert_eq!(policy.notify_at_once, at_once);
    };
    is_right(&table, false);
    drop((kept, table));
    // Without its template the zone still exists.
    let (kept, table) = start("another");
    is_right(&table, true);
    assert!(kept.remove_zone(zone.as_name()).unwrap());
    assert!(!kept.remove_zone(zone.as_name()).unwrap());
    assert!(table.load().own(zone.as_name()).is_none());
}

#[test]
fn without_a_store_nothing_is_stored_and_the_reason_is_given() {
    let kept = StoredPolicies::new(None, Arc::default());
    let error = kept
        .set_key(&key("k.", TsigAlgorithm::HmacSha1))
        .unwrap_err();
    assert!(error.to_string().contains("state_directory"));
    assert!(!format!("{:?}", key("k.", TsigAlgorithm::HmacSha1)).contains("hunter2"));
}
