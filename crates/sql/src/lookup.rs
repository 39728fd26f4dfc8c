//! Lookups at query time. Many names share one statement: a statement costs more than a name, a round trip more than both.
//!
//! ```text
//! round 1   one statement for the names of all -> rows to each -> most are complete
//! round 2   one statement for what is still missing: hosts for the additional section, the next name of an alias
//! ```
//! A lookup that must read all names of its zone first (empty non-terminals) is returned to be done separately.

mod name_list;

use self::name_list::NameList;
use super::apex::ApexScope;
use super::dialect::{MAX_NAMES, MAX_ROWS, Statement};
use super::empty_nonterminals::{AncestorSet, ChainFound};
use super::error::SqlError;
use super::fragment::{Gathering, KnownZone};
use super::signing_data::SigningData;
use super::{LiveZone, SqlBackend};
use nameward_wire::Name;
use nameward_wire::name::same_octets;
use nameward_zone::{LookupRequest, NameKey, ZoneFragment};
use std::sync::Arc;

/// Queries this many labels below the apex first check whether anything can be that deep.
const DEEP: usize = 6;
/// Maximum octets of content per statement: text takes up to four times its octets, and a name can have several types.
const MAX_CONTENT: usize = 2 << 20;

/// The outcome of one lookup in a batch.
pub enum Found {
    /// The lookup is complete, or has failed.
    Ended(Result<ZoneFragment, SqlError>),
    /// The lookup needs all names of its zone: the caller runs [`SqlBackend::lookup_alone`].
    Alone,
}

/// The outcome of one round.
#[derive(Default)]
pub struct Round {
    /// Completed lookups, each with its index in the batch.
    pub found: Vec<(usize, Found)>,
    /// Number of statements sent.
    pub statements: u32,
}

/// A batch of lookups.
pub struct SqlLookupBatch<'b> {
    backend: &'b SqlBackend,
    open: Vec<Open>,
    names: NameList,
    /// The zone of the lookup added last: usually that of the next one, too.
    last_zone: Option<Arc<KnownZone>>,
    /// Reused for one name after another.
    key: Box<NameKey>,
}

/// An incomplete lookup.
struct Open {
    place: usize,
    /// How the zone is signed was not known when the lookup started.
    needs_facts: bool,
    gathering: Gathering,
    ancestors: Option<Arc<AncestorSet>>,
    /// It cannot continue without reading all names of its zone.
    is_stuck: bool,
    failed: Option<SqlError>,
}

impl SqlLookupBatch<'_> {
    /// Adds a lookup. Its index is the number of lookups added before.
    pub fn add(&mut self, request: LookupRequest<'_>) {
        let known = self.known_zone(request);
        let is_deep = request.name.label_count() > known.apex_labels + DEEP;
        let ancestors = &self.backend.inner.ancestors;
        let ancestors = is_deep.then(|| ancestors.usable(request.zone)).flatten();
        let is_stuck = is_deep && ancestors.is_none();
        self.add_with(known, request.name, ancestors, is_stuck);
    }

    /// Returns the facts about a zone. Those of the last one are not collected again.
    fn known_zone(&mut self, request: LookupRequest<'_>) -> Arc<KnownZone> {
        let is_it = |last: &&Arc<KnownZone>| {
            let (apex, last) = (request.apex.as_wire(), &last.zone);
            last.id == request.zone && same_octets(last.apex.as_name().as_wire(), apex)
        };
        if let Some(last) = self.last_zone.as_ref().filter(is_it) {
            return Arc::clone(last);
        }
        let known = Arc::new(self.backend.known_zone(LiveZone {
            id: request.zone,
            apex: request.apex.into(),
        }));
        self.last_zone = Some(Arc::clone(&known));
        known
    }

    fn add_with(
        &mut self,
        known: Arc<KnownZone>,
        qname: Name<'_>,
        ancestors: Option<Arc<AncestorSet>>,
        is_stuck: bool,
    ) {
        self.key.set(qname);
        let needs_facts = known.signing.is_none();
        let fragments = &self.backend.inner.fragments;
        self.open.push(Open {
            place: self.open.len(),
            needs_facts,
            gathering: Gathering::new(known, &self.key, ancestors.as_deref(), fragments),
            ancestors,
            is_stuck,
            failed: None,
        });
    }

    /// Checks whether every lookup has ended.
    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Fetches what is missing and returns the lookups that ended.
    pub async fn round(&mut self) -> Round {
        let mut round = Round::default();
        self.names.clear();
        for (index, open) in self.open.iter_mut().enumerate() {
            if !open.is_stuck {
                let fragments = &self.backend.inner.fragments;
                open.gathering
                    .next_names(fragments, |text| self.names.push(text, index as u32));
            }
        }
        self.names.sort();
        let backend = self.backend;
        let unknown = self.unknown_zones();
        let data = async {
            (!unknown.is_empty()).then_some(())?;
            Some(backend.read_signing_data(&unknown).await)
        };
        let (statements, data) = tokio::join!(self.fetch_names(), data);
        round.statements += statements;
        if let Some(data) = data {
            round.statements += self.take_signing_data(&data);
        }
        let key = &mut *self.key;
        self.open.retain_mut(|open| {
            let ended = open.has_ended(backend, key);
            if ended {
                round.found.push((open.place, open.end(backend, key)));
            }
            !ended
        });
        round
    }

    /// Returns the zones whose signing state is unknown.
    fn unknown_zones(&self) -> Vec<LiveZone> {
        let open = self.open.iter();
        let unknown = open.filter(|open| open.needs_facts && !open.is_stuck);
        let mut zones: Vec<LiveZone> = unknown.map(Open::zone).copied().collect();
        zones.sort_unstable_by_key(|zone| zone.id);
        zones.dedup_by_key(|zone| zone.id);
        zones
    }

    /// Passes the signing state of its zone to each lookup; returns the number of statements it took. A lookup whose
    /// state cannot be determined fails.
    fn take_signing_data(&mut self, data: &SigningData) -> u32 {
        let unknown = self.open.iter_mut();
        for open in unknown.filter(|open| open.needs_facts && !open.is_stuck) {
            open.needs_facts = false;
            open.gathering.statements += data.statements;
            match data.signing(self.backend, open.zone()) {
                Ok(signing) => open.gathering.signing = signing,
                Err(error) => drop(open.failed.get_or_insert(error)),
            }
        }
        data.statements
    }

    /// Fetches the listed names; returns the number of statements it took.
    async fn fetch_names(&mut self) -> u32 {
        let mut statements = 0;
        let unique = self.names.unique();
        let mut chunks: Vec<&[&str]> = unique.chunks(MAX_NAMES).rev().collect();
        while let Some(chunk) = chunks.pop() {
            statements += 1;
            let is_whole = fetch_chunk(self.backend, chunk, &self.names, &mut self.open).await;
            match is_whole {
                Ok(true) => {}
                Ok(false) if chunk.len() > 1 => {
                    // One of them has too many rows: the others must not suffer for it.
                    let (first, second) = chunk.split_at(chunk.len() / 2);
                    chunks.extend([second, first]);
                }
                Ok(false) => {
                    let name = chunk[0];
                    self.backend.inner.fragments.note_oversized(name);
                    self.names
                        .for_lookups_of((name.as_bytes(), &mut 0), |lookup| {
                            self.open[lookup as usize].gathering.note_oversized(name);
                        });
                }
                Err(error) => {
                    for open in self.open.iter_mut().filter(|open| !open.is_stuck) {
                        open.failed.get_or_insert_with(|| error.clone());
                    }
                    break;
                }
            }
        }
        statements
    }
}

/// Fetches several names and passes their rows to the lookups that requested them. Returns false if there are too many rows; those
/// received were dropped.
async fn fetch_chunk(
    backend: &SqlBackend,
    chunk: &[&str],
    names: &NameList,
    open: &mut [Open],
) -> Result<bool, SqlError> {
    open.iter_mut().for_each(|open| open.gathering.set_mark());
    let (mut rows, mut octets, mut last) = (0, 0, 0);
    let mut is_too_large = false;
    let result = backend
        .query(Statement::Lookup, None, chunk, &mut |row| {
            rows += 1;
            octets += row.text(5).map_or(0, <[u8]>::len);
            if rows > MAX_ROWS || octets > MAX_CONTENT {
                is_too_large = true;
                // Ends the statement; the error is discarded.
                return Err(SqlError::row("records", 0, ""));
            }
            let text = row.text(1).unwrap_or_default();
            let zone = row.int(6);
            names.for_lookups_of((text, &mut last), |lookup| {
                let open = &mut open[lookup as usize];
                if zone == Some(open.zone().id)
                    && let Err(error) = open.gathering.take(row, text)
                {
                    open.failed.get_or_insert(error);
                }
            });
            Ok(())
        })
        .await;
    if is_too_large {
        open.iter_mut()
            .for_each(|open| open.gathering.roll_back(chunk));
        return Ok(false);
    }
    result.map(|()| true)
}

impl Open {
    fn zone(&self) -> &LiveZone {
        &self.gathering.known.zone
    }

    fn has_ended(&mut self, backend: &SqlBackend, key: &mut NameKey) -> bool {
        if self.is_stuck || self.failed.is_some() {
            return true;
        }
        self.go_on(backend, key).unwrap_or_else(|error| {
            self.failed = Some(error);
            true
        })
    }

    /// Continues with the rows that were received; returns whether no more are needed, or all names of the zone.
    fn go_on(&mut self, backend: &SqlBackend, key: &mut NameKey) -> Result<bool, SqlError> {
        while !self.gathering.walk(key, self.ancestors.as_deref())? {
            match backend.inner.ancestors.usable(self.zone().id) {
                Some(ancestors) => self.ancestors = Some(ancestors),
                None => {
                    self.is_stuck = true;
                    return Ok(true);
                }
            }
        }
        Ok(!self.gathering.is_short())
    }

    fn end(&mut self, backend: &SqlBackend, key: &mut NameKey) -> Found {
        if self.is_stuck {
            return Found::Alone;
        }
        if let Some(error) = self.failed.take() {
            return Found::Ended(Err(error));
        }
        let (inner, id) = (&backend.inner, self.zone().id);
        let generation = self.gathering.known.generation;
        if let Some(apex) = self.gathering.apex_to_keep() {
            inner.apexes.insert(id, apex, generation.0);
        }
        let statements = self.gathering.statements;
        if let Some(zone) = self.gathering.ready.clone() {
            return Found::Ended(Ok(ZoneFragment {
                zone,
                statements,
                is_shared: true,
            }));
        }
        let signing = self.gathering.signing.as_deref();
        let is_signed = signing.is_some();
        let chain = match signing.filter(|signing| signing.lists_live_names()) {
            Some(signing) => inner.ancestors.chain(id, signing),
            None => ChainFound::Never,
        };
        let usable = match &chain {
            ChainFound::Usable(chain) => Some(chain),
            ChainFound::Later | ChainFound::Never => None,
        };
        let zone = match self.gathering.finish(usable) {
            Ok(zone) => Arc::new(zone),
            Err(error) => return Found::Ended(Err(error)),
        };
        if let Some(serial) = self.gathering.stale_digest {
            let apex = zone.apex_name();
            inner.stale_digests.note(id, apex, serial);
        }
        // A fragment that temporarily lacks the chain is not shared with later names.
        let is_lasting = !matches!(chain, ChainFound::Later);
        if let Some(fragment) = self.gathering.shared_fragment(&zone).filter(|_| is_lasting) {
            key.set(self.gathering.qname());
            inner
                .fragments
                .insert(id, key, (fragment, is_signed), generation.1);
        }
        Found::Ended(Ok(ZoneFragment {
            zone,
            statements,
            is_shared: false,
        }))
    }
}

impl SqlBackend {
    /// Starts a batch of lookups, with room for this many.
    pub fn batch(&self, lookups: usize) -> SqlLookupBatch<'_> {
        SqlLookupBatch {
            backend: self,
            open: Vec::with_capacity(lookups),
            names: NameList::default(),
            last_zone: None,
            key: Box::default(),
        }
    }

    /// Returns a zone with the facts about it that need no statement.
    fn known_zone(&self, zone: LiveZone) -> KnownZone {
        let signing = self.known_signing(&zone);
        let scope = signing.as_ref().map(|signing| match signing {
            Some(_) => ApexScope::Signed,
            None => ApexScope::Plain,
        });
        let (apex, apex_generation) = self.inner.apexes.get(zone.id, scope);
        KnownZone {
            apex_labels: zone.apex.as_name().label_count(),
            zone,
            signing,
            apex,
            generation: (apex_generation, self.inner.fragments.generation()),
        }
    }

    /// Returns the fragment of a zone that answers every query for `qname`, which must be at or below its apex.
    pub async fn lookup(&self, zone: &LiveZone, qname: Name<'_>) -> Result<ZoneFragment, SqlError> {
        let mut batch = self.batch(1);
        batch.add(zone.request(qname));
        let (found, statements) = only(batch).await;
        match found {
            Found::Ended(result) => counted(result, statements),
            Found::Alone => {
                let fragment = self.lookup_alone(zone.request(qname)).await?;
                let statements = statements + fragment.statements;
                counted(Ok(fragment), statements)
            }
        }
    }

    /// Like [`SqlBackend::lookup`], for a lookup that a batch returned: reads the names of the zone first if unknown.
    pub async fn lookup_alone(&self, request: LookupRequest<'_>) -> Result<ZoneFragment, SqlError> {
        let mut batch = self.batch(1);
        let known = batch.known_zone(request);
        let (ancestors, names_read) = self.ancestors(&known.zone).await?;
        batch.add_with(known, request.name, Some(ancestors), false);
        match only(batch).await {
            (Found::Ended(result), statements) => counted(result, statements + names_read),
            // With all names known there is nothing left to wait for.
            (Found::Alone, _) => Err(SqlError::Unavailable("the look-up did not complete".into())),
        }
    }
}

/// Returns the outcome of the only lookup in a batch, and the number of statements sent.
async fn only(mut batch: SqlLookupBatch<'_>) -> (Found, u32) {
    let mut statements = 0;
    while !batch.is_done() {
        let mut round = batch.round().await;
        statements += round.statements;
        if let Some((_, found)) = round.found.pop() {
            return (found, statements);
        }
    }
    (Found::Alone, statements)
}

/// Sets the total number of statements sent for a fragment.
fn counted(
    result: Result<ZoneFragment, SqlError>,
    statements: u32,
) -> Result<ZoneFragment, SqlError> {
    result.map(|read| ZoneFragment { statements, ..read })
}
