//! The program at the interface: it passes datagrams for our addresses and ports to the AF_XDP socket of their queue,
//! and everything else to the kernel, such as other ports, fragments, IP options and extension headers, and frames
//! that are too long for a buffer.
//!
//! Tagged frames are taken for the address of a VLAN interface, untagged frames for any other address, as in the
//! kernel. If the hardware removes the tag, a frame for the former looks untagged here and is passed to the kernel,
//! which knows the tag.
//!
//! With the route check, a datagram is taken only if its reply leaves by the same interface and the MAC address of
//! the next hop is known; it then replaces the sender in the Ethernet header, so that the reply is sent there. The
//! kernel looks up the route of each datagram (`bpf_fib_lookup`) as for packets from the loopback interface, which
//! requires forwarding on that interface.
//!
//! While the switch is 0, all packets are passed to the kernel: they wait in the ordinary sockets, which are read by
//! the UDP workers of this process or of its successor.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use crate::sys::bpf::instruction::{
    EXIT, JUMP, JUMP_ABOVE, JUMP_BELOW, JUMP_DIFFERENT, JUMP_EQUAL, JUMP_NOT_EQUAL, Register, add,
    call, copy, encode, load, map, map_value, mask, set, store, store_half, store_value,
};
use crate::sys::xsk::PACKET_MAX;

/// Octets of a key: an address (IPv4 as mapped into IPv6), a port, two of padding.
pub(super) const KEY: usize = 20;

/// Passes the packet to the kernel.
const XDP_PASS: i32 = 2;
/// Helper functions of the kernel.
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const FIND_ROUTE: i32 = 69;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// Ethernet types and masks, as a little-endian processor loads them.
const VLAN: i32 = 0x0081;
const SERVICE_VLAN: i32 = 0xa888;
const IPV4: i32 = 0x0008;
const IPV6: i32 = 0xdd86;
/// More fragments, and the offset of a fragment.
const FRAGMENT: i32 = 0xff3f;
const UDP: i32 = 17;

const RESULT: Register = 0;
const A: Register = 1;
const B: Register = 2;
const C: Register = 3;
const D: Register = 4;
const KIND: Register = 5;
const CONTEXT: Register = 6;
const IP: Register = 7;
const PACKET: Register = 8;
const END: Register = 9;
const STACK: Register = 10;

/// Positions on the stack of the key, and of the flag whether the frame has a VLAN tag.
const KEY_AT: i16 = -24;
const TAGGED_AT: i16 = -28;

/// Position of `struct bpf_fib_lookup` on the stack, its size, and the offsets in it.
const ROUTE_AT: i16 = -96;
const ROUTE_SIZE: i32 = 64;
const ROUTE_INTERFACE: i16 = ROUTE_AT + 8;
const ROUTE_SOURCE: i16 = ROUTE_AT + 16;
const ROUTE_TARGET: i16 = ROUTE_AT + 32;
const ROUTE_STATION: i16 = ROUTE_AT + 58;
/// The index of the loopback interface in every network namespace.
const LOOPBACK: i32 = 1;
/// Offset of the sender in an Ethernet header.
const SENDER: i16 = 6;

/// The frames that are taken for an address: those without a VLAN tag, or those with one.
pub(super) const UNTAGGED: i32 = 1;
pub(super) const TAGGED: i32 = 2;

/// Returns the key of an address and port.
pub(super) fn key(address: SocketAddr) -> [u8; KEY] {
    let mut key = [0; KEY];
    let octets = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    key[..16].copy_from_slice(&octets);
    key[16..18].copy_from_slice(&address.port().to_be_bytes());
    key
}

/// The descriptors of the program's maps, and its variants.
#[derive(Clone, Copy)]
pub(super) struct FilterSetup {
    /// The interface by which replies must leave, if routes are checked.
    pub(super) route_check: Option<u32>,
    pub(super) switch: RawFd,
    pub(super) addresses: RawFd,
    pub(super) sockets: RawFd,
}

/// A jump target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Label {
    Vlan,
    Network,
    Ipv4,
    Ipv6,
    Find,
    Pass,
}

#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn push(&mut self, code: &[u64]) -> &mut Self {
        self.code.extend(code);
        self
    }

    /// Jumps to a label, depending on the comparison of a register with a value or another register.
    fn jump(
        &mut self,
        code: u8,
        left: Register,
        (right, value): (Register, i32),
        to: Label,
    ) -> &mut Self {
        self.jumps.push((self.code.len(), to));
        self.push(&[encode(code, left, right, 0, value)])
    }

    fn unless_equal(&mut self, register: Register, value: i32) -> &mut Self {
        self.jump(JUMP_NOT_EQUAL, register, (0, value), Label::Pass)
    }

    /// Passes the packet to the kernel unless it has `len` octets from `register` on. The verifier requires this
    /// before a load.
    fn require(&mut self, register: Register, len: i32) -> &mut Self {
        self.push(&[copy(A, register), add(A, len)]);
        self.jump(JUMP_ABOVE, A, (END, 0), Label::Pass)
    }

    fn label(&mut self, label: Label) -> &mut Self {
        self.labels.push((label, self.code.len()));
        self
    }

    /// Prepares the look-up of the reply's route: from the queried address to the client's, which are at these
    /// offsets of the IP header and have this many words.
    fn describe_reply(
        &mut self,
        setup: &FilterSetup,
        family: i32,
        (queried, client, words): (i16, i16, i16),
    ) -> &mut Self {
        if setup.route_check.is_none() {
            return self;
        }
        for word in 0..ROUTE_SIZE as i16 / 4 {
            self.push(&[store_value(STACK, ROUTE_AT + 4 * word, 0)]);
        }
        self.push(&[
            store_value(STACK, ROUTE_AT, family | UDP << 8),
            store_value(STACK, ROUTE_INTERFACE, LOOPBACK),
        ]);
        for word in 0..words {
            self.push(&[
                load(4, A, IP, queried + 4 * word),
                store(STACK, ROUTE_SOURCE + 4 * word, A),
                load(4, A, IP, client + 4 * word),
                store(STACK, ROUTE_TARGET + 4 * word, A),
            ]);
        }
        self
    }

    /// Passes the packet to the kernel unless its reply leaves by the same interface to a known next hop, which
    /// becomes the sender.
    fn check_route(&mut self, setup: &FilterSetup) -> &mut Self {
        let Some(interface) = setup.route_check else {
            return self;
        };
        self.push(&[copy(A, CONTEXT), copy(B, STACK), add(B, ROUTE_AT.into())])
            .push(&[set(C, ROUTE_SIZE), set(D, 0), call(FIND_ROUTE)])
            .unless_equal(RESULT, 0)
            .push(&[load(4, A, STACK, ROUTE_INTERFACE)])
            .unless_equal(A, interface as i32);
        for octet in [0, 2, 4] {
            self.push(&[
                load(2, A, STACK, ROUTE_STATION + octet),
                store_half(PACKET, SENDER + octet, A),
            ]);
        }
        self
    }

    fn finish(mut self) -> Vec<u64> {
        for (at, to) in self.jumps {
            let position = self.labels.iter().find(|(label, _)| *label == to);
            let position = position.map_or(0, |(_, position)| *position);
            let offset = (position as i64 - at as i64 - 1) as i16;
            self.code[at] |= u64::from(offset as u16) << 16;
        }
        self.code
    }
}

/// Returns the program.
pub(super) fn program(setup: FilterSetup) -> Vec<u64> {
    let mut program = Assembler::default();
    program
        .push(&[copy(CONTEXT, A)])
        .push(&map_value(A, setup.switch))
        .push(&[load(4, A, A, 0)])
        .jump(JUMP_EQUAL, A, (0, 0), Label::Pass)
        .push(&[
            load(4, PACKET, CONTEXT, DATA),
            load(4, END, CONTEXT, DATA_END),
        ])
        .push(&[copy(A, PACKET), add(A, PACKET_MAX as i32)])
        .jump(JUMP_BELOW, A, (END, 0), Label::Pass)
        .require(PACKET, 14)
        .push(&[store_value(STACK, TAGGED_AT, UNTAGGED)])
        .push(&[copy(IP, PACKET), add(IP, 14), load(2, KIND, PACKET, 12)])
        .jump(JUMP_EQUAL, KIND, (0, VLAN), Label::Vlan)
        .jump(JUMP_EQUAL, KIND, (0, SERVICE_VLAN), Label::Vlan)
        .jump(JUMP, 0, (0, 0), Label::Network)
        .label(Label::Vlan)
        .require(PACKET, 18)
        .push(&[store_value(STACK, TAGGED_AT, TAGGED)])
        .push(&[copy(IP, PACKET), add(IP, 18), load(2, KIND, PACKET, 16)])
        .label(Label::Network)
        .jump(JUMP_EQUAL, KIND, (0, IPV4), Label::Ipv4)
        .jump(JUMP_EQUAL, KIND, (0, IPV6), Label::Ipv6)
        .jump(JUMP, 0, (0, 0), Label::Pass)
        .label(Label::Ipv4)
        .require(IP, 28)
        .push(&[load(1, A, IP, 0)])
        .unless_equal(A, 0x45)
        .push(&[load(1, A, IP, 9)])
        .unless_equal(A, UDP)
        .push(&[load(2, A, IP, 6), mask(A, FRAGMENT)])
        .unless_equal(A, 0)
        .push(&[
            store_value(STACK, KEY_AT, 0),
            store_value(STACK, KEY_AT + 4, 0),
            store_value(STACK, KEY_AT + 8, 0xffff_0000_u32 as i32),
            load(4, A, IP, 16),
            store(STACK, KEY_AT + 12, A),
        ])
        .describe_reply(&setup, libc::AF_INET, (16, 12, 1))
        .push(&[load(2, A, IP, 22)])
        .jump(JUMP, 0, (0, 0), Label::Find)
        .label(Label::Ipv6)
        .require(IP, 48)
        .push(&[load(1, A, IP, 6)])
        .unless_equal(A, UDP);
    for word in 0..4 {
        program.push(&[
            load(4, A, IP, 24 + 4 * word),
            store(STACK, KEY_AT + 4 * word, A),
        ]);
    }
    program
        .describe_reply(&setup, libc::AF_INET6, (24, 8, 4))
        .push(&[load(2, A, IP, 42)])
        .label(Label::Find)
        .push(&[store(STACK, KEY_AT + 16, A)])
        .push(&map(A, setup.addresses))
        .push(&[copy(B, STACK), add(B, KEY_AT.into()), call(MAP_LOOKUP)])
        .jump(JUMP_EQUAL, RESULT, (0, 0), Label::Pass)
        .push(&[load(4, A, RESULT, 0), load(4, B, STACK, TAGGED_AT)])
        .jump(JUMP_DIFFERENT, A, (B, 0), Label::Pass)
        .check_route(&setup)
        .push(&map(A, setup.sockets))
        .push(&[
            load(4, B, CONTEXT, QUEUE),
            set(C, XDP_PASS),
            call(REDIRECT_MAP),
            EXIT,
        ])
        .label(Label::Pass)
        .push(&[set(RESULT, XDP_PASS), EXIT]);
    program.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_ends_within_the_program() {
        for route_check in [None, Some(2)] {
            every_jump_of_a_program_ends_within_it(route_check);
        }
    }

    fn every_jump_of_a_program_ends_within_it(route_check: Option<u32>) {
        let program = program(FilterSetup {
            route_check,
            switch: 3,
            addresses: 4,
            sockets: 5,
        });
        let last = program.len() as i64;
        assert_eq!(program[program.len() - 1], EXIT);
        for (at, code) in program.iter().enumerate() {
            let is_jump = matches!(*code as u8, 0x05 | 0x15 | 0x55 | 0x2d | 0xad | 0x5d);
            let to = at as i64 + 1 + i64::from((code >> 16) as u16 as i16);
            assert!(!is_jump || (at as i64 + 1..last).contains(&to), "{at}");
        }
    }

    #[test]
    fn a_key_has_the_address_and_the_port_in_network_order() {
        let v4 = key("192.0.2.1:53".parse().unwrap());
        assert_eq!(v4[8..], [0, 0, 0xff, 0xff, 192, 0, 2, 1, 0, 53, 0, 0]);
        let v6 = key("[2001:db8::1]:5353".parse().unwrap());
        assert_eq!(v6[..4], [0x20, 1, 0x0d, 0xb8]);
        assert_eq!(v6[15..], [1, 0x14, 0xe9, 0, 0]);
    }
}
