//! A thread that keeps the signatures it served last answers as one that has kept none, whatever changes in between: records,
//! keys, the time. Zones come and go at the same addresses.

use nameward_answer::{Engine, Medium, Scratch};
use nameward_dnssec::{KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy};
use nameward_testkit::property_cases;
use nameward_wire::NameBuf;
use nameward_wire::message::Query;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{NameKey, Zone, ZoneBuilder, ZoneTable};
use proptest::prelude::*;
use std::sync::Arc;

const WEEK: u32 = 7 * 86_400;
const BASE: u32 = 3000 * WEEK;
/// Signatures of this algorithm only depend on the key and the octets.
const KEYS: [&str; 2] = [
    "ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=",
    "DSSF3o0s0f+ElWzj9E/Osxw8hLpk55chkmx0LYN5WiY=",
];

fn signing(key: &str) -> Arc<Signing> {
    let apex: NameBuf = "one.example.".parse().unwrap();
    let text = format!("Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: {key}\n");
    let key = SigningKey::read(text.as_bytes(), 257, KeyUse::EVERYTHING).unwrap();
    let keys = Arc::new(Keys::new(vec![key]));
    let cache = Arc::new(SignatureCache::new(1000));
    Arc::new(Signing::new(
        apex.as_name(),
        keys,
        Arc::new(SigningPolicy::default()),
        cache,
    ))
}

fn table(value: u8, ttl: u8, signing: &Arc<Signing>) -> ZoneTable {
    let origin: NameBuf = "one.example.".parse().unwrap();
    let text = format!(
        "@ 300 SOA ns host 1 2 3 4 60\n@ 300 NS ns\nns 300 A 192.0.2.1\n\
         www {ttl} A 192.0.2.{value}\n*.wild {ttl} TXT \"{value}\"\n"
    );
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes("one", text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    let mut zone: Zone = builder.finish().0.unwrap();
    zone.set_resident_signing(Some(Arc::clone(signing)));
    let mut table = ZoneTable::default();
    table.insert(Arc::new(zone));
    table
}

fn answer(
    table: &ZoneTable,
    name: &str,
    rtype: u8,
    (scratch, now): (&mut Scratch, u32),
) -> Vec<u8> {
    let name: NameBuf = name.parse().unwrap();
    let mut packet = b"\x12\x34\x00\x00\x00\x01\0\0\0\0\0\x01".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&[0, rtype, 0, 1]);
    packet.extend_from_slice(b"\0\0\x29\x10\0\0\0\x80\0\0\0");
    let query = Query::parse(&packet).unwrap();
    let key = NameKey::new(query.qname);
    let zone = table.zone_for(&key, query.qtype).map(|zone| &**zone);
    let mut out = vec![0; 4096];
    scratch.set_now(now);
    let engine = Engine::default();
    let reply = engine.respond(
        table,
        &query,
        (&key, zone),
        Medium::Stream,
        scratch,
        &mut out,
    );
    out.truncate(reply.len());
    out
}

proptest! {
    #![proptest_config(property_cases(32))]

    #[test]
    fn cached_signatures_equal_new_ones(
        steps in proptest::collection::vec((0..3u8, 1..3u8, 0..2usize, 0..6usize, 0..4usize), 1..80),
    ) {
        const TIMES: [u32; 6] = [0, 1, WEEK - 86_400, WEEK - 1, WEEK, 3 * WEEK];
        let states = KEYS.map(signing);
        let mut kept = Scratch::default();
        for (value, ttl, key, time, question) in steps {
            let table = table(value, ttl, &states[key]);
            let now = BASE + TIMES[time];
            let (name, rtype) = [
                ("www.one.example.", 1),
                ("a.wild.one.example.", 16),
                ("one.example.", 48),
                ("none.one.example.", 1),
            ][question];
            // Several times, because not every signature is kept.
            for _ in 0..3 {
                let fresh = answer(&table, name, rtype, (&mut Scratch::default(), now));
                prop_assert!(fresh.len() > 100);
                prop_assert_eq!(&answer(&table, name, rtype, (&mut kept, now)), &fresh);
            }
        }
    }
}
