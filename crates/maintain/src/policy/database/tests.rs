//! Tests with metadata as pdnsutil writes it, and as people write it.

use super::*;
use nameward_zone::AccessClient;

fn row(kind: ZoneKind, primaries: &str) -> ZoneRow {
    ZoneRow {
        id: 1,
        name: "example.org.".parse().unwrap(),
        kind,
        primaries: (!primaries.is_empty()).then(|| primaries.into()),
        last_check: None,
        notified_serial: None,
        account: None,
        options: None,
        catalog: None,
    }
}

fn items(rows: &[(&'static str, &str)]) -> Vec<SettingItem> {
    let item = |(kind, content): &(&'static str, &str)| SettingItem {
        kind,
        content: (*content).into(),
    };
    rows.iter().map(item).collect()
}

fn allows(list: &Option<AccessList>, client: &str, key: Option<&str>) -> bool {
    let key: Option<NameBuf> = key.map(|key| key.parse().unwrap());
    let list = list.as_ref().unwrap();
    list.allows(&AccessClient::in_plain_text(
        client.parse().unwrap(),
        key.as_ref().map(NameBuf::as_name),
    ))
}

#[test]
fn a_native_zone_without_metadata_has_no_part_of_its_own() {
    let policy = read_policy(&row(ZoneKind::Native, ""), &[]);
    assert!(policy.part.is_none() && policy.problems.is_empty());
}

#[test]
fn primaries_have_ports_a_key_and_a_source() {
    let items = items(&[
        ("AXFR-MASTER-TSIG", "transfer"),
        ("AXFR-SOURCE", "192.0.2.9"),
    ]);
    let text = "192.0.2.1, 192.0.2.2:5300 [2001:db8::1]:53;2001:db8::2";
    let policy = read_policy(&row(ZoneKind::Secondary, text), &items);
    let part = policy.part.unwrap();
    let primaries = part.primaries.unwrap();
    let addresses: Vec<_> = primaries
        .iter()
        .map(|server| server.address.to_string())
        .collect();
    assert_eq!(
        addresses,
        [
            "192.0.2.1:53",
            "192.0.2.2:5300",
            "[2001:db8::1]:53",
            "[2001:db8::2]:53"
        ]
    );
    assert!(
        primaries
            .iter()
            .all(|server| server.key == Some("transfer.".parse().unwrap()))
    );
    assert!(
        primaries
            .iter()
            .all(|server| server.source == Some("192.0.2.9".parse().unwrap()))
    );
    assert_eq!(part.notify_name_servers, Some(false));
    assert!(policy.problems.is_empty());
}

#[test]
fn transfers_are_allowed_to_networks_keys_and_configured_name_servers() {
    let items = items(&[
        ("ALLOW-AXFR-FROM", "AUTO-NS"),
        ("ALLOW-AXFR-FROM", "192.0.2.0/24"),
        ("ALLOW-AXFR-FROM", "2001:db8::1"),
        ("TSIG-ALLOW-AXFR", "transfer"),
        ("ALSO-NOTIFY", "192.0.2.3:5300"),
    ]);
    let part = read_policy(&row(ZoneKind::Primary, ""), &items)
        .part
        .unwrap();
    assert_eq!(part.transfer_to_name_servers, Some(true));
    assert!(allows(&part.also_transfer, "192.0.2.77", None));
    assert!(allows(&part.also_transfer, "2001:db8::1", None));
    assert!(allows(
        &part.also_transfer,
        "198.51.100.1",
        Some("Transfer.")
    ));
    assert!(!allows(&part.also_transfer, "198.51.100.1", None));
    assert_eq!(
        part.also_notify.unwrap()[0].address,
        "192.0.2.3:5300".parse().unwrap()
    );
    assert_eq!(part.notify_name_servers, Some(true));
}

#[test]
fn updates_need_the_address_and_the_key_where_there_are_both() {
    let of = |rows: &[(&'static str, &str)]| {
        read_policy(&row(ZoneKind::Primary, ""), &items(rows))
            .part
            .unwrap()
            .allow_update
    };
    let both = of(&[
        ("ALLOW-DNSUPDATE-FROM", "192.0.2.0/24"),
        ("TSIG-ALLOW-DNSUPDATE", "ddns"),
    ]);
    assert!(allows(&both, "192.0.2.1", Some("ddns.")));
    assert!(!allows(&both, "192.0.2.1", None) && !allows(&both, "198.51.100.1", Some("ddns.")));
    let keys = of(&[("TSIG-ALLOW-DNSUPDATE", "ddns")]);
    assert!(allows(&keys, "127.0.0.2", Some("ddns.")) && allows(&keys, "::1", Some("ddns.")));
    assert!(!allows(&keys, "127.0.0.1", None) && !allows(&keys, "192.0.2.1", Some("ddns.")));
    let networks = of(&[("ALLOW-DNSUPDATE-FROM", "192.0.2.1")]);
    assert!(allows(&networks, "192.0.2.1", None) && !allows(&networks, "127.0.0.1", None));
    assert_eq!(of(&[("IXFR", "1")]), None);
}

#[test]
fn meaningless_words_grant_no_access_and_are_reported() {
    let items = items(&[
        ("ALLOW-AXFR-FROM", "everybody"),
        ("ALLOW-AXFR-FROM", "192.0.2.0/99"),
        ("ALLOW-DNSUPDATE-FROM", "here"),
        ("SOA-EDIT-DNSUPDATE", "SOMETIMES"),
        ("AXFR-SOURCE", "lo"),
        ("ALSO-NOTIFY", "ns1.example.org"),
    ]);
    let policy = read_policy(&row(ZoneKind::Secondary, "primary.example"), &items);
    let part = policy.part.unwrap();
    assert_eq!(part.also_transfer, None);
    assert!(part.allow_update.unwrap().is_none());
    assert_eq!(part.update_serial, Some(UpdateSerial::Default));
    assert_eq!(policy.problems.len(), 7, "{:?}", policy.problems);
}

#[test]
fn a_renotifying_secondary_notifies_and_ixfr_may_be_turned_off() {
    let items = items(&[
        ("SLAVE-RENOTIFY", "1"),
        ("ALSO-NOTIFY", "192.0.2.5"),
        ("IXFR", "0"),
        ("PRESIGNED", "1"),
        ("FORWARD-DNSUPDATE", ""),
        ("SOA-EDIT-DNSUPDATE", "INCREASE"),
    ]);
    let part = read_policy(&row(ZoneKind::Secondary, "192.0.2.1"), &items)
        .part
        .unwrap();
    assert_eq!(part.notify_name_servers, Some(true));
    assert_eq!(part.also_notify.unwrap().len(), 1);
    assert_eq!(part.is_incremental, Some(false));
    assert_eq!(part.is_presigned, Some(true));
    assert_eq!(part.forward_updates, Some(true));
    assert_eq!(part.update_serial, Some(UpdateSerial::Increase));
}

#[test]
fn keys_are_read_and_those_that_cannot_be_used_are_reported_without_their_secrets() {
    let key = |name: &str, algorithm: &str, secret: &str| StoredTsigKey {
        name: name.parse().unwrap(),
        algorithm: algorithm.into(),
        secret: secret.to_owned().into(),
    };
    let rows = [
        key("a.", "hmac-md5", "c2VjcmV0"),
        key("A.", "hmac-sha256", "c2VjcmV0"),
        key("b.", "hmac-sha3", "c2VjcmV0"),
        key("c.", "hmac-sha1", "hunter2*"),
    ];
    let (keys, problems) = read_keys(&rows);
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].algorithm(), TsigAlgorithm::HmacSha256);
    let reported = format!("{problems:?} {rows:?}");
    assert_eq!(problems.len(), 3);
    assert!(
        !reported.contains("hunter2") && !reported.contains("c2VjcmV0"),
        "{reported}"
    );
}
