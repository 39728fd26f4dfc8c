//! Whole zones in commands: fetched from the running server, read from files, compared, and sent back as a batch of
//! the differences.

pub mod edit;

use std::{path::Path, sync::Arc};

use nameward_control::operations::{
    BatchRecords, BatchRequest, ListedDifference, ListedItem, OperationError, OperationRequest,
    Outcome, RecordChange, ZoneBatch, ZoneTemplate, data_text, steps_of, zone_name,
};
use nameward_dnssec::MadeTypes;
use nameward_files::{zone_from_file, zone_from_text};
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::zonefile::{Diagnostic, Record};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::Difference;
use nameward_zone::{RecordList, ScriptCheck, WireRecord, Zone, ZoneBuilder};

use crate::{command_error::CommandResult, config::Overrides, remote};

/// A zone as the running server has it.
pub struct FetchedZone {
    pub name: NameBuf,
    /// The served records.
    pub zone: Arc<Zone>,
    /// Number of records that are stored but not served.
    pub hidden: u64,
}

/// Fetches a zone from the running server.
pub fn fetch(zone: &str, overrides: &Overrides) -> CommandResult<FetchedZone> {
    let name = zone_name(zone)?;
    let mut builder = ZoneBuilder::new(name.as_name());
    let (mut hidden, mut wrong) = (0, None);
    let request = OperationRequest::RecordList {
        zone: zone.into(),
        name: None,
        rtype: None,
    };
    remote::send(request, overrides, &mut |item| {
        let ListedItem::Record(record) = item else {
            return;
        };
        if record.disabled || record.problem.is_some() {
            hidden += 1;
            return;
        }
        let text = (record.name.as_str(), record.rtype.as_str());
        match read_record(text, &record.content) {
            Some((owner, rtype, rdata)) => {
                builder.add(&Record::new(owner.as_name(), rtype, record.ttl, &rdata));
            }
            None => wrong = Some(format!("{} {}", record.name, record.rtype)),
        }
    })?;
    if let Some(wrong) = wrong {
        let text = format!("zone {name}: {wrong} invalid");
        return Err(OperationError::invalid(text).into());
    }
    let (zone, findings) = builder.finish();
    let zone = zone.ok_or_else(|| {
        let first = findings.into_iter().next();
        let reason = first.map_or_else(String::new, |finding| finding.message);
        OperationError::invalid(format!("zone {name}: {reason}"))
    })?;
    Ok(FetchedZone {
        name,
        zone: Arc::new(zone),
        hidden,
    })
}

fn read_record((name, rtype): (&str, &str), content: &str) -> Option<(NameBuf, Type, Vec<u8>)> {
    let owner = NameBuf::from_text(name.as_bytes(), Name::ROOT).ok()?;
    let rtype = Type::from_text(rtype.as_bytes())?;
    let mut rdata = Vec::new();
    let mut fields = Fields::new(content.as_bytes());
    parse_text(rtype, &mut fields, Name::ROOT, &mut rdata).ok()?;
    Some((owner, rtype, rdata))
}

/// Parses the text of a zone; the error has a line for each mistake.
pub fn read_zone(name: &NameBuf, file: &str, text: &str) -> Outcome<Zone> {
    let read = zone_from_text(name.as_name(), file, text.as_bytes());
    read.map_err(|found| diagnostics_error(&found))
}

fn diagnostics_error(found: &[Diagnostic]) -> OperationError {
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    OperationError::invalid(lines.join("\n"))
}

/// Reads a zone file, with the files it includes.
pub fn read_file(name: &NameBuf, file: &Path) -> Outcome<Zone> {
    let read = zone_from_file(name.as_name(), file, &ScriptCheck::default());
    read.map(|(zone, _)| zone)
        .map_err(|found| diagnostics_error(&found))
}

/// Returns the records of a zone in zone file order, the SOA first.
pub fn records_of(zone: &Zone, unsigned: bool) -> RecordList {
    let mut list = RecordList::default();
    let mut push = |is_it: &dyn Fn(bool, Type) -> bool| {
        for node in zone.nodes_in_order() {
            let is_apex = node.name() == zone.apex_name();
            for rrset in node.rrsets().filter(|rrset| is_it(is_apex, rrset.rtype())) {
                for record in rrset.records() {
                    list.push(WireRecord {
                        owner: node.name(),
                        rtype: rrset.rtype(),
                        ttl: rrset.ttl(),
                        rdata: record.rdata,
                    });
                }
            }
        }
    };
    push(&|is_apex, rtype| is_apex && rtype == Type::SOA);
    let is_left_out = |is_apex, rtype| unsigned && MadeTypes::ALL.contains(rtype, is_apex);
    push(&|is_apex, rtype| rtype != Type::SOA && !is_left_out(is_apex, rtype));
    list
}

/// Formats a record as a zone file line.
pub fn line_of(record: &WireRecord<'_>) -> String {
    let (owner, content) = (record.owner, content_of(record));
    format!("{owner}\t{}\tIN\t{}\t{content}\n", record.ttl, record.rtype)
}

/// Formats a record as a JSON object.
pub fn json_of(record: &WireRecord<'_>) -> serde_json::Value {
    serde_json::json!({
        "name": record.owner.to_string(), "ttl": record.ttl,
        "type": record.rtype.to_string(), "content": content_of(record),
    })
}

/// Lists the records of a difference.
pub fn listed(zone: &NameBuf, difference: &Difference) -> Vec<ListedDifference> {
    let of = |change: RecordChange, list: &RecordList| -> Vec<ListedDifference> {
        let records = list.iter().map(|record| ListedDifference {
            zone: zone.to_string(),
            change,
            name: record.owner.to_string(),
            ttl: record.ttl,
            rtype: record.rtype.to_string(),
            content: content_of(&record),
        });
        records.collect()
    };
    let mut all = of(RecordChange::Removed, &difference.removed);
    all.extend(of(RecordChange::Added, &difference.added));
    all
}

fn content_of(record: &WireRecord<'_>) -> String {
    data_text(record.rtype, record.rdata)
}

/// Builds the request that brings a zone from one version to another, provided it is not changed in the meantime.
pub fn batch(fetched: &FetchedZone, difference: &Difference, dry_run: bool) -> OperationRequest {
    OperationRequest::Apply(BatchRequest {
        zones: vec![ZoneBatch {
            zone: fetched.name.to_string(),
            serial: Some(fetched.zone.serial().0),
            steps: steps_of(difference),
        }],
        dry_run,
        differences: dry_run,
    })
}

/// Builds the request that creates a zone with the records of a file.
pub fn creation(name: &NameBuf, zone: &Zone, template: ZoneTemplate) -> OperationRequest {
    let mut records: Vec<BatchRecords> = Vec::new();
    for record in &records_of(zone, false) {
        let (owner, rtype) = (record.owner.to_string(), record.rtype.to_string());
        match records.last_mut() {
            Some(last) if last.name == owner && last.rtype == rtype => {
                last.content.push(content_of(&record));
            }
            _ => records.push(BatchRecords {
                name: owner,
                rtype,
                ttl: record.ttl,
                content: vec![content_of(&record)],
            }),
        }
    }
    OperationRequest::ZoneCreate(ZoneTemplate {
        zone: name.to_string(),
        records,
        ..template
    })
}
