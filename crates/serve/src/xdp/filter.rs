//! The program at the interface: it passes datagrams for our addresses and ports to the AF_XDP socket of their queue, and
//! everything else to the kernel: other ports, fragments, IP options and extension headers, frames that are too long for a buffer.
//!
//! An address of a VLAN interface gets tagged frames, any other one untagged frames, as in the kernel. Where the hardware removes the
//! tag, a frame for the former looks untagged here, and the kernel, which knows the tag, gets it.
//!
//! While the switch is 0, all packets are passed to the kernel: they wait in the ordinary sockets, which the UDP workers of this
//! process or of its successor read.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use crate::sys::bpf::instruction::{
    EXIT, JUMP, JUMP_ABOVE, JUMP_BELOW, JUMP_DIFFERENT, JUMP_EQUAL, JUMP_NOT_EQUAL, Register, add,
    call, copy, encode, load, map, map_value, mask, set, store, store_value,
};
use crate::sys::xsk::PACKET_MAX;

/// Octets of a key: an address (IPv4 as mapped into IPv6), a port, two of padding.
pub(super) const KEY: usize = 20;

/// Leaves the packet to the kernel.
const XDP_PASS: i32 = 2;
/// Functions of the kernel.
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
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
const KIND: Register = 5;
const CONTEXT: Register = 6;
const IP: Register = 7;
const PACKET: Register = 8;
const END: Register = 9;
const STACK: Register = 10;

/// Where the key is on the stack, and whether the frame has a VLAN tag.
const KEY_AT: i16 = -24;
const TAGGED_AT: i16 = -28;

/// Frames of an address that are taken: those without a VLAN tag, or those with one.
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

/// The descriptors of the program's maps.
#[derive(Clone, Copy)]
pub(super) struct FilterMaps {
    pub(super) switch: RawFd,
    pub(super) addresses: RawFd,
    pub(super) sockets: RawFd,
}

/// A place that jumps go to.
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

    /// Jumps to a label, by the comparison of a register with a value or another register.
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

    /// Leaves the packet to the kernel unless it has `len` octets from `register` on. The verifier demands it before a load.
    fn require(&mut self, register: Register, len: i32) -> &mut Self {
        self.push(&[copy(A, register), add(A, len)]);
        self.jump(JUMP_ABOVE, A, (END, 0), Label::Pass)
    }

    fn label(&mut self, label: Label) -> &mut Self {
        self.labels.push((label, self.code.len()));
        self
    }

    fn finish(mut self) -> Vec<u64> {
        for (at, to) in self.jumps {
            let place = self.labels.iter().find(|(label, _)| *label == to);
            let place = place.map_or(0, |(_, place)| *place);
            let offset = (place as i64 - at as i64 - 1) as i16;
            self.code[at] |= u64::from(offset as u16) << 16;
        }
        self.code
    }
}

/// Returns the program.
pub(super) fn program(maps: FilterMaps) -> Vec<u64> {
    let mut program = Assembler::default();
    program
        .push(&[copy(CONTEXT, A)])
        .push(&map_value(A, maps.switch))
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
            load(2, A, IP, 22),
        ])
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
        .push(&[load(2, A, IP, 42)])
        .label(Label::Find)
        .push(&[store(STACK, KEY_AT + 16, A)])
        .push(&map(A, maps.addresses))
        .push(&[copy(B, STACK), add(B, KEY_AT.into()), call(MAP_LOOKUP)])
        .jump(JUMP_EQUAL, RESULT, (0, 0), Label::Pass)
        .push(&[load(4, A, RESULT, 0), load(4, B, STACK, TAGGED_AT)])
        .jump(JUMP_DIFFERENT, A, (B, 0), Label::Pass)
        .push(&map(A, maps.sockets))
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
        let program = program(FilterMaps {
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
