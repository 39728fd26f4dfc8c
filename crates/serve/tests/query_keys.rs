//! Access lists for queries that name TSIG keys, on every path of an answer: from memory, after a look-up, from the
//! packet cache, along a chain of aliases.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey, TsigKeys, sign_request};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{AccessEntry, AccessList, AccessRules, AccessSource, AccessWord, ZoneTable};

use crate::loopback::{Loopback, query, rcode, zone};

const ZONE: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.1
into 60 CNAME ns1.here.
";
const REFUSED: u8 = 5;

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

/// A server with an open zone, a zone in memory (`here.`) and one that is looked up (`there.`); the latter two answer
/// requests with the key `inside.` only.
fn server() -> Loopback {
    let zones = vec![zone("open.", ZONE), zone("here.", ZONE)];
    let server = Loopback::start(zones, Some(("there.", ZONE)));
    let mut keys = TsigKeys::default();
    for key in ["inside.", "outside."] {
        let algorithm = TsigAlgorithm::HmacSha256;
        keys.insert(TsigKey::new(name(key).as_name(), algorithm, &[7; 32]));
    }
    server.shared.tsig_keys.store(Arc::new(keys));
    let entry = AccessEntry::positive(AccessWord::Key(name("inside.")));
    let list = Arc::new(AccessList::new(&[entry]));
    let mut rules = AccessRules::default();
    for apex in ["here.", "there."] {
        rules.set_zone(name(apex).as_name(), Arc::clone(&list));
    }
    let mut table = ZoneTable::clone(&server.shared.zones.load());
    table.set_access(AccessSource::Configured, Arc::new(rules));
    server.shared.zones.store(Arc::new(table));
    server
}

fn exchange(server: &Loopback, qname: &str, key: Option<&str>, over_tcp: bool) -> Vec<u8> {
    let mut request = query(qname, Type::A);
    let Some(key) = key else {
        return server.exchange(&request, over_tcp);
    };
    let keys = server.shared.tsig_keys.load();
    let key = keys.find(name(key).as_name()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut verifier = sign_request(key, &mut request, now.as_secs());
    let reply = server.exchange(&request, over_tcp);
    assert!(verifier.verify(&reply, now.as_secs()).is_ok(), "{qname}");
    reply
}

#[test]
fn a_key_opens_a_zone_and_no_cache_answers_without_it() {
    let server = server();
    // Three times: the third answer of the looked-up zone is from the packet cache.
    for _ in 0..3 {
        for qname in ["ns1.here.", "ns1.there.", "into.there."] {
            for over_tcp in [false, true] {
                let signed = exchange(&server, qname, Some("inside."), over_tcp);
                assert_eq!(rcode(&signed), 0, "{qname}");
                for key in [None, Some("outside.")] {
                    let refused = exchange(&server, qname, key, over_tcp);
                    assert_eq!(rcode(&refused), REFUSED, "{qname} {key:?}");
                    assert_eq!(refused[7], 0, "no records");
                }
            }
        }
    }
    assert!(server.counter("packetcache-hit") > 0);
    assert!(server.counter("query_denied") > 0);
}

#[test]
fn a_cname_is_followed_into_a_zone_only_with_its_key() {
    let server = server();
    for over_tcp in [false, true] {
        assert_eq!(exchange(&server, "into.open.", None, over_tcp)[7], 1);
        assert_eq!(
            exchange(&server, "into.open.", Some("outside."), over_tcp)[7],
            1
        );
        assert_eq!(
            exchange(&server, "into.open.", Some("inside."), over_tcp)[7],
            2
        );
    }
}
