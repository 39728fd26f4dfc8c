//! Loading of whole zones: their rows into builders, the problems with them, and a fingerprint of them.

use super::SqlFuture;
use super::dialect::{MAX_NAMES, Statement};
use super::error::{RowError, SqlError};
use super::fragment::soa_minimum;
use super::row::{Cells, RowFault, read_content, read_name, read_ttl, read_type};
use super::{LiveZone, MAX_REPORTED, SqlBackend};
use nameward_dnssec::Signing;
use nameward_wire::zonefile::{Record, RecordLocation};
use nameward_wire::{NameBuf, Type};
use nameward_zone::ZoneBuilder;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

/// The outcome of loading a zone.
#[derive(Debug, Default)]
pub struct LoadReport {
    /// Number of records passed to the builder.
    pub records: u64,
    /// The first few rows that do not parse.
    pub bad: Vec<RowError>,
    /// Number of rows that do not parse.
    pub bad_count: u64,
    /// Fingerprint of all rows, whatever their order: within one backend, equal for equal rows and different for
    /// others.
    pub fingerprint: u64,
    /// How the zone is signed, if it is.
    pub signing: Option<Arc<Signing>>,
}

/// Maximum number of zones that are loaded together.
pub const LOADED_AT_ONCE: usize = MAX_NAMES;

impl SqlBackend {
    /// Streams all records of a zone into `builder`. Rows that do not parse are left out and reported. The builder's
    /// findings have the row as their location.
    pub fn load_zone<'a>(
        &'a self,
        zone: &'a LiveZone,
        builder: &'a mut ZoneBuilder,
    ) -> SqlFuture<'a, Result<LoadReport, SqlError>> {
        Box::pin(async move {
            let signing = self.signing(zone).await?;
            builder.set_limits(self.inner.options.zone_limits);
            let mut loader = Loader::new(builder, &self.inner.seed, &zone.apex, signing);
            self.query(Statement::ZoneRows, Some(zone.id), &[], &mut |row| {
                loader.take(row);
                Ok(())
            })
            .await?;
            Ok(loader.finish())
        })
    }

    /// Like [`Self::load_zone`] for up to [`LOADED_AT_ONCE`] zones, with one statement each for keys, metadata and records.
    pub fn load_zones<'a>(
        &'a self,
        zones: &'a mut [(LiveZone, ZoneBuilder)],
    ) -> SqlFuture<'a, Result<Vec<LoadReport>, SqlError>> {
        Box::pin(async move {
            let all: Vec<LiveZone> = zones.iter().map(|(zone, _)| *zone).collect();
            let signings = self.signings(&all).await?;
            let texts: Vec<String> = all.iter().map(|zone| zone.id.to_string()).collect();
            let list: Vec<&str> = texts.iter().map(String::as_str).collect();
            let places = all.iter().enumerate();
            let places: HashMap<i64, usize> = places.map(|(at, zone)| (zone.id, at)).collect();
            let limits = self.inner.options.zone_limits;
            let loaders = zones.iter_mut().zip(signings);
            let loaders = loaders.map(|((zone, builder), signing)| {
                builder.set_limits(limits);
                Loader::new(builder, &self.inner.seed, &zone.apex, signing)
            });
            let mut loaders: Vec<Loader<'_>> = loaders.collect();
            let each = &mut |row: &dyn Cells| {
                let at = row.int(6).and_then(|zone| places.get(&zone));
                if let Some(loader) = at.and_then(|at| loaders.get_mut(*at)) {
                    loader.take(row);
                }
                Ok(())
            };
            self.query(Statement::RowsOfZones, None, &list, each)
                .await?;
            Ok(loaders.into_iter().map(Loader::finish).collect())
        })
    }
}

/// Passes the rows of a zone to its builder. A row that does not parse breaks its name, if that is readable: no
/// complete answer can be given for it.
pub(super) struct Loader<'b> {
    builder: &'b mut ZoneBuilder,
    seed: &'b RandomState,
    report: LoadReport,
    apex: NameBuf,
    /// The last field of the SOA.
    minimum: u32,
    name: NameBuf,
    name_text: Vec<u8>,
    rdata: Vec<u8>,
}

impl<'b> Loader<'b> {
    pub(super) fn new(
        builder: &'b mut ZoneBuilder,
        seed: &'b RandomState,
        apex: &NameBuf,
        signing: Option<Arc<Signing>>,
    ) -> Self {
        builder.tolerate_broken_names();
        Loader {
            builder,
            seed,
            report: LoadReport {
                signing,
                ..LoadReport::default()
            },
            apex: *apex,
            minimum: 0,
            name: NameBuf::root(),
            name_text: Vec::new(),
            rdata: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> LoadReport {
        if let Some(signing) = self.report.signing.take() {
            self.add_signing_records(&signing);
            self.report.signing = signing.signs().then_some(signing);
        }
        self.report
    }

    /// Adds the apex records made by signing. Different keys or metadata are a change to the zone.
    fn add_signing_records(&mut self, signing: &Signing) {
        for (rtype, rdata) in signing.apex_records() {
            self.builder.add(&Record::new(
                self.apex.as_name(),
                rtype,
                self.minimum,
                &rdata,
            ));
        }
        let hash = self.seed.hash_one(signing);
        let sum = self.report.fingerprint.wrapping_add(hash);
        self.report.fingerprint = sum;
    }

    /// Adds one row: id, name, type, ttl, prio, content.
    pub(super) fn take(&mut self, row: &dyn Cells) {
        self.add_to_fingerprint(row);
        let id = row.int(0).unwrap_or(0);
        // Empty non-terminals follow from the names below them.
        let Some(rtype_text) = row.text(2).filter(|rtype| !rtype.is_empty()) else {
            return;
        };
        let text = row.text(1).unwrap_or_default();
        if text != self.name_text || text.is_empty() {
            self.name_text.clear();
            if let Err(reason) = read_name(text, &mut self.name) {
                return self.note(id, reason.to_string());
            }
            self.name_text.extend_from_slice(text);
        }
        self.rdata.clear();
        let content = row.text(5).unwrap_or_default();
        let rtype = match read_type(rtype_text) {
            Ok(rtype) => rtype,
            Err(reason) => return self.note_broken(id, None, &reason),
        };
        let is_apex = self.name == self.apex;
        let signing = self.report.signing.as_ref();
        let is_signed = signing.is_some();
        if signing.is_some_and(|signing| signing.made_types().contains(rtype, is_apex)) {
            return;
        }
        if let Err(reason) = read_content(rtype, row.int(4), content, &mut self.rdata) {
            return self.note_broken(id, Some(rtype), &reason);
        }
        if is_signed && rtype == Type::SOA && is_apex {
            self.minimum = soa_minimum(&self.rdata);
        }
        self.builder.add(
            &Record::new(
                self.name.as_name(),
                rtype,
                read_ttl(row.int(3)),
                &self.rdata,
            )
            .at(RecordLocation::row(id)),
        );
        self.report.records += 1;
    }

    fn note_broken(&mut self, id: i64, rtype: Option<Type>, reason: &RowFault) {
        self.builder.add_broken(self.name.as_name(), rtype);
        let reason = format!("{}: {reason}", self.name);
        self.note(id, reason);
    }

    fn note(&mut self, id: i64, reason: String) {
        self.report.bad_count += 1;
        if self.report.bad.len() < MAX_REPORTED {
            let error = RowError::new("records", id, reason);
            self.report.bad.push(error);
        }
    }

    /// Adds a row to the fingerprint: a sum, because rows arrive in any order; with a secret seed, so that colliding
    /// zones cannot be constructed.
    fn add_to_fingerprint(&mut self, row: &dyn Cells) {
        let mut hasher = self.seed.build_hasher();
        for column in [0, 3, 4] {
            row.int(column).hash(&mut hasher);
        }
        for column in [1, 2, 5] {
            let text = row.text(column).unwrap_or_default();
            hasher.write_usize(text.len());
            hasher.write(text);
        }
        let sum = self.report.fingerprint.wrapping_add(hasher.finish());
        self.report.fingerprint = sum;
    }
}
