//! A list of names that is out of date: each answer is still proven for a validator.
//!
//! The rules of validators are written down here once more: RFC 4035 section 5.4, RFC 5155 section 8, RFC 6840 section 4.

use super::*;

/// The labels of a name below another, from the left, taken away one by one: the name itself first.
fn and_above(name: &Labels) -> impl Iterator<Item = &[Vec<u8>]> {
    (0..=name.len()).rev().map(move |len| &name[..len])
}

fn below(parent: &[Vec<u8>], label: &[u8]) -> Labels {
    [parent, &[label.to_vec()]].concat()
}

/// Turns labels back into a name in wire form.
fn wire(labels: &[Vec<u8>]) -> NameBuf {
    let mut wire = Vec::new();
    for label in labels.iter().rev() {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label);
    }
    NameBuf::join(&wire, Name::ROOT).unwrap()
}

/// The proofs of one answer.
struct Proofs<'d> {
    nsec: Vec<Range<Labels>>,
    nsec3: Vec<(Range<Vec<u8>>, bool)>,
    denial: &'d Denial,
}

impl<'d> Proofs<'d> {
    fn of(reply: &Message, denial: &'d Denial) -> Self {
        let of_type = |rtype| {
            let records = reply.authorities.iter();
            records.filter(move |record| record.record_type() == rtype)
        };
        let is_opt_out = |record: &Record| record.data.to_bytes().unwrap()[1] & 1 != 0;
        Proofs {
            nsec: of_type(RecordType::NSEC).map(nsec).collect(),
            nsec3: of_type(RecordType::NSEC3)
                .map(|record| (nsec3(record), is_opt_out(record)))
                .collect(),
            denial,
        }
    }

    fn hash(&self, name: &[Vec<u8>]) -> Vec<u8> {
        match self.denial {
            Denial::Nsec3(params) => params.hash(wire(name).as_name()).to_vec(),
            Denial::Nsec => panic!("no hashes"),
        }
    }

    /// RFC 4035 section 5.4, RFC 6840 section 4.1: not by the record of a delegation or DNAME above it.
    fn nsec_covering(&self, name: &[Vec<u8>]) -> Option<&Range<Labels>> {
        let name = name.to_vec();
        self.nsec.iter().find(|range| {
            let types = &range.types;
            let hides = types.contains(&NS) && !types.contains(&SOA) || types.contains(&DNAME);
            let is_below = name.starts_with(&range.owner);
            range.covers(&name) && !range.next.starts_with(&name) && !(hides && is_below)
        })
    }

    /// The closest encloser that the covering of a name shows.
    fn encloser<'n>(&self, name: &'n Labels) -> Option<&'n [Vec<u8>]> {
        if let Denial::Nsec3(_) = self.denial {
            let matches = |name: &[Vec<u8>]| {
                let hash = self.hash(name);
                self.nsec3.iter().any(|(range, _)| range.owner == hash)
            };
            let found = and_above(name).skip(1).find(|above| matches(above))?;
            return self.covers(&name[..found.len() + 1]).then_some(found);
        }
        let range = self.nsec_covering(name)?;
        and_above(name)
            .skip(1)
            .find(|above| range.owner.starts_with(above) || range.next.starts_with(above))
    }

    fn covers(&self, name: &[Vec<u8>]) -> bool {
        match self.denial {
            Denial::Nsec => self.nsec_covering(name).is_some(),
            Denial::Nsec3(_) => {
                let hash = self.hash(name);
                self.nsec3.iter().any(|(range, _)| range.covers(&hash))
            }
        }
    }

    /// The types that the record of a name shows.
    fn types(&self, name: &[Vec<u8>]) -> Option<&BTreeSet<u16>> {
        match self.denial {
            Denial::Nsec => {
                let found = self.nsec.iter().find(|range| range.owner == *name);
                found.map(|range| &range.types)
            }
            Denial::Nsec3(_) => {
                let hash = self.hash(name);
                let found = self.nsec3.iter().find(|(range, _)| range.owner == hash);
                found.map(|(range, _)| &range.types)
            }
        }
    }

    fn lacks(&self, name: &[Vec<u8>], rtype: u16) -> bool {
        self.types(name).is_some_and(|types| {
            let is_cut = types.contains(&NS) && !types.contains(&SOA);
            !types.contains(&rtype) && !types.contains(&CNAME) && (!is_cut || rtype == DS)
        })
    }

    fn proves_no_name(&self, name: &Labels) -> bool {
        let encloser = self.encloser(name);
        encloser.is_some_and(|encloser| {
            let wildcard = below(encloser, b"*");
            self.covers(&wildcard) || wildcard == *name
        })
    }

    fn proves_no_type(&self, name: &Labels, rtype: u16) -> bool {
        let encloser = self.encloser(name);
        let wildcard = encloser.map(|encloser| below(encloser, b"*"));
        self.shows_without(name, rtype)
            || wildcard.is_some_and(|wildcard| self.shows_without(&wildcard, rtype))
            || rtype == DS && self.proves_opt_out(name)
    }

    /// Whether a name is shown to exist without a type.
    fn shows_without(&self, name: &Labels, rtype: u16) -> bool {
        // RFC 4592 section 2.2.2: an empty non-terminal.
        let is_empty = |range: &Range<Labels>| range.covers(name) && range.next.starts_with(name);
        self.lacks(name, rtype) || self.nsec.iter().any(is_empty)
    }

    /// RFC 5155 section 8.6 and 8.9.
    fn proves_opt_out(&self, name: &Labels) -> bool {
        let is_opt_out = |covered: &[Vec<u8>]| {
            let hash = self.hash(covered);
            let mut ranges = self.nsec3.iter();
            ranges.any(|(range, is_opt_out)| *is_opt_out && range.covers(&hash))
        };
        matches!(self.denial, Denial::Nsec3(_))
            && self
                .encloser(name)
                .is_some_and(|encloser| is_opt_out(&name[..encloser.len() + 1]))
    }
}

/// Checks that a reply proves what it says.
fn verify(reply: &Message, name: &Labels, rtype: u16, denial: &Denial) -> Result<(), &'static str> {
    let proofs = Proofs::of(reply, denial);
    let owner_of = |wanted| {
        let records = reply.authorities.iter();
        let mut found = records.filter(|record| record.record_type() == wanted);
        let found = found.next()?;
        Some(labels(&found.name.to_bytes().unwrap()))
    };
    let has_soa = owner_of(RecordType::SOA).is_some();
    let is_chain = !reply.answers.is_empty();
    let is_proven = match (u16::from(reply.response_code), has_soa) {
        (3, true) if !is_chain => proofs.proves_no_name(name),
        (0, true) if !is_chain => proofs.proves_no_type(name, rtype),
        (0, false) if !is_chain => {
            let cut = owner_of(RecordType::NS).ok_or("neither answer nor referral")?;
            owner_of(RecordType::DS).is_some() || proofs.proves_no_type(&cut, DS)
        }
        (0, false) => return verify_expansion(reply, &proofs),
        _ => return Err("an odd reply"),
    };
    is_proven.then_some(()).ok_or("not proven")
}

/// RFC 4035 section 5.3.4: a name matched by a wildcard does not exist.
fn verify_expansion(reply: &Message, proofs: &Proofs<'_>) -> Result<(), &'static str> {
    for record in reply.answers.iter() {
        if record.record_type() != RecordType::RRSIG {
            continue;
        }
        let owner = labels(&record.name.to_bytes().unwrap());
        let signed = usize::from(record.data.to_bytes().unwrap()[3]);
        let is_wildcard = owner.last().is_some_and(|label| label == b"*");
        if signed + usize::from(is_wildcard) < owner.len() && !proofs.covers(&owner[..signed + 1]) {
            return Err("an expansion that is not proven");
        }
    }
    Ok(())
}

fn listed_denials() -> impl Iterator<Item = (Denial, Contents)> {
    let listed = |contents| matches!(contents, Contents::Listed | Contents::ListedOptOut);
    denials()
        .into_iter()
        .filter(move |(_, contents)| listed(*contents))
}

/// A line that says something definite. RFC 4592 section 4.2 leaves it undefined what a wildcard with NS matches, and no
/// NSEC of it denies another type (RFC 6840 section 4.1).
fn defined_line() -> impl Strategy<Value = (String, &'static str, u16)> {
    line().prop_filter("a wildcard with NS", |(owner, _, rtype)| {
        *rtype != NS || !owner.starts_with("*")
    })
}

proptest! {
    #![proptest_config(property_cases(4))]

    #[test]
    fn answers_are_proven_by_any_version_of_the_name_list(
        old in proptest::collection::vec(defined_line(), 1..10),
        new in proptest::collection::vec(defined_line(), 1..10),
        kept in 0usize..10,
    ) {
        let apex: NameBuf = "example.".parse().unwrap();
        // Both versions have some lines in common.
        let new: Vec<_> = old.iter().take(kept).chain(&new).cloned().collect();
        for (denial, contents) in listed_denials() {
            let (_, before, lists) = signed_zone(&apex, &old, &denial, contents);
            let (table, existing, _) = signed_zone(&apex, &new, &denial, contents);
            let table = relisted(&table, &lists[0], &apex);
            let around = |(name, _): &(NameBuf, BTreeSet<u16>)| around(name.as_name()).into_iter().chain([*name]);
            let names = existing.values().chain(before.values()).flat_map(around);
            for name in names.filter(|name| name.as_name().is_at_or_below(apex.as_name())) {
                for rtype in [A, TXT, DS, NSEC] {
                    let reply = ask(&table, name.as_name(), rtype);
                    let asked = labels(name.as_name().as_wire());
                    let result = verify(&reply, &asked, rtype, &denial);
                    let shown: Vec<String> = reply.authorities.iter().map(Record::to_string).collect();
                    prop_assert!(result.is_ok(), "{result:?}: {name} {rtype} {shown:#?}");
                }
            }
        }
    }
}

/// A zone with the list of another version.
fn relisted(table: &ZoneTable, list: &Arc<ListedChain>, apex: &NameBuf) -> ZoneTable {
    let zone = table.exact(apex.as_name()).unwrap();
    let signing = Arc::clone(zone.signing().online().unwrap());
    let mut zone = zone.pack().unwrap();
    zone.set_signing(SigningWithList::state(signing, list));
    zone.mark_as_fragment();
    let mut table = ZoneTable::default();
    table.insert(Arc::new(zone));
    table
}
