//! Values of networks: the narrowest network that contains a client decides.
//!
//! The networks are cut into ranges of addresses that do not overlap, each with the narrowest network that covers it. A
//! look-up is a binary search within the ranges that share the first 16 bits of the address, so its cost hardly grows with
//! the number of networks.

use std::net::IpAddr;

/// Leading bits of an address that the index is made of.
const INDEX_BITS: u32 = 16;
/// Fewer ranges are searched without an index.
const INDEX_FROM: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ValuedNetwork<T> {
    prefix: u8,
    value: T,
    /// The next wider network; the position in the list and one, or 0.
    parent: u32,
}

/// The networks of one address family. Addresses are in the high bits of the numbers, so that prefixes count the same for
/// both families.
#[derive(Debug)]
struct FamilyNetworks<T> {
    /// The first address of each range, ascending from 0.
    starts: Vec<u128>,
    /// The narrowest network over each range; the position in the list and one, or 0.
    owners: Vec<u32>,
    networks: Vec<ValuedNetwork<T>>,
    /// For each value of the first bits of an address: the number of ranges that start before it.
    index: Vec<u32>,
}

/// Networks of both address families with their values.
#[derive(Debug)]
pub struct NetworkTable<T> {
    v4: FamilyNetworks<T>,
    v6: FamilyNetworks<T>,
}

/// The result of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkMatch<T> {
    /// The value of the narrowest network.
    pub value: Option<T>,
    /// All clients that share this many leading bits with the address have the same value.
    pub bits: u8,
}

impl<T> Default for NetworkTable<T> {
    fn default() -> Self {
        NetworkTable {
            v4: FamilyNetworks::empty(),
            v6: FamilyNetworks::empty(),
        }
    }
}

impl<T: Copy> NetworkTable<T> {
    /// Builds the table. Of two equal networks the first one counts.
    pub fn new(networks: impl IntoIterator<Item = (IpAddr, u8, T)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (address, prefix, value) in networks {
            let family = if address.is_ipv4() { &mut v4 } else { &mut v6 };
            let prefix = prefix.min(if address.is_ipv4() { 32 } else { 128 });
            family.push((number(address) & mask(prefix), prefix, value));
        }
        NetworkTable {
            v4: FamilyNetworks::new(v4),
            v6: FamilyNetworks::new(v6),
        }
    }

    /// Finds the value for a client of whose address this many leading bits are known: networks that are narrower than
    /// that do not match.
    #[inline]
    pub fn find(&self, address: IpAddr, known_bits: u8) -> NetworkMatch<T> {
        let family = if address.is_ipv4() {
            &self.v4
        } else {
            &self.v6
        };
        family.find(number(address), known_bits)
    }
}

impl<T> FamilyNetworks<T> {
    fn empty() -> Self {
        FamilyNetworks {
            starts: vec![0],
            owners: vec![0],
            networks: Vec::new(),
            index: Vec::new(),
        }
    }
}

impl<T: Copy> FamilyNetworks<T> {
    fn new(mut networks: Vec<(u128, u8, T)>) -> Self {
        // Wider networks before the narrower ones in them; equal ones stay in order.
        networks.sort_by_key(|(first, prefix, _)| (*first, *prefix));
        networks.dedup_by_key(|(first, prefix, _)| (*first, *prefix));
        let mut family = FamilyNetworks::empty();
        // The networks around the current address with their last addresses, the widest first.
        let mut open: Vec<(u32, u128)> = Vec::new();
        for (first, prefix, value) in networks {
            family.close(&mut open, first);
            let parent = open.last().map_or(0, |(number, _)| *number);
            family.networks.push(ValuedNetwork {
                prefix,
                value,
                parent,
            });
            let number = family.networks.len() as u32;
            family.begin(first, number);
            open.push((number, first | !mask(prefix)));
        }
        family.close(&mut open, u128::MAX);
        family.make_index();
        family
    }

    /// Ends the networks whose last address is before `next`, or that end with the address space.
    fn close(&mut self, open: &mut Vec<(u32, u128)>, next: u128) {
        while let Some((_, last)) = open.pop_if(|(_, last)| *last < next) {
            let around = open.last().map_or(0, |(number, _)| *number);
            self.begin(last + 1, around);
        }
    }

    /// Starts a range; one that starts at the same address is replaced.
    fn begin(&mut self, start: u128, owner: u32) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.owners.pop();
        }
        if self.owners.last() != Some(&owner) {
            self.starts.push(start);
            self.owners.push(owner);
        }
    }

    fn make_index(&mut self) {
        if self.starts.len() < INDEX_FROM {
            return;
        }
        let mut number = 0;
        for first in 0..=1u32 << INDEX_BITS {
            let is_before = |start: &u128| (start >> (128 - INDEX_BITS)) < u128::from(first);
            while self.starts.get(number).is_some_and(is_before) {
                number += 1;
            }
            self.index.push(number as u32);
        }
    }

    /// Returns the number of the range that contains an address.
    #[inline]
    fn range_of(&self, address: u128) -> usize {
        let first = (address >> (128 - INDEX_BITS)) as usize;
        let (from, to) = match (self.index.get(first), self.index.get(first + 1)) {
            (Some(from), Some(to)) => (*from as usize, *to as usize),
            _ => (0, self.starts.len()),
        };
        let starts = self.starts.get(from..to).unwrap_or_default();
        // The range may start before those that the index names.
        (from + starts.partition_point(|start| *start <= address)).saturating_sub(1)
    }

    #[inline]
    fn find(&self, address: u128, known_bits: u8) -> NetworkMatch<T> {
        if self.networks.is_empty() {
            return NetworkMatch {
                value: None,
                bits: 0,
            };
        }
        let range = self.range_of(address);
        let mut owner = self.owners[range];
        let value = loop {
            let Some(network) = (owner as usize).checked_sub(1).map(|at| self.networks[at]) else {
                break None;
            };
            if network.prefix <= known_bits {
                break Some(network.value);
            }
            owner = network.parent;
        };
        // The neighbours of the range are the nearest addresses that may have another value.
        let common = |other: u128| ((address ^ other).leading_zeros() + 1) as u8;
        let before = if range > 0 {
            common(self.starts[range] - 1)
        } else {
            0
        };
        let after = self.starts.get(range + 1).map_or(0, |next| common(*next));
        NetworkMatch {
            value,
            bits: before.max(after),
        }
    }
}

/// Returns an address with its first bit as the highest one.
#[inline]
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    type Network = (IpAddr, u8, u16);

    /// The narrowest network, by trying all of them.
    fn naive(networks: &[Network], address: IpAddr, known_bits: u8) -> Option<u16> {
        let contains = |network: &&Network| {
            let (base, prefix, _) = **network;
            base.is_ipv4() == address.is_ipv4()
                && prefix <= known_bits
                && (number(base) ^ number(address)) & mask(prefix) == 0
        };
        let found = networks.iter().filter(contains);
        // Of equal ones the first.
        let best = found.rev().max_by_key(|(_, prefix, _)| *prefix);
        best.map(|(_, _, value)| *value)
    }

    /// Few bits differ, so that networks contain each other.
    fn network() -> impl Strategy<Value = Network> {
        let v4 = (any::<u8>(), any::<u8>(), 0..=32u8).prop_map(|(a, b, prefix)| {
            let address = Ipv4Addr::new(a & 0x83, 0, b & 0x41, a);
            (IpAddr::from(address), prefix)
        });
        let v6 = (any::<u8>(), any::<u16>(), 0..=128u8).prop_map(|(a, b, prefix)| {
            let address = Ipv6Addr::new(u16::from(a) << 8, 0, b & 3, 0, 0, 0, 0, b);
            (IpAddr::from(address), prefix)
        });
        (prop_oneof![v4, v6], 1..9u16)
            .prop_map(|((address, prefix), value)| (address, prefix, value))
    }

    proptest! {
        #[test]
        fn the_narrowest_network_is_found_and_its_scope_has_one_value(
            networks in proptest::collection::vec(network(), 0..150),
            clients in proptest::collection::vec((network(), any::<u128>()), 1..40),
        ) {
            let table = NetworkTable::new(networks.iter().copied());
            for ((address, known_bits, _), noise) in clients {
                let width = if address.is_ipv4() { 32 } else { 128 };
                let full = table.find(address, width);
                prop_assert_eq!(full.value, naive(&networks, address, width));
                prop_assert!(full.bits <= width);
                // Any other address with the same leading bits has the same value.
                let other = number(address) ^ (noise & !mask(full.bits));
                let other = if address.is_ipv4() {
                    IpAddr::from(Ipv4Addr::from_bits((other >> 96) as u32))
                } else {
                    IpAddr::from(Ipv6Addr::from_bits(other))
                };
                prop_assert_eq!(naive(&networks, other, width), full.value);
                // A subnet is in the narrowest network that contains all of it.
                let subnet = number(address) & mask(known_bits);
                let subnet = if address.is_ipv4() {
                    IpAddr::from(Ipv4Addr::from_bits((subnet >> 96) as u32))
                } else {
                    IpAddr::from(Ipv6Addr::from_bits(subnet))
                };
                prop_assert_eq!(table.find(subnet, known_bits).value, naive(&networks, subnet, known_bits));
            }
        }
    }

    #[test]
    fn a_miss_has_a_scope_too() {
        let ten: IpAddr = "10.0.0.0".parse().unwrap();
        let table = NetworkTable::new([(ten, 8, 1)]);
        let find = |address: &str| table.find(address.parse().unwrap(), 32);
        assert_eq!(
            find("10.1.2.3"),
            NetworkMatch {
                value: Some(1),
                bits: 8
            }
        );
        assert_eq!(
            find("11.1.2.3"),
            NetworkMatch {
                value: None,
                bits: 8
            }
        );
        assert_eq!(
            find("192.0.2.1"),
            NetworkMatch {
                value: None,
                bits: 1
            }
        );
        assert_eq!(table.find("2001:db8::1".parse().unwrap(), 128).bits, 0);
    }
}
