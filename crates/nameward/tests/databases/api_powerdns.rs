//! The same requests to pdns_server 4.7 and to Nameward, on equal databases: same status, same JSON and same rows
//! afterwards, except for a reviewed list with reasons.

use super::operation::zone;
use super::rows::Sqlite;
use crate::api::client::{Client, KEY, Reply, exchange, settings};
use nameward_testkit::Setup;
use nameward_testkit::peers::{PeerKind, free_address};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

/// How a reply may differ.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Allowed {
    /// Not at all.
    Same,
    /// In the wording of the error text.
    Text,
    /// In status and body, for this reason.
    Differs(&'static str),
}

use Allowed::{Differs, Same, Text};

/// A PowerDNS server that ends with the test.
struct PowerDns(Child);

impl Drop for PowerDns {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_powerdns(database: &Sqlite, directory: &std::path::Path) -> Option<(PowerDns, Client)> {
    let program = PeerKind::PowerDns.require()?;
    let (dns, web) = (free_address().unwrap(), free_address().unwrap());
    let config = format!(
        "launch=gsqlite3\ngsqlite3-database={}\ngsqlite3-dnssec=yes\nlocal-address=127.0.0.1\nlocal-port={}\n\
         webserver=yes\nwebserver-address=127.0.0.1\nwebserver-port={}\napi=yes\napi-key={KEY}\nsocket-dir={}\n\
         daemon=no\nguardian=no\nprimary=yes\nsecondary=yes\nsecurity-poll-suffix=\nzone-cache-refresh-interval=0\n",
        database.path.display(),
        dns.port(),
        web.port(),
        directory.display()
    );
    std::fs::write(directory.join("pdns.conf"), config).unwrap();
    let child = Command::new(program)
        .arg(format!("--config-dir={}", directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = PowerDns(child);
    nameward_testkit::wait_until("the API of pdns_server", || {
        std::net::TcpStream::connect(web).is_ok()
    });
    Some((server, Client::new(web)))
}

/// A PATCH of one RRset.
fn rrset(name: &str, rtype: &str, contents: &[&str]) -> Value {
    let records: Vec<Value> = contents
        .iter()
        .map(|content| json!({ "content": content, "disabled": false }))
        .collect();
    json!({ "name": name, "type": rtype, "ttl": 60, "changetype": "REPLACE", "records": records })
}

fn patch(rrsets: &[Value]) -> Value {
    json!({ "rrsets": rrsets })
}

type Request = (&'static str, &'static str, Option<Value>, Allowed);

#[rustfmt::skip]
fn zone_requests() -> Vec<Request> {
    let soa = "ns1.a.test. hostmaster.a.test. 1 10800 3600 604800 3600";
    let mut with_soa = rrset("a.test.", "SOA", &[soa]);
    with_soa["records"][0]["disabled"] = json!(false);
    let mut commented = rrset("www.a.test.", "A", &["192.0.2.1", "192.0.2.2"]);
    commented["records"][1]["disabled"] = json!(true);
    commented["comments"] = json!([{ "content": "hi", "account": "me", "modified_at": 7 }]);
    let created = json!({ "name": "a.test.", "kind": "Native", "nameservers": ["ns1.a.test.", "ns2.a.test."],
        "rrsets": [with_soa, commented], "masters": [], "unknown": 5, "id": "", "serial": 0 });
    let signed = json!({ "name": "d.test.", "kind": "Master", "dnssec": true, "nsec3param": "1 0 0 -", "api_rectify": true,
        "soa_edit": "INCEPTION-INCREMENT", "soa_edit_api": "INCREASE", "account": "x", "nameservers": [],
        "rrsets": [rrset("d.test.", "SOA", &["ns1.d.test. h.d.test. 1 10800 3600 604800 3600"]), rrset("d.test.", "NS", &["ns1.d.test."])] });
    let text = json!({ "name": "z.test.", "kind": "Native", "nameservers": [],
        "zone": "z.test. 3600 IN SOA ns1.z.test. h.z.test. 5 1 2 3 4\nz.test. 3600 IN NS ns1.z.test.\nwww.z.test. 60 IN TXT \"x\"\n" });
    let secondary = json!({ "name": "s.test.", "kind": "Slave", "nameservers": [], "masters": ["192.0.2.1"], "account": "acc" });
    vec![
        ("POST", "/zones", Some(created.clone()), Same),
        ("POST", "/zones", Some(created), Same),
        ("POST", "/zones", Some(signed), Same),
        ("POST", "/zones", Some(text), Same),
        ("POST", "/zones", Some(secondary), Same),
        ("POST", "/zones", Some(json!({ "name": "b.test", "kind": "Native", "nameservers": [] })), Same),
        ("POST", "/zones", Some(json!({ "kind": "Native" })), Same),
        ("POST", "/zones", Some(json!([])), Same),
        ("POST", "/zones", Some(json!({ "name": "bogus.test.", "kind": "Bogus", "nameservers": [], "dnssec": 5 })),
            Differs("PowerDNS makes a native zone of a kind that does not exist")),
        ("DELETE", "/zones/bogus.test.", None, Differs("it exists in PowerDNS only")),
        ("GET", "/zones?zone=a.test.", None, Same),
        ("GET", "/zones?zone=a.test", None, Same),
        ("GET", "/zones?zone=none.test.", None, Same),
        ("GET", "/zones", None, Same),
        ("GET", "/zones?dnssec=false", None, Same),
        ("GET", "/zones/a.test", None, Same),
        ("GET", "/zones/A.TEST.", None, Same),
        ("GET", "/zones/a.test.?rrsets=false", None, Same),
        ("GET", "/zones/a..b.", None, Differs("a variant of a zone, as in PowerDNS 5")),
        ("GET", "/zones/none.test.", None, Same),
        ("DELETE", "/zones/none.test.", None, Same),
        ("PATCH", "/zones/none.test.", Some(patch(&[])), Same),
        ("POST", "/zones/a.test.", Some(json!({})), Same),
        ("PATCH", "/zones/kept.test.", Some(patch(&[rrset("www.kept.test.", "A", &["192.0.2.77"])])), Same),
        ("GET", "/zones/kept.test.", None, Same),
        ("PUT", "/zones/a.test.", Some(json!({ "kind": "Master", "masters": ["192.0.2.3"], "account": "acc" })), Same),
        ("PUT", "/zones/a.test.", Some(json!({ "account": null, "soa_edit_api": "INCREASE" })), Same),
        ("GET", "/zones/a.test.?rrsets=false", None, Same),
        ("PUT", "/zones/a.test.", Some(json!({ "masters": ["nope"] })), Text),
        ("PUT", "/zones/a.test.", Some(json!({ "kind": "bogus" })), Differs("PowerDNS makes the zone native")),
        ("PUT", "/zones/a.test.", Some(json!({ "kind": "Native" })), Same),
        ("GET", "/zones/z.test./export", None, Same),
        ("PUT", "/zones/a.test./notify", None, Same),
        ("PUT", "/zones/d.test./rectify", None, Same),
        ("GET", "/zones/none.test./metadata", None, Same),
    ]
}

#[rustfmt::skip]
fn rrset_requests() -> Vec<Request> {
    let at = "/zones/a.test.";
    let one = |rrset: Value| Some(patch(&[rrset]));
    let with = |key: &str, value: Value| {
        let mut rrset = rrset("x.a.test.", "A", &["192.0.2.9"]);
        rrset[key] = value;
        Some(patch(&[rrset]))
    };
    let without = |key: &str| {
        let mut rrset = rrset("x.a.test.", "A", &["192.0.2.9"]);
        rrset.as_object_mut().unwrap().remove(key);
        Some(patch(&[rrset]))
    };
    vec![
        ("PATCH", at, one(rrset("x.a.test.", "A", &["192.0.2.9"])), Same),
        ("PATCH", at, with("ttl", json!("300")), Same),
        ("PATCH", at, with("type", json!("a")), Same),
        ("PATCH", at, with("changetype", json!("replace")), Differs("the RRset is like that already: the serial stays")),
        ("PATCH", at, without("ttl"), Same),
        ("PATCH", at, without("type"), Same),
        ("PATCH", at, without("name"), Same),
        ("PATCH", at, without("changetype"), Same),
        ("PATCH", at, without("records"), Same),
        ("PATCH", at, with("type", json!("BOGUS")), Same),
        ("PATCH", at, with("name", json!("x.a.test")), Same),
        ("PATCH", at, with("name", json!("x.b.test.")), Same),
        ("PATCH", at, with("changetype", json!("FOO")), Same),
        ("PATCH", at, with("records", json!([{}])), Same),
        ("PATCH", at, with("records", json!([{ "content": 5 }])), Same),
        ("PATCH", at, with("records", json!([{ "content": "192.0.2.1", "disabled": "no" }])), Same),
        ("PATCH", at, with("records", json!([{ "content": "192.0.2.1" }, { "content": "192.0.2.1" }])), Same),
        ("PATCH", at, with("records", json!([{ "content": "1.2.3" }])), Text),
        ("PATCH", at, with("comments", json!([{ "content": "x" }])), Same),
        ("PATCH", at, with("comments", json!([{ "account": "x" }])), Same),
        ("PATCH", at, Some(json!({})), Same),
        ("PATCH", at, Some(json!({ "rrsets": null })), Same),
        ("PATCH", at, Some(json!({ "rrsets": [5] })), Same),
        ("PATCH", at, one(rrset("m.a.test.", "MX", &["10 mail.x"])), Same),
        ("PATCH", at, one(rrset("m.a.test.", "MX", &["10  mail.x."])), Same),
        ("PATCH", at, one(rrset("m.a.test.", "TXT", &["abc"])), Same),
        ("PATCH", at, one(rrset("c.a.test.", "CNAME", &["a.b.", "c.b."])), Same),
        ("PATCH", at, one(rrset("www.a.test.", "CNAME", &["a.b."])), Text),
        ("PATCH", at, one(rrset("h.a.test.", "HTTPS", &["1 . alpn=\"h2\""])), Same),
        ("PATCH", at, Some(patch(&[rrset("p.a.test.", "A", &["192.0.2.9"]), rrset("p.a.test.", "A", &["192.0.2.8"])])), Same),
        ("PATCH", at, Some(patch(&[
            rrset("m.a.test.", "MX", &["10 Mail.x.test.", "20 mail2.x.test."]),
            rrset("t.a.test.", "TXT", &["\"v=spf1 -all\"", "\"a\" \"b;c\""]),
            rrset("u.a.test.", "AAAA", &["2001:DB8:0::1"]),
            rrset("h.a.test.", "HTTPS", &["1 . alpn=h2 ipv4hint=192.0.2.1"]),
            rrset("_sip._tcp.a.test.", "SRV", &["1 2 5060 sip.a.test."]),
            rrset("c.a.test.", "CNAME", &["Target.x.test."]),
            rrset("*.a.test.", "A", &["192.0.2.4"]),
            rrset("a.test.", "CAA", &["0 issue \"ca.example\""]),
            rrset("n.a.test.", "NAPTR", &["100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:i@x.test!\" ."]),
            rrset("a.b.c.a.test.", "A", &["192.0.2.5"]),
        ])), Same),
        ("PATCH", at, one(json!({ "name": "x.a.test.", "type": "A", "changetype": "REPLACE",
            "comments": [{ "content": "c1", "account": "me", "modified_at": 1 }, { "content": "c2", "account": "me", "modified_at": 2 }] })),
            Differs("comments are not part of the zone: the serial stays")),
        ("PATCH", at, one(json!({ "name": "c.a.test.", "type": "CNAME", "changetype": "DELETE", "records": null })), Same),
        ("PATCH", at, one(json!({ "name": "u.a.test.", "type": "AAAA", "ttl": 60, "changetype": "REPLACE", "records": [] })), Same),
        ("PATCH", at, with("ttl", json!(-1)), Differs("PowerDNS stores the TTL 4294967295")),
        ("PATCH", at, with("ttl", json!(300)), Same),
        ("PATCH", at, with("records", json!([])), Same),
        ("GET", at, None, Differs("the serial, which PowerDNS has raised for changes of nothing; the rows are compared below")),
        ("GET", "/zones/a.test.?rrset_name=m.a.test.&rrset_type=MX", None, Differs("the serial")),
    ]
}

#[rustfmt::skip]
fn other_requests() -> Vec<Request> {
    let metadata = "/zones/d.test./metadata";
    let keys = "/zones/d.test./cryptokeys";
    vec![
        ("GET", "/zones/d.test./metadata/ALLOW-AXFR-FROM", None, Same),
        ("POST", metadata, Some(json!({ "kind": "ALLOW-AXFR-FROM", "metadata": ["192.0.2.0/24"] })), Same),
        ("POST", metadata, Some(json!({ "kind": "ALLOW-AXFR-FROM", "metadata": ["198.51.100.0/24"] })), Same),
        ("PUT", "/zones/d.test./metadata/ALLOW-AXFR-FROM", Some(json!({ "metadata": ["AUTO-NS"] })), Same),
        ("POST", metadata, Some(json!({ "kind": "ALSO-NOTIFY" })), Same),
        ("POST", metadata, Some(json!({ "metadata": ["x"] })), Same),
        ("POST", metadata, Some(json!({ "kind": "ALSO-NOTIFY", "metadata": [5] })), Same),
        ("POST", metadata, Some(json!({ "kind": "BOGUS", "metadata": ["x"] })), Text),
        ("PUT", "/zones/d.test./metadata/SOA-EDIT-API", Some(json!({ "metadata": ["DEFAULT"] })), Same),
        ("PUT", "/zones/d.test./metadata/NSEC3PARAM", Some(json!({ "metadata": ["1 0 0 -"] })), Same),
        ("GET", metadata, None, Same),
        ("DELETE", "/zones/d.test./metadata/ALLOW-AXFR-FROM", None, Same),
        ("GET", keys, None, Same),
        ("POST", keys, Some(json!({ "keytype": "bogus" })), Same),
        ("POST", keys, Some(json!({ "keytype": "csk", "algorithm": "nope" })), Text),
        ("POST", keys, Some(json!({})), Same),
        ("POST", keys, Some(json!({ "keytype": "csk", "published": false, "active": false, "algorithm": 15 })),
            Differs("the keytype of a key that signs nothing: PowerDNS calls it csk, here it is what it is for")),
        ("GET", "/zones/d.test./cryptokeys/99", None, Same),
        ("PUT", "/zones/d.test./cryptokeys/99", Some(json!({ "active": true })), Same),
        ("PUT", "/zones/d.test./cryptokeys/1", Some(json!({})), Same),
        ("GET", "/tsigkeys", None, Same),
        ("POST", "/tsigkeys", Some(json!({ "name": "key1", "algorithm": "hmac-sha256", "key": "AAAAAAAAAAAAAAAAAAAAAA==" })), Same),
        ("POST", "/tsigkeys", Some(json!({ "name": "key1", "algorithm": "hmac-sha256" })), Same),
        ("POST", "/tsigkeys", Some(json!({ "name": "key2" })), Same),
        ("POST", "/tsigkeys", Some(json!({ "name": "key2", "algorithm": "hmac-sha256", "key": "!!" })), Text),
        ("GET", "/tsigkeys/key1.", None, Same),
        ("GET", "/tsigkeys/none", None, Same),
        ("GET", "/tsigkeys", None, Same),
        ("PUT", "/tsigkeys/key1.", Some(json!({ "name": "key3" })), Same),
        ("DELETE", "/tsigkeys/key3.", None, Same),
        ("DELETE", "/tsigkeys/key3.", None, Same),
        ("GET", "/autoprimaries", None, Same),
        ("POST", "/autoprimaries", Some(json!({ "ip": "192.0.2.5", "nameserver": "ns1.x.test", "account": "a" })), Same),
        ("POST", "/autoprimaries", Some(json!({ "ip": "192.0.2.5", "nameserver": "ns1.x.test" })), Differs("PowerDNS answers 500")),
        ("POST", "/autoprimaries", Some(json!({ "nameserver": "x." })), Same),
        ("DELETE", "/autoprimaries/192.0.2.5/ns1.x.test", None, Same),
        ("DELETE", "/autoprimaries/192.0.2.5/ns1.x.test", None, Same),
        ("GET", "/autoprimaries/192.0.2.5/ns1.x.test", None, Same),
        ("GET", "/search-data?q=www.z*", None, Same),
        ("GET", "/search-data?q=z.test&object_type=zone", None, Same),
        ("GET", "/search-data?q=hi&object_type=comment", None, Same),
        ("GET", "/search-data?q=", None, Same),
        ("GET", "/search-data?q=x&max=0", None, Same),
        ("GET", "/search-data?q=x&object_type=bogus", None, Same),
        ("GET", "/search-data?q=x&max=abc", None, Differs("PowerDNS answers 500")),
        ("PUT", "/cache/flush?domain=a.test", None, Same),
        ("GET", "/cache/flush?domain=a.test.", None, Same),
        ("GET", "/statistics?statistic=none", None, Same),
        ("GET", "/nonsense", None, Same),
        ("GET", "", None, Same),
        ("DELETE", "/zones/z.test.", None, Same),
    ]
}

/// Documented requests and fields that are not in the lists above. The zone `e.test.` has no SOA-EDIT-API, so its
/// serial stays on both sides.
#[rustfmt::skip]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn documented_requests() -> Vec<Request> {
    let at = "/zones/e.test.";
    let one = |rrset: Value| Some(patch(&[rrset]));
    let long = format!("\"{}\"", "x".repeat(300));
    let dnskey = "257 3 13 mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==";
    let ds = "1 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let created = json!({ "name": "e.test.", "kind": "Native", "nameservers": [], "soa_edit_api": "",
        "rrsets": [rrset("e.test.", "SOA", &["ns1.e.test. h.e.test. 7 10800 3600 604800 3600"]), rrset("e.test.", "NS", &["ns1.e.test."])] });
    let mut disabled = rrset("off.e.test.", "A", &["192.0.2.1"]);
    disabled["records"][0]["disabled"] = json!(true);
    vec![
        ("POST", "/zones?rrsets=false", Some(created), Same),
        ("PATCH", at, one(rrset("long.e.test.", "TXT", &[&long])), Same),
        ("PATCH", at, one(rrset("utf.e.test.", "TXT", &["\"caf\u{e9} \u{20ac}\""])), Same),
        ("PATCH", at, one(rrset("semi.e.test.", "TXT", &["\"a\\;b;c\""])), Same),
        ("PATCH", at, one(rrset("two.e.test.", "TXT", &["\"a\" \"b\""])), Same),
        ("PATCH", at, one(rrset("spf.e.test.", "SPF", &["\"v=spf1 -all\""])), Same),
        ("PATCH", at, one(rrset("uri.e.test.", "URI", &["10 1 \"https://x.test/\""])), Same),
        ("PATCH", at, one(rrset("sshfp.e.test.", "SSHFP", &["4 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"])), Same),
        ("PATCH", at, one(rrset("tlsa.e.test.", "TLSA", &["3 1 1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"])), Same),
        ("PATCH", at, one(rrset("loc.e.test.", "LOC", &["51 56 0.123 N 5 54 0.000 E 4.00m 1.00m 10000.00m 10.00m"])), Same),
        ("PATCH", at, one(rrset("sub.e.test.", "NS", &["ns1.sub.e.test."])), Same),
        ("PATCH", at, one(rrset("sub.e.test.", "DS", &[ds])), Same),
        ("PATCH", at, one(rrset("ns1.sub.e.test.", "A", &["192.0.2.53"])), Same),
        ("PATCH", at, one(rrset("dname.e.test.", "DNAME", &["other.test."])), Same),
        ("PATCH", at, one(rrset("e.test.", "DS", &[ds])), Text),
        ("PATCH", at, one(rrset("sub.e.test.", "DNSKEY", &[dnskey])), Differs("4.7 accepts it, 5.x refuses it")),
        ("PATCH", at, one(json!({ "name": "sub.e.test.", "type": "DNSKEY", "changetype": "DELETE" })), Same),
        ("PATCH", at, one(rrset("sp ace.e.test.", "A", &["192.0.2.1"])), Same),
        ("PATCH", at, one(rrset("under_score.e.test.", "A", &["192.0.2.1"])), Same),
        ("PATCH", at, one(disabled), Same),
        ("PATCH", at, one(json!({ "name": "long.e.test.", "type": "TXT", "changetype": "REPLACE",
            "comments": [{ "content": "alone", "account": "me", "modified_at": 9 }] })), Same),
        ("PATCH", at, one(json!({ "name": "long.e.test.", "type": "TXT", "changetype": "REPLACE", "comments": [] })), Same),
        ("PATCH", at, one(json!({ "name": "none.e.test.", "type": "TXT", "changetype": "DELETE" })), Same),
        ("PATCH", at, Some(patch(&[json!({ "name": "two.e.test.", "type": "TXT", "changetype": "DELETE" }),
            rrset("two.e.test.", "CNAME", &["www.x.test."])])), Same),
        ("GET", at, None, Same),
        ("GET", "/zones/e.test.?rrset_name=utf.e.test.", None, Same),
        ("GET", "/zones/e.test.?rrset_name=utf.e.test", None, Same),
        ("GET", "/zones/e.test.?rrset_type=TXT", None, Same),
        ("GET", "/zones/e.test.?rrset_name=none.e.test.&rrset_type=A", None, Same),
        ("GET", "/zones/e.test./export", None, Same),
        ("GET", "/zones/none.test./export", None, Same),
        ("PUT", "/zones/none.test./notify", None, Same),
        ("PUT", "/zones/none.test./rectify", None, Same),
        ("PUT", "/zones/e.test./rectify", None, Same),
        ("PUT", "/zones/none.test./axfr-retrieve", None, Same),
        ("PUT", "/zones/e.test./axfr-retrieve", None, Differs("5.x says secondary and primary, 4.7 the old words")),
        ("GET", "/zones/e.test./notify", None, Same),
        ("PUT", at, Some(json!({ "catalog": "", "account": "dept" })), Same),
        ("PUT", at, Some(json!({ "soa_edit": "EPOCH" })), Same),
        ("PUT", at, Some(json!({ "soa_edit": "" })), Same),
        ("PUT", at, Some(json!({ "api_rectify": true })), Same),
        ("PUT", at, Some(json!({ "api_rectify": "yes" })), Differs("PowerDNS ignores what is no boolean")),
        ("PUT", at, Some(json!({ "master_tsig_key_ids": ["none."] })), Text),
        ("POST", "/tsigkeys", Some(json!({ "name": "zonekey", "algorithm": "hmac-sha256", "key": "AAAAAAAAAAAAAAAAAAAAAA==" })), Same),
        ("PUT", at, Some(json!({ "master_tsig_key_ids": ["zonekey."], "slave_tsig_key_ids": ["zonekey."] })), Same),
        ("GET", "/zones/e.test.?rrsets=false", None, Same),
        ("PUT", at, Some(json!({ "master_tsig_key_ids": [], "slave_tsig_key_ids": [] })), Same),
        ("PUT", "/tsigkeys/zonekey.", Some(json!({ "algorithm": "hmac-sha512", "key": "BBBBBBBBBBBBBBBBBBBBBA==" })), Same),
        ("PUT", "/tsigkeys/none.", Some(json!({ "name": "x" })), Same),
        ("PUT", "/tsigkeys/zonekey.", Some(json!({ "algorithm": "nope" })), Text),
        ("DELETE", "/tsigkeys/zonekey.", None, Same),
        ("POST", "/zones/e.test./metadata", Some(json!({ "kind": "X-Mixed", "metadata": ["one", "two"] })), Same),
        ("GET", "/zones/e.test./metadata/X-Mixed", None, Same),
        ("DELETE", "/zones/e.test./metadata/X-Mixed", None, Same),
        ("PUT", "/zones/e.test./metadata/ALSO-NOTIFY", Some(json!({ "metadata": ["192.0.2.1:5300"] })), Same),
        ("PUT", "/zones/e.test./metadata/ALSO-NOTIFY", Some(json!({ "metadata": [] })), Same),
        ("POST", "/zones/e.test./metadata/ALSO-NOTIFY", Some(json!({ "metadata": [] })), Same),
        ("GET", "/zones/none.test./cryptokeys", None, Same),
        ("POST", "/zones/none.test./cryptokeys", Some(json!({ "keytype": "csk" })), Same),
        ("DELETE", "/zones/e.test./cryptokeys/1", None, Text),
        ("GET", "/zones/e.test./cryptokeys/abc", None, Differs("PowerDNS answers 500")),
        ("GET", "/search-data?q=utf.e.test&max=1&object_type=record", None, Same),
        ("GET", "/search-data?q=*e.test*&object_type=zone", None, Same),
        ("GET", "/statistics?statistic=uptime", None, Differs("the value")),
        ("GET", "/statistics?statistic=qtypes", None, Same),
        ("PUT", "/cache/flush?domain=e.test.", None, Differs("the number of cached answers")),
        ("PUT", "/cache/flush", None, Same),
        ("POST", "/autoprimaries", Some(json!({ "ip": "2001:db8::5", "nameserver": "ns6.x.test", "account": "" })), Same),
        ("DELETE", "/autoprimaries/2001:db8::5/ns6.x.test", None, Same),
        ("GET", "/autoprimaries/", None, Differs("a final slash is ignored here")),
        ("PUT", "/zones", Some(json!({})), Same),
        ("DELETE", "/config", None, Same),
        ("DELETE", at, None, Same),
        ("GET", at, None, Same),
    ]
}

/// The body without inherently different values: times, new keys, versions, the order of RRsets.
fn comparable(body: &Value) -> Value {
    match body {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| {
                let value = match key.as_str() {
                    "version" | "notified_serial" | "dnskey" | "ds" | "privatekey"
                    | "modified_at" => json!("*"),
                    _ => comparable(value),
                };
                (key.clone(), value)
            });
            Value::Object(fields.collect())
        }
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(comparable).collect();
            list.sort_by_key(Value::to_string);
            Value::Array(list)
        }
        Value::String(text) if text.contains('\n') => {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            json!(lines.join("\n"))
        }
        other => other.clone(),
    }
}

fn check(theirs: &Reply, ours: &Reply, allowed: Allowed) -> Option<String> {
    let is_same = match allowed {
        Differs(_) => true,
        Text => theirs.status == ours.status && ours.json()["error"].is_string(),
        Same => {
            theirs.status == ours.status && comparable(&theirs.json()) == comparable(&ours.json())
        }
    };
    (!is_same).then(|| {
        format!(
            "PowerDNS: {} {}\nNameward: {} {}",
            theirs.status, theirs.body, ours.status, ours.body
        )
    })
}

/// Rows of a table as texts, sorted.
fn rows(database: &Sqlite, sql: &str) -> Vec<String> {
    let connection = rusqlite::Connection::open(&database.path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    let mut rows: Vec<String> = rows.map(Result::unwrap).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn the_api_answers_and_writes_as_that_of_powerdns() {
    let directory = tempfile::tempdir().unwrap();
    let reference = Sqlite::new(directory.path());
    reference.add(&zone("kept.test", "192.0.2.1"));
    let Some((_powerdns, theirs)) = start_powerdns(&reference, directory.path()) else {
        return;
    };
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("kept.test", "192.0.2.1"));
    let server = setup
        .config(&settings())
        .config(&database.backend("live"))
        .start();
    let ours = Client::new(server.api());
    let mut faults = Vec::new();
    let requests = zone_requests()
        .into_iter()
        .chain(rrset_requests())
        .chain(other_requests())
        .chain(documented_requests());
    for (method, path, body, allowed) in requests {
        let replies = [&theirs, &ours].map(|client| client.send(method, path, body.as_ref()));
        if let Some(fault) = check(&replies[0], &replies[1], allowed) {
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            faults.push(format!("{method} {path} {body}\n{fault}"));
        }
    }
    let is_json = |client: &Client| {
        let request = format!(
            "GET /api/v1/servers/localhost/none HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nConnection: close\r\n\r\n"
        );
        exchange(client.at, request.as_bytes()).map(|reply| reply.body)
    };
    assert_eq!(
        is_json(&theirs),
        is_json(&ours),
        "errors for clients that accept anything"
    );
    for sql in [
        // The serial of the zone that was changed with and without effect differs.
        "SELECT name || ' ' || type || ' ' || content || ' ' || ttl || ' ' || ifnull(prio, 0) || ' ' || disabled FROM records \
         WHERE type IS NOT NULL AND type <> 'SOA'",
        "SELECT c.name || ' ' || c.type || ' ' || c.account || ' ' || c.comment || ' ' || c.modified_at FROM comments c",
        "SELECT d.name || ' ' || m.kind || ' ' || m.content FROM domainmetadata m JOIN domains d ON d.id = m.domain_id",
        "SELECT name || ' ' || type || ' ' || ifnull(master, '') || ' ' || ifnull(account, '') FROM domains",
        "SELECT d.name || ' ' || k.flags || ' ' || k.active || ' ' || k.published FROM cryptokeys k JOIN domains d ON d.id = k.domain_id",
    ] {
        let (theirs, ours) = (rows(&reference, sql), rows(&database, sql));
        if theirs != ours {
            let only = |a: &[String], b: &[String]| {
                a.iter()
                    .filter(|row| !b.contains(row))
                    .cloned()
                    .collect::<Vec<_>>()
            };
            faults.push(format!(
                "rows of PowerDNS only: {:?}\nrows of Nameward only: {:?}",
                only(&theirs, &ours),
                only(&ours, &theirs)
            ));
        }
    }
    assert!(
        faults.is_empty(),
        "{} differences:\n{}",
        faults.len(),
        faults.join("\n\n")
    );
}
