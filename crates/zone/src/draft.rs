//! The records of one name while they are collected, and their encoding as a node.

use crate::capacity::{ZoneFull, empty};
use crate::layout;
use crate::node::{
    NO_TARGET, NODE_HEADER, Node, RECORD_OVERHEAD, RRSET_HEADER, flags, rrset_octets,
};
use nameward_wire::zonefile::RecordLocation;
use nameward_wire::{Name, Type, rdata};
use std::cmp::Ordering;

/// Maximum number of types at one name. More would make the search for a type at that name slow (CVE-2024-1737).
pub const MAX_TYPES: usize = 256;
/// Maximum number of records in one RRset: the count is 16 bits wide on the wire as well.
pub const MAX_RECORDS: usize = u16::MAX as usize;

/// Maximum size of an RRset in a message, in octets with compressed owner names, that still fits next to header and
/// question.
pub const MAX_RRSET_OCTETS: usize = 65_000;
/// A fault in the records of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The same record twice; merged.
    Duplicate,
    /// TTLs differ within an RRset; the lowest is used (RFC 2181 section 5.2).
    TtlsDiffer(Type),
    /// CNAME and other data (RFC 2181 section 10.1).
    CnameAndOther,
    /// Several CNAME, DNAME or SOA records.
    Several(Type),
    TooManyTypes,
    TooManyRecords(Type),
}

impl Flaw {
    pub(crate) fn is_error(self) -> bool {
        !matches!(self, Flaw::Duplicate | Flaw::TtlsDiffer(_))
    }

    /// Returns the affected type, if the fault is specific to one.
    pub(crate) fn rtype(self) -> Option<Type> {
        match self {
            Flaw::Several(rtype) | Flaw::TooManyRecords(rtype) => Some(rtype),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct DraftEntry {
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    start: u32,
    len: u16,
    pub(crate) from: RecordLocation,
}

/// Records of one name, in any order.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) entries: Vec<DraftEntry>,
    data: Vec<u8>,
}

impl Draft {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.data.clear();
    }

    /// Removes all records, and frees memory beyond what most zones need.
    pub(crate) fn restart(&mut self, entries: usize, octets: usize) {
        empty(&mut self.entries, entries);
        empty(&mut self.data, octets);
    }

    #[inline]
    pub(crate) fn push(&mut self, rtype: Type, ttl: u32, rdata: &[u8], from: RecordLocation) {
        let entry = DraftEntry {
            rtype,
            ttl,
            start: self.data.len() as u32,
            len: rdata.len() as u16,
            from,
        };
        self.data.extend_from_slice(rdata);
        self.entries.push(entry);
    }

    /// Makes room for one more record with this many octets of data.
    #[inline]
    pub(crate) fn reserve(&mut self, octets: usize) -> Result<(), ZoneFull> {
        if self.data.len() + octets > u32::MAX as usize {
            return Err(ZoneFull::Octets(u32::MAX.into()));
        }
        let room = self.data.try_reserve(octets);
        room.and_then(|()| self.entries.try_reserve(1))
            .map_err(|_| ZoneFull::Memory)
    }

    /// Returns the octets of memory the records take.
    #[inline]
    pub(crate) fn octets(&self) -> usize {
        self.data_len() + self.entries.len() * size_of::<DraftEntry>()
    }

    /// Adds a record if there is memory for it.
    #[inline]
    pub(crate) fn try_push(
        &mut self,
        rtype: Type,
        ttl: u32,
        rdata: &[u8],
        from: RecordLocation,
    ) -> Result<(), ZoneFull> {
        self.reserve(rdata.len())?;
        self.push(rtype, ttl, rdata, from);
        Ok(())
    }

    /// Returns the total length of all record data, in octets.
    #[inline]
    pub(crate) fn data_len(&self) -> usize {
        self.data.len()
    }

    /// Returns the first record of an RRset that does not fit into a message, and the size of the RRset in octets. The
    /// records must be normalised.
    pub(crate) fn oversized(&self) -> Option<(&DraftEntry, usize)> {
        // Decides nearly all names at once.
        if self.data.len() + self.entries.len() * RECORD_OVERHEAD <= MAX_RRSET_OCTETS {
            return None;
        }
        let rrsets = self.entries.chunk_by(|a, b| a.rtype == b.rtype);
        let mut sizes = rrsets.map(|rrset| {
            let lengths = rrset.iter().map(|entry| entry.len.into());
            (&rrset[0], rrset_octets(lengths))
        });
        sizes.find(|(_, octets)| *octets > MAX_RRSET_OCTETS)
    }

    /// Returns an upper bound for the octets that [`Draft::encode`] appends.
    pub(crate) fn encoded_len_max(&self, name: Name<'_>) -> usize {
        let records = self.entries.len() * (RRSET_HEADER + 6) + self.data.len();
        NODE_HEADER + name.as_wire().len() + records
    }

    /// Sets the TTL of a whole RRset.
    pub(crate) fn set_ttl(&mut self, rtype: Type, ttl: u32) {
        self.entries
            .iter_mut()
            .filter(|e| e.rtype == rtype)
            .for_each(|e| e.ttl = ttl);
    }

    pub(crate) fn rdata(&self, entry: &DraftEntry) -> &[u8] {
        &self.data[entry.start as usize..entry.start as usize + entry.len as usize]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Drops the records of a name that has too many of them to be stored.
    pub(crate) fn shorten(&mut self, flaw: Flaw) {
        if matches!(flaw, Flaw::TooManyTypes | Flaw::TooManyRecords(_)) {
            self.entries.truncate(1);
        }
    }

    /// Sorts the records, merges duplicates and calls `flaw` for each fault.
    pub(crate) fn normalise(&mut self, mut flaw: impl FnMut(Flaw, &DraftEntry)) {
        if self.entries.len() < 2 || self.sort_two() {
            return;
        }
        let data = &self.data;
        let rdata = |e: &DraftEntry| &data[e.start as usize..e.start as usize + e.len as usize];
        // Records with equal data stay in the order in which they were added.
        self.entries.sort_unstable_by(|a, b| {
            a.rtype
                .cmp(&b.rtype)
                .then_with(|| layout::compare(a.rtype, rdata(a), rdata(b)))
                .then_with(|| a.start.cmp(&b.start))
        });
        self.entries.dedup_by(|later, kept| {
            let same = later.rtype == kept.rtype
                && layout::compare(kept.rtype, rdata(later), rdata(kept)).is_eq();
            if same {
                flaw(Flaw::Duplicate, later);
                kept.ttl = kept.ttl.min(later.ttl);
            }
            same
        });
        let mut types = 0;
        let mut has_cname = false;
        for group in self.entries.chunk_by_mut(|a, b| a.rtype == b.rtype) {
            types += 1;
            let rtype = group[0].rtype;
            if let Some(odd) = first_of_another_ttl(group) {
                // RFC 4034 section 3: each RRSIG has the TTL of the RRset it covers.
                if rtype != Type::RRSIG {
                    flaw(Flaw::TtlsDiffer(rtype), odd);
                }
                let least = group.iter().map(|e| e.ttl).min().unwrap_or(0);
                group.iter_mut().for_each(|entry| entry.ttl = least);
            }
            if is_single(rtype) && group.len() > 1 {
                flaw(Flaw::Several(rtype), last_to_come(group));
            }
            if group.len() > MAX_RECORDS {
                flaw(Flaw::TooManyRecords(rtype), last_to_come(group));
            }
            has_cname |= rtype == Type::CNAME;
        }
        if has_cname && let Some(other) = beside_cname(&self.entries) {
            flaw(Flaw::CnameAndOther, &other);
        }
        if types > MAX_TYPES {
            flaw(Flaw::TooManyTypes, last_to_come(&self.entries));
        }
    }

    /// Fast path for two records of one type, as delegations have them; returns false if there is more to do.
    #[inline]
    fn sort_two(&mut self) -> bool {
        let [one, two] = &self.entries[..] else {
            return false;
        };
        let is_plain = one.rtype == two.rtype && one.ttl == two.ttl && !is_single(one.rtype);
        if !is_plain {
            return false;
        }
        match layout::compare(one.rtype, self.rdata(one), self.rdata(two)) {
            Ordering::Equal => return false,
            Ordering::Greater => self.entries.swap(0, 1),
            Ordering::Less => {}
        }
        true
    }

    /// Checks whether SVCB or HTTPS records have hints that are filled in when they are sent.
    pub(crate) fn has_auto_hints(&self) -> bool {
        self.entries.iter().any(|entry| {
            matches!(entry.rtype, Type::SVCB | Type::HTTPS)
                && rdata::has_auto_hints(self.rdata(entry))
        })
    }

    /// Appends the node to `out`. The records must be normalised; `keep` are the flags and child count to carry over.
    pub(crate) fn encode(&self, name: Name<'_>, is_apex: bool, keep: Keep, out: &mut Vec<u8>) {
        let wire = name.as_wire();
        let start = out.len();
        let [a, b, c, d] = keep.children.to_le_bytes();
        out.extend_from_slice(&[a, b, c, d, 0, wire.len() as u8, 0, 0]);
        out.extend_from_slice(wire);
        let (mut count, mut bits) = (0u16, keep.carried());
        for group in self.entries.chunk_by(|a, b| a.rtype == b.rtype) {
            count += 1;
            match group[0].rtype {
                Type::NS if !is_apex => bits |= flags::CUT,
                Type::DNAME => bits |= flags::DNAME,
                Type::CNAME | Type::LUA => bits |= flags::CNAME_OR_LUA,
                _ => {}
            }
            self.encode_rrset(group, out);
        }
        out[start + Node::FLAGS_AT] = bits;
        out[start + 6..start + NODE_HEADER].copy_from_slice(&count.to_le_bytes());
    }

    fn encode_rrset(&self, group: &[DraftEntry], out: &mut Vec<u8>) {
        let first = &group[0];
        let layout = layout::layout(first.rtype);
        let per_record = if layout.target == NO_TARGET { 2 } else { 6 };
        let len: usize = group.iter().map(|e| per_record + e.len as usize).sum();
        let mut header = [0; RRSET_HEADER];
        header[..2].copy_from_slice(&first.rtype.0.to_le_bytes());
        header[2..4].copy_from_slice(&(group.len() as u16).to_le_bytes());
        header[4..8].copy_from_slice(&first.ttl.to_le_bytes());
        header[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        header[12..].copy_from_slice(&[layout.form.to_byte(), layout.target]);
        out.extend_from_slice(&header);
        for entry in group {
            let ([a, b], [c, d, e, f]) =
                (entry.len.to_le_bytes(), entry.from.lower().to_le_bytes());
            match layout.target {
                NO_TARGET => out.extend_from_slice(&[a, b]),
                // The target is resolved when all names are known; until then this field holds the lower half of the
                // source location.
                _ => out.extend_from_slice(&[a, b, c, d, e, f]),
            }
            out.extend_from_slice(self.rdata(entry));
        }
    }
}

/// Checks whether an RRset of this type is limited to one record (RFC 2181 section 10.1, RFC 6672 section 2.4, RFC 1035
/// section 5.2).
fn is_single(rtype: Type) -> bool {
    matches!(rtype, Type::CNAME | Type::DNAME | Type::SOA)
}

/// Returns the earliest record whose TTL differs from the first one.
fn first_of_another_ttl(group: &[DraftEntry]) -> Option<&DraftEntry> {
    let first = group.iter().min_by_key(|entry| entry.start)?;
    let others = group.iter().filter(|entry| entry.ttl != first.ttl);
    others.min_by_key(|entry| entry.start)
}

/// Returns the record added last: the surplus one.
fn last_to_come(entries: &[DraftEntry]) -> &DraftEntry {
    let last = entries.iter().max_by_key(|entry| entry.start);
    last.unwrap_or(&entries[0])
}

/// Returns a record that conflicts with the CNAME, with the source location of whichever was added later.
fn beside_cname(entries: &[DraftEntry]) -> Option<DraftEntry> {
    // RFC 4034 sections 3 and 4: only DNSSEC's own types may coexist with a CNAME.
    let is_beside = |e: &&DraftEntry| {
        !matches!(
            e.rtype,
            Type::CNAME | Type::RRSIG | Type::NSEC | Type(24) | Type(25)
        )
    };
    let others = entries.iter().filter(is_beside);
    let other = *others.max_by_key(|entry| entry.start)?;
    let cname = entries.iter().find(|entry| entry.rtype == Type::CNAME)?;
    let from = if cname.start > other.start {
        cname.from
    } else {
        other.from
    };
    Some(DraftEntry { from, ..other })
}

/// Flags and child count that a node keeps when its records change.
#[derive(Clone, Copy, Default)]
pub(crate) struct Keep {
    pub(crate) children: u32,
    pub(crate) flags: u8,
}

impl Keep {
    /// Reads the state that a node would keep.
    pub(crate) fn from_node(node: Node<'_>) -> Self {
        Keep {
            children: node.children(),
            flags: node.flags(),
        }
    }

    /// Writes the state into the bytes of a node.
    pub(crate) fn write(self, node: &mut [u8]) {
        node[..4].copy_from_slice(&self.children.to_le_bytes());
        node[Node::FLAGS_AT] = self.flags;
    }

    /// Checks whether the name has unreadable records: it exists even without others.
    pub(crate) fn is_broken(self) -> bool {
        self.flags & flags::ANY_BROKEN != 0
    }

    /// Returns the flags that do not follow from the records. Changing other records does not repair an unreadable one;
    /// if it affects the names below, the node remains the delegation or DNAME that the unreadable record made it.
    fn carried(self) -> u8 {
        let mut mask = flags::WILDCARD_CHILD | flags::ANY_BROKEN;
        if self.flags & flags::BROKEN_ABOVE != 0 {
            mask |= flags::CUT | flags::DNAME;
        }
        self.flags & mask
    }
}
