//! Tests of policies assembled from several sources.

use super::*;
use nameward_base::sync::Mutex;
use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey};
use nameward_wire::{Name, Type};
use nameward_zone::{AccessEntry, AccessWord};
use std::sync::Arc;

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

fn list(address: &str) -> AccessList {
    let term = AccessWord::Network(address.parse().unwrap(), 32);
    AccessList::new(&[AccessEntry::positive(term)])
}

fn server(address: &str, key: Option<&str>) -> RemoteServer {
    RemoteServer {
        address: address.parse().unwrap(),
        key: key.map(name),
        source: None,
        tls: None,
    }
}

fn set(zones: &[(&str, PolicyFragment)]) -> PolicySet {
    let mut set = PolicySet::default();
    for (zone, part) in zones {
        set.set_zone(name(zone).as_name(), Arc::new(part.clone()));
    }
    set
}

#[test]
fn without_a_policy_everything_is_refused() {
    let policies = PolicyTable::default().load();
    let policy = policies.get(Name::ROOT);
    assert_eq!(policy.kind, ZoneKind::Native);
    let lists = [
        &policy.allow_transfer,
        &policy.allow_notify,
        &policy.allow_update,
    ];
    assert!(lists.iter().all(|list| list.is_none()));
    assert!(!policy.takes_notify(&AccessClient::in_plain_text(
        "127.0.0.1".parse().unwrap(),
        None
    )));
    assert_eq!(policies.zones().count(), 0);
}

#[test]
fn a_zone_table_precedes_its_database_and_that_precedes_the_defaults() {
    let table = PolicyTable::default();
    let mut configured = set(&[(
        "a.example.",
        PolicyFragment {
            allow_notify: Some(list("192.0.2.1")),
            ..PolicyFragment::default()
        },
    )]);
    configured.default.allow_transfer = Some(list("192.0.2.9"));
    configured.default.allow_notify = Some(list("192.0.2.8"));
    configured.default.transfer_octets_max = Some(7);
    table.set(PolicySource::Configured, configured);
    let primary = PolicyFragment {
        kind: Some(ZoneKind::Primary),
        allow_transfer: Some(list("192.0.2.2")),
        allow_notify: Some(list("192.0.2.3")),
        ..PolicyFragment::default()
    };
    let native = PolicyFragment {
        kind: Some(ZoneKind::Native),
        ..PolicyFragment::default()
    };
    table.set(
        PolicySource::Backend(2),
        set(&[("A.example.", native.clone()), ("b.example.", native)]),
    );
    table.set(PolicySource::Backend(1), set(&[("a.example.", primary)]));
    let policies = table.load();
    let a = policies.get(name("A.EXAMPLE.").as_name());
    assert_eq!(a.kind, ZoneKind::Primary);
    assert_eq!(a.declared_by, PolicySource::Backend(1));
    assert_eq!(a.allow_notify, list("192.0.2.1"));
    assert_eq!(a.allow_transfer, list("192.0.2.2"));
    assert_eq!(a.transfer_octets_max, 7);
    assert_eq!(a.notify_name_servers, NameServerNotify::Always);
    let b = policies.get(name("b.example.").as_name());
    assert_eq!(
        (b.kind, b.declared_by),
        (ZoneKind::Native, PolicySource::Backend(2))
    );
    assert_eq!(b.allow_transfer, list("192.0.2.9"));
    let c = policies.get(name("c.example.").as_name());
    assert_eq!(c.allow_transfer, list("192.0.2.9"));
    assert!(policies.own(name("c.example.").as_name()).is_none());
}

#[test]
fn listeners_get_the_zones_that_changed_and_no_others() {
    let table = PolicyTable::default();
    let notified = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notified);
    table.on_change(move |change| {
        let mut zones: Vec<String> = change
            .zones
            .iter()
            .map(|zone| Name::from_valid_wire(zone).to_string())
            .collect();
        zones.sort();
        heard.lock().push(zones.join(" "));
    });
    let part = |kind| PolicyFragment {
        kind: Some(kind),
        ..PolicyFragment::default()
    };
    let (primary, native) = (part(ZoneKind::Primary), part(ZoneKind::Native));
    let source = PolicySource::Backend(1);
    table.set(
        source,
        set(&[("a.", primary.clone()), ("b.", native.clone())]),
    );
    table.set(
        source,
        set(&[("a.", primary.clone()), ("c.", native.clone())]),
    );
    table.change(
        source,
        [(name("A."), Some(Arc::new(native))), (name("x."), None)],
    );
    table.change(source, [(name("a."), None)]);
    assert_eq!(*notified.lock(), ["a. b.", "b. c.", "a.", "a."]);
    assert_eq!(table.load().zones().count(), 1);
}

#[test]
fn zones_with_the_same_parts_share_a_policy() {
    let table = PolicyTable::default();
    let part = Arc::new(PolicyFragment::closed(ZoneKind::Primary));
    let mut many = PolicySet::default();
    for number in 0..1000 {
        many.set_zone(
            name(&format!("z{number}.example.")).as_name(),
            Arc::clone(&part),
        );
    }
    table.set(PolicySource::Catalogs, many);
    let policies = table.load();
    let (one, other) = (name("z1.example."), name("z999.example."));
    assert!(Arc::ptr_eq(
        policies.get(one.as_name()),
        policies.get(other.as_name())
    ));
}

#[test]
fn the_key_of_the_earlier_source_counts() {
    let table = PolicyTable::default();
    let with = |algorithm| PolicySet {
        keys: vec![Arc::new(TsigKey::new(
            name("k.").as_name(),
            algorithm,
            b"secret",
        ))],
        ..PolicySet::default()
    };
    table.set(PolicySource::Configured, with(TsigAlgorithm::HmacSha512));
    table.set(PolicySource::Kept, with(TsigAlgorithm::HmacSha1));
    let find = || {
        let policies = table.load();
        let key = policies.keys().find(name("K.").as_name()).cloned();
        key.map(|key| key.algorithm())
    };
    assert_eq!(find(), Some(TsigAlgorithm::HmacSha512));
    table.set(PolicySource::Configured, PolicySet::default());
    assert_eq!(find(), Some(TsigAlgorithm::HmacSha1));
    table.set(PolicySource::Kept, PolicySet::default());
    assert_eq!(find(), None);
}

#[test]
fn a_notify_is_accepted_from_a_primary_only_with_its_key() {
    let policy = PolicyFragment {
        primaries: Some(vec![
            server("192.0.2.1:53", Some("k.example.")),
            server("192.0.2.2:53", None),
        ]),
        allow_notify: Some(list("192.0.2.3")),
        ..PolicyFragment::default()
    };
    let policy = policy.finish(PolicySource::Configured);
    let key = name("K.example.");
    let takes = |peer: &str, key| {
        policy.takes_notify(&AccessClient::in_plain_text(peer.parse().unwrap(), key))
    };
    assert!(takes("192.0.2.1", Some(key.as_name())));
    assert!(!takes("192.0.2.1", None));
    assert!(!takes("192.0.2.1", Some(Name::ROOT)));
    assert!(takes("192.0.2.2", None) && takes("::ffff:192.0.2.2", None));
    assert!(takes("192.0.2.3", None));
    assert!(!takes("192.0.2.4", Some(key.as_name())));
}

#[test]
fn a_rule_permits_its_names_and_types_with_its_key() {
    let rule = |scope, types: &[Type]| UpdateRule {
        key: Some(name("host.dyn.example.")),
        scope,
        types: types.to_vec(),
    };
    let key = name("HOST.dyn.example.");
    let permits = |rule: &UpdateRule, owner: &str, rtype| {
        rule.permits(Some(key.as_name()), name(owner).as_name(), rtype)
    };
    let subtree = rule(UpdateScope::Subtree(name("dyn.example.")), &[Type::A]);
    assert!(permits(&subtree, "x.DYN.example.", Type::A));
    assert!(!permits(&subtree, "x.example.", Type::A));
    assert!(!permits(&subtree, "x.dyn.example.", Type::AAAA));
    assert!(!subtree.permits(None, name("x.dyn.example.").as_name(), Type::A));
    let own = rule(UpdateScope::KeyName, &[]);
    assert!(permits(&own, "host.dyn.example.", Type::TXT));
    assert!(!permits(&own, "x.host.dyn.example.", Type::TXT));
    assert!(!permits(&own, "host.dyn.example.", Type::NS));
    let policy = PolicyFragment {
        update_rules: Some(vec![own]),
        ..PolicyFragment::default()
    };
    let list = policy.finish(PolicySource::Configured).allow_update;
    let peer = "192.0.2.1".parse().unwrap();
    assert!(
        list.allows(&AccessClient::in_plain_text(peer, Some(key.as_name())))
            && !list.allows(&AccessClient::in_plain_text(peer, None))
    );
}
