//! Conversion of access lists back to entries: first match decides, and the entries yield an equal list.

use super::{AccessEntry, AccessList, AccessWord, AddressRange, AddressSet};
use nameward_wire::{Name, NameBuf};
use std::net::IpAddr;

impl AccessList {
    /// Returns entries that yield an equal list: first the entries for each key, then the entries for all other
    /// requests. Those of a list with conditions on encrypted connections are returned as they were written.
    pub fn entries(&self) -> Vec<AccessEntry> {
        if let Some(entries) = &self.over_tls {
            return entries.to_vec();
        }
        let mut entries = Vec::new();
        for (key, set) in &self.keyed {
            let name = NameBuf::from(Name::from_valid_wire(key));
            for term in set.terms() {
                let term = match term {
                    AccessWord::Network(address, bits) => {
                        AccessWord::NetworkWithKey(address, bits, name)
                    }
                    _ => AccessWord::Key(name),
                };
                entries.push(AccessEntry::positive(term));
            }
            // A request signed with this key is allowed by the entries above or not at all.
            if !set.is_any() && !self.plain.is_none() {
                entries.push(AccessEntry {
                    is_negated: true,
                    term: AccessWord::Key(name),
                });
            }
        }
        entries.extend(self.plain.terms().into_iter().map(AccessEntry::positive));
        entries
    }
}

impl AddressSet {
    fn terms(&self) -> Vec<AccessWord> {
        if self.is_any() {
            return vec![AccessWord::Any];
        }
        let mut terms = Vec::new();
        for range in &self.v4 {
            networks(*range, 32, &mut terms);
        }
        for range in &self.v6 {
            networks(*range, 128, &mut terms);
        }
        terms
    }
}

/// Adds the networks that a range splits into: at most two per prefix length.
fn networks((first, last): AddressRange, width: u32, terms: &mut Vec<AccessWord>) {
    let mut at = first;
    loop {
        let end = |free: u32| match free {
            128 => u128::MAX,
            _ => at | ((1 << free) - 1),
        };
        let mut free = at.trailing_zeros().min(width);
        while end(free) > last {
            free -= 1;
        }
        let address = match width {
            32 => IpAddr::V4((at as u32).into()),
            _ => IpAddr::V6(at.into()),
        };
        terms.push(AccessWord::Network(address, (width - free) as u8));
        match end(free) {
            end if end >= last => return,
            end => at = end + 1,
        }
    }
}
