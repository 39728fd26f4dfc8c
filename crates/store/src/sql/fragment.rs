//! The part of a zone that answers every question for one name, gathered in as few statements as can be.
//!
//! The first statement fetches the rows of the name, of all its ancestors in the zone and of the wildcards below
//! them. [`Gathering::walk`] then goes the way of RFC 1034 section 4.3.2 through these rows and notes what the answer
//! may need: the name's own records, a delegation, a DNAME, a wildcard. If that brings up hosts whose addresses belong
//! into the additional section, or an alias inside the zone, one more statement fetches these; a chain of
//! aliases takes one statement a link. Rows that the answer does not need are never parsed, so a broken row
//! fails only the names that need it.
//!
//! [`Gathering`] holds what is wanted and the rows that came ([`need`]: what is wanted of each name); `walk` finds out
//! what else is, and `build` makes the zone.

mod build;
mod need;
mod requested_names;
mod walk;

use super::LiveZone;
use super::apex::Apex;
use super::dialect::MAX_ROWS;
use super::empty_nonterminals::Above;
use super::error::SqlError;
use super::row::{Cells, RowFault, read_content, read_name, read_ttl, read_type};
use super::shared_fragments::{PartKind, SharedPart, SharedParts, too_many_rows};
pub use build::row_error;
pub(crate) use build::soa_minimum;
use nameward_dnssec::Signing;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{NameKey, Zone};
use requested_names::{WantedName, WantedNames};
use std::sync::Arc;

/// Links of a chain of aliases that are followed; as many as the answer engine follows.
const MAX_CHAIN: usize = 16;

/// A row as it came; its data is read when it turns out to be needed.
struct FetchedRow {
    of: usize,
    id: i64,
    rtype: Result<Type, RowFault>,
    ttl: u32,
    prio: Option<i64>,
    content: (usize, usize),
}

/// A zone and the facts about it that are known before look-ups in it. Those that begin together share them.
pub(crate) struct KnownZone {
    pub(crate) zone: LiveZone,
    pub(crate) apex_labels: usize,
    /// How it is signed, if that is known.
    pub(crate) signing: Option<Option<Arc<Signing>>>,
    pub(crate) apex: Option<Arc<Apex>>,
    /// The generations of the apexes and of the parts that were kept when it was made.
    pub(crate) generation: (u64, u64),
}

pub(crate) struct Gathering {
    known: Arc<KnownZone>,
    wanted: WantedNames,
    rows: Vec<FetchedRow>,
    content: Vec<u8>,
    /// How many rows and octets of content there were before the statement in work.
    mark: (usize, usize),
    /// The name that was asked for, in wire form and lower case.
    question: Box<[u8]>,
    /// It is still to be walked to.
    is_pending: bool,
    /// Aliases still to be walked to, and all that were found.
    pending: Vec<NameBuf>,
    visited: Vec<NameBuf>,
    /// A part that is kept for names below an ancestor of the question: it may turn out to be the one that is asked for.
    shared: Option<SharedPart>,
    /// It did.
    ready: Option<Arc<Zone>>,
    /// The names that the part will answer for, if not for the question alone, and the labels of their ancestor.
    kind: Option<(PartKind, usize)>,
    /// Records of the apex from before, as long as nothing else of the apex is needed.
    apex_records: Option<Arc<Apex>>,
    /// It is known that no wildcard stands right below the apex.
    no_wildcard: bool,
    /// The keys of the zone and how it is signed; known from the first walk on.
    signing: Option<Arc<Signing>>,
    statements: u32,
}

impl Gathering {
    pub(crate) fn new(
        known: Arc<KnownZone>,
        key: &NameKey,
        above: Option<&Above>,
        parts: &SharedParts,
    ) -> Self {
        let (id, apex_labels) = (known.zone.id, known.apex_labels);
        let signing = known.signing.as_ref();
        let shared =
            signing.and_then(|signing| parts.find(id, (key, apex_labels), signing.is_some()));
        let mut gathering = Gathering {
            wanted: WantedNames::new(),
            rows: Vec::with_capacity(4),
            content: Vec::with_capacity(128),
            mark: (0, 0),
            question: key.suffix(key.labels()).as_wire().into(),
            is_pending: true,
            pending: Vec::new(),
            visited: Vec::new(),
            shared: None,
            ready: None,
            kind: None,
            no_wildcard: known.apex.as_ref().is_some_and(|apex| apex.no_wildcard),
            apex_records: known.apex.clone(),
            signing: known.signing.clone().flatten(),
            statements: 0,
            known,
        };
        match shared {
            Some(part) if part.kind == PartKind::Delegation => {
                gathering.ready = Some(part.zone);
                gathering.is_pending = false;
            }
            shared => {
                let at = gathering.wanted.add(gathering.known.zone.apex.as_name());
                gathering.wanted[at].needs = need::APEX;
                gathering.wanted[at].asked = gathering.apex_records.is_some();
                // Nothing at or above the encloser of a kept part has to be fetched again.
                let top = shared.as_ref().map_or(apex_labels, |part| part.labels + 1);
                gathering.shared = shared;
                gathering.want_path(key, top, above);
            }
        }
        gathering
    }

    /// The part of another look-up, if it answers for the question.
    pub(crate) fn ready_part(&self) -> Option<Arc<Zone>> {
        self.ready.clone()
    }

    /// The name that was asked for, in lower case.
    pub(crate) fn question(&self) -> Name<'_> {
        Name::from_valid_wire(&self.question)
    }

    /// The zone that the look-up is about.
    pub(crate) fn known(&self) -> &KnownZone {
        &self.known
    }

    /// The part that is shared if `zone` is the part for the question.
    pub(crate) fn shared_part(&self, zone: &Arc<Zone>) -> Option<SharedPart> {
        let (kind, labels) = self.kind?;
        let zone = Arc::clone(zone);
        Some(SharedPart { kind, labels, zone })
    }

    pub(crate) fn signing(&self) -> Option<&Signing> {
        self.signing.as_deref()
    }

    pub(crate) fn statements(&self) -> u32 {
        self.statements
    }

    /// Remembers what there is before a statement.
    pub(crate) fn set_mark(&mut self) {
        self.mark = (self.rows.len(), self.content.len());
    }

    /// Drops what a statement brought; its names are sorted.
    pub(crate) fn roll_back(&mut self, names: &[&str]) {
        self.rows.truncate(self.mark.0);
        self.content.truncate(self.mark.1);
        for at in 0..self.wanted.len() {
            if names.binary_search(&self.wanted.text(at)).is_ok() {
                self.wanted[at].has_rows = false;
                self.wanted[at].has_empty_row = false;
            }
        }
    }

    /// Notes that a name has more rows than are fetched.
    pub(crate) fn note_oversized(&mut self, name: &str) {
        if let Some(at) = self.wanted.position_of_text(name.as_bytes()) {
            self.wanted[at].is_oversized = true;
            self.wanted[at].has_rows = true;
        }
    }

    /// Fails what needs the rows of a name that has more of them than are fetched.
    fn check_size(&self, at: usize) -> Result<(), SqlError> {
        if !self.wanted[at].is_oversized {
            return Ok(());
        }
        let reason = too_many_rows(self.wanted.name(at), MAX_ROWS);
        Err(SqlError::row("records", 0, reason))
    }

    pub(crate) fn add_statements(&mut self, statements: u32) {
        self.statements += statements;
    }

    /// Sets how the zone is signed, before the first walk.
    pub(crate) fn set_signing(&mut self, signing: Option<Arc<Signing>>) {
        self.signing = signing;
    }

    /// More of the apex is needed than its SOA and NS records: all of it is fetched.
    fn fetch_apex(&mut self) {
        if self.apex_records.take().is_some() {
            self.wanted[0].asked = false;
        }
    }

    /// Goes on with a name: its ancestors and their wildcards are wanted too. One that leads in a circle is no name to go on with.
    fn follow(&mut self, name: Name<'_>, above: Option<&Above>) {
        if self.visited.iter().any(|visited| visited.as_name() == name) || name == self.question() {
            return;
        }
        // What leads out of the zone is for the zone that has it.
        if !name.is_at_or_below(self.known.zone.apex.as_name()) || self.visited.len() >= MAX_CHAIN {
            return;
        }
        let mut lower: NameBuf = name.into();
        lower.make_lowercase();
        self.visited.push(lower);
        self.pending.push(lower);
        let key = NameKey::new(lower.as_name());
        self.want_path(&key, self.known.apex_labels, above);
    }

    /// Wants the rows of a name, of its ancestors down from the one with `top` labels, and of their wildcards.
    fn want_path(&mut self, key: &NameKey, top: usize, above: Option<&Above>) {
        let apex_labels = self.known.apex_labels;
        if key.labels() == apex_labels {
            self.fetch_apex();
        }
        let limit = self.deepest(key, above);
        for n in (top..=limit).rev() {
            self.wanted.add(key.suffix(n));
            if n < limit
                && !(n == apex_labels && self.no_wildcard)
                && let Ok(wildcard) = NameBuf::join(b"\x01*", key.suffix(n))
            {
                self.wanted.add(wildcard.as_name());
            }
        }
    }

    /// Labels of the deepest ancestor that may have rows: nothing stands below a name that has nothing below
    /// it. A question with a hundred labels then costs no more than others.
    fn deepest(&self, key: &NameKey, above: Option<&Above>) -> usize {
        let Some(above) = above.filter(|above| !above.is_partial) else {
            return key.labels();
        };
        let mut limit = self.known.apex_labels;
        while limit < key.labels() && above.contains(key, limit) {
            limit += 1;
        }
        // The wildcard below the closest encloser is one deeper.
        (limit + 1).min(key.labels())
    }

    /// Hands over the names that the next statement has to fetch.
    pub(crate) fn next_names(&mut self, parts: &SharedParts, mut each: impl FnMut(&str)) {
        let mut any = false;
        for at in 0..self.wanted.len() {
            if std::mem::replace(&mut self.wanted[at].asked, true) {
                continue;
            }
            if parts.is_oversized(self.wanted.text(at)) {
                self.wanted[at].is_oversized = true;
                self.wanted[at].has_rows = true;
                continue;
            }
            any = true;
            each(self.wanted.text(at));
        }
        self.statements += u32::from(any);
    }

    /// Whether names are wanted that no statement asked for yet.
    pub(crate) fn is_short(&self) -> bool {
        let is_missing = |wanted: &WantedName| !wanted.asked;
        self.ready.is_none() && (!self.pending.is_empty() || self.wanted.iter().any(is_missing))
    }

    /// Takes one row: id, name, type, ttl, prio, content. `text` is its name.
    pub(crate) fn take(&mut self, row: &dyn Cells, text: &[u8]) -> Result<(), SqlError> {
        let id = row.int(0).unwrap_or(0);
        let of = match self.wanted.position_of_text(text) {
            Some(of) => of,
            None => {
                // A collation that ignores case, or more, brought it.
                let mut name = NameBuf::root();
                read_name(text, &mut name)
                    .map_err(|reason| SqlError::row("records", id, reason.to_string()))?;
                let Some(of) = self.wanted.position(name.as_name()) else {
                    return Ok(());
                };
                self.wanted.respell(of, name.as_name());
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
        self.rows.push(FetchedRow {
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

    fn parse(&self, row: usize, out: &mut Vec<u8>) -> Result<Type, SqlError> {
        let row = &self.rows[row];
        let bad = |reason: RowFault| {
            let owner = self.wanted.name(row.of);
            SqlError::row("records", row.id, format!("{owner}: {reason}"))
        };
        let rtype = row.rtype.clone().map_err(bad)?;
        let content = &self.content[row.content.0..row.content.1];
        read_content(rtype, row.prio, content, out).map_err(bad)?;
        Ok(rtype)
    }
}
