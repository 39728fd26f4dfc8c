//! Health check of a zone's stored signatures: when they expire, which RRsets have none, whether the chain is closed.
//!
//! Signatures are not verified cryptographically, which would take the zone's keys and the CPU time of a validator. The
//! check finds what breaks zones in practice: the zone was not re-signed in time, or a tool that signed it partially
//! left gaps.

use crate::node::Node;
use crate::signing_state::SigningState;
use crate::zone::Zone;
use nameward_dnssec::Nsec3;
use nameward_wire::{Name, NameBuf, Type};
use std::fmt;

/// Octets of RRSIG data before the signer's name (RFC 4034 section 3.1).
const RRSIG_HEAD: usize = 18;

/// An RRset, identified by owner and type.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RrsetName {
    pub owner: NameBuf,
    pub rtype: Type,
}

impl fmt::Display for RrsetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.owner, self.rtype)
    }
}

/// RRsets that share a fault: their number, and the first one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultyRrsets {
    /// The number of RRsets.
    pub count: usize,
    /// The first one in canonical order.
    pub first: Option<RrsetName>,
}

impl FaultyRrsets {
    fn add(&mut self, owner: Name<'_>, rtype: Type) {
        self.count += 1;
        self.first.get_or_insert_with(|| RrsetName {
            owner: owner.into(),
            rtype,
        });
    }
}

/// The health of the signatures in one version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredInspection {
    /// When the first RRset loses its last valid signature, in seconds since 1970, and which one it is.
    pub first_end: Option<(u64, RrsetName)>,
    /// RRsets whose signatures have all expired.
    pub ended: FaultyRrsets,
    /// RRsets whose signatures are all not yet valid.
    pub early: FaultyRrsets,
    /// RRsets without a signature.
    pub unsigned: FaultyRrsets,
    /// Chain owners whose record does not point to the next one, and names missing from the chain.
    pub gaps: FaultyRrsets,
}

impl StoredInspection {
    /// Checks whether validators reject some of the zone's data.
    pub fn is_broken(&self) -> bool {
        [&self.ended, &self.early, &self.unsigned, &self.gaps]
            .iter()
            .any(|faulty| faulty.count > 0)
    }

    /// Describes the faults, each with the number of affected RRsets and the first of them.
    pub fn faults(&self) -> Vec<String> {
        let all = [
            (&self.ended, "expired signatures"),
            (&self.early, "signatures that are not valid yet"),
            (&self.unsigned, "missing signatures"),
            (&self.gaps, "gaps in the NSEC or NSEC3 chain"),
        ];
        let found = all.iter().filter_map(|(faulty, words)| {
            let first = faulty.first.as_ref()?;
            Some(match faulty.count {
                1 => format!("{words}: {first}"),
                2 => format!("{words}: {first} and one more"),
                count => format!("{words}: {first} and {} more", count - 1),
            })
        });
        found.collect()
    }
}

/// Expands an RRSIG time (RFC 4034 section 3.1.5) to the time within 68 years of now that has these 32 bits.
fn time_near(now: u64, bits: &[u8]) -> u64 {
    let bits = u32::from_be_bytes([bits[0], bits[1], bits[2], bits[3]]);
    let distance = bits.wrapping_sub(now as u32) as i32;
    now.saturating_add_signed(i64::from(distance))
}

impl Zone {
    /// Checks whether there are, or were, SVCB or HTTPS records whose hints are filled in when they are sent.
    pub fn has_auto_hints(&self) -> bool {
        self.summary().has_auto_hints
    }

    /// Inspects the signatures stored among the zone's records; `None` if there are none.
    pub fn inspect_signatures(&self, now: u64) -> Option<StoredInspection> {
        let SigningState::Stored(index) = self.signing() else {
            return None;
        };
        let mut inspection = StoredInspection::default();
        let mut chain = ChainCheck {
            hashing: index.hashing(),
            apex: self.apex_name(),
            before: None,
        };
        // Names below a cut belong to another zone, and names below a DNAME to none.
        let mut hidden_below: Option<Name<'_>> = None;
        for node in self.nodes_in_order() {
            let name = node.name();
            if hidden_below.is_some_and(|cut| name.is_at_or_below(cut)) || node.is_empty() {
                continue;
            }
            let is_cut = name != chain.apex && node.rrset(Type::NS).is_some();
            let is_dname = name != chain.apex && node.rrset(Type::DNAME).is_some();
            if is_cut || is_dname {
                hidden_below = Some(name);
            }
            inspect_node(node, is_cut, now, &mut inspection);
            chain.step(node, &mut inspection.gaps);
        }
        chain.close(&mut inspection.gaps);
        Some(inspection)
    }
}

/// Inspects the signatures of one name. At a cut, only DS and NSEC belong to the zone.
fn inspect_node(node: Node<'_>, is_cut: bool, now: u64, found: &mut StoredInspection) {
    let name = node.name();
    for rrset in node.rrsets() {
        let rtype = rrset.rtype();
        let is_foreign = is_cut && !matches!(rtype, Type::DS | Type::NSEC);
        if rtype == Type::RRSIG || is_foreign {
            continue;
        }
        let mut last = None;
        let mut is_begun = false;
        for rrsig in node
            .signatures(rtype)
            .filter(|data| data.len() > RRSIG_HEAD)
        {
            last = last.max(Some(time_near(now, &rrsig[8..12])));
            is_begun |= time_near(now, &rrsig[12..16]) <= now;
        }
        match last {
            None => found.unsigned.add(name, rtype),
            Some(end) => {
                if end < now {
                    found.ended.add(name, rtype);
                } else if !is_begun {
                    found.early.add(name, rtype);
                }
                if found
                    .first_end
                    .as_ref()
                    .is_none_or(|(first, _)| end < *first)
                {
                    let owner = name.into();
                    found.first_end = Some((end, RrsetName { owner, rtype }));
                }
            }
        }
    }
}

/// Follows a chain: each record must point to the owner of the next one, and the last to the first.
struct ChainCheck<'z> {
    /// The hash parameters, for an NSEC3 chain.
    hashing: Option<&'z Nsec3>,
    apex: Name<'z>,
    /// The first owner of the chain, the last one so far, and the next owner that its record names.
    before: Option<(Name<'z>, Name<'z>, &'z [u8])>,
}

impl<'z> ChainCheck<'z> {
    fn rtype(&self) -> Type {
        match self.hashing {
            Some(_) => Type::NSEC3,
            None => Type::NSEC,
        }
    }

    /// Checks whether a record belongs to this chain: a zone can have several NSEC3 chains while its salt changes.
    fn has(&self, rdata: &[u8]) -> bool {
        let Some(hashing) = self.hashing else {
            return true;
        };
        let salt = rdata.get(4).map_or(0, |length| usize::from(*length));
        let head = rdata.get(..5 + salt);
        head.and_then(Nsec3::from_param).as_ref() == Some(hashing)
    }

    fn step(&mut self, node: Node<'z>, gaps: &mut FaultyRrsets) {
        let name = node.name();
        let records = node.rrset(self.rtype()).into_iter();
        let mut records = records.flat_map(|rrset| rrset.records().map(|record| record.rdata));
        let Some(rdata) = records.find(|rdata| self.has(rdata)) else {
            // RFC 4035 section 2.3: every name with data has one. NSEC3 owners are hashes; checking them would cost as
            // much as building the chain.
            if self.hashing.is_none() {
                gaps.add(name, Type::NSEC);
            }
            return;
        };
        let first = match self.before {
            None => name,
            Some((first, last, next)) => {
                self.compare(last, next, name, gaps);
                first
            }
        };
        self.before = Some((first, name, rdata));
    }

    fn close(&self, gaps: &mut FaultyRrsets) {
        if let Some((first, last, next)) = self.before {
            self.compare(last, next, first, gaps);
        }
    }

    fn compare(&self, owner: Name<'_>, rdata: &[u8], next: Name<'_>, gaps: &mut FaultyRrsets) {
        let is_next = match self.hashing {
            None => Name::split_from(rdata).is_ok_and(|(name, _)| name == next),
            Some(_) => hash_after(rdata)
                .and_then(|hash| Nsec3::owner_of(hash, self.apex))
                .is_some_and(|owner| owner.as_name() == next),
        };
        if !is_next {
            gaps.add(owner, self.rtype());
        }
    }
}

/// Returns the next hashed owner from NSEC3 record data (RFC 5155 section 3.2).
fn hash_after(rdata: &[u8]) -> Option<&[u8]> {
    let salt = usize::from(*rdata.get(4)?);
    let at = 5 + salt;
    let length = usize::from(*rdata.get(at)?);
    rdata.get(at + 1..at + 1 + length)
}
