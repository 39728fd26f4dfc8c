//! The hash by which clients and names choose among values: Bob Jenkins's `lookup2` (public domain, 1996).
//!
//! PowerDNS uses it, so that both servers give a client the same answer.

use std::net::IpAddr;

/// Returns the hash of an address, as PowerDNS has it: of its octets alone.
pub(crate) fn hash_address(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => lookup2(&address.octets(), 0),
        IpAddr::V6(address) => lookup2(&address.octets(), 0),
    }
}

/// Returns the score of a value with a weight for a client, from a hash of both (weighted rendezvous hashing): the client gets
/// the value with the highest score, and neither their order nor the weights of other values matter.
pub(crate) fn rendezvous_score(hash: u32, weight: u64) -> f64 {
    // A number in (0, 1); its logarithm over the weight is the larger, the larger the weight.
    let uniform = (f64::from(hash) + 0.5) / f64::from(u32::MAX);
    uniform.min(1.0 - f64::EPSILON).ln() / weight as f64
}

/// Hashes octets, starting from `seed`.
pub(crate) fn lookup2(octets: &[u8], seed: u32) -> u32 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let (mut a, mut b, mut c) = (GOLDEN, GOLDEN, seed);
    let mut chunks = octets.chunks_exact(12);
    for chunk in &mut chunks {
        a = a.wrapping_add(little(&chunk[..4]));
        b = b.wrapping_add(little(&chunk[4..8]));
        c = c.wrapping_add(little(&chunk[8..]));
        (a, b, c) = mix(a, b, c);
    }
    let rest = chunks.remainder();
    c = c.wrapping_add(octets.len() as u32);
    a = a.wrapping_add(little(&rest[..rest.len().min(4)]));
    if rest.len() > 4 {
        b = b.wrapping_add(little(&rest[4..rest.len().min(8)]));
    }
    if rest.len() > 8 {
        // The lowest octet of the third word is taken by the length.
        c = c.wrapping_add(little(&rest[8..]) << 8);
    }
    mix(a, b, c).2
}

/// Reads up to four octets as a little-endian number.
fn little(octets: &[u8]) -> u32 {
    let read = |(at, &octet): (usize, &u8)| u32::from(octet) << (8 * at);
    octets.iter().enumerate().map(read).sum()
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for [first, second, third] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    (a, b, c)
}
