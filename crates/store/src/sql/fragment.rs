//! The part of a zone that answers every question for one name, gathered in as few statements as can be.
//!
//! The first statement fetches the rows of the name, of all its ancestors in the zone and of the wildcards below
//! them. [`Gathering::walk`] then goes the way of RFC 1034 section 4.3.2 through these rows and notes what the answer
//! may need: the name's own records, a delegation, a DNAME, a wildcard. If that brings up hosts whose addresses belong
//! into the additional section, or an alias inside the zone, one more statement fetches these; a chain of
//! aliases takes one statement a link. Rows that the answer does not need are never parsed, so a broken row
//! fails only the names that need it.

use super::above::Above;
use super::apex::{Apex, ApexRecord, Scope};
use super::error::{RowError, SqlError};
use super::row::{Cells, read_content, read_name, read_ttl, read_type, shown, write_name};
use nameward_dnssec::Signing;
use nameward_wire::rdata::names as names_in;
use nameward_wire::zonefile::{Record, Severity};
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::{Finding, NameKey, Zone, ZoneBuilder};
use std::sync::Arc;

/// Links of a chain of aliases that are followed; as many as the answer engine follows.
const MAX_CHAIN: usize = 16;
/// Hosts whose addresses are fetched for one question.
const MAX_TARGETS: usize = 256;

/// The part of a zone that answers questions for one name.
pub struct Fragment {
    /// An ordinary zone with the few names that matter.
    pub zone: Zone,
    /// Aliases that lead out of the zone: another zone may have them.
    pub exits: Vec<NameBuf>,
    /// How many statements it took.
    pub statements: u32,
}

/// What an answer needs of a name, as bits.
mod need {
    /// That it exists.
    pub(super) const EXISTENCE: u8 = 1;
    /// Its addresses.
    pub(super) const ADDRESSES: u8 = 2;
    /// What stands at a delegation.
    pub(super) const CUT: u8 = 4;
    /// Its DNAME.
    pub(super) const DNAME: u8 = 8;
    /// What every answer needs of the apex.
    pub(super) const APEX: u8 = 16;
    /// Everything.
    pub(super) const ALL: u8 = 32;
    /// It is the closest encloser: if the zone is signed, proofs tell which types it has.
    pub(super) const ENCLOSER: u8 = 64;
    /// Whether it hides what stands below it: glue is not signed.
    pub(super) const HIDING: u8 = 128;
}

/// How many labels below the apex of a signed zone hosts may be whose addresses are fetched: whether they are glue
/// depends on each name above them.
const MAX_DEPTH_OF_HOSTS: usize = 8;

/// Whether records of a type are among what is needed.
fn is_needed(needs: u8, rtype: Type) -> bool {
    let by_type = match rtype {
        // RFC 9460 section 4.1: services of a target go with its addresses.
        Type::A | Type::AAAA | Type::SVCB | Type::HTTPS => need::ADDRESSES,
        Type::NS => need::CUT | need::APEX | need::HIDING,
        Type::DS => need::CUT,
        Type::DNAME => need::DNAME | need::HIDING,
        Type::SOA => need::APEX,
        _ => 0,
    };
    needs & (need::ALL | by_type) != 0
}

/// Types that a zone signed by us has from us: rows of them are left over from other times.
pub(crate) fn is_made_by_signing(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::DNSKEY
            | Type::CDS
            | Type::CDNSKEY
            | Type::RRSIG
            | Type::NSEC
            | Type::NSEC3
            | Type::NSEC3PARAM
    )
}

struct Wanted {
    name: NameBuf,
    text: String,
    /// Rows were asked for.
    asked: bool,
    has_rows: bool,
    /// PowerDNS says that it is an empty non-terminal.
    has_empty_row: bool,
    /// Bits of [`need`].
    needs: u8,
}

/// A row as it came; its data is read when it turns out to be needed.
struct Held {
    of: usize,
    id: i64,
    rtype: Result<Type, String>,
    ttl: u32,
    prio: Option<i64>,
    content: (usize, usize),
}

/// Where a walk ended.
enum Walked {
    /// All that it needs is known.
    Done,
    /// The name has no rows: whether it or its ancestors are empty non-terminals must be known.
    NeedsAbove,
}

/// What is known about a zone before a look-up.
#[derive(Default)]
pub(crate) struct Known<'a> {
    pub(crate) above: Option<&'a Above>,
    pub(crate) apex: Option<Arc<Apex>>,
}

pub(crate) struct Gathering {
    zone_id: i64,
    apex: NameBuf,
    apex_labels: usize,
    wanted: Vec<Wanted>,
    rows: Vec<Held>,
    content: Vec<u8>,
    /// Names still to be walked to: the question, then aliases.
    pending: Vec<NameBuf>,
    visited: Vec<NameBuf>,
    exits: Vec<NameBuf>,
    /// Records of the apex from before, as long as nothing else of the apex is needed.
    apex_records: Option<Arc<Apex>>,
    /// It is known that no wildcard stands right below the apex.
    no_wildcard: bool,
    /// The keys of the zone and how it is signed; known from the first walk on.
    signing: Option<Arc<Signing>>,
    statements: u32,
}

impl Gathering {
    pub(crate) fn new(zone_id: i64, apex: &NameBuf, qname: Name<'_>, known: Known<'_>) -> Self {
        let above = known.above;
        let mut gathering = Gathering {
            zone_id,
            apex: *apex,
            apex_labels: apex.as_name().label_count(),
            wanted: Vec::with_capacity(8),
            rows: Vec::with_capacity(16),
            content: Vec::with_capacity(512),
            pending: Vec::new(),
            visited: Vec::new(),
            exits: Vec::new(),
            no_wildcard: known.apex.as_ref().is_some_and(|apex| apex.no_wildcard),
            apex_records: known.apex,
            signing: None,
            statements: 0,
        };
        let at = gathering.want(apex.as_name());
        gathering.wanted[at].needs = need::APEX;
        gathering.wanted[at].asked = gathering.apex_records.is_some();
        gathering.follow(qname, above);
        gathering
    }

    pub(crate) fn add_statements(&mut self, statements: u32) {
        self.statements += statements;
    }

    /// Tells how the zone is signed, before the first walk.
    pub(crate) fn set_signing(&mut self, signing: Option<Arc<Signing>>) {
        self.signing = signing;
    }

    /// Notes a name whose rows are to be fetched; returns where it stands.
    fn want(&mut self, name: Name<'_>) -> usize {
        if let Some(at) = self.position(name) {
            return at;
        }
        let mut text = String::with_capacity(name.as_wire().len());
        write_name(name, &mut text);
        self.wanted.push(Wanted {
            name: name.into(),
            text,
            asked: false,
            has_rows: false,
            has_empty_row: false,
            needs: 0,
        });
        self.wanted.len() - 1
    }

    fn position(&self, name: Name<'_>) -> Option<usize> {
        self.wanted
            .iter()
            .position(|wanted| wanted.name.as_name() == name)
    }

    /// More of the apex is needed than its SOA and NS records: all of it is fetched.
    fn fetch_apex(&mut self) {
        if self.apex_records.take().is_some() {
            self.wanted[0].asked = false;
        }
    }

    /// Goes on with a name: its ancestors and their wildcards are wanted too.
    fn follow(&mut self, name: Name<'_>, above: Option<&Above>) {
        if self.visited.iter().any(|visited| visited.as_name() == name) {
            return;
        }
        if !name.is_at_or_below(self.apex.as_name()) {
            self.exits.push(name.into());
            return;
        }
        if self.visited.len() > MAX_CHAIN {
            return;
        }
        self.visited.push(name.into());
        let mut lower: NameBuf = name.into();
        lower.make_lowercase();
        self.pending.push(lower);
        let key = NameKey::new(lower.as_name());
        if key.labels() == self.apex_labels {
            self.fetch_apex();
        }
        let limit = self.deepest(&key, above);
        for n in (self.apex_labels..=limit).rev() {
            self.want(key.suffix(n));
            if n < limit
                && !(n == self.apex_labels && self.no_wildcard)
                && let Ok(wildcard) = NameBuf::join(b"\x01*", key.suffix(n))
            {
                self.want(wildcard.as_name());
            }
        }
    }

    /// Labels of the deepest ancestor that may have rows: nothing stands below a name that has nothing below
    /// it. A question with a hundred labels then costs no more than others.
    fn deepest(&self, key: &NameKey, above: Option<&Above>) -> usize {
        let Some(above) = above.filter(|above| !above.is_partial) else {
            return key.labels();
        };
        let mut limit = self.apex_labels;
        while limit < key.labels() && above.contains(key, limit) {
            limit += 1;
        }
        // The wildcard below the closest encloser is one deeper.
        (limit + 1).min(key.labels())
    }

    /// Hands over the names that the next statement has to fetch.
    pub(crate) fn next_names(&mut self, mut each: impl FnMut(&str)) {
        let unasked = self.wanted.iter_mut().filter(|wanted| !wanted.asked);
        let mut any = false;
        for wanted in unasked {
            wanted.asked = true;
            any = true;
            each(&wanted.text);
        }
        self.statements += u32::from(any);
    }

    /// Whether names are wanted that no statement asked for yet.
    pub(crate) fn is_short(&self) -> bool {
        !self.pending.is_empty() || self.wanted.iter().any(|wanted| !wanted.asked)
    }

    /// Takes one row: id, name, type, ttl, prio, content.
    pub(crate) fn take(&mut self, row: &dyn Cells) -> Result<(), SqlError> {
        let id = row.int(0).unwrap_or(0);
        let text = row.text(1).unwrap_or_default();
        let of = match self.wanted.iter().position(|w| w.text.as_bytes() == text) {
            Some(of) => of,
            None => {
                // A collation that ignores case, or more, brought it.
                let mut name = NameBuf::root();
                read_name(text, &mut name)
                    .map_err(|reason| SqlError::row("records", id, reason))?;
                let Some(of) = self.position(name.as_name()) else {
                    return Ok(());
                };
                self.wanted[of].name = name;
                of
            }
        };
        let Some(rtype) = row.text(2).filter(|rtype| !rtype.is_empty()) else {
            self.wanted[of].has_empty_row = true;
            return Ok(());
        };
        let start = self.content.len();
        self.content
            .extend_from_slice(row.text(5).unwrap_or_default());
        self.wanted[of].has_rows = true;
        self.rows.push(Held {
            of,
            id,
            rtype: read_type(rtype),
            ttl: read_ttl(row.int(3)),
            prio: row.int(4),
            content: (start, self.content.len()),
        });
        Ok(())
    }

    fn has_type(&self, of: usize, rtype: Type) -> bool {
        self.rows
            .iter()
            .any(|row| row.of == of && row.rtype == Ok(rtype))
    }

    /// Walks to all names that are pending. False: `above` is needed first.
    pub(crate) fn walk(&mut self, above: Option<&Above>) -> Result<bool, SqlError> {
        // Aliases found on the way are for the next round: their rows are not here yet.
        let mut names = std::mem::take(&mut self.pending);
        while let Some(name) = names.pop() {
            if matches!(self.walk_to(&name, above)?, Walked::NeedsAbove) {
                self.pending.push(name);
                self.pending.append(&mut names);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// RFC 1034 section 4.3.2 step 3, over the rows.
    fn walk_to(&mut self, name: &NameBuf, above: Option<&Above>) -> Result<Walked, SqlError> {
        let key = NameKey::new(name.as_name());
        let labels = key.labels();
        let mut encloser = self.apex_labels;
        for n in self.apex_labels..=labels {
            let Some(at) = self.position(key.suffix(n)) else {
                break;
            };
            let below_apex = n > self.apex_labels;
            if below_apex && self.has_type(at, Type::NS) && n < labels {
                self.wanted[at].needs |= need::CUT;
                self.fetch_targets(at, &[Type::NS])?;
                return Ok(Walked::Done);
            }
            if n < labels && self.has_type(at, Type::DNAME) {
                self.wanted[at].needs |= need::DNAME;
                self.follow_dname(at, (name, key.prefix_len(n)), above)?;
                return Ok(Walked::Done);
            }
            if n == labels && (self.wanted[at].has_rows || !below_apex) {
                self.take_all(at, above)?;
                return Ok(Walked::Done);
            }
            if n < labels && self.wanted[at].has_rows {
                encloser = n;
            }
        }
        let Some(above) = above else {
            return Ok(Walked::NeedsAbove);
        };
        self.walk_without_rows(&key, encloser, above)?;
        Ok(Walked::Done)
    }

    /// The name has no rows. `encloser`: labels of the deepest ancestor that has some.
    fn walk_without_rows(
        &mut self,
        key: &NameKey,
        mut encloser: usize,
        above: &Above,
    ) -> Result<(), SqlError> {
        let labels = key.labels();
        for n in encloser + 1..=labels {
            let hinted = above.is_partial
                && self
                    .position(key.suffix(n))
                    .is_some_and(|at| self.wanted[at].has_empty_row);
            if !above.contains(key, n) && !hinted {
                break;
            }
            encloser = n;
        }
        if let Some(at) = self.position(key.suffix(encloser)) {
            self.wanted[at].needs |= need::ENCLOSER;
            if encloser > self.apex_labels {
                self.wanted[at].needs |= need::EXISTENCE;
            }
        }
        if encloser == labels {
            return Ok(());
        }
        // RFC 4592 section 3.3: only the wildcard below the closest encloser counts.
        let Ok(wildcard) = NameBuf::join(b"\x01*", key.suffix(encloser)) else {
            return Ok(());
        };
        match self.position(wildcard.as_name()) {
            Some(at) if self.wanted[at].has_rows => self.take_all(at, Some(above))?,
            _ if above.contains(&NameKey::new(wildcard.as_name()), encloser + 1) => {
                let at = self.want(wildcard.as_name());
                self.wanted[at].asked = true;
                self.wanted[at].needs |= need::EXISTENCE;
            }
            _ => {}
        }
        Ok(())
    }

    /// Everything of a name: hosts its records name, and where it leads if it is an alias.
    fn take_all(&mut self, at: usize, above: Option<&Above>) -> Result<(), SqlError> {
        self.wanted[at].needs |= need::ALL;
        self.fetch_targets(at, &[])?;
        if let Some(row) = self.row_of(at, Type::CNAME) {
            let mut rdata = Vec::new();
            self.parse(row, &mut rdata)?;
            if let Ok(target) = Name::from_wire(&rdata) {
                self.follow(target, above);
            }
        }
        Ok(())
    }

    fn row_of(&self, at: usize, rtype: Type) -> Option<usize> {
        self.rows
            .iter()
            .position(|row| row.of == at && row.rtype == Ok(rtype))
    }

    fn follow_dname(
        &mut self,
        at: usize,
        (name, prefix): (&NameBuf, usize),
        above: Option<&Above>,
    ) -> Result<(), SqlError> {
        let Some(row) = self.row_of(at, Type::DNAME) else {
            return Ok(());
        };
        let mut rdata = Vec::new();
        self.parse(row, &mut rdata)?;
        if let Ok(target) = Name::from_wire(&rdata)
            && let Ok(made) = NameBuf::join(&name.as_name().as_wire()[..prefix], target)
        {
            self.follow(made.as_name(), above);
        }
        Ok(())
    }

    /// Wants the addresses of the hosts in the zone that records of a name name; no types means all.
    fn fetch_targets(&mut self, at: usize, types: &[Type]) -> Result<(), SqlError> {
        let mut rdata = Vec::new();
        let mut targets: Vec<(NameBuf, bool)> = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            let Ok(rtype) = row.rtype else { continue };
            if row.of != at || !(types.is_empty() || types.contains(&rtype)) {
                continue;
            }
            if !may_have_targets(rtype) {
                continue;
            }
            rdata.clear();
            self.parse(i, &mut rdata)?;
            let hosts = names_in(rtype, &rdata).filter(|(_, _, name_use)| name_use.additional);
            // Addresses of the servers of a delegation are not signed, whatever stands above them.
            let is_signed = self.signing.is_some() && (rtype != Type::NS || at == 0);
            targets.extend(
                hosts
                    .map(|(_, host, _)| host)
                    .filter(|host| host.is_at_or_below(self.apex.as_name()))
                    .filter(|host| {
                        let depth = host.label_count() - self.apex_labels;
                        !is_signed || depth <= MAX_DEPTH_OF_HOSTS
                    })
                    .map(|host| (host.into(), is_signed)),
            );
        }
        for (target, is_signed) in targets.iter_mut().take(MAX_TARGETS) {
            target.make_lowercase();
            let at = self.want(target.as_name());
            if at == 0 {
                self.fetch_apex();
            }
            self.wanted[at].needs |= need::ADDRESSES;
            if *is_signed {
                self.want_above(target.as_name());
            }
        }
        Ok(())
    }

    /// Wants to know of a host whether a delegation or a DNAME stands at or above it.
    fn want_above(&mut self, host: Name<'_>) {
        let mut name = host;
        while name.as_wire().len() > self.apex.as_name().as_wire().len() {
            let at = self.want(name);
            self.wanted[at].needs |= need::HIDING;
            match name.parent() {
                Some(parent) => name = parent,
                None => return,
            }
        }
    }

    fn parse(&self, row: usize, out: &mut Vec<u8>) -> Result<Type, SqlError> {
        let row = &self.rows[row];
        let bad = |reason: String| {
            let owner = &self.wanted[row.of].name;
            SqlError::row("records", row.id, format!("{owner}: {reason}"))
        };
        let rtype = row.rtype.clone().map_err(bad)?;
        let content = &self.content[row.content.0..row.content.1];
        read_content(rtype, row.prio, content, out).map_err(bad)?;
        Ok(rtype)
    }

    /// What the look-ups to come may know of the apex, if it was fetched. An apex with a DNAME, or whose name
    /// is written in another case than that of the zone, is fetched each time.
    pub(crate) fn apex_to_keep(&self) -> Option<Apex> {
        let apex = &self.wanted[0];
        let same_case = apex.name.as_name().as_wire() == self.apex.as_name().as_wire();
        if self.apex_records.is_some() || !same_case || self.has_type(0, Type::DNAME) {
            return None;
        }
        let mut records = Vec::new();
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| row.of == 0) {
            let is_plain = matches!(row.rtype, Ok(Type::SOA | Type::NS));
            if !is_plain && self.signing.is_none() {
                continue;
            }
            let mut rdata = Vec::new();
            let rtype = match self.parse(i, &mut rdata) {
                Ok(rtype) => rtype,
                Err(_) if is_plain => return None,
                Err(_) => continue,
            };
            records.push(ApexRecord {
                id: row.id,
                rtype,
                ttl: row.ttl,
                rdata: rdata.into(),
            });
        }
        // A zone without a SOA is not served; the next look-up shall see when it gets one.
        let has_soa = records.iter().any(|record| record.rtype == Type::SOA);
        let wildcard = NameBuf::join(b"\x01*", self.apex.as_name()).ok()?;
        let wildcard = self.position(wildcard.as_name()).map(|at| &self.wanted[at]);
        has_soa.then_some(Apex {
            records,
            scope: match self.signing {
                Some(_) => Scope::Signed,
                None => Scope::Plain,
            },
            no_wildcard: wildcard.is_some_and(|wildcard| wildcard.asked && !wildcard.has_rows),
        })
    }

    /// What is needed of a name, all told. A row of the closest encloser that cannot be read does not fail the answer: it
    /// is not about that name.
    fn is_needed(&self, wanted: &Wanted, row: &Held) -> Need {
        let is_signed = self.signing.is_some();
        let by_type = match row.rtype {
            Ok(rtype) if is_signed && is_made_by_signing(rtype) => return Need::No,
            Ok(rtype) => is_needed(wanted.needs, rtype),
            Err(_) => wanted.needs & need::ALL != 0,
        };
        if by_type {
            Need::Yes
        } else if is_signed && wanted.needs & need::ENCLOSER != 0 {
            Need::IfReadable
        } else {
            Need::No
        }
    }

    /// Adds what stands at the apex because the zone is signed, where an answer may show it or name its type.
    fn add_signing_records(&self, builder: &mut ZoneBuilder, minimum: u32) {
        let Some(signing) = &self.signing else {
            return;
        };
        if self.wanted[0].needs & (need::ALL | need::ENCLOSER) == 0 {
            return;
        }
        for (rtype, rdata) in signing.apex_records() {
            builder.add(&Record {
                owner: self.wanted[0].name.as_name(),
                same_owner: false,
                rtype,
                class: Class::IN,
                ttl: minimum,
                rdata: &rdata,
                line: 0,
                file: 0,
            });
        }
    }

    /// Builds the zone from what was found to be needed.
    pub(crate) fn finish(self) -> Result<Fragment, SqlError> {
        let mut builder = ZoneBuilder::with_capacity(self.apex.as_name(), self.content.len() * 2);
        let mut rdata = Vec::with_capacity(256);
        let mut minimum = 0;
        for (at, wanted) in self.wanted.iter().enumerate() {
            if wanted.needs & need::EXISTENCE != 0 || wanted.needs != 0 && wanted.has_rows {
                builder.add_empty(wanted.name.as_name());
            }
            // For most zones the closest encloser is nothing but a name.
            let ignored = match self.signing {
                Some(_) => need::EXISTENCE,
                None => need::EXISTENCE | need::ENCLOSER,
            };
            if wanted.needs & !ignored == 0 {
                continue;
            }
            for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| row.of == at) {
                let needed = self.is_needed(wanted, row);
                if needed == Need::No {
                    continue;
                }
                rdata.clear();
                let rtype = match self.parse(i, &mut rdata) {
                    Err(_) if needed == Need::IfReadable => continue,
                    rtype => rtype?,
                };
                if rtype == Type::SOA && at == 0 {
                    minimum = soa_minimum(&rdata);
                }
                builder.add(&Record {
                    owner: wanted.name.as_name(),
                    same_owner: false,
                    rtype,
                    class: Class::IN,
                    ttl: row.ttl,
                    rdata: &rdata,
                    line: row.id as u32,
                    file: (row.id >> 32) as u16,
                });
            }
        }
        for record in self.apex_records.iter().flat_map(|apex| &apex.records) {
            let apex_needs = self.wanted[0].needs;
            let needs_all = self.signing.is_some() && apex_needs & need::ENCLOSER != 0;
            let is_made = self.signing.is_some() && is_made_by_signing(record.rtype);
            if is_made || !(needs_all || is_needed(apex_needs, record.rtype)) {
                continue;
            }
            if record.rtype == Type::SOA {
                minimum = soa_minimum(&record.rdata);
            }
            builder.add(&Record {
                owner: self.apex.as_name(),
                same_owner: false,
                rtype: record.rtype,
                class: Class::IN,
                ttl: record.ttl,
                rdata: &record.rdata,
                line: record.id as u32,
                file: (record.id >> 32) as u16,
            });
        }
        self.add_signing_records(&mut builder, minimum);
        let (zone, findings) = builder.finish();
        match zone {
            Some(mut zone) => {
                zone.set_signing(self.signing.filter(|signing| signing.signs()));
                Ok(Fragment {
                    zone,
                    exits: self.exits,
                    statements: self.statements,
                })
            }
            None => Err(first_error(self.zone_id, &findings)),
        }
    }
}

/// Whether a row is part of what is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    No,
    /// Only its type matters.
    IfReadable,
    Yes,
}

/// The last field of a SOA: TTL of negative answers, and of the records that signing adds.
pub(crate) fn soa_minimum(rdata: &[u8]) -> u32 {
    rdata
        .last_chunk()
        .map_or(0, |minimum| u32::from_be_bytes(*minimum))
}

/// The id of the row that a finding is about: rows are numbered by `line` and `file`.
pub fn row_id(finding: &Finding) -> i64 {
    i64::from(finding.file) << 32 | i64::from(finding.line)
}

/// What a finding about a zone says, with the row it is about.
pub fn row_error(zone_id: i64, finding: &Finding) -> RowError {
    let (table, id) = match row_id(finding) {
        0 => ("domains", zone_id),
        id => ("records", id),
    };
    RowError {
        table,
        id,
        reason: shown(finding.message.as_bytes()),
    }
}

fn first_error(zone_id: i64, findings: &[Finding]) -> SqlError {
    let error = findings
        .iter()
        .find(|finding| finding.severity == Severity::Error);
    match error {
        Some(error) => SqlError::Row(row_error(zone_id, error)),
        None => SqlError::row("domains", zone_id, ""),
    }
}

/// Whether records of a type may name hosts whose addresses belong into the additional section.
fn may_have_targets(rtype: Type) -> bool {
    !matches!(
        rtype,
        Type::A | Type::AAAA | Type::TXT | Type::SOA | Type::CNAME | Type::PTR
    )
}
