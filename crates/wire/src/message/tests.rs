//! Tests of requests: what is read, what is malformed, what is kept.

use super::*;
use crate::rtype::{Class, Opcode, Type};

const PLAIN: &[u8] = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x03wWw\x07example\0\x00\x01\x00\x01";

fn with_additional(records: &[&[u8]]) -> Vec<u8> {
    let mut packet = PLAIN.to_vec();
    packet[11] = records.len() as u8;
    records
        .iter()
        .for_each(|record| packet.extend_from_slice(record));
    packet
}

const OPT: &[u8] = b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

#[test]
fn a_plain_query_is_read_as_sent() {
    let query = Query::parse(PLAIN).unwrap();
    assert_eq!(query.qname.as_wire(), b"\x03wWw\x07example\0");
    assert_eq!((query.qtype, query.qclass), (Type::A, Class::IN));
    assert!(query.rd() && query.edns.is_none());
    assert_eq!(query.question_end, PLAIN.len());
}

#[test]
fn edns_is_read() {
    let packet = with_additional(&[OPT]);
    let edns = Query::parse(&packet).unwrap().edns.unwrap();
    assert_eq!(
        (edns.payload, edns.version, edns.dnssec_ok),
        (1232, 0, true)
    );
    let with_options =
        b"\0\x00\x29\x02\x00\x00\x01\x00\x00\x00\x10\x00\x03\0\0\x00\x0a\0\x08abcdefgh";
    let packet = with_additional(&[with_options]);
    let query = Query::parse(&packet).unwrap();
    assert!(query.edns.unwrap().nsid && query.edns.unwrap().version == 1);
    assert_eq!(query.cookie(), Some(&b"abcdefgh"[..]));
    assert!(query.has_cookie() && !query.is_plain);
}

#[test]
fn a_cookie_has_8_or_16_to_40_octets() {
    for len in 0..50u8 {
        let fixed = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4 + len, 0, 10, 0, len];
        let opt = [&fixed[..], &vec![7; len.into()]].concat();
        let packet = with_additional(&[&opt]);
        let is_valid = matches!(len, 8 | 16..=40);
        assert_eq!(Query::parse(&packet).is_ok(), is_valid, "{len}");
        let alone = [&b"\x12\x34\0\0\0\0\0\0\0\0\0\x01"[..], &opt].concat();
        assert_eq!(
            Query::parse_cookie_only(&alone).is_some(),
            is_valid,
            "{len}"
        );
        assert!(Query::parse_cookie_only(&alone[..alone.len() - 1]).is_none());
    }
    assert!(Query::parse_cookie_only(&with_additional(&[OPT])).is_none());
}

#[test]
fn a_keepalive_option_is_read_with_or_without_a_value() {
    let keepalive = |options: &[u8]| {
        let fixed = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8];
        let packet = with_additional(&[&[&fixed[..], options].concat()]);
        let query = Query::parse(&packet).unwrap();
        let edns = query.edns.unwrap();
        assert_eq!(query.is_plain, edns.keepalive == KeepaliveOption::Absent);
        assert_eq!(*query.reply_options, ReplyOptions::NONE);
        edns.keepalive
    };
    assert_eq!(keepalive(&[]), KeepaliveOption::Absent);
    assert_eq!(keepalive(&[0, 11, 0, 0]), KeepaliveOption::Empty);
    let with_value = [0, 11, 0, 2, 0, 50];
    assert_eq!(keepalive(&with_value), KeepaliveOption::WithValue);
    let both = [&with_value[..], &[0, 11, 0, 0]].concat();
    assert_eq!(keepalive(&both), KeepaliveOption::WithValue);
}

#[test]
fn wrong_packets_have_different_errors() {
    let parse = |packet: &[u8]| Query::parse(packet).map(|_| ()).unwrap_err();
    assert_eq!(parse(&PLAIN[..11]), Malformed::TooShort);
    let mut response = PLAIN.to_vec();
    response[2] |= 0x80;
    assert_eq!(parse(&response), Malformed::Response);
    let mut status = PLAIN.to_vec();
    status[2] = 2 << 3;
    assert_eq!(Query::parse(&status).unwrap().opcode, Opcode(2));
    assert_eq!(parse(&status[..12]), Malformed::NotImplemented);
    for len in 12..PLAIN.len() {
        assert_eq!(parse(&PLAIN[..len]), Malformed::FormErr, "{len}");
    }
    let mut two = PLAIN.to_vec();
    two[5] = 2;
    assert_eq!(parse(&two), Malformed::FormErr);
    let end = PLAIN.len();
    assert_eq!(
        parse(&with_additional(&[OPT, OPT])),
        Malformed::FormErrAfterQuestion(end)
    );
    let owned = b"\x01a\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";
    assert_eq!(
        parse(&with_additional(&[owned])),
        Malformed::FormErrAfterQuestion(end)
    );
    let bad_option = b"\0\x00\x29\x02\x00\x00\x00\x00\x00\x00\x05\x00\x03\0\x09a";
    assert_eq!(
        parse(&with_additional(&[bad_option])),
        Malformed::FormErrAfterQuestion(end)
    );
    for len in 0..OPT.len() {
        let packet = with_additional(&[&OPT[..len]]);
        assert_eq!(
            parse(&packet),
            Malformed::FormErrAfterQuestion(end),
            "{len}"
        );
    }
}

#[test]
fn a_kept_request_is_the_same_request_without_its_length() {
    let padding = [
        &b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x03\xe8\x00\x0c\x03\xe4"[..],
        &[0; 996],
    ]
    .concat();
    let packet = with_additional(&[&padding]);
    let query = Query::parse(&packet).unwrap();
    let kept = QueryBuf::from(&query);
    let again = kept.as_query();
    assert_eq!(again.packet(), &packet[..PLAIN.len()]);
    assert_eq!((again.qname, again.qtype), (query.qname, query.qtype));
    assert_eq!((again.qclass, again.opcode), (query.qclass, query.opcode));
    assert_eq!(again.question_end, query.question_end);
    let (edns, before) = (again.edns.unwrap(), query.edns.unwrap());
    assert_eq!(
        (edns.payload, edns.version),
        (before.payload, before.version)
    );
    assert_eq!((edns.dnssec_ok, edns.nsid), (true, before.nsid));
    assert!(again.rd());
}

proptest::proptest! {
    #[test]
    fn arbitrary_packets_never_panic(packet in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = Query::parse(&packet);
    }
}
