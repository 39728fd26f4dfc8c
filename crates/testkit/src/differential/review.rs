//! The reviewed differences: every class has an entry in `tests/differential/reviewed.md`.
//!
//! A class describes what the disagreement of the peers looks like, and which of them our answer must then agree with.

use super::answers::Answer;
use super::queries::TestQuery;
use super::zones;
use std::collections::BTreeSet;

const TYPE_SOA: u16 = 6;
const TYPE_RRSIG: u16 = 46;
const TYPE_NSEC: u16 = 47;
const TYPE_DS: u16 = 43;
const TYPE_ANY: u16 = 255;
const SERVFAIL: u16 = 2;
const NXDOMAIN: u16 = 3;
const YXDOMAIN: u16 = 6;

struct Class {
    name: &'static str,
    explains: fn(&Case<'_>) -> bool,
    ours: fn(&Case<'_>, &Answer) -> bool,
}

struct Case<'a> {
    query: &'a TestQuery,
    peers: &'a [(String, Answer)],
    apexes: &'a [String],
}

const CLASSES: &[Class] = &[
    Class {
        name: "any-one-rrset",
        explains: any,
        ours: any_ours,
    },
    Class {
        name: "soa-ttl-zero",
        explains: soa_ttl_zero,
        ours: |case, own| own.same(case.peer("knot")),
    },
    Class {
        name: "types-beside-cname",
        explains: types_beside_cname,
        ours: |case, own| as_nsd(case, own) || own.same(case.peer("bind")),
    },
    Class {
        name: "ds-behind-alias",
        explains: ds_behind_alias,
        ours: |case, own| own.same(case.peer("nsd")),
    },
    Class {
        name: "soa-left-out",
        explains: soa_left_out,
        ours: |case, own| own.same(case.peer("nsd")),
    },
    Class {
        name: "loop",
        explains: looping,
        ours: |case, own| own.same(case.peer("nsd")),
    },
    Class {
        name: "short-bound",
        explains: short_bound,
        ours: |case, own| own.same(case.peer("nsd")),
    },
    Class {
        name: "too-long",
        explains: too_long,
        ours: |case, own| own.same(case.peer("nsd")),
    },
    Class {
        name: "shared-tree",
        explains: shared_tree,
        ours: |case, own| own.same(case.peer("knot")),
    },
    Class {
        name: "chain-leaves-zone",
        explains: chain_leaves_zone,
        ours: as_nsd,
    },
];

/// Returns all class names, for comparison with the list.
pub fn names() -> impl Iterator<Item = &'static str> {
    CLASSES.iter().map(|class| class.name)
}

/// Returns the first class that explains the difference; `apexes` are the served zones, `name.`.
pub fn class(
    query: &TestQuery,
    peers: &[(String, Answer)],
    ours: Option<&Answer>,
    apexes: &[String],
) -> Option<&'static str> {
    let case = Case {
        query,
        peers,
        apexes,
    };
    let fits =
        |class: &&Class| (class.explains)(&case) && ours.is_none_or(|own| (class.ours)(&case, own));
    CLASSES.iter().find(fits).map(|class| class.name)
}

/// Checks whether an address that all peers add is missing in ours.
pub fn lacks_common_additional(ours: &Answer, peers: &[(String, Answer)]) -> bool {
    let Some(((_, first), rest)) = peers.split_first() else {
        return false;
    };
    let mut common = first.additional.iter();
    common.any(|record| {
        rest.iter()
            .all(|(_, peer)| peer.additional.contains(record))
            && !ours.additional.contains(record)
    })
}

impl Case<'_> {
    fn peer(&self, name: &str) -> &Answer {
        let found = self.peers.iter().find(|(own, _)| own == name);
        &found.expect("NSD, Knot and BIND are queried").1
    }

    fn zone_of(&self, name: &str) -> Option<&String> {
        let within = |apex: &&String| name == apex.as_str() || name.ends_with(&format!(".{apex}"));
        self.apexes
            .iter()
            .filter(within)
            .max_by_key(|apex| apex.len())
    }

    /// Checks whether a CNAME in the answer leads from one served zone into another.
    fn leaves_zone(&self, answer: &Answer) -> bool {
        answer.answer.iter().any(|record| {
            let words: Vec<&str> = record.split(' ').collect();
            let [owner, _, "cname", target] = words[..] else {
                return false;
            };
            let (from, to) = (self.zone_of(owner), self.zone_of(target));
            to.is_some() && from != to
        })
    }
}

/// Returns the authority section without TTLs.
fn authority_data(answer: &Answer) -> BTreeSet<String> {
    let without_ttl = |record: &String| {
        let (owner, rest) = record.split_once(' ').unwrap_or_default();
        format!("{owner} {}", rest.split_once(' ').unwrap_or_default().1)
    };
    answer.authority.iter().map(without_ttl).collect()
}

fn any(case: &Case<'_>) -> bool {
    let all = case.peer("bind");
    let part = |name: &str| case.peer(name).answer.is_subset(&all.answer);
    let follows = |name: &str| all.answer.is_subset(&case.peer(name).answer);
    let more = part("nsd") && part("knot");
    case.query.question.rtype == TYPE_ANY && (more || (follows("nsd") && follows("knot")))
}

/// Expects one RRset of those BIND returns, or the redirection as NSD has it.
fn any_ours(case: &Case<'_>, own: &Answer) -> bool {
    let all = case.peer("bind");
    let rrset = |record: &String| {
        let words: Vec<&str> = record.split(' ').collect();
        (words[0].to_string(), words[2].to_string())
    };
    let rrsets: BTreeSet<_> = own.answer.iter().map(rrset).collect();
    let whole = all
        .answer
        .iter()
        .filter(|record| rrsets.contains(&rrset(record)))
        .count();
    let one = rrsets.len() == 1 && own.answer.is_subset(&all.answer) && whole == own.answer.len();
    own.same(case.peer("nsd")) || (one && own.rcode == all.rcode && own.authoritative)
}

fn soa_ttl_zero(case: &Case<'_>) -> bool {
    let (bind, knot, nsd) = (case.peer("bind"), case.peer("knot"), case.peer("nsd"));
    let data_alike = authority_data(bind) == authority_data(knot) && bind.answer == knot.answer;
    case.query.question.rtype == TYPE_SOA
        && knot.same(nsd)
        && data_alike
        && bind.rcode == knot.rcode
}

/// At an alias, NSD follows it; Knot and BIND search for types that may coexist with a CNAME.
fn types_beside_cname(case: &Case<'_>) -> bool {
    let (bind, knot, nsd) = (case.peer("bind"), case.peer("knot"), case.peer("nsd"));
    let is_dnssec_type = [TYPE_RRSIG, TYPE_NSEC].contains(&case.query.question.rtype);
    let part = |answer: &Answer| answer.answer.is_subset(&nsd.answer);
    is_dnssec_type && !nsd.answer.is_empty() && part(bind) && part(knot)
}

/// An alias leads to the apex of a served child: its DS belongs to the parent, another zone.
fn ds_behind_alias(case: &Case<'_>) -> bool {
    let (bind, knot, nsd) = (case.peer("bind"), case.peer("knot"), case.peer("nsd"));
    let to_apex = |record: &String| {
        let target = record.rsplit(' ').next().unwrap_or_default();
        record.contains(" cname ") && case.apexes.iter().any(|apex| apex == target)
    };
    let alike = bind.same(knot) && bind.answer.is_subset(&nsd.answer);
    case.query.question.rtype == TYPE_DS && alike && bind.answer.iter().any(to_apex)
}

fn looping(case: &Case<'_>) -> bool {
    let (bind, knot) = (case.peer("bind"), case.peer("knot"));
    bind.rcode == SERVFAIL || knot.repeats
}

fn short_bound(case: &Case<'_>) -> bool {
    let (bind, knot, nsd) = (case.peer("bind"), case.peer("knot"), case.peer("nsd"));
    let cut = knot.answer.is_subset(&nsd.answer) && knot.answer.len() >= 5;
    cut && bind.same(nsd) && !knot.same(nsd)
}

fn too_long(case: &Case<'_>) -> bool {
    let (bind, knot, nsd) = (case.peer("bind"), case.peer("knot"), case.peer("nsd"));
    bind.rcode == YXDOMAIN && bind.same(nsd) && [NXDOMAIN, YXDOMAIN].contains(&knot.rcode)
}

/// A name that only the parent still has, below the cut to a served child, is queried or led to.
fn shared_tree(case: &Case<'_>) -> bool {
    let (bind, knot) = (case.peer("bind"), case.peer("knot"));
    let qname = case.query.question.name.lowercase().to_string();
    let records = knot.answer.iter().chain(&case.peer("nsd").answer);
    let mut led_to = records.filter_map(|record| record.rsplit(' ').next());
    let stale = |name: &str| name.ends_with(zones::STALE);
    bind.rcode == knot.rcode && (stale(&qname) || led_to.any(stale))
}

/// Knot omits the SOA of a negative answer, without TC, if it does not fit into 512 octets.
fn soa_left_out(case: &Case<'_>) -> bool {
    let (bind, knot, nsd) = (case.peer("bind"), case.peer("knot"), case.peer("nsd"));
    let without = Answer {
        authority: BTreeSet::new(),
        ..nsd.clone()
    };
    let alike = bind.answer == nsd.answer && authority_data(bind) == authority_data(nsd);
    alike && bind.rcode == nsd.rcode && knot.same(&without)
}

fn chain_leaves_zone(case: &Case<'_>) -> bool {
    let (bind, knot, nsd) = (case.peer("bind"), case.peer("knot"), case.peer("nsd"));
    bind.same(knot) && bind.answer.is_subset(&nsd.answer) && case.leaves_zone(bind)
}

/// Expects the answer of NSD, except for the effect of its shared tree on the last name.
fn as_nsd(case: &Case<'_>, own: &Answer) -> bool {
    let nsd = case.peer("nsd");
    own.same(nsd) || (shared_tree(case) && own.answer == nsd.answer)
}
