//! Builds the zone fragment from the rows that an answer needs.

use super::super::apex::{Apex, ApexRecord, ApexScope};
use super::super::error::{RowError, SqlError};
use super::super::row::shown;
use super::need::{self, is_needed};
use super::{FetchedRow, Gathering, RequestedName};
use nameward_wire::zonefile::{Record, RecordLocation, Severity};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::soa_serial;
use nameward_zone::{Finding, ListedChain, SigningWithList, Zone, ZoneBuilder, is_digest_of};
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

thread_local! {
    /// Buffers of each thread that builds fragments.
    static BUFFERS: RefCell<FragmentBuilder> = RefCell::new(FragmentBuilder {
        zone: ZoneBuilder::new(Name::ROOT),
        rdata: Vec::new(),
    });
}

/// Buffers reused from one fragment to the next.
struct FragmentBuilder {
    zone: ZoneBuilder,
    rdata: Vec<u8>,
}

/// Largest record data buffer that is kept, in octets.
const RDATA_KEPT: usize = 4 << 10;

impl Gathering {
    /// Returns the apex for future lookups, if it was fetched. An apex with a DNAME or with unreadable records, or
    /// whose name is written in a different case than that of the zone, is fetched each time.
    pub(crate) fn apex_to_keep(&self) -> Option<Apex> {
        let apex = self.known.zone.apex.as_name();
        if self.apex_records.is_some()
            || self.requested.len() == 0
            || self.requested.name(0).as_wire() != apex.as_wire()
            || self.has_type(0, Type::DNAME)
        {
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
                // Unreadable data is reported by each lookup that needs it.
                Err(_) => return None,
            };
            records.push(ApexRecord {
                id: row.id,
                rtype,
                ttl: row.ttl,
                rdata: rdata.into(),
            });
        }
        // A zone without a SOA is not served; the next lookup should notice when it gets one.
        let has_soa = records.iter().any(|record| record.rtype == Type::SOA);
        let wildcard = NameBuf::join(b"\x01*", apex).ok()?;
        let wildcard = self.requested.position(wildcard.as_name());
        let wildcard = wildcard.map(|at| &self.requested[at]);
        has_soa.then_some(Apex {
            records,
            packed: OnceLock::new(),
            scope: match self.signing {
                Some(_) => ApexScope::Signed,
                None => ApexScope::Plain,
            },
            no_wildcard: wildcard
                .is_some_and(|wildcard| wildcard.is_requested && !wildcard.has_rows),
        })
    }

    /// Returns how much the answer needs a row of a name. An unreadable row of the closest encloser does not fail the
    /// answer: it is not about that name.
    fn is_needed(&self, requested: &RequestedName, row: &FetchedRow, is_apex: bool) -> Need {
        let signing = self.signing.as_ref();
        let is_signed = signing.is_some();
        let is_made =
            |rtype| signing.is_some_and(|signing| signing.made_types().contains(rtype, is_apex));
        let by_type = match row.rtype {
            Ok(rtype) if is_made(rtype) => return Need::No,
            Ok(rtype) => is_needed(requested.needs, rtype),
            Err(_) => requested.needs & need::ALL != 0,
        };
        // An answer can do without the addresses of hosts it refers to, but not without those of a delegation.
        let is_additional = requested.needs & need::GLUE == 0
            && matches!(row.rtype, Ok(rtype) if !is_needed(requested.needs & !need::ADDRESSES, rtype));
        if by_type && is_additional {
            Need::Additional
        } else if by_type {
            Need::Yes
        } else if is_signed && requested.needs & need::ENCLOSER != 0 {
            Need::IfReadable
        } else {
            Need::No
        }
    }

    /// Adds the apex records made by signing, where an answer may contain them or list their types.
    fn add_signing_records(&self, builder: &mut ZoneBuilder, minimum: u32) {
        let Some(signing) = &self.signing else {
            return;
        };
        if self.requested[0].needs & (need::ALL | need::ENCLOSER) == 0 {
            return;
        }
        for (rtype, rdata) in signing.apex_records() {
            builder.add(&Record::new(self.requested.name(0), rtype, minimum, &rdata));
        }
    }

    /// Builds the zone from the data found to be needed. `chain` has the names of the whole zone, if they are listed.
    pub(crate) fn finish(&mut self, chain: Option<&Arc<ListedChain>>) -> Result<Zone, SqlError> {
        BUFFERS.with_borrow_mut(|buffers| {
            buffers.rdata.shrink_to(RDATA_KEPT);
            let room = 512 + self.content.len() * 2;
            let has_apex = self.begin_in(&mut buffers.zone, room);
            let mut zone = self.finish_in(buffers, has_apex)?;
            zone.mark_as_fragment();
            let signing = self.signing.take().filter(|signing| signing.signs());
            zone.set_signing(match (signing, chain) {
                (Some(signing), Some(chain)) => SigningWithList::state(signing, chain),
                (signing, _) => signing.into(),
            });
            Ok(zone)
        })
    }

    /// Returns the serial that a digest (ZONEMD) of the zone must have: a verifier takes a zone with a digest of another
    /// version for damaged (RFC 8976 section 4). None if there is no digest, or signatures cover it.
    fn digest_serial(&self) -> Option<u32> {
        let is_covered = self.signing.is_some() || self.has_type(0, Type::RRSIG);
        if is_covered || !self.has_type(0, Type::ZONEMD) {
            return None;
        }
        let mut rdata = Vec::new();
        self.parse(self.row_of(0, Type::SOA)?, &mut rdata).ok()?;
        soa_serial(&rdata).map(|serial| serial.0)
    }

    /// Starts the zone, with the apex records if they are known and the same in all fragments; returns true if so.
    fn begin_in(&self, builder: &mut ZoneBuilder, room: usize) -> bool {
        let apex = self.known.zone.apex.as_name();
        // The records of a signed apex in a fragment depend on the query name.
        let cached = match self.signing {
            Some(_) => None,
            None => self.apex_records.as_deref(),
        };
        let packed = cached.and_then(|cached| cached.packed(apex, builder));
        match packed {
            Some(packed) => builder.restart_with(packed, room),
            None => builder.restart(apex, room),
        }
        builder.skip_warnings();
        packed.is_some()
    }

    /// Adds the cached apex records that are needed; returns the minimum of the SOA if it is among them.
    fn add_cached_apex(&self, builder: &mut ZoneBuilder) -> Option<u32> {
        let mut minimum = None;
        let apex_needs = self.requested[0].needs;
        let needs_all = self.signing.is_some() && apex_needs & need::ENCLOSER != 0;
        let signing = self.signing.as_ref();
        let cached = self.apex_records.iter();
        for record in cached.flat_map(|apex| &apex.records) {
            let is_made =
                signing.is_some_and(|signing| signing.made_types().contains(record.rtype, true));
            if is_made || !(needs_all || is_needed(apex_needs, record.rtype)) {
                continue;
            }
            if record.rtype == Type::SOA {
                minimum = Some(soa_minimum(&record.rdata));
            }
            builder.add(&record.with_owner(self.known.zone.apex.as_name()));
        }
        minimum
    }

    fn finish_in(
        &mut self,
        buffers: &mut FragmentBuilder,
        has_apex: bool,
    ) -> Result<Zone, SqlError> {
        let FragmentBuilder {
            zone: builder,
            rdata,
        } = buffers;
        let mut minimum = 0;
        let digest_serial = self.digest_serial();
        let mut has_stale_digest = false;
        for (at, requested) in self.requested.iter().enumerate() {
            let name = self.requested.name(at);
            let exists = requested.needs & need::EXISTENCE != 0
                || requested.needs != 0 && requested.has_rows;
            let records = builder.record_count();
            // For most zones the closest encloser is nothing but a name.
            let ignored = match self.signing {
                Some(_) => need::EXISTENCE,
                None => need::EXISTENCE | need::ENCLOSER,
            };
            if requested.needs & !ignored == 0 {
                if exists {
                    builder.add_empty(name);
                }
                continue;
            }
            if requested.is_oversized {
                if requested.needs & need::GLUE != 0 {
                    self.check_size(at)?;
                }
                if exists {
                    builder.add_empty(name);
                }
                builder.add_broken(name, Some(Type::A));
                continue;
            }
            for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| row.of == at) {
                let needed = self.is_needed(requested, row, at == 0);
                if needed == Need::No {
                    continue;
                }
                rdata.clear();
                let rtype = match self.parse(i, rdata) {
                    Err(_) if needed == Need::IfReadable => {
                        // The proof about the closest encloser must not deny a type that it may have.
                        builder.add_broken(name, None);
                        continue;
                    }
                    Err(_) if needed == Need::Additional => {
                        builder.add_broken(name, row.rtype.clone().ok());
                        continue;
                    }
                    rtype => rtype?,
                };
                if rtype == Type::SOA && at == 0 {
                    minimum = soa_minimum(rdata);
                }
                let is_digest = rtype == Type::ZONEMD && at == 0;
                if is_digest && digest_serial.is_some_and(|serial| !is_digest_of(rdata, serial)) {
                    has_stale_digest = true;
                    continue;
                }
                builder
                    .add(&Record::new(name, rtype, row.ttl, rdata).at(RecordLocation::row(row.id)));
            }
            // A name with records here exists because of them.
            if exists && builder.record_count() == records {
                builder.add_empty(name);
            }
        }
        if !has_apex {
            minimum = self.add_cached_apex(builder).unwrap_or(minimum);
        }
        self.add_signing_records(builder, minimum);
        self.stale_digest = digest_serial.filter(|_| has_stale_digest);
        let (zone, findings) = builder.end();
        match zone {
            Some(zone) => Ok(zone),
            None => Err(first_error(self.known.zone.id, &findings)),
        }
    }
}

/// Whether a row is included in the fragment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    No,
    /// Only its type matters.
    IfReadable,
    /// It belongs in the additional section, which may be incomplete.
    Additional,
    Yes,
}

/// Returns the last field of a SOA: the TTL of negative answers, and of the records that signing adds.
pub(crate) fn soa_minimum(rdata: &[u8]) -> u32 {
    rdata
        .last_chunk()
        .map_or(0, |minimum| u32::from_be_bytes(*minimum))
}

/// Returns the error for a finding about a zone, with the row it refers to.
pub fn row_error(zone_id: i64, finding: &Finding) -> RowError {
    let (table, id) = match finding.location.row_id() {
        None => ("domains", zone_id),
        Some(id) => ("records", id),
    };
    RowError::new(table, id, shown(finding.message.as_bytes()))
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
