//! The fragment of a zone that answers every query for one name, gathered in as few statements as possible.
//!
//! The first statement fetches the rows of the name, of all its ancestors in the zone and of the wildcards below them.
//! [`Gathering::walk`] then follows RFC 1034 section 4.3.2 through these rows and records what the answer may need: the
//! name's own records, a delegation, a DNAME, a wildcard. If that leads to hosts whose addresses belong in the
//! additional section, or to an alias inside the zone, one more statement fetches these; an alias chain takes one
//! statement per link. Rows that the answer does not need are never parsed, so a broken row only affects the names that
//! need it.
//!
//! [`Gathering`] holds the requested names and the rows received ([`need`]: what is needed from each name); `walk`
//! determines what else is needed, and `build` makes the zone. `buffers` keeps the memory for the next lookup.

mod buffers;
mod build;
mod need;
mod requested_names;
mod walk;

use super::LiveZone;
use super::apex::Apex;
use super::dialect::MAX_ROWS;
use super::empty_nonterminals::AncestorSet;
use super::error::SqlError;
use super::row::{Cells, RowFault, read_content, read_name, read_ttl, read_type};
use super::shared_fragments::{FragmentKind, SharedFragment, SharedFragments, too_many_rows};
use buffers::LookupBuffers;
pub use build::row_error;
pub(crate) use build::soa_minimum;
use nameward_dnssec::Signing;
use nameward_wire::name::InlineName;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{NameKey, Zone};
use requested_names::{RequestedName, RequestedNames};
use std::mem;
use std::sync::Arc;

/// Maximum number of links followed in an alias chain, the same as in the answer engine.
const MAX_CHAIN: usize = 16;

/// A row as received; its data is parsed if it turns out to be needed.
struct FetchedRow {
    of: usize,
    id: i64,
    rtype: Result<Type, RowFault>,
    ttl: u32,
    prio: Option<i64>,
    content: (usize, usize),
}

/// A zone and the facts about it that are known before lookups. Lookups that start together share them.
pub(crate) struct KnownZone {
    pub(crate) zone: LiveZone,
    pub(crate) apex_labels: usize,
    /// How it is signed, if known.
    pub(crate) signing: Option<Option<Arc<Signing>>>,
    pub(crate) apex: Option<Arc<Apex>>,
    /// The generations of the apex and fragment caches at creation.
    pub(crate) generation: (u64, u64),
}

pub(crate) struct Gathering {
    pub(crate) known: Arc<KnownZone>,
    requested: RequestedNames,
    rows: Vec<FetchedRow>,
    content: Vec<u8>,
    /// Number of rows and octets of content before the current statement.
    mark: (usize, usize),
    /// The query name, in lower case.
    qname: InlineName<38>,
    /// The query name has not been walked to yet.
    is_pending: bool,
    /// Aliases not walked to yet, and all that were found.
    pending: Vec<NameBuf>,
    visited: Vec<NameBuf>,
    /// A cached fragment for names below an ancestor of the query name, which may turn out to be the requested one.
    shared: Option<SharedFragment>,
    /// The fragment of another lookup, if it answers the query.
    pub(crate) ready: Option<Arc<Zone>>,
    /// The names the fragment answers for, if not only for the query name, and the label count of their ancestor.
    kind: Option<(FragmentKind, usize)>,
    /// Cached apex records, as long as nothing else of the apex is needed.
    apex_records: Option<Arc<Apex>>,
    /// There is known to be no wildcard directly below the apex.
    no_wildcard: bool,
    /// The keys of the zone and how it is signed; known from the first walk on.
    pub(crate) signing: Option<Arc<Signing>>,
    /// The serial of the zone, if its digest (ZONEMD) is of another one and was left out.
    pub(crate) stale_digest: Option<u32>,
    pub(crate) statements: u32,
}

impl Drop for Gathering {
    fn drop(&mut self) {
        let buffers = LookupBuffers {
            requested: mem::take(&mut self.requested),
            rows: mem::take(&mut self.rows),
            content: mem::take(&mut self.content),
        };
        buffers.keep();
    }
}

impl Gathering {
    pub(crate) fn new(
        known: Arc<KnownZone>,
        key: &NameKey,
        ancestors: Option<&AncestorSet>,
        fragments: &SharedFragments,
    ) -> Self {
        let (id, apex_labels) = (known.zone.id, known.apex_labels);
        let signing = known.signing.as_ref();
        let shared =
            signing.and_then(|signing| fragments.find(id, (key, apex_labels), signing.is_some()));
        let LookupBuffers {
            requested,
            rows,
            content,
        } = LookupBuffers::new();
        let mut gathering = Gathering {
            requested,
            rows,
            content,
            mark: (0, 0),
            qname: key.suffix(key.labels()).into(),
            is_pending: true,
            pending: Vec::new(),
            visited: Vec::new(),
            shared: None,
            ready: None,
            kind: None,
            no_wildcard: known.apex.as_ref().is_some_and(|apex| apex.no_wildcard),
            apex_records: known.apex.clone(),
            signing: known.signing.clone().flatten(),
            stale_digest: None,
            statements: 0,
            known,
        };
        match shared {
            Some(fragment) if fragment.kind == FragmentKind::Delegation => {
                gathering.ready = Some(fragment.zone);
                gathering.is_pending = false;
            }
            shared => {
                let at = gathering.requested.add(gathering.known.zone.apex.as_name());
                gathering.requested[at].needs = need::APEX;
                gathering.requested[at].is_requested = gathering.apex_records.is_some();
                // Nothing at or above the encloser of a cached fragment has to be fetched again.
                let top = shared
                    .as_ref()
                    .map_or(apex_labels, |fragment| fragment.labels + 1);
                gathering.shared = shared;
                gathering.want_path(key, top, ancestors);
            }
        }
        gathering
    }

    /// Returns the query name, in lower case.
    pub(crate) fn qname(&self) -> Name<'_> {
        self.qname.as_name()
    }

    /// Returns the fragment to share, if `zone` is the fragment for the query.
    pub(crate) fn shared_fragment(&self, zone: &Arc<Zone>) -> Option<SharedFragment> {
        let (kind, labels) = self.kind?;
        let zone = Arc::clone(zone);
        Some(SharedFragment { kind, labels, zone })
    }

    /// Records the state before a statement.
    pub(crate) fn set_mark(&mut self) {
        self.mark = (self.rows.len(), self.content.len());
    }

    /// Drops the rows of a statement; its names must be sorted.
    pub(crate) fn roll_back(&mut self, names: &[&str]) {
        self.rows.truncate(self.mark.0);
        self.content.truncate(self.mark.1);
        for at in 0..self.requested.len() {
            if names.binary_search(&self.requested.text(at)).is_ok() {
                self.requested[at].has_rows = false;
                self.requested[at].has_empty_row = false;
            }
        }
    }

    /// Records that a name has more rows than are fetched.
    pub(crate) fn note_oversized(&mut self, name: &str) {
        if let Some(at) = self.requested.position_of_text(name.as_bytes()) {
            self.requested[at].is_oversized = true;
            self.requested[at].has_rows = true;
        }
    }

    /// Fails if the rows of a name with too many of them are needed.
    fn check_size(&self, at: usize) -> Result<(), SqlError> {
        if !self.requested[at].is_oversized {
            return Ok(());
        }
        let reason = too_many_rows(self.requested.name(at), MAX_ROWS);
        Err(SqlError::row("records", 0, reason))
    }

    /// Fetches the whole apex, because more than its SOA and NS records is needed.
    fn fetch_apex(&mut self) {
        if self.apex_records.take().is_some() {
            self.requested[0].is_requested = false;
        }
    }

    /// Continues with a name, whose ancestors and their wildcards are then needed too. A name that would form a loop is
    /// ignored.
    fn follow(&mut self, name: Name<'_>, ancestors: Option<&AncestorSet>) {
        if self.visited.iter().any(|visited| visited.as_name() == name) || name == self.qname() {
            return;
        }
        // Targets outside the zone are left to their own zone.
        if !name.is_at_or_below(self.known.zone.apex.as_name()) || self.visited.len() >= MAX_CHAIN {
            return;
        }
        let mut lower: NameBuf = name.into();
        lower.make_lowercase();
        self.visited.push(lower);
        self.pending.push(lower);
        let key = NameKey::new(lower.as_name());
        self.want_path(&key, self.known.apex_labels, ancestors);
    }

    /// Requests the rows of a name, of its ancestors down from the one with `top` labels, and of their wildcards.
    fn want_path(&mut self, key: &NameKey, top: usize, ancestors: Option<&AncestorSet>) {
        let apex_labels = self.known.apex_labels;
        if key.labels() == apex_labels {
            self.fetch_apex();
        }
        let limit = self.deepest(key, ancestors);
        for n in (top..=limit).rev() {
            self.requested.add(key.suffix(n));
            if n < limit
                && !(n == apex_labels && self.no_wildcard)
                && let Ok(wildcard) = NameBuf::join(b"\x01*", key.suffix(n))
            {
                self.requested.add(wildcard.as_name());
            }
        }
    }

    /// Returns the label count of the deepest ancestor that may have rows: there is nothing below a name without
    /// descendants. A query with a hundred labels then costs no more than others.
    fn deepest(&self, key: &NameKey, ancestors: Option<&AncestorSet>) -> usize {
        let Some(ancestors) = ancestors.filter(|ancestors| !ancestors.is_partial) else {
            return key.labels();
        };
        let mut limit = self.known.apex_labels;
        while limit < key.labels() && ancestors.contains(key, limit) {
            limit += 1;
        }
        // The wildcard below the closest encloser is one label deeper.
        (limit + 1).min(key.labels())
    }

    /// Passes on the names that the next statement must fetch.
    pub(crate) fn next_names(&mut self, fragments: &SharedFragments, mut each: impl FnMut(&str)) {
        let mut any = false;
        for at in 0..self.requested.len() {
            if mem::replace(&mut self.requested[at].is_requested, true) {
                continue;
            }
            if fragments.is_oversized(self.requested.text(at)) {
                self.requested[at].is_oversized = true;
                self.requested[at].has_rows = true;
                continue;
            }
            any = true;
            each(self.requested.text(at));
        }
        self.statements += u32::from(any);
    }

    /// Checks whether names are needed that no statement has requested yet.
    pub(crate) fn is_short(&self) -> bool {
        let is_missing = |requested: &RequestedName| !requested.is_requested;
        self.ready.is_none() && (!self.pending.is_empty() || self.requested.iter().any(is_missing))
    }

    /// Adds one row: id, name, type, ttl, prio, content. `text` is its name.
    pub(crate) fn take(&mut self, row: &dyn Cells, text: &[u8]) -> Result<(), SqlError> {
        let id = row.int(0).unwrap_or(0);
        let of = match self.requested.position_of_text(text) {
            Some(of) => of,
            None => {
                // Returned by a collation that ignores case, or more.
                let mut name = NameBuf::root();
                read_name(text, &mut name)
                    .map_err(|reason| SqlError::row("records", id, reason.to_string()))?;
                let Some(of) = self.requested.position(name.as_name()) else {
                    return Ok(());
                };
                self.requested.respell(of, name.as_name());
                of
            }
        };
        let Some(rtype) = row.text(2).filter(|rtype| !rtype.is_empty()) else {
            self.requested[of].has_empty_row = true;
            return Ok(());
        };
        let start = self.content.len();
        self.content
            .extend_from_slice(row.text(5).unwrap_or_default());
        self.requested[of].has_rows = true;
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

    /// Returns the first row of a name with a type.
    fn row_of(&self, of: usize, rtype: Type) -> Option<usize> {
        let mut rows = self.rows.iter();
        rows.position(|row| row.of == of && row.rtype == Ok(rtype))
    }

    fn has_type(&self, of: usize, rtype: Type) -> bool {
        self.row_of(of, rtype).is_some()
    }

    fn parse(&self, row: usize, out: &mut Vec<u8>) -> Result<Type, SqlError> {
        let row = &self.rows[row];
        let bad = |reason: RowFault| {
            let owner = self.requested.name(row.of);
            SqlError::row("records", row.id, format!("{owner}: {reason}"))
        };
        let rtype = row.rtype.clone().map_err(bad)?;
        let content = &self.content[row.content.0..row.content.1];
        read_content(rtype, row.prio, content, out).map_err(bad)?;
        Ok(rtype)
    }
}
