//! Operations on whole zones. This file creates them; the other files:
//!
//! ```text
//! list, show, status   the state of zones for operators
//! settings, options    kind, primaries, template, catalog
//! attributes, metadata what databases store for a zone besides served records
//! deleted, history     copies of deleted zones; versions; rollback to an older version
//! local*               zones that are not in a database: files, and zones declared in the state store
//! location             the location where the contents of a zone are read and changed
//! provision            zones created or replaced with all their records and metadata
//! files                changes of zone files, made by the server's maintenance thread
//! ```

pub(super) mod attributes;
pub(super) mod deleted;
pub(super) mod files;
pub(super) mod history;
pub(super) mod list;
pub(super) mod local;
pub(super) mod local_copy;
pub(super) mod local_kind;
pub(super) mod local_settings;
pub(super) mod location;
pub(super) mod metadata;
pub(super) mod metadata_check;
pub(super) mod options;
pub(super) mod provision;
pub(super) mod rollback;
pub(super) mod settings;
pub(super) mod show;
pub(super) mod status;
pub(super) mod status_text;

use std::time::SystemTime;

use nameward_maintain::follow::place_of_rank;
use nameward_maintain::policy::address_text;
use nameward_sql::write::{MASTER_MAX, NewZone};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::{NewRecord, RrsetData};
use nameward_zone::{Serial, ZoneKind};

use super::record::read_rrset;
use super::{
    Database, ListedKind, OperationError, OperationResult, Operations, Outcome, ZoneChanged,
    ZoneTemplate, domain_name, zone_name,
};
use local::read_primaries;
use settings::check_version;

/// The primary name server in the SOA of a zone without known servers, as in PowerDNS.
const UNKNOWN_SERVER: &str = "a.misconfigured.dns.server.invalid";
/// Timers in the SOA of a new zone: refresh, retry, expire, minimum.
const TIMES: [u32; 4] = [10_800, 3_600, 604_800, 3_600];

impl Operations {
    /// Creates a zone with its SOA and NS records.
    pub fn create_zone(&self, template: &ZoneTemplate) -> Outcome {
        let name = zone_name(&template.zone)?;
        let kind = creatable(template.kind)?;
        check_version(&name, Some(template.kind), "")?;
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            let location = place_of_rank(rank);
            return Err(OperationError::conflict(format!(
                "zone {name} already exists in {location}"
            )));
        }
        let Some(database) = self.database_for(template.backend)? else {
            return self.create_local(name, kind, template);
        };
        if kind == ZoneKind::Producer {
            return Err(OperationError::refused(format!(
                "cannot create a zone of kind producer in a database: create it as primary, then `nameward zone set {name} \
                 --kind producer`"
            )));
        }
        if template.template.is_some() {
            return Err(OperationError::invalid(
                "--template is not available for database zones",
            ));
        }
        let zone = template.read(name, kind)?;
        let mut changed = self.create_in_database(database, &zone)?;
        changed
            .warnings
            .extend(new_zone_warnings(&name, &zone.rrsets));
        Ok(OperationResult::ZoneCreated(changed))
    }

    /// Creates a zone in a database, and serves it.
    fn create_in_database(&self, database: &Database, zone: &NewZone) -> Outcome<ZoneChanged> {
        let committed = self.wait(database, database.backend.create_zone(zone))?;
        let warnings = self.publish(database, &committed)?;
        let (name, number) = (zone.name, database.number());
        let engine = database.address().engine();
        tracing::info!("created zone {name} in backend {number} ({engine})");
        Ok(database.changed(&committed, warnings))
    }

    /// Returns the database for a new zone; `None` if the given backend is not a database, or there is none.
    fn database_for(&self, number: Option<u32>) -> Outcome<Option<&Database>> {
        match number {
            None => Ok(self.databases.first()),
            Some(number) => Ok(self.database(Some(number)).ok()),
        }
    }

    /// Finds the database with this number; by default the first one.
    pub(super) fn database(&self, number: Option<u32>) -> Outcome<&Database> {
        let Some(number) = number else {
            return self.databases.first().ok_or_else(|| {
                OperationError::refused(
                    "no backend is a database: to create a file zone, create its zone file",
                )
            });
        };
        let mut databases = self.databases.iter();
        databases
            .find(|database| database.number() == number)
            .ok_or_else(|| {
                let list = self.databases.iter();
                let known: Vec<String> = list
                    .map(|database| format!("{} ({})", database.number(), database.address()))
                    .collect();
                OperationError::not_found(if known.is_empty() {
                    format!("backend {number} is not a database; none is configured")
                } else {
                    format!(
                        "backend {number} is not a database; databases are {}",
                        known.join(", ")
                    )
                })
            })
    }
}

/// Reads the kind of a zone that is created or changed.
pub(super) fn creatable(kind: ListedKind) -> Outcome<ZoneKind> {
    match kind {
        ListedKind::OfZone(kind) => Ok(kind),
        ListedKind::File => Err(OperationError::invalid(
            "expected kind native, primary, secondary, producer or consumer, found \"file\"",
        )),
    }
}

/// Reads a mailbox in SOA format (RFC 1035 section 8): `joe.smith@example.org` is `joe\.smith.example.org.`
fn mailbox(text: &str, host: &impl Fn(&str) -> Outcome<NameBuf>) -> Outcome<NameBuf> {
    match text.split_once('@') {
        Some((user, domain)) if !user.is_empty() && !domain.is_empty() => {
            host(&format!("{}.{domain}", user.replace('.', "\\.")))
        }
        _ => host(text),
    }
}

/// Reads primaries, and returns them in the format of `domains.master`. A database has one key for all primaries of a
/// zone.
pub(super) fn stored_primaries(texts: &[String]) -> Outcome<(String, Option<NameBuf>)> {
    let servers = read_primaries(texts)?;
    let key = servers.first().and_then(|server| server.key);
    if servers.iter().any(|server| server.key != key) {
        return Err(OperationError::invalid(
            "a database zone has one TSIG key for all its primaries (AXFR-MASTER-TSIG)",
        ));
    }
    let addresses = servers.iter().map(|server| address_text(server.address));
    let text = addresses.collect::<Vec<_>>().join(", ");
    if text.len() <= MASTER_MAX {
        Ok((text, key))
    } else {
        Err(OperationError::invalid(format!(
            "the list of primaries has {} characters, domains.master holds at most {MASTER_MAX}",
            text.len()
        )))
    }
}

/// Warns of a new zone without name servers, and of name servers in the zone itself without an address.
pub(super) fn new_zone_warnings(name: &NameBuf, rrsets: &[RrsetData]) -> Vec<String> {
    let has_address = |server: Name<'_>| {
        let mut addresses = rrsets
            .iter()
            .filter(|rrset| matches!(rrset.rtype, Type::A | Type::AAAA));
        addresses.any(|rrset| rrset.name.as_name() == server)
    };
    let of_ns = rrsets.iter().filter(|rrset| rrset.rtype == Type::NS);
    let of_apex = of_ns.filter(|rrset| rrset.name.as_name() == name.as_name().zone());
    let records = of_apex.flat_map(|rrset| &rrset.records);
    let servers = records.filter_map(|record| Name::from_wire(&record.rdata).ok());
    let lacking = servers
        .filter(|server| server.is_at_or_below(name.as_name().zone()) && !has_address(*server));
    let warn = |server| {
        format!(
            "{server} has no address yet; add it with `nameward record set {name} {server} A 3600 ADDRESS`"
        )
    };
    let mut warnings: Vec<String> = lacking.map(warn).collect();
    if !rrsets.iter().any(|rrset| rrset.rtype == Type::NS) {
        warnings.push(format!(
            "zone {name} has no NS records yet; add them with `nameward record set {name} @ NS 3600 NAME`"
        ));
    }
    warnings
}

impl ZoneTemplate {
    fn read(&self, name: NameBuf, kind: ZoneKind) -> Outcome<NewZone> {
        let now = SystemTime::now();
        let (primaries, key, rrsets) = match kind.is_transferred() {
            true => {
                let (primaries, key) = self.stored_primaries()?;
                (Some(primaries), key, Vec::new())
            }
            false if self.primaries.is_empty() => (None, None, self.rrsets(&name, now)?),
            false => {
                return Err(OperationError::invalid(
                    "--primary is only for secondary and consumer zones",
                ));
            }
        };
        Ok(NewZone {
            attributes: Vec::new(),
            name,
            kind,
            primaries,
            account: String::new(),
            key,
            rrsets,
            now,
        })
    }

    /// Returns the first records of a zone: those of the request, or a generated SOA and NS RRset.
    pub(super) fn rrsets(&self, name: &NameBuf, now: SystemTime) -> Outcome<Vec<RrsetData>> {
        // The owner names are those of the zone, not of its version.
        let apex = NameBuf::from(name.as_name().zone());
        if self.records.is_empty() {
            self.first_records(&apex, now)
        } else {
            self.given_records(&apex)
        }
    }

    /// Refuses records for a zone that is transferred or generated here.
    pub(super) fn check_no_records(&self) -> Outcome<()> {
        if self.name_servers.is_empty() && self.hostmaster.is_none() && self.records.is_empty() {
            Ok(())
        } else {
            Err(OperationError::invalid(
                "a secondary, consumer or producer zone has no local records: omit --ns and --hostmaster",
            ))
        }
    }

    /// Returns the records in the request.
    fn given_records(&self, name: &NameBuf) -> Outcome<Vec<RrsetData>> {
        let rrsets = self.records.iter().map(|records| read_rrset(records, name));
        let rrsets = rrsets.collect::<Result<Vec<_>, _>>()?;
        let has = |rtype| {
            let is_it = |rrset: &RrsetData| rrset.rtype == rtype && rrset.name == *name;
            rrsets.iter().any(is_it)
        };
        if has(Type::SOA) {
            Ok(rrsets)
        } else {
            Err(OperationError::invalid(format!(
                "a zone needs an SOA record at {name}"
            )))
        }
    }

    /// Returns the primaries in the format of `domains.master`, and the key for transfers from them.
    fn stored_primaries(&self) -> Outcome<(String, Option<NameBuf>)> {
        self.check_no_records()?;
        if self.primaries.is_empty() {
            return Err(OperationError::invalid(
                "a secondary or consumer zone needs a primary: --primary ADDRESS[,KEY], once or more",
            ));
        }
        stored_primaries(&self.primaries)
    }

    fn first_records(&self, name: &NameBuf, now: SystemTime) -> Outcome<Vec<RrsetData>> {
        let host = |text: &str| {
            domain_name(text).map_err(|_| {
                OperationError::invalid(format!("invalid name server or mailbox name {text:?}"))
            })
        };
        let server = |text: &String| {
            if text.trim_end_matches('.').contains('.') {
                host(text)
            } else {
                Err(OperationError::invalid(format!(
                    "{text:?} is not a full name: did you mean {text}.{name}?"
                )))
            }
        };
        let servers: Vec<NameBuf> = self
            .name_servers
            .iter()
            .map(server)
            .collect::<Result<_, _>>()?;
        let first = match servers.first() {
            Some(first) => *first,
            None => host(UNKNOWN_SERVER)?,
        };
        let hostmaster = match &self.hostmaster {
            Some(text) => mailbox(text, &host)?,
            None => NameBuf::join(b"\x0ahostmaster", name.as_name()).map_err(|error| {
                OperationError::invalid(format!("hostmaster.{name}: {error}; use --hostmaster"))
            })?,
        };
        let mut soa = [first.as_name().as_wire(), hostmaster.as_name().as_wire()].concat();
        soa.extend(Serial::first(now).0.to_be_bytes());
        soa.extend(TIMES.iter().flat_map(|time| time.to_be_bytes()));
        let servers = servers
            .iter()
            .map(|server| server.as_name().as_wire().to_vec());
        let rrset = |rtype, records| RrsetData {
            name: *name,
            rtype,
            ttl: self.ttl,
            records,
        };
        let servers: Vec<NewRecord> = servers.map(Into::into).collect();
        let mut rrsets = vec![rrset(Type::SOA, vec![soa.into()])];
        if !servers.is_empty() {
            rrsets.push(rrset(Type::NS, servers));
        }
        Ok(rrsets)
    }
}
