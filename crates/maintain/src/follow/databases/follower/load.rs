//! Loads the contents of resident zones from their rows.

use super::{DatabaseFollower, LINES_MAX};
use crate::follow::databases::followed_zones::ReadContents;
use nameward_base::text::zone_text;
use nameward_sql::{LOADED_AT_ONCE, LiveZone, LoadReport, RowError, SqlError, row_error};
use nameward_wire::{NameBuf, zonefile::Severity};
use nameward_zone::{TableChange, Zone, ZoneBuilder};

impl DatabaseFollower {
    /// Loads the next zones of the sweep, with one statement if possible.
    pub(super) async fn load_next(&mut self, steps: &mut Vec<TableChange>) -> Result<(), SqlError> {
        let sweep = &self.pending.sweep;
        let next: Vec<i64> = sweep.iter().rev().take(LOADED_AT_ONCE).copied().collect();
        let known = next
            .iter()
            .filter_map(|id| Some((*id, self.zones.get(*id)?)));
        let mut zones: Vec<(LiveZone, ZoneBuilder)> = known
            .map(|(id, known)| {
                let apex: NameBuf = known.name().zone().into();
                (LiveZone { id, apex }, ZoneBuilder::new(known.name()))
            })
            .collect();
        if let Ok(reports) = self.backend.load_zones(&mut zones).await {
            for ((zone, builder), report) in zones.into_iter().zip(reports) {
                self.take_loaded(&zone, builder, report, steps);
            }
            let rest = self.pending.sweep.len() - next.len();
            self.pending.sweep.truncate(rest);
            return Ok(());
        }
        // One of them may be the reason: the others are loaded.
        let Some(&id) = self.pending.sweep.last() else {
            return Ok(());
        };
        let loaded = self.load(id, steps).await;
        if loaded.is_err() {
            // The others are tried before it the next time.
            self.pending.sweep.rotate_right(1);
        } else {
            self.pending.sweep.pop();
        }
        loaded
    }

    /// Loads a zone into memory, unless its rows are unchanged. One that cannot be served is logged; the previous
    /// version stays.
    pub(super) async fn load(
        &mut self,
        id: i64,
        steps: &mut Vec<TableChange>,
    ) -> Result<(), SqlError> {
        let Some(known) = self.zones.get(id) else {
            return Ok(());
        };
        let apex: NameBuf = known.name().zone().into();
        let mut builder = ZoneBuilder::new(known.name());
        let zone = LiveZone { id, apex };
        let report = self.backend.load_zone(&zone, &mut builder).await?;
        self.take_loaded(&zone, builder, report, steps);
        Ok(())
    }

    fn take_loaded(
        &mut self,
        &LiveZone { id, apex }: &LiveZone,
        builder: ZoneBuilder,
        report: LoadReport,
        steps: &mut Vec<TableChange>,
    ) {
        let Some(known) = self.zones.in_memory(id) else {
            return;
        };
        if self.backend.read_moves() != self.versions_moves {
            // The versions came from another server, which this one may be behind: it announces what it lacks later.
            known.version = 0;
        }
        let read = ReadContents::Rows(report.fingerprint);
        let before = std::mem::replace(&mut known.contents, read);
        if before == read {
            return;
        }
        self.log_bad_rows(&report.bad);
        let is_empty = report.records == 0 && report.bad_count == 0;
        if is_empty && self.policies.is_transferred(apex.as_name()) {
            // It was not transferred yet.
            tracing::debug!("{}: zone {apex}: no records", self.name);
            return;
        }
        let (zone, findings) = builder.finish();
        let errors = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<RowError> = errors.map(|error| row_error(id, error)).collect();
        self.log_bad_rows(&errors);
        let first_error = report
            .bad
            .iter()
            .chain(&errors)
            .next()
            .map(ToString::to_string);
        match zone {
            Some(zone) if before == ReadContents::Changed && self.is_behind(&zone) => {
                tracing::debug!("{}: zone {apex}: the replica lags behind", self.name);
                if let Some(known) = self.zones.in_memory(id) {
                    known.contents = ReadContents::Changed;
                }
            }
            Some(mut zone) => {
                let is_presigned = self.policies.is_presigned(apex.as_name());
                if is_presigned {
                    self.set_own_signatures(&mut zone)
                } else {
                    zone.set_resident_signing(report.signing)
                }
                let is_unsigned = is_presigned && !zone.signing().is_signed();
                self.link
                    .faults
                    .note_read(apex.as_name().as_wire(), None, is_unsigned);
                let (name, serial) = (apex.to_string(), zone.serial().0);
                let name = zone_text(&name);
                tracing::debug!("{}: zone {name}: loaded serial {serial}", self.name);
                self.offer(id, zone, steps);
            }
            None => {
                tracing::error!("{}: zone {apex}: cannot be served", self.name);
                let error = first_error.unwrap_or_else(|| "no SOA record".into());
                self.link
                    .faults
                    .note_read(apex.as_name().as_wire(), Some(error), false);
            }
        }
    }

    /// Serves a zone with the signatures among its rows.
    fn set_own_signatures(&self, zone: &mut Zone) {
        zone.set_signing(zone.stored_signatures());
        if !zone.signing().is_signed() {
            tracing::error!(
                "{}: zone {}: PRESIGNED, but answered unsigned: its rows have no RRSIG for the SOA or no NSEC or NSEC3 \
                 chain",
                self.name,
                zone.id()
            );
        }
    }

    /// Checks whether a zone was read from a replica that does not have this server's changes on the primary yet.
    /// Another change notice follows, so it is read again.
    fn is_behind(&self, zone: &Zone) -> bool {
        let served = self.commits.table().version(zone.id(), self.rank);
        self.backend.has_replica()
            && served.is_some_and(|served| served.serial().is_after(zone.serial()))
    }

    pub(super) fn log_bad_rows(&self, bad: &[RowError]) {
        for error in bad.iter().take(LINES_MAX) {
            tracing::warn!("{}: {error}", self.name);
        }
    }
}
