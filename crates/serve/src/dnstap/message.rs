//! dnstap messages (dnstap.proto) in Protocol Buffers encoding: the few fields that a name server fills in.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use nameward_stats::Protocol;

use crate::tap::Exchange;

/// Message type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DnstapKind {
    /// AUTH_QUERY: a query as received by this server.
    Query,
    /// AUTH_RESPONSE: a response as sent by this server.
    Response,
}

/// Wire types.
const VARINT: u32 = 0;
const OCTETS: u32 = 2;
const FIXED32: u32 = 5;

struct ProtoWriter(Vec<u8>);

impl ProtoWriter {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
    }

    fn fixed(&mut self, field: u32, value: u32) {
        self.varint(u64::from(field << 3 | FIXED32));
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn octets(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field << 3 | OCTETS));
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn time(&mut self, fields: (u32, u32), time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.number(fields.0, since.as_secs());
        self.fixed(fields.1, since.subsec_nanos());
    }

    fn address(&mut self, fields: (u32, u32), address: SocketAddr) {
        match address.ip() {
            IpAddr::V4(ip) => self.octets(fields.0, &ip.octets()),
            IpAddr::V6(ip) => self.octets(fields.0, &ip.octets()),
        }
        self.number(fields.1, address.port().into());
    }
}

/// Encodes a query or a response.
pub(super) fn encode(
    kind: DnstapKind,
    exchange: &Exchange<'_>,
    identity: &[u8],
    version: &[u8],
) -> Vec<u8> {
    let length = |octets: Option<&[u8]>| octets.map_or(0, <[u8]>::len);
    let mut message = ProtoWriter(Vec::with_capacity(
        128 + length(exchange.query).max(length(exchange.reply)),
    ));
    message.number(
        1,
        match kind {
            DnstapKind::Query => 1,
            DnstapKind::Response => 2,
        },
    );
    message.number(2, if exchange.client.is_ipv4() { 1 } else { 2 });
    message.number(
        3,
        match exchange.protocol {
            Protocol::Udp => 1,
            Protocol::Tcp => 2,
            Protocol::Tls => 3,
            Protocol::Https => 4,
            Protocol::Quic => 7,
        },
    );
    message.address((4, 6), exchange.client);
    // On a wildcard socket the queried address may be unknown: then the field is omitted.
    if let Some(local) = exchange.local.filter(|local| !local.ip().is_unspecified()) {
        message.address((5, 7), local);
    }
    message.time((8, 9), exchange.received);
    match kind {
        DnstapKind::Query => {
            if let Some(query) = exchange.query {
                message.octets(10, query);
            }
        }
        DnstapKind::Response => {
            message.time((12, 13), exchange.replied);
            if let Some(reply) = exchange.reply {
                message.octets(14, reply);
            }
        }
    }
    let message = message.0;
    let mut outer = ProtoWriter(Vec::with_capacity(
        message.len() + identity.len() + version.len() + 16,
    ));
    outer.octets(1, identity);
    outer.octets(2, version);
    outer.octets(14, &message);
    outer.number(15, 1);
    outer.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_message_has_the_fields_of_the_schema() {
        let exchange = Exchange {
            protocol: Protocol::Tcp,
            client: "192.0.2.1:300".parse().unwrap(),
            local: Some("192.0.2.53:53".parse().unwrap()),
            view: None,
            query: Some(b"QQ"),
            reply: Some(b"RRR"),
            received: UNIX_EPOCH + Duration::new(1, 2),
            replied: UNIX_EPOCH + Duration::new(3, 4),
        };
        let common =
            b"\x10\x01\x18\x02\x22\x04\xc0\x00\x02\x01\x30\xac\x02\x2a\x04\xc0\x00\x02\x35\x38\x35\
                       \x40\x01\x4d\x02\x00\x00\x00";
        for (kind, first, last) in [
            (DnstapKind::Query, &b"\x08\x01"[..], &b"\x52\x02QQ"[..]),
            (
                DnstapKind::Response,
                b"\x08\x02",
                b"\x60\x03\x6d\x04\x00\x00\x00\x72\x03RRR",
            ),
        ] {
            let inner = [first, common, last].concat();
            let mut expected = b"\x0a\x02ns\x12\x01v\x72".to_vec();
            expected.push(inner.len() as u8);
            expected.extend_from_slice(&inner);
            expected.extend_from_slice(b"\x78\x01");
            assert_eq!(encode(kind, &exchange, b"ns", b"v"), expected);
        }
    }
}
