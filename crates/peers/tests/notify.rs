//! NOTIFY messages (RFC 1996): accepted from primaries and allowed clients, passed on, and answered.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::loopback::{Loopback, plain_query, rcode, zone};
use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey, TsigKeys, sign_request};
use nameward_maintain::policy::{
    PolicyFragment, PolicySet, PolicySource, PolicyTable, RemoteServer, ZoneKind,
};
use nameward_peers::notify::received::{Notification, NotifyOutcome, NotifySink};
use nameward_peers::transfer_out::{OutgoingTransfers, TransferLimits};
use nameward_peers::zone_requests::ZoneRequestHandler;
use nameward_wire::{NameBuf, Type};
use nameward_zone::{AccessEntry, AccessList, AccessWord};

const NOERROR: u8 = 0;
const FORMERR: u8 = 1;
const REFUSED: u8 = 5;
const NOTAUTH: u8 = 9;
const TEXT: &str = "@ 3600 SOA ns1 host 7 7200 3600 1209600 300\n@ 3600 NS ns1\n";

/// A NOTIFY as it was passed on: the zone, the serial, the key.
type ReceivedNotify = (String, Option<u32>, Option<String>);

/// Stores the NOTIFY messages it receives.
#[derive(Default)]
struct Sink {
    received: Mutex<Vec<ReceivedNotify>>,
    unknown: Mutex<Vec<String>>,
}

impl NotifySink for Sink {
    fn notified(&self, notification: &Notification<'_>) -> NotifyOutcome {
        let Notification {
            zone, serial, key, ..
        } = notification;
        let key = key.map(|key| key.to_string());
        let serial = serial.map(|serial| serial.0);
        self.received
            .lock()
            .unwrap()
            .push((zone.to_string(), serial, key));
        NotifyOutcome::Taken
    }

    fn notified_of_unknown(&self, notification: &Notification<'_>) -> NotifyOutcome {
        let zone = notification.zone.to_string();
        let is_autoprimary = zone.starts_with("auto");
        self.unknown.lock().unwrap().push(zone);
        if is_autoprimary {
            NotifyOutcome::Taken
        } else {
            NotifyOutcome::NotAuth
        }
    }
}

/// A secondary zone of a primary at this address.
fn secondary(address: &str, key: Option<&str>, allowed: &[AccessWord]) -> Arc<PolicyFragment> {
    let address: SocketAddr = address.parse().unwrap();
    let entries: Vec<AccessEntry> = allowed.iter().cloned().map(AccessEntry::positive).collect();
    Arc::new(PolicyFragment {
        kind: Some(ZoneKind::Secondary),
        primaries: Some(vec![RemoteServer {
            address,
            key: key.map(|key| key.parse().unwrap()),
            source: None,
            tls: None,
        }]),
        allow_notify: Some(AccessList::new(&entries)),
        ..PolicyFragment::default()
    })
}

fn server(sink: Arc<Sink>) -> Loopback {
    let server = Loopback::start(vec![zone("primary.", TEXT), zone("plain.", TEXT)], None);
    let policies = Arc::new(PolicyTable::default());
    let mut set = PolicySet::default();
    let key: NameBuf = "key.example.".parse().unwrap();
    let of_loopback = AccessWord::Network("127.0.0.0".parse().unwrap(), 8);
    for (name, part) in [
        // NOTIFY is accepted from any port of the primary's address.
        ("plain.", secondary("127.0.0.1:53", None, &[])),
        (
            "keyed.",
            secondary("127.0.0.1:53", Some("key.example."), &[]),
        ),
        ("far.", secondary("192.0.2.1:53", None, &[])),
        ("allowed.", secondary("192.0.2.1:53", None, &[of_loopback])),
        (
            "bykey.",
            secondary("192.0.2.1:53", None, &[AccessWord::Key(key)]),
        ),
        ("primary.", Arc::new(PolicyFragment::default())),
    ] {
        let name: NameBuf = name.parse().unwrap();
        set.set_zone(name.as_name(), part);
    }
    policies.set(PolicySource::Configured, set);
    let mut keys = TsigKeys::default();
    keys.insert(TsigKey::new(
        key.as_name(),
        TsigAlgorithm::HmacSha256,
        b"secret",
    ));
    server.shared.tsig_keys.store(Arc::new(keys));
    let limits = TransferLimits {
        total: 1,
        per_client: 1,
        sent_octets_max: 1 << 20,
    };
    let (stats, made) = (Arc::clone(&server.shared.stats), Arc::clone(&policies));
    let transfers = server.inside(move || OutgoingTransfers::new(made, None, limits, None, &stats));
    let handler = ZoneRequestHandler::new(policies, transfers).with_notify_sink(sink);
    server.shared.set_zone_requests(Arc::new(handler));
    server
}

fn notify(name: &str) -> Vec<u8> {
    let mut packet = plain_query(name, Type::SOA);
    packet[2] = 4 << 3 | 4;
    packet
}

/// A NOTIFY with the SOA of the new version (RFC 1996 section 3.7).
fn notify_with_serial(name: &str, serial: u32) -> Vec<u8> {
    let mut packet = notify(name);
    packet[7] = 1;
    packet.extend_from_slice(b"\xc0\x0c\x00\x06\x00\x01\0\0\0\0\x00\x16\0\0");
    packet.extend_from_slice(&serial.to_be_bytes());
    packet.extend_from_slice(&[0; 16]);
    packet
}

fn signed(mut packet: Vec<u8>, server: &Loopback) -> Vec<u8> {
    let key: NameBuf = "key.example.".parse().unwrap();
    let keys = server.shared.tsig_keys.load();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    sign_request(
        keys.find(key.as_name()).unwrap(),
        &mut packet,
        now.as_secs(),
    );
    packet
}

#[test]
fn a_notify_is_accepted_from_primaries_with_their_keys_and_from_allowed_clients() {
    let sink = Arc::new(Sink::default());
    let server = server(Arc::clone(&sink));
    for over_tcp in [false, true] {
        for (packet, expected) in [
            (notify("plain."), NOERROR),
            (notify_with_serial("Plain.", 9), NOERROR),
            (notify("keyed."), REFUSED),
            (signed(notify("keyed."), &server), NOERROR),
            (notify("far."), REFUSED),
            (notify("allowed."), NOERROR),
            (notify("bykey."), REFUSED),
            (signed(notify_with_serial("bykey.", 3), &server), NOERROR),
            // A zone that is a primary here, and unknown zones.
            (notify("primary."), NOTAUTH),
            (notify("host.plain."), NOTAUTH),
            (notify("auto.example."), NOERROR),
        ] {
            let reply = server.exchange(&packet, over_tcp);
            assert_eq!(rcode(&reply), expected, "{packet:?}");
            assert_eq!(reply[2] & 0xf8, 0xa0, "a reply to a NOTIFY");
        }
    }
    let key = Some("key.example.".to_string());
    let received = sink.received.lock().unwrap();
    let expected = [
        ("plain.".to_string(), None, None),
        ("Plain.".to_string(), Some(9), None),
        ("keyed.".to_string(), None, key.clone()),
        ("allowed.".to_string(), None, None),
        ("bykey.".to_string(), Some(3), key),
    ];
    assert_eq!(received[..5], expected);
    assert_eq!(received[5..], expected);
    server.wait_counter("incoming-notifications", 22);
}

#[test]
fn a_notify_of_anything_but_a_soa_is_a_format_error_and_garbage_behind_it_is_no_serial() {
    let sink = Arc::new(Sink::default());
    let server = server(Arc::clone(&sink));
    let mut of_address = notify("plain.");
    let qtype_at = of_address.len() - 3;
    of_address[qtype_at] = 1;
    assert_eq!(rcode(&server.exchange(&of_address, false)), FORMERR);
    let mut of_chaos = notify("plain.");
    let class_at = of_chaos.len() - 1;
    of_chaos[class_at] = 3;
    assert_eq!(rcode(&server.exchange(&of_chaos, false)), NOTAUTH);
    // The SOA of another zone, and a truncated one: the NOTIFY counts, the serial does not.
    let mut of_another = notify_with_serial("plain.", 9);
    let owner_at = of_another.len() - 22 - 12;
    of_another.splice(owner_at..owner_at + 2, *b"\x05other\0");
    let mut short = notify_with_serial("plain.", 9);
    let len_at = short.len() - 22 - 1;
    short[len_at] = 5;
    short.truncate(len_at + 1 + 5);
    for packet in [of_another, short] {
        assert_eq!(rcode(&server.exchange(&packet, false)), NOERROR);
    }
    let received = sink.received.lock().unwrap();
    assert!(
        received.len() == 2 && received.iter().all(|(_, serial, _)| serial.is_none()),
        "{received:?}"
    );
}
