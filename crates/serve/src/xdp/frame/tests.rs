//! Frames are parsed and answered; damaged or unanswerable ones are dropped.

use super::*;
use proptest::prelude::*;

const INTERFACE: u32 = 7;

/// A frame with a datagram, as a client sends it.
fn frame(client: SocketAddr, local: SocketAddr, payload: &[u8], is_tagged: bool) -> Vec<u8> {
    let mut head = ReplyHead::default();
    let macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    head.octets[..12].copy_from_slice(&macs);
    let mut at = 12;
    if is_tagged {
        head.octets[at..at + 4].copy_from_slice(&[0x81, 0, 0, 42]);
        at += 4;
    }
    let kind = if client.is_ipv4() {
        TYPE_IPV4
    } else {
        TYPE_IPV6
    };
    head.octets[at..at + 2].copy_from_slice(&kind);
    at += 2;
    head.ip = at as u8;
    let (source, target) = (octets(client.ip()), octets(local.ip()));
    let len = source.len();
    let start: &[u8] = if client.is_ipv4() {
        &[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]
    } else {
        &[0x60, 0, 0, 0, 0, 0, 17, 64]
    };
    for part in [start, &source, &target] {
        head.octets[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    assert_eq!(at, usize::from(head.ip) + start.len() + 2 * len);
    head.octets[at..at + 2].copy_from_slice(&client.port().to_be_bytes());
    head.octets[at + 2..at + 4].copy_from_slice(&local.port().to_be_bytes());
    head.payload = (at + UDP) as u8;
    framed(&head, payload)
}

/// Returns a payload behind its headers.
fn framed(head: &ReplyHead, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; head.len()];
    frame.extend(payload);
    head.write(&mut frame, 1).unwrap();
    frame
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn addresses() -> [(SocketAddr, SocketAddr); 2] {
    let parse = |text: &str| text.parse().unwrap();
    [
        (parse("192.0.2.7:4711"), parse("198.51.100.1:53")),
        (parse("[2001:db8::7]:4711"), parse("[2001:db8::1]:53")),
    ]
}

#[test]
fn the_reply_to_a_datagram_is_a_datagram_in_the_other_direction() {
    for (client, local) in addresses() {
        for is_tagged in [false, true] {
            let query = frame(client, local, b"query", is_tagged);
            let mut head = ReplyHead::default();
            let inbound = read(&query, INTERFACE, &mut head).unwrap();
            assert_eq!((inbound.client, inbound.local), (client, local));
            assert_eq!(inbound.payload, b"query");

            let reply = framed(&head, b"a reply");
            assert_eq!(reply[..6], query[6..12], "to the sender");
            assert_eq!(reply[6..12], query[..6]);
            let tag = 12..if is_tagged { 16 } else { 12 };
            assert_eq!(reply[tag.clone()], query[tag]);
            let back = read(&reply, INTERFACE, &mut ReplyHead::default());
            let back = back.expect("its checksums are right");
            assert_eq!((back.client, back.local), (local, client));
            assert_eq!(back.payload, b"a reply");
        }
    }
}

#[test]
fn a_link_local_client_is_on_the_interface() {
    let (client, local) = (
        "[fe80::1]:5".parse().unwrap(),
        "[fe80::2]:53".parse().unwrap(),
    );
    let query = frame(client, local, b"", false);
    let inbound = read(&query, INTERFACE, &mut ReplyHead::default()).map(|one| one.client);
    assert_eq!(inbound, "[fe80::1%7]:5".parse().ok());
}

#[test]
fn damaged_packets_are_dropped_wherever_the_damage_is() {
    for (client, local) in addresses() {
        let query = frame(client, local, b"a query of some length", false);
        for at in ETHERNET..query.len() {
            let mut damaged = query.clone();
            damaged[at] ^= 0x11;
            // Traffic class, flow label and hops of IPv6 are not covered by a checksum (RFC 8200).
            let is_uncovered = client.is_ipv6() && matches!(at - ETHERNET, 1..=3 | 7);
            let result = read(&damaged, INTERFACE, &mut ReplyHead::default());
            assert_eq!(result.is_some(), is_uncovered, "{client} octet {at}");
        }
    }
}

#[test]
fn checksums_may_be_absent_over_ipv4_only_and_unfinished_within_a_host() {
    for (client, local) in addresses() {
        let mut query = frame(client, local, b"query", false);
        let at = query.len() - 5 - 2;
        query[at..at + 2].fill(0);
        let result = read(&query, INTERFACE, &mut ReplyHead::default()).is_some();
        assert_eq!(result, client.is_ipv4());
        // The sum of the pseudo header: the hardware would complete it.
        let addresses = at - 6 - 2 * octets(client.ip()).len();
        let pseudo = fold(sum(&query[addresses..at - 6]) + 17 + 13);
        query[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        assert!(read(&query, INTERFACE, &mut ReplyHead::default()).is_some());
    }
}

#[test]
fn fragments_options_and_sources_that_cannot_be_answered_are_no_datagrams() {
    let (_, local) = addresses()[0];
    for source in ["0.1.2.3", "127.0.0.1", "224.0.0.1", "255.255.255.255"] {
        let query = frame(
            SocketAddr::new(source.parse().unwrap(), 5),
            local,
            b"q",
            false,
        );
        assert_eq!(read(&query, 1, &mut ReplyHead::default()), None, "{source}");
    }
    let (_, local) = addresses()[1];
    for source in ["::", "::1", "ff02::1", "::ffff:192.0.2.1"] {
        let query = frame(
            SocketAddr::new(source.parse().unwrap(), 5),
            local,
            b"q",
            false,
        );
        assert_eq!(read(&query, 1, &mut ReplyHead::default()), None, "{source}");
    }
    let (client, local) = addresses()[0];
    let query = frame(client, local, b"q", false);
    for (at, octets) in [
        (0, vec![0x46]),
        (6, vec![0x20, 0]),
        (6, vec![0, 1]),
        (9, vec![6]),
    ] {
        let mut other = query.clone();
        other[ETHERNET + at..ETHERNET + at + octets.len()].copy_from_slice(&octets);
        let ip = &mut other[ETHERNET..ETHERNET + IPV4];
        ip[10..12].fill(0);
        let checksum = !fold(sum(ip));
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(read(&other, 1, &mut ReplyHead::default()), None, "{at}");
    }
    let mut group = query.clone();
    group[6] |= 1;
    assert_eq!(read(&group, 1, &mut ReplyHead::default()), None);
}

proptest! {
    #[test]
    fn no_frame_panics(mut frame in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..4) {
        if let (Some(place), 1..) = (frame.get_mut(12..16), kind) {
            let kinds = [[0x08, 0x00, 0x45, 0], [0x86, 0xdd, 0x60, 0], [0x81, 0, 0, 1]];
            place.copy_from_slice(&kinds[kind as usize - 1]);
        }
        let _ = read(&frame, 1, &mut ReplyHead::default());
    }

    #[test]
    fn the_sum_is_that_of_16_bit_words(octets in proptest::collection::vec(any::<u8>(), 0..100)) {
        let words = octets.chunks(2).map(|word| {
            u64::from(word[0]) << 8 | word.get(1).copied().map_or(0, u64::from)
        });
        prop_assert_eq!(fold(sum(&octets)), fold(words.sum()));
    }
}
