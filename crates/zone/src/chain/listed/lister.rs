//! Builds a listed chain from a zone's names and types, which arrive in any order.

use super::super::{ChainKind, HASH};
use super::{ListedChain, ListedTypes};
use crate::sort_key::{name_of_key, sort_key};
use nameward_dnssec::{MadeTypes, Nsec3Hash, Signing};
use nameward_wire::{Name, NameBuf, Type};
use std::collections::HashMap;

/// Placeholder for an unreadable record; no real record has this type (RFC 6895 section 3.1).
const UNREADABLE: Type = Type(0);

/// The information about a record that a chain needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRecord {
    /// A record of this type.
    Of(Type),
    /// A LUA record that computes records of this type.
    Computed(Type),
    /// A record whose type cannot be read.
    Unreadable,
}

/// One record: the range of its owner's key, and its type.
struct ListedRow {
    start: u32,
    end: u32,
    rtype: Type,
}

/// Collects the names and types of a zone.
pub struct ChainLister {
    kind: ChainKind,
    apex: NameBuf,
    apex_key_len: usize,
    apex_types: Vec<Type>,
    made: MadeTypes,
    octets: Vec<u8>,
    rows: Vec<ListedRow>,
    last: NameBuf,
    key: Vec<u8>,
    bytes_max: usize,
    is_full: bool,
}

impl ChainLister {
    /// Starts the list of a zone, which is abandoned when it takes more memory than `bytes_max`.
    pub fn new(apex: Name<'_>, signing: &Signing, bytes_max: usize) -> Self {
        let mut key = Vec::new();
        sort_key(apex, &mut key);
        let mut apex: NameBuf = apex.into();
        apex.make_lowercase();
        ChainLister {
            kind: ChainKind::from_signing(signing),
            apex,
            apex_key_len: key.len(),
            apex_types: signing.apex_types().to_vec(),
            made: signing.made_types(),
            octets: Vec::new(),
            rows: Vec::new(),
            last: NameBuf::root(),
            key,
            bytes_max: bytes_max.min(u32::MAX as usize),
            is_full: false,
        }
    }

    /// Adds one record. Names outside the zone are skipped.
    pub fn push(&mut self, name: Name<'_>, record: NameRecord) {
        if self.is_full || !name.is_at_or_below(self.apex.as_name()) {
            return;
        }
        let rtype = match record {
            // The record is not served, but its name exists: RRSIG is never part of a type set.
            NameRecord::Of(rtype) if self.made.contains(rtype, name == self.apex.as_name()) => {
                Type::RRSIG
            }
            // Scripts for others to include compute nothing, and none makes a delegation.
            NameRecord::Computed(rtype)
                if rtype.is_server_internal() || matches!(rtype, Type::NS | Type::DNAME) =>
            {
                Type::RRSIG
            }
            NameRecord::Of(rtype) | NameRecord::Computed(rtype) => rtype,
            NameRecord::Unreadable => UNREADABLE,
        };
        let before = self.rows.last().filter(|_| self.last.as_name() == name);
        let (start, end) = match before {
            Some(row) => (row.start, row.end),
            None => {
                self.last.assign(name);
                sort_key(name, &mut self.key);
                let start = self.octets.len() as u32;
                let below = self.key.get(self.apex_key_len..).unwrap_or_default();
                self.octets.extend_from_slice(below);
                (start, self.octets.len() as u32)
            }
        };
        self.rows.push(ListedRow { start, end, rtype });
        if self.octets.len() + size_of_val(&self.rows[..]) > self.bytes_max {
            self.is_full = true;
            self.octets = Vec::new();
            self.rows = Vec::new();
        }
    }

    /// Checks whether the zone has more names than fit into memory.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns how many records were added.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Checks whether no records were added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Builds the chain, in time proportional to the size of the zone; `None` if it takes too much memory or the zone
    /// has no SOA.
    pub fn finish(mut self) -> Option<ListedChain> {
        let octets = std::mem::take(&mut self.octets);
        let mut rows = std::mem::take(&mut self.rows);
        let key = |row: &ListedRow| &octets[row.start as usize..row.end as usize];
        rows.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        // The apex sorts before all other names.
        let at_apex = rows.iter().take_while(|row| key(row).is_empty());
        if !at_apex.into_iter().any(|row| row.rtype == Type::SOA) {
            return None;
        }
        let mut made = MadeMembers::default();
        let mut types = Vec::new();
        // The last name that is not hidden, and whether it hides the names below it.
        let (mut last, mut hides_below): (&[u8], bool) = (&[], false);
        for same in rows.chunk_by(|a, b| key(a) == key(b)) {
            let name = key(same.first()?);
            if hides_below && name.starts_with(last) {
                continue;
            }
            types.clear();
            types.extend(same.iter().map(|row| row.rtype));
            self.complete_types(&mut types, name.is_empty());
            self.add_empty(name, last, &mut made)?;
            let set = made.set_number(&types)?;
            (last, hides_below) = (name, made.sets.get(usize::from(set))?.hides_below());
            if !self.leaves_out(&types) {
                self.add(name, set, &mut made)?;
            }
        }
        Some(self.chain(made))
    }

    /// Converts the types of a name's records to the types of its denial record.
    fn complete_types(&self, types: &mut Vec<Type>, is_apex: bool) {
        let is_cut = types.contains(&Type::NS) && !is_apex;
        // With CNAME among the types, none is denied (RFC 5155 section 8.5, RFC 6840 section 4.3).
        if types.contains(&UNREADABLE) {
            types.push(if is_cut { Type::DS } else { Type::CNAME });
        }
        // A script whose type is not known: as for an unreadable name, none is denied.
        if types.contains(&Type::LUA) && !is_cut {
            types.push(Type::CNAME);
        }
        // Such a name can have addresses at any time.
        if types.contains(&Type::ALIAS) {
            types.extend([Type::A, Type::AAAA]);
        }
        if is_apex {
            types.extend(&self.apex_types);
        }
        types.retain(|&rtype| match rtype {
            Type::NS | Type::DS => true,
            UNREADABLE | Type::RRSIG | Type::NSEC | Type::NSEC3 => false,
            // These types cannot be queried, as in PowerDNS.
            _ if rtype.is_server_internal() => false,
            // RFC 4035 section 2.3: all other types belong to the child zone.
            _ => !is_cut,
        });
        types.sort_unstable();
        types.dedup();
    }

    /// Checks whether a name with these types has no record in the chain because of opt-out (RFC 5155 section 7.1).
    fn leaves_out(&self, types: &[Type]) -> bool {
        let is_opt_out = matches!(self.kind, ChainKind::Nsec3 { opt_out: true, .. });
        is_opt_out && *types == [Type::NS]
    }

    /// Adds the empty non-terminals between a name and its predecessor. They have no NSEC (RFC 4035 section 2.3).
    fn add_empty(&self, name: &[u8], last: &[u8], made: &mut MadeMembers) -> Option<()> {
        if self.kind == ChainKind::Nsec {
            return Some(());
        }
        // A label ends with 0, which occurs nowhere else in a key.
        let ends = (1..name.len()).filter(|&end| name[end - 1] == 0);
        for above in ends.map(|end| &name[..end]) {
            if !last.starts_with(above) {
                let set = made.set_number(&[])?;
                self.add(above, set, made)?;
            }
        }
        Some(())
    }

    fn add(&self, name: &[u8], set: u16, made: &mut MadeMembers) -> Option<()> {
        match &self.kind {
            ChainKind::Nsec => {
                made.octets.extend_from_slice(name);
                made.ends.push(u32::try_from(made.octets.len()).ok()?);
                made.set_numbers.push(set);
            }
            ChainKind::Nsec3 { hashing, .. } => {
                let name = name_of_key(name, self.apex.as_name())?;
                made.hashes.push((hashing.hash(name.as_name()), set));
            }
        }
        Some(())
    }

    fn chain(self, mut made: MadeMembers) -> ListedChain {
        made.hashes.sort_unstable();
        made.octets.reserve_exact(made.hashes.len() * HASH);
        for (hash, set) in std::mem::take(&mut made.hashes) {
            made.octets.extend_from_slice(&hash);
            made.set_numbers.push(set);
        }
        ListedChain {
            kind: self.kind,
            apex: self.apex,
            apex_key_len: self.apex_key_len,
            apex_types: self.apex_types,
            octets: made.octets.into_boxed_slice(),
            ends: made.ends.into_boxed_slice(),
            set_numbers: made.set_numbers.into_boxed_slice(),
            sets: made.sets.into_boxed_slice(),
        }
    }
}

/// The members of a chain under construction.
#[derive(Default)]
struct MadeMembers {
    octets: Vec<u8>,
    ends: Vec<u32>,
    set_numbers: Vec<u16>,
    /// NSEC3 hashes, not yet sorted.
    hashes: Vec<(Nsec3Hash, u16)>,
    sets: Vec<ListedTypes>,
    numbers: HashMap<Box<[Type]>, u16>,
}

impl MadeMembers {
    /// Returns the number of a type set; `None` if there are more sets than any real zone has.
    fn set_number(&mut self, types: &[Type]) -> Option<u16> {
        if let Some(&number) = self.numbers.get(types) {
            return Some(number);
        }
        let number = u16::try_from(self.sets.len()).ok()?;
        self.sets.push(ListedTypes(types.into()));
        self.numbers.insert(types.into(), number);
        Some(number)
    }
}
