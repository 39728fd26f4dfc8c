//! Tests of signed copies: complete zones that BIND verifies, sent while they are signed, reusing earlier
//! signatures.

use super::*;
use crate::transfer_out::encode::TransferRequest;
use nameward_dnssec::{KeyUse, Keys, SignatureCache, SigningKey, SigningPolicy};
use nameward_wire::NameBuf;
use nameward_wire::message::{Message, Query};
use nameward_wire::zonefile::{Options, Record, parse_bytes};
use std::process::Command;

/// Ed25519 (RFC 8080 section 6.1).
const KEY: &[u8] = b"Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
    PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";
const TEXT: &str = "@ 3600 SOA ns1 host 7 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 60 A 192.0.2.1\n\
    deep.er.names 60 TXT \"x\"\n*.wild 60 A 192.0.2.2\nsub 60 NS ns.sub\nns.sub 60 A 192.0.2.3\n\
    safe 60 NS ns.other.\nsafe 60 DS 1 15 2 0000000000000000000000000000000000000000000000000000000000000000\n\
    moved 60 DNAME elsewhere.\nUpper 60 MX 10 Mail\n";

/// BIND checks the clock.
fn now() -> u32 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_secs() as u32
}

fn signing(metadata: &[(&str, &str)]) -> Arc<Signing> {
    let apex: NameBuf = "example.".parse().unwrap();
    let usage = KeyUse::EVERYTHING;
    let keys = Keys::new(vec![SigningKey::read(KEY, 257, usage).unwrap()]);
    let mut policy = SigningPolicy::default();
    for (kind, content) in metadata {
        policy.take(kind, content).unwrap();
    }
    let cache = Arc::new(SignatureCache::new(1000));
    let signing = Signing::new(apex.as_name(), Arc::new(keys), Arc::new(policy), cache);
    Arc::new(signing)
}

/// Builds the zone as it is served: with the apex records that signing makes.
fn zone(signing: &Signing) -> Arc<Zone> {
    zone_of(signing, "")
}

/// Builds the same zone with more records.
fn zone_of(signing: &Signing, more: &str) -> Arc<Zone> {
    let origin: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    let text = format!("{TEXT}{more}");
    parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    for (rtype, rdata) in signing.apex_records() {
        builder.add(&Record::new(origin.as_name(), rtype, 300, &rdata));
    }
    Arc::new(builder.finish().0.expect("a zone"))
}

fn print(zone: &Zone) -> String {
    let mut text = String::new();
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                let (owner, ttl, rtype) = (node.name(), rrset.ttl(), rrset.rtype());
                let mut data = String::new();
                nameward_wire::rdata::write_text(rtype, record.rdata, &mut data).unwrap();
                text += &format!("{owner} {ttl} IN {rtype} {data}\n");
            }
        }
    }
    text
}

#[test]
fn a_signed_copy_is_a_zone_that_bind_verifies() {
    for metadata in [
        &[][..],
        &[("NSEC3PARAM", "1 0 2 ab")],
        &[("NSEC3PARAM", "1 1 0 -")],
        &[("SOA-EDIT", "EPOCH")],
    ] {
        let (signing, now) = (signing(metadata), now());
        let zone = zone(&signing);
        let (copy, made) = signed_copy(&zone, &signing, now).unwrap();
        assert!(made > 10);
        let again = signed_copy(&zone, &signing, now).unwrap();
        assert_eq!(again.1, 0, "all are in the cache");
        let state = copy.stored_signatures();
        assert!(state.is_signed());
        assert_eq!(
            state.uses_nsec3(),
            metadata.iter().any(|item| item.0 == "NSEC3PARAM")
        );
        let is_edited = metadata.iter().any(|item| item.0 == "SOA-EDIT");
        assert_eq!(copy.serial().0, if is_edited { now } else { 7 });
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("zone");
        std::fs::write(&file, print(&copy)).unwrap();
        let output = Command::new("dnssec-verify")
            .args(["-z", "-o", "example.", "-E", ""])
            .arg(&file)
            .output()
            .unwrap_or_else(|error| panic!("dnssec-verify: {error}: run scripts/install-deps"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{metadata:?}: {said}\n{}",
            print(&copy)
        );
    }
}

#[test]
fn records_of_another_signer_below_the_apex_are_left_out_of_a_copy() {
    let stray = "ns1 300 NSEC example. A\nns1 300 RRSIG A 13 2 300 20300101000000 20200101000000 1 example. AAAA\n";
    let signing = signing(&[]);
    let (copy, _) = signed_copy(&zone_of(&signing, stray), &signing, now()).unwrap();
    let (clean, _) = signed_copy(&zone(&signing), &signing, now()).unwrap();
    let names = |zone: &Zone| {
        let text = print(zone);
        let fields = text
            .lines()
            .map(|line| line.split(' ').take(5).collect::<Vec<_>>().join(" "));
        fields
            .filter(|line| line.starts_with("ns1."))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&copy), names(&clean));
    assert!(!print(&copy).contains("20200101000000"), "{}", print(&copy));
}

#[test]
fn narrow_zones_and_broken_keys_have_no_copy() {
    let narrow = signing(&[("NSEC3PARAM", "1 0 0 -"), ("NSEC3NARROW", "1")]);
    let copied = signed_copy(&zone(&narrow), &narrow, now());
    assert_eq!(copied.err(), Some(SignedCopyError::Narrow));
    let apex: NameBuf = "example.".parse().unwrap();
    let (keys, policy) = (Arc::new(Keys::broken()), Arc::new(SigningPolicy::default()));
    let cache = Arc::new(SignatureCache::new(10));
    let broken = Arc::new(Signing::new(apex.as_name(), keys, policy, cache));
    let copied = signed_copy(&zone(&broken), &broken, now());
    assert_eq!(copied.err(), Some(SignedCopyError::CannotSign));
}

/// Builds the request for a transfer.
fn request() -> TransferRequest {
    let packet = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x07example\0\0\xfc\0\x01";
    TransferRequest::new(&Query::parse(packet).unwrap(), None)
}

/// Returns the records of a message, one per line; the SOA is first and last.
fn records(message: &[u8]) -> Vec<String> {
    let message = Message::parse(message).unwrap();
    let records = message.records().map(Result::unwrap);
    let text = records.map(|record| {
        let (mut data, mut text) = (Vec::new(), String::new());
        record.expand_data(&mut data).unwrap();
        nameward_wire::rdata::write_text(record.rtype, &data, &mut text).unwrap();
        format!("{} {} IN {} {text}", record.owner, record.ttl, record.rtype)
    });
    text.collect()
}

fn many(names: usize) -> String {
    (0..names)
        .map(|n| format!("n{n} 60 A 192.0.2.1\n"))
        .collect()
}

#[test]
fn pieces_are_sent_as_they_are_signed_and_make_up_the_whole_copy() {
    for metadata in [&[][..], &[("NSEC3PARAM", "1 0 0 -")]] {
        let signing = signing(metadata);
        let zone = zone_of(&signing, &many(300));
        let copy = SignedCopy::new(zone, signing, now(), CopyDigest::Kept).unwrap();
        let copy = Arc::new(copy);
        let mut messages = SignedMessages::new(Arc::clone(&copy), request());
        assert_eq!(messages.ready(), SignedReady::Nothing, "not even the SOA");
        let (mut out, mut sent) = (vec![0; 65_535], Vec::new());
        for piece in 0..copy.pieces() {
            copy.sign(piece, &mut || true).unwrap();
            let is_last = piece + 1 == copy.pieces();
            let expected = if is_last {
                SignedReady::Message
            } else {
                SignedReady::Part
            };
            assert_eq!(messages.ready(), expected, "piece {piece}");
            let len = messages.next_message(&mut out).unwrap().unwrap();
            sent.extend(records(&out[..len]));
        }
        assert_eq!(messages.next_message(&mut out).unwrap(), None);
        assert_eq!(sent.first(), sent.last());
        assert!(sent.pop().is_some_and(|soa| soa.contains(" SOA ")));
        sent.sort();
        let whole = print(&copy.finish().unwrap().0);
        let mut whole: Vec<&str> = whole.lines().collect();
        whole.sort_unstable();
        // A stored RRSIG has one TTL per name; a sent one has that of its RRset.
        let ttl_less = |line: &str| line.splitn(3, ' ').nth(2).map(str::to_string);
        let sent: Vec<_> = sent.iter().map(|line| ttl_less(line)).collect();
        let whole: Vec<_> = whole.iter().map(|line| ttl_less(line)).collect();
        assert_eq!(sent.len(), whole.len());
        assert!(whole.iter().all(|line| sent.contains(line)));
    }
}

#[test]
fn a_digest_is_the_last_record_of_a_copy_that_gets_one() {
    let signing = signing(&[]);
    let zone = zone(&signing);
    let placeholder = zone.zonemd_placeholder();
    let zone = Arc::new(zone.with_digest(&[(Type::ZONEMD, placeholder)]).unwrap());
    let copy = SignedCopy::new(zone, signing, now(), CopyDigest::Made).unwrap();
    let copy = Arc::new(copy);
    for piece in 0..copy.pieces() {
        copy.sign(piece, &mut || true).unwrap();
    }
    let mut messages = SignedMessages::new(Arc::clone(&copy), request());
    assert_eq!(messages.ready(), SignedReady::Part, "all but the digest");
    let mut out = vec![0; 65_535];
    let len = messages.next_message(&mut out).unwrap().unwrap();
    assert!(
        !records(&out[..len])
            .iter()
            .any(|line| line.contains(" ZONEMD "))
    );
    let (whole, _) = copy.finish().unwrap();
    assert_eq!(messages.ready(), SignedReady::Message);
    let len = messages.next_message(&mut out).unwrap().unwrap();
    let last = records(&out[..len]);
    assert_eq!(last.len(), 3, "{last:?}");
    assert!(last[0].contains(" ZONEMD 7 1 1 ") && last[1].contains(" RRSIG ZONEMD "));
    assert!(print(&whole).contains(&last[0]));
}

#[test]
fn signatures_of_the_version_before_are_used_again() {
    let before = signing(&[]);
    let (first, made) = signed_copy(&zone_of(&before, &many(100)), &before, now()).unwrap();
    // As after a restart: the same key, and an empty cache.
    let after = signing(&[]);
    let changed = zone_of(&after, &(many(100) + "new 60 A 192.0.2.9\n"));
    let copy = SignedCopy::new(changed, after, now(), CopyDigest::Kept).unwrap();
    let copy = copy.with_previous(Some(first));
    let again: u32 = (0..copy.pieces())
        .map(|piece| copy.sign(piece, &mut || true).unwrap())
        .sum();
    // The new name, its link and the link before it.
    assert!(made > 200 && again == 3, "{made}, then {again}");
    let zone = print(&copy.finish().unwrap().0);
    assert!(zone.contains("new.example. 60 IN RRSIG A "));
}

#[test]
fn a_piece_that_is_given_up_can_be_signed_again() {
    let signing = signing(&[]);
    let copy = SignedCopy::new(zone(&signing), signing, now(), CopyDigest::Kept).unwrap();
    copy.sign(0, &mut || false).unwrap();
    assert!(!copy.has(0));
    copy.sign(0, &mut || true).unwrap();
    assert!(copy.has(0));
}
