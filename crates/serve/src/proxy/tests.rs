//! Tests of PROXY headers: valid ones, malformed ones, and arbitrary octets.

use super::*;
use proptest::prelude::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Builds a version 2 header.
fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u16).to_be_bytes();
    [&SIGNATURE[..], &[0x20 | command, family], &len, body].concat()
}

const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 53, 0xdc, 0x04, 0, 53];

fn v4_ends() -> Option<ProxiedEnds> {
    Some(ProxiedEnds {
        client: address("192.0.2.1:56324"),
        local: address("198.51.100.53:53"),
    })
}

fn v6_body(client: &str) -> Vec<u8> {
    let ip = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let ports = [0xdc, 0x04, 0, 53];
    [&ip(client)[..], &ip("2001:db8::53"), &ports].concat()
}

#[test]
fn addresses_of_both_families_and_transports_are_read_and_tlvs_skipped() {
    for transport in [1, 2] {
        for tlvs in [&b""[..], b"\x03\0\x04abcd", b"\xe0\0\x01x"] {
            let header = v2(1, 0x10 | transport, &[&V4[..], tlvs].concat());
            let packet = [&header[..], b"data"].concat();
            let read = read_datagram(&packet).unwrap();
            assert_eq!((read.len, read.ends), (header.len(), v4_ends()));
            assert_eq!(read_stream(&packet), Ok(read));
        }
        let packet = v2(1, 0x20 | transport, &v6_body("2001:db8::1"));
        let ends = read_datagram(&packet).unwrap().ends.unwrap();
        assert_eq!(ends.client, address("[2001:db8::1]:56324"));
        assert_eq!(ends.local, address("[2001:db8::53]:53"));
        let mapped = v2(1, 0x20 | transport, &v6_body("::ffff:192.0.2.1"));
        let ends = read_datagram(&mapped).unwrap().ends.unwrap();
        assert_eq!(ends.client, address("192.0.2.1:56324"));
    }
}

#[test]
fn a_local_proxy_header_keeps_the_addresses_of_the_socket() {
    for header in [v2(0, 0, &[]), v2(0, 0x11, &V4), v2(1, 0, b"\x03\0\x01x")] {
        let read = read_datagram(&header).unwrap();
        assert_eq!((read.len, read.ends), (header.len(), None));
    }
    let line = b"PROXY UNKNOWN ffff:f...f:ffff 65535 x\r\n";
    assert_eq!(read_stream(line).unwrap().ends, None);
    let line = b"PROXY UNKNOWN\r\nmore";
    assert_eq!(read_stream(line).unwrap().len, 15);
}

#[test]
fn other_commands_versions_families_and_lengths_are_malformed() {
    let mut version = v2(1, 0x11, &V4);
    version[12] = 0x11;
    let too_long = v2(1, 0x11, &vec![0; HEADER_MAX]);
    let wrong = [
        v2(2, 0x11, &V4),
        v2(15, 0x11, &V4),
        v2(1, 0x31, &[0; 216]),
        v2(1, 0x10, &V4),
        v2(1, 0x11, &V4[..11]),
        v2(1, 0x21, &V4),
        version,
        too_long,
        b"\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec(),
    ];
    for packet in wrong {
        assert_eq!(read_datagram(&packet), None, "{packet:?}");
        assert_eq!(read_stream(&packet), Err(NoHeader::Malformed), "{packet:?}");
    }
    // Two line ends could also start a DNS message: the signature decides.
    assert_eq!(read_datagram(b"PROXY UNKNOWN\r\n"), None);
}

#[test]
fn lines_of_version_1_are_read_exactly() {
    let read = read_stream(b"PROXY TCP4 192.0.2.1 198.51.100.53 56324 53\r\nmore").unwrap();
    assert_eq!((read.len, read.ends), (45, v4_ends()));
    let read = read_stream(b"PROXY TCP6 2001:db8::1 2001:db8::53 56324 53\r\n").unwrap();
    assert_eq!(read.ends.unwrap().client, address("[2001:db8::1]:56324"));
    let longest = [&b"PROXY UNKNOWN "[..], &[b'x'; 91], b"\r\n"].concat();
    assert_eq!(read_stream(&longest).unwrap().len, LINE_MAX);
    let longer = [&b"PROXY UNKNOWN "[..], &[b'x'; 92], b"\r\n"].concat();
    for wrong in [
        &longer[..],
        b"PROXY TCP4 192.0.2.1 198.51.100.53 56324\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.53 56324 53 1\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.53 65536 53\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.53 +1 53\r\n",
        b"PROXY TCP4 2001:db8::1 2001:db8::53 56324 53\r\n",
        b"PROXY TCP4  192.0.2.1 198.51.100.53 56324 53\r\n",
        b"PROXY UDP4 192.0.2.1 198.51.100.53 56324 53\r\n",
        b"PROXY \xff\r\n",
        b"PROXX",
        b"proxy TCP4",
    ] {
        assert_eq!(read_stream(wrong), Err(NoHeader::Malformed), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn any_octets_are_read_within_their_length(
        octets in proptest::collection::vec(any::<u8>(), 0..300),
        starts in 0..3usize,
    ) {
        let start = [&b""[..], &SIGNATURE, b"PROXY TCP4 "][starts];
        let packet = [start, &octets].concat();
        if let Some(header) = read_datagram(&packet) {
            prop_assert!(header.len <= packet.len() && header.len >= FIXED);
        }
        match read_stream(&packet) {
            Ok(header) => prop_assert!(header.len <= packet.len()),
            // There is progress, and a limit.
            Err(NoHeader::Incomplete(needed)) => {
                prop_assert!(needed > packet.len() && needed <= HEADER_MAX);
            }
            Err(NoHeader::Malformed) => {}
        }
    }

    #[test]
    fn a_header_in_pieces_is_the_header(
        client in any::<[u8; 4]>(), port in any::<u16>(), tlvs in 0..50usize, is_v1 in any::<bool>(),
    ) {
        let client = SocketAddr::from((client, port));
        let header = if is_v1 {
            format!("PROXY TCP4 {} 192.0.2.53 {port} 53\r\n", client.ip()).into_bytes()
        } else {
            let IpAddr::V4(ip) = client.ip() else { unreachable!() };
            let body = [&ip.octets()[..], &[192, 0, 2, 53], &port.to_be_bytes(), &[0, 53], &vec![9; tlvs]];
            v2(1, 0x11, &body.concat())
        };
        for len in 0..header.len() {
            let read = read_stream(&header[..len]);
            let is_waiting = matches!(read, Err(NoHeader::Incomplete(needed)) if needed > len && needed <= header.len());
            prop_assert!(is_waiting, "{len}: {read:?}");
        }
        let read = read_stream(&header).unwrap();
        prop_assert_eq!(read.len, header.len());
        prop_assert_eq!(read.ends.unwrap().client, client);
    }
}
