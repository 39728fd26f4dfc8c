//! Questions in class CH about the server itself (RFC 4892).

use nameward_answer::{Engine, Medium, Scratch, ServerIdentity};
use nameward_wire::message::{Message, Query};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{NameKey, ZoneTable};

fn ask(engine: &Engine, name: &str, opt: &[u8], medium: Medium) -> Vec<u8> {
    let name: NameBuf = name.parse().unwrap();
    let mut packet = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(b"\0\x10\0\x03");
    packet[11] = u8::from(!opt.is_empty());
    packet.extend_from_slice(opt);
    let query = Query::parse(&packet).unwrap();
    let (zones, key) = (ZoneTable::default(), NameKey::new(query.qname));
    let mut out = [0; 4096];
    let mut scratch = Scratch::default();
    let asked = (&key, None);
    let reply = engine.respond(&zones, &query, asked, medium, &mut scratch, &mut out);
    assert_eq!(reply.truncated, out[2] & 2 != 0);
    out[..reply.len()].to_vec()
}

fn engine(version: String) -> Engine {
    Engine {
        identity: ServerIdentity {
            version,
            id: "ns1".into(),
            nsid: b"frankfurt".to_vec(),
        },
        ..Engine::default()
    }
}

#[test]
fn a_reply_about_the_server_carries_its_nsid() {
    let asks_nsid = b"\0\0\x29\x04\xd0\0\0\0\0\0\x04\0\x03\0\0";
    let engine = engine("nameward".into());
    for name in ["version.bind.", "id.server.", "nobody.knows."] {
        let reply = ask(&engine, name, asks_nsid, Medium::Datagram);
        let message = Message::parse(&reply).unwrap();
        let records: Vec<_> = message.records().map(Result::unwrap).collect();
        let opt = records.last().unwrap();
        assert_eq!(opt.rtype, Type::OPT);
        // RFC 5001 section 2.1: the server that is asked says who it is, whatever the question.
        assert!(
            opt.raw_data().starts_with(b"\0\x03\0\x09frankfurt"),
            "{name}"
        );
    }
}

#[test]
fn a_reply_about_the_server_stays_within_what_the_client_takes() {
    // 235 octets of name and 255 of text are more than 512 with all the rest.
    let label = "a".repeat(63);
    let long = engine("v".repeat(255));
    let reply = ask(&long, "version.bind.", b"", Medium::Datagram);
    assert_eq!((reply.len(), reply[2] & 2, reply[7]), (30 + 268, 0, 1));
    assert_eq!(
        ask(&long, &format!("{label}."), b"", Medium::Datagram)[3] & 15,
        5
    );
    let large = Engine {
        identity: ServerIdentity {
            nsid: vec![b'n'; 300],
            ..long.identity.clone()
        },
        ..long
    };
    let asks_nsid = b"\0\0\x29\x02\0\0\0\0\0\0\x04\0\x03\0\0";
    let reply = ask(&large, "version.bind.", asks_nsid, Medium::Datagram);
    assert!(reply.len() <= 512, "{}", reply.len());
    assert_eq!((reply[2] & 2, reply[7], reply[11]), (2, 0, 1));
    let reply = ask(&large, "version.bind.", asks_nsid, Medium::Stream);
    assert_eq!((reply[2] & 2, reply[7], reply[11]), (0, 1, 1));
}
