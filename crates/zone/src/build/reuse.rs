//! Starting and finishing a zone in the builder. A builder can be reused for the next zone: buffers of a small zone are
//! kept, so that a hundred thousand small zones or fragments cost no allocations beyond their own.

use super::ZoneBuilder;
use super::advice::ScriptCheck;
use super::broken::Broken;
use super::glue::LastCut;
use super::memory::{fitting_arena, fitting_slots};
use crate::capacity::{ZoneLimits, empty};
use crate::draft::Draft;
use crate::finding::{Finding, Findings};
use crate::key::NameKey;
use crate::packed::{ALIGN, Packed};
use crate::record_list::RecordList;
use crate::summary::{DepthSet, ZoneSummary};
use crate::zone::Zone;
use nameward_wire::zonefile::{Record, RecordLocation, RecordLocations};
use nameward_wire::{Name, NameBuf, Type};
use std::collections::HashMap;

/// Initial number of slots in a zone.
const FIRST_SLOTS: usize = 16;
/// Largest buffers, in octets and entries, that are kept for the next zone.
const KEPT_OCTETS: usize = 64 << 10;
const KEPT_ENTRIES: usize = 1 << 10;

impl ZoneBuilder {
    /// Starts a zone, or the version of a zone with a variant.
    pub fn new(id: Name<'_>) -> Self {
        Self::with_capacity(id, 0)
    }

    /// Starts a zone whose text or transfer has about this many bytes.
    pub fn with_capacity(id: Name<'_>, bytes: usize) -> Self {
        let mut builder = ZoneBuilder {
            apex: NameKey::default(),
            apex_name: NameBuf::root(),
            id: None,
            arena: Vec::new(),
            slots: Vec::new(),
            names: 0,
            current: Draft::default(),
            current_name: NameBuf::root(),
            current_key: NameKey::default(),
            current_in_zone: true,
            late: Draft::default(),
            late_of: Vec::new(),
            empties: Vec::new(),
            broken: Broken::default(),
            is_tolerant: false,
            script_check: ScriptCheck::default(),
            deep: Vec::new(),
            with_targets: Vec::new(),
            cut_depths: 0,
            has_scripts: false,
            max_labels: 0,
            has_auto_hints: false,
            findings: Findings::default(),
            elsewhere: HashMap::new(),
            locations: RecordLocations::default(),
            last_cut: LastCut::default(),
            connected: Vec::new(),
            soa_from: RecordLocation::NONE,
            limits: ZoneLimits::default(),
            records: 0,
            text_read: None,
            octets_left: usize::MAX,
            is_merging: false,
            is_full: false,
            lacks_memory: false,
        };
        builder.restart(id, bytes);
        builder
    }

    /// Adds all records of a list.
    pub fn add_list(&mut self, list: &RecordList) {
        for record in list.iter() {
            self.add(&Record::new(
                record.owner,
                record.rtype,
                record.ttl,
                record.rdata,
            ));
        }
    }

    /// Starts another zone, reusing the buffers; an unfinished zone is dropped. Limits, tolerance and warnings are
    /// reset to those of a new builder.
    pub fn restart(&mut self, name: Name<'_>, bytes: usize) {
        // Destructured exhaustively, so that no field is forgotten.
        let ZoneBuilder {
            apex: key,
            apex_name,
            id,
            arena,
            slots,
            names,
            current,
            current_name,
            current_key,
            current_in_zone,
            late,
            late_of,
            empties,
            broken,
            is_tolerant,
            script_check,
            deep,
            with_targets,
            cut_depths,
            has_scripts,
            max_labels,
            has_auto_hints,
            findings,
            elsewhere,
            locations,
            last_cut,
            connected,
            soa_from,
            limits,
            records,
            text_read,
            octets_left,
            is_merging,
            is_full,
            lacks_memory,
        } = self;
        let apex = name.zone();
        *id = name.variant().map(|_| name.as_wire().into());
        key.set(apex);
        current_key.set(apex);
        apex_name.assign(apex);
        current_name.assign(apex);
        *max_labels = key.labels();
        *has_auto_hints = false;
        empty(arena, KEPT_OCTETS);
        arena.reserve(256);
        // If this much memory is not available, the zone may still fit, provided it turns out smaller.
        let _ = arena.try_reserve(bytes);
        arena.resize(ALIGN, 0);
        empty(slots, KEPT_ENTRIES);
        slots.resize(FIRST_SLOTS, 0);
        current.restart(KEPT_ENTRIES, KEPT_OCTETS);
        late.restart(KEPT_ENTRIES, KEPT_OCTETS);
        empty(late_of, KEPT_ENTRIES);
        empty(empties, KEPT_ENTRIES);
        empty(deep, KEPT_ENTRIES);
        empty(with_targets, KEPT_ENTRIES);
        empty(connected, KEPT_ENTRIES);
        if !broken.is_empty() {
            *broken = Broken::default();
        }
        if !elsewhere.is_empty() {
            *elsewhere = HashMap::new();
        }
        *findings = Findings::default();
        last_cut.forget();
        (*names, *records, *octets_left) = (0, 0, usize::MAX);
        *text_read = None;
        (*cut_depths, *has_scripts) = (0, false);
        (*locations, *soa_from) = (RecordLocations::default(), RecordLocation::NONE);
        (*limits, *script_check) = (ZoneLimits::default(), ScriptCheck::default());
        *current_in_zone = true;
        (*is_tolerant, *is_merging) = (false, false);
        (*is_full, *lacks_memory) = (false, false);
    }

    /// Suppresses warnings: a fragment is built for a single answer, and they would never be read.
    pub fn skip_warnings(&mut self) {
        self.findings.silence();
    }

    /// Finishes the zone: connects its names, runs the checks and packs it for serving.
    ///
    /// If no zone is returned, at least one finding is an error. Otherwise the findings are warnings, or errors that
    /// broke a single name (see [`ZoneBuilder::tolerate_broken_names`]).
    pub fn finish(mut self) -> (Option<Zone>, Vec<Finding>) {
        self.end()
    }

    /// Finishes the zone like [`ZoneBuilder::finish`]; the builder can be [started again](ZoneBuilder::restart).
    pub fn end(&mut self) -> (Option<Zone>, Vec<Finding>) {
        let zone = self.end_zone();
        (zone, std::mem::take(&mut self.findings).into_list())
    }

    fn end_zone(&mut self) -> Option<Zone> {
        if !self.is_full {
            self.pack_current();
        }
        if let Err(full) = self.end_cut() {
            self.refuse(full, RecordLocation::NONE);
        }
        self.merge_late();
        self.insert_empties();
        self.insert_broken();
        self.connect_ancestors();
        if self.is_full {
            return None;
        }
        let with_targets = if self.broken.is_empty() {
            Vec::new()
        } else {
            self.with_targets.clone()
        };
        self.check_targets();
        self.mark_broken(&with_targets);
        let apex_labels = self.apex.labels();
        let apex = self.find(&self.apex, apex_labels);
        let soa = apex.and_then(|place| self.node(place).rrset(Type::SOA));
        if soa.is_none() {
            self.findings.error(
                RecordLocation::NONE,
                format_args!("expected an SOA record at {}, found none", self.apex_name),
            );
        } else if apex.is_some_and(|place| self.node(place).rrset(Type::NS).is_none()) {
            self.findings.warning(
                RecordLocation::NONE,
                format_args!("expected NS records at {}, found none", self.apex_name),
            );
        }
        if self.findings.are_fatal() {
            return None;
        }
        let summary = ZoneSummary {
            apex: apex.unwrap_or(0),
            apex_labels: apex_labels as u8,
            max_labels: self.max_labels as u8,
            has_scripts: self.has_scripts,
            cut_depths: DepthSet::from_bits(self.cut_depths),
            names: self.names as u32,
            has_auto_hints: self.has_auto_hints,
        };
        let slots = fitting_slots(&mut self.slots, self.names);
        let packed = slots.and_then(|slots| {
            let arena = fitting_arena(&mut self.arena)?;
            Ok(Packed { slots, arena })
        });
        match packed {
            Ok(packed) => {
                let zone = Zone::new(packed, summary);
                if let Some(id) = &self.id {
                    zone.set_id(Name::from_valid_wire(id));
                }
                Some(zone)
            }
            Err(full) => {
                self.refuse(full, RecordLocation::NONE);
                None
            }
        }
    }
}
