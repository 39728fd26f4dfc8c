//! The watch over signatures that zones bring with them, with a clock of its own.

use nameward_maintain::signature_watch::SignatureWatch;
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{Zone, ZoneBuilder, ZoneTable};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// 2026-01-01.
const NOW: u64 = 1_767_225_600;
const DAY: u64 = 86_400;

fn zone(serial: u32, end: &str) -> Arc<Zone> {
    let text = format!(
        "$TTL 300\n@ SOA ns host {serial} 2 3 4 60\n@ NS ns.other.\n@ NSEC @ NS SOA RRSIG NSEC\n\
         @ RRSIG SOA 13 1 300 {end} 20251201000000 1 @ AAAA\n@ RRSIG NS 13 1 300 {end} 20251201000000 1 @ AAAA\n\
         @ RRSIG NSEC 13 1 300 {end} 20251201000000 1 @ AAAA\n"
    );
    let apex: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(apex), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    let (zone, findings) = builder.finish();
    let mut zone = zone.unwrap_or_else(|| panic!("{findings:?}"));
    zone.set_signing(zone.stored_signatures());
    Arc::new(zone)
}

fn table(zone: Arc<Zone>) -> Arc<ZoneTable> {
    let mut table = ZoneTable::default();
    table.insert(zone);
    Arc::new(table)
}

#[test]
fn signatures_that_are_not_renewed_are_reported_soon_and_when_they_expire() {
    let (mut watch, begin) = (SignatureWatch::default(), Instant::now());
    let sums = watch.sums();
    let mut numbers = move |table: &Arc<ZoneTable>, days: u64| {
        let time = begin + Duration::from_secs(days * DAY);
        let lines = watch.check(table, time, NOW + days * DAY);
        (lines, sums.now().ending, sums.now().broken)
    };
    let old = table(zone(1, "20260105000000"));
    assert_eq!(numbers(&old, 0), (vec![], 0, 0));
    let soon = "zone example.: signatures expire soon and were not renewed: example. NS in 24 h";
    assert_eq!(numbers(&old, 3), (vec![soon.to_string()], 1, 0));
    // A fault is logged once.
    assert_eq!(numbers(&old, 3), (vec![], 1, 0));
    let ended =
        "zone example.: expired signatures: example. NS and 2 more; DNSSEC validation fails";
    assert_eq!(numbers(&old, 5), (vec![ended.to_string()], 0, 1));
    let renewed = table(zone(2, "20260201000000"));
    assert_eq!(numbers(&renewed, 5), (vec![], 0, 0));
    assert_eq!(numbers(&Arc::new(ZoneTable::default()), 40), (vec![], 0, 0));
}
