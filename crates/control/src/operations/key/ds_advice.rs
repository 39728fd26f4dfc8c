//! The DS of zones, and when they may be sent to the parent: every secondary has the signed version, and no cache has
//! an unsigned one.

use nameward_base::time::now_seconds;
use nameward_dnssec::SoaEdit;
use nameward_keys::local::signing_keys;
use nameward_keys::rollover::DsReadiness;
use nameward_sql::write::StoredRecord;
use nameward_wire::{NameBuf, Type};
use serde::{Deserialize, Serialize};

use super::errors::zone_keys_error;
use crate::operations::record::served_record;
use crate::operations::{ItemSink, OperationResult, Operations, Outcome, zone_name};

/// A secondary and its serial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSecondary {
    /// Its address and port, or its name if no address is known.
    pub server: String,
    /// The serial that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Why the serial is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// It lacks the version served here, as far as known.
    pub behind: bool,
}

/// When caches no longer have unsigned answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DsTime {
    /// They no longer have any.
    Now,
    /// At this time, in seconds since 1970.
    At(u64),
    /// This many seconds after the zone was signed, at an unknown time.
    AfterSigning(u64),
}

/// Whether the DS of a zone may be sent to the parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DsAdvice {
    /// The serial served here, if the zone is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// The secondaries that are notified of changes; none if no server is running that could query them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secondaries: Option<Vec<ListedSecondary>>,
    /// When caches no longer have unsigned answers; none if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caches: Option<DsTime>,
}

impl DsAdvice {
    /// Checks whether nothing prevents a DS at the parent.
    pub fn is_ready(&self) -> bool {
        let is_behind = |all: &Vec<ListedSecondary>| all.iter().any(|one| one.behind);
        self.caches == Some(DsTime::Now)
            && self.secondaries.as_ref().is_some_and(|all| !is_behind(all))
    }
}

/// The TTL of DS records as shown: the parent has its own.
const SHOWN_TTL: u32 = 3600;

impl Operations {
    /// Lists DS, DNSKEY, CDS and CDNSKEY as zone file lines.
    pub(crate) fn list_ds(&self, zone: &str, items: ItemSink<'_>) -> Outcome {
        let name = zone_name(zone)?;
        let all = self.keys_of(&name)?;
        let mut count = 0;
        let mut show = |rtype: Type, rdata: &[u8]| {
            count += 1;
            items(served_record(name.as_name(), SHOWN_TTL, rtype, rdata).into())
        };
        let keys = signing_keys(&all).map_err(zone_keys_error(&name))?;
        for made in keys.list() {
            // With double-DS the parent has the DS of a key before the zone has the key.
            if made.usage().published {
                show(Type::DNSKEY, made.dnskey());
            }
            if !made.usage().asks_ds {
                continue;
            }
            show(Type::CDNSKEY, made.dnskey());
            for digest in [2, 4] {
                let ds = made.ds(name.as_name(), digest).unwrap_or_default();
                show(Type::DS, &ds);
                // The zone has CDS records with SHA-256 only.
                if digest == 2 {
                    show(Type::CDS, &ds);
                }
            }
        }
        Ok(OperationResult::ZoneDs {
            zone: name.to_string(),
            items: count,
            advice: self.ds_advice(&name),
        })
    }

    /// Adds to the result of `zone secure` whether the DS may be sent to the parent.
    pub(crate) fn with_advice(&self, result: OperationResult) -> OperationResult {
        match result {
            OperationResult::ZoneSecured { zone, key, .. } => OperationResult::ZoneSecured {
                advice: zone_name(&zone).ok().map(|name| self.ds_advice(&name)),
                zone,
                key,
            },
            other => other,
        }
    }

    /// Determines whether the DS of a zone may be sent to the parent. Queries the secondaries, so it may take some
    /// seconds.
    pub(crate) fn ds_advice(&self, name: &NameBuf) -> DsAdvice {
        let serial = self.shown_serial(name);
        let secondaries = self.secondaries_of(name, serial);
        let caches = match self.rollover.ds_readiness(name.as_name(), now_seconds()) {
            Ok(DsReadiness::Ready) => Some(DsTime::Now),
            Ok(DsReadiness::At(at)) => Some(DsTime::At(at)),
            Ok(DsReadiness::AfterSigning(seconds)) => Some(DsTime::AfterSigning(seconds)),
            Err(_) => None,
        };
        DsAdvice {
            serial,
            secondaries,
            caches,
        }
    }

    /// Queries the secondaries of a zone for their serials; `None` without a server that could query them.
    pub fn query_secondaries(&self, name: &NameBuf) -> Option<Vec<ListedSecondary>> {
        self.secondaries_of(name, self.shown_serial(name))
    }

    fn secondaries_of(&self, name: &NameBuf, serial: Option<u32>) -> Option<Vec<ListedSecondary>> {
        let mut secondaries = (self.secondary_serials)(*name);
        for one in secondaries.iter_mut().flatten() {
            one.behind = match (one.serial, serial) {
                (None, _) => true,
                // The serial of a live zone is not known here.
                (Some(_), None) => false,
                (Some(theirs), Some(ours)) => theirs != ours,
            };
        }
        secondaries
    }

    /// Returns the serial of a zone as clients see it: SOA-EDIT is applied when a signed zone is served.
    fn shown_serial(&self, name: &NameBuf) -> Option<u32> {
        let table = self.commits.table().load();
        let zone = table.exact(name.as_name())?;
        if zone.is_stub() {
            return self.shown_serial_in_database(name);
        }
        let serial = zone.serial().0;
        let edit = zone.signing().online().map(|signing| signing.soa_edit());
        Some(edit.map_or(serial, |edit| edit.serial(serial, now_seconds() as u32)))
    }

    /// Returns the same for a live zone, which is signed.
    fn shown_serial_in_database(&self, name: &NameBuf) -> Option<u32> {
        let (database, row) = self.locate(name).ok()?;
        let backend = &database.backend;
        let mut serial = None;
        let mut take = |record: StoredRecord| {
            if record.rtype == "SOA" && !record.disabled {
                let mut fields = record.content.split_ascii_whitespace();
                serial = fields.nth(2).and_then(|field| field.parse::<u32>().ok());
            }
            true
        };
        let listing = backend.stored_records(&row, Some(name.as_name()), &mut take);
        self.runtime.block_on(listing).ok()?;
        let items = self.runtime.block_on(backend.stored_metadata(&row)).ok()?;
        let mut items = items.iter();
        let edit = items.find(|item| item.kind == "SOA-EDIT");
        let edit = edit.and_then(|item| SoaEdit::read(&item.content));
        let edit = edit.unwrap_or_default();
        Some(edit.serial(serial?, now_seconds() as u32))
    }
}
