//! The sections of an UPDATE and the record formats defined by RFC 2136.
//!
//! Every record is checked before the first prerequisite is compared with the zone, so a message is well formed as a
//! whole or changes nothing. Memory is bounded by the message, which has at most 65,535 octets.

use nameward_wire::message::{Message, MessageSection, RecordView};
use nameward_wire::{Class, Name, NameBuf, Rcode, Type};
use nameward_zone::change::ChangeRefused;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum TTL (RFC 2181 section 8); a higher one counts as 0.
const MAX_TTL: u32 = i32::MAX as u32;

/// A condition that the zone must meet (RFC 2136 section 2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prerequisite {
    /// Section 2.4.1: an RRset exists, whatever its data.
    RrsetExists(NameBuf, Type),
    /// Section 2.4.2: an RRset has exactly these data, each in canonical form.
    RrsetIs(NameBuf, Type, BTreeSet<Vec<u8>>),
    /// Section 2.4.3: an RRset does not exist.
    RrsetIsAbsent(NameBuf, Type),
    /// Section 2.4.4: a name owns a record.
    NameIsInUse(NameBuf),
    /// Section 2.4.5: a name owns no record.
    NameIsNotInUse(NameBuf),
}

/// Expected RRset values, by owner in lower case and type.
type RrsetValues = BTreeMap<(Vec<u8>, Type), (NameBuf, BTreeSet<Vec<u8>>)>;

/// A step of an update (RFC 2136 section 2.5).
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateStep {
    /// Section 2.5.1: adds a record.
    Add {
        name: NameBuf,
        rtype: Type,
        ttl: u32,
        /// Uncompressed data.
        rdata: Vec<u8>,
    },
    /// Section 2.5.2: deletes an RRset.
    DeleteRrset(NameBuf, Type),
    /// Section 2.5.3: deletes all RRsets of a name.
    DeleteName(NameBuf),
    /// Section 2.5.4: deletes a record.
    DeleteRecord {
        name: NameBuf,
        rtype: Type,
        /// Uncompressed data.
        rdata: Vec<u8>,
    },
}

/// A well-formed UPDATE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateRequest {
    /// The zone to change.
    pub zone: NameBuf,
    /// The conditions; those about one RRset's data are merged and come after all others (section 3.2.5).
    pub prerequisites: Vec<Prerequisite>,
    /// The steps, in message order.
    pub steps: Vec<UpdateStep>,
}

impl UpdateRequest {
    /// Reads a message with the opcode UPDATE.
    pub fn read(octets: &[u8]) -> Result<Self, ChangeRefused> {
        let message = Message::parse(octets).or_else(form_error)?;
        let mut questions = message.questions();
        let zone = match (questions.next(), questions.next()) {
            (Some(Ok(zone)), None) => zone,
            _ => return form_error("the zone section does not have exactly one entry"),
        };
        // RFC 2136 section 3.1.1.
        if zone.qtype != Type::SOA {
            return form_error("the zone section type is not SOA");
        }
        if zone.qclass != Class::IN {
            let reason = format!("zones of class {} are not served", zone.qclass);
            return Err(refused(Rcode::NotAuth, reason));
        }
        let mut request = UpdateRequest {
            zone: zone.name,
            prerequisites: Vec::new(),
            steps: Vec::new(),
        };
        let mut values = RrsetValues::new();
        for record in message.records() {
            let record = record.or_else(form_error)?;
            match record.section {
                MessageSection::Answer => request.read_prerequisite(&record, &mut values)?,
                MessageSection::Authority => {
                    let step = request.read_step(&record)?;
                    request.steps.push(step);
                }
                // RFC 2136 section 2.6: nothing there is needed; OPT and TSIG are read elsewhere.
                MessageSection::Additional => {}
            }
        }
        let values = values.into_iter();
        let compared =
            values.map(|((_, rtype), (name, values))| Prerequisite::RrsetIs(name, rtype, values));
        request.prerequisites.extend(compared);
        Ok(request)
    }

    /// Reads a prerequisite (RFC 2136 section 3.2). The values of an RRset are collected and compared as a whole.
    fn read_prerequisite(
        &mut self,
        record: &RecordView<'_>,
        values: &mut RrsetValues,
    ) -> Result<(), ChangeRefused> {
        let (name, rtype) = (record.owner, record.rtype);
        if record.ttl != 0 {
            return refuse_record(record, "prerequisite with a TTL that is not 0");
        }
        self.check_owner(record)?;
        if rtype.is_meta() && rtype != Type::ANY {
            return refuse_record(record, "meta type not allowed");
        }
        let is_empty = record.rdlength == 0;
        let next = match (record.class, rtype) {
            (Class::ANY | Class::NONE, _) if !is_empty => {
                return refuse_record(record, "value-independent prerequisite with data");
            }
            (Class::ANY, Type::ANY) => Prerequisite::NameIsInUse(name),
            (Class::ANY, _) => Prerequisite::RrsetExists(name, rtype),
            (Class::NONE, Type::ANY) => Prerequisite::NameIsNotInUse(name),
            (Class::NONE, _) => Prerequisite::RrsetIsAbsent(name, rtype),
            (Class::IN, Type::ANY) => {
                return refuse_record(record, "value-dependent prerequisite of type ANY");
            }
            (Class::IN, _) => {
                let key = (name.as_name().as_wire().to_ascii_lowercase(), rtype);
                let data = canonical(rtype, data_of(record)?);
                let (_, known) = values.entry(key).or_insert((name, BTreeSet::new()));
                known.insert(data);
                return Ok(());
            }
            _ => return refuse_record(record, "prerequisite with an invalid class"),
        };
        self.prerequisites.push(next);
        Ok(())
    }

    /// Reads a step (RFC 2136 section 3.4.1).
    fn read_step(&self, record: &RecordView<'_>) -> Result<UpdateStep, ChangeRefused> {
        let (name, rtype) = (record.owner, record.rtype);
        self.check_owner(record)?;
        if rtype.is_meta() && !(rtype == Type::ANY && record.class == Class::ANY) {
            return refuse_record(record, "meta type not allowed");
        }
        match record.class {
            Class::IN => Ok(UpdateStep::Add {
                name,
                rtype,
                ttl: if record.ttl > MAX_TTL { 0 } else { record.ttl },
                rdata: data_of(record)?,
            }),
            Class::ANY | Class::NONE if record.ttl != 0 => {
                refuse_record(record, "deletion with a TTL that is not 0")
            }
            Class::ANY if record.rdlength != 0 => refuse_record(record, "RRset deletion with data"),
            Class::ANY if rtype == Type::ANY => Ok(UpdateStep::DeleteName(name)),
            Class::ANY => Ok(UpdateStep::DeleteRrset(name, rtype)),
            Class::NONE => Ok(UpdateStep::DeleteRecord {
                name,
                rtype,
                rdata: data_of(record)?,
            }),
            _ => refuse_record(record, "update record with an invalid class"),
        }
    }

    /// Rejects names outside the zone (RFC 2136 sections 3.2.5 and 3.4.1.3).
    fn check_owner(&self, record: &RecordView<'_>) -> Result<(), ChangeRefused> {
        if record.name().is_at_or_below(self.zone.as_name()) {
            Ok(())
        } else {
            let reason = format!("{} is outside the zone", record.owner);
            Err(refused(Rcode::NotZone, reason))
        }
    }
}

impl Prerequisite {
    /// Returns the name that it concerns.
    pub fn name(&self) -> Name<'_> {
        match self {
            Prerequisite::RrsetExists(name, _)
            | Prerequisite::RrsetIs(name, _, _)
            | Prerequisite::RrsetIsAbsent(name, _)
            | Prerequisite::NameIsInUse(name)
            | Prerequisite::NameIsNotInUse(name) => name.as_name(),
        }
    }
}

impl UpdateStep {
    /// Returns the name that it concerns.
    pub fn name(&self) -> Name<'_> {
        match self {
            UpdateStep::DeleteRrset(name, _) | UpdateStep::DeleteName(name) => name.as_name(),
            UpdateStep::Add { name, .. } | UpdateStep::DeleteRecord { name, .. } => name.as_name(),
        }
    }

    /// Returns the type that it concerns; `None` for all types of a name.
    pub fn rtype(&self) -> Option<Type> {
        match self {
            UpdateStep::Add { rtype, .. } | UpdateStep::DeleteRecord { rtype, .. } => Some(*rtype),
            UpdateStep::DeleteRrset(_, rtype) => Some(*rtype),
            UpdateStep::DeleteName(_) => None,
        }
    }
}

fn data_of(record: &RecordView<'_>) -> Result<Vec<u8>, ChangeRefused> {
    let mut rdata = Vec::new();
    record
        .expand_data(&mut rdata)
        .or_else(|error| refuse_record(record, error))?;
    Ok(rdata)
}

/// Converts names in the data to lower case, so that equal data are equal octets (RFC 4034 section 6.2).
pub(super) fn canonical(rtype: Type, mut rdata: Vec<u8>) -> Vec<u8> {
    nameward_wire::rdata::canonicalise(rtype, &mut rdata);
    rdata
}

pub(super) fn refused(rcode: Rcode, reason: impl ToString) -> ChangeRefused {
    ChangeRefused {
        rcode,
        reason: reason.to_string(),
    }
}

fn form_error<T>(reason: impl ToString) -> Result<T, ChangeRefused> {
    Err(refused(Rcode::FormErr, reason))
}

fn refuse_record<T>(record: &RecordView<'_>, reason: impl ToString) -> Result<T, ChangeRefused> {
    let (owner, rtype, reason) = (record.owner, record.rtype, reason.to_string());
    form_error(format!("{owner} {rtype}: {reason}"))
}
