//! Tests with consecutive versions, and some that are not.

use super::*;
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::ZoneBuilder;

/// Builds a version with the records of the text besides the SOA and the NS.
fn version(serial: u32, text: &str) -> Arc<Zone> {
    let origin: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    let text = format!("@ 60 SOA ns h {serial} 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n{text}\n");
    parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    Arc::new(builder.finish().0.expect("a zone"))
}

#[test]
fn every_sent_version_leads_to_the_newest() {
    let sent = SentVersions::new(1 << 20);
    for serial in 1..=5 {
        sent.record(version(serial, &format!("h{serial} 60 A 192.0.2.7")));
    }
    let newest = sent.record(version(5, "h5 60 A 192.0.2.7"));
    let since = |serial| {
        sent.differences(&newest, Serial(serial))
            .map(|list| list.len())
    };
    assert_eq!((since(1), since(4), since(9)), (Some(4), Some(1), None));
}

#[test]
fn a_serial_with_different_records_leads_nowhere() {
    let sent = SentVersions::new(1 << 20);
    sent.record(version(1, "a 60 A 192.0.2.1"));
    sent.record(version(1, "a 60 A 192.0.2.2"));
    let newest = sent.record(version(2, "a 60 A 192.0.2.3"));
    assert_eq!(sent.differences(&newest, Serial(1)), None);
    let newest = sent.record(version(3, "a 60 A 192.0.2.4"));
    assert!(sent.differences(&newest, Serial(2)).is_some());
    // Backwards, as after an operator's mistake.
    let newest = sent.record(version(2, "a 60 A 192.0.2.3"));
    assert_eq!(sent.differences(&newest, Serial(3)), None);
}

#[test]
fn an_equal_version_is_sent_as_the_previous_one() {
    let sent = SentVersions::new(1 << 20);
    let first = sent.record(version(1, "a 60 A 192.0.2.1"));
    let again = sent.record(version(1, "a 60 A 192.0.2.1"));
    assert!(Arc::ptr_eq(&first, &again));
    assert!(sent.leads_from(&first, Serial(1)) && !sent.leads_from(&first, Serial(2)));
}

#[test]
fn versions_over_the_limit_are_evicted() {
    let one = version(1, "");
    let sent = SentVersions::new(one.heap_bytes() - 1);
    sent.record(one);
    let newest = sent.record(version(2, ""));
    assert_eq!(sent.differences(&newest, Serial(1)), None);
    assert_eq!(sent.cache.lock().octets, 0);
}
