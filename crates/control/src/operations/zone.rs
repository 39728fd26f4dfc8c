//! Owns operations on whole zones: list, show, create.

use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use nameward_maintain::follow::place_of_rank;
use nameward_store::sql::write::{MASTER_MAX, NewZone, StoredRecord};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::{NewRecord, RrsetData};
use nameward_zone::{Serial, ZoneKind};

use super::place::{MemoryZone, ZonePlace};
use super::record::read_rrset;
use super::{
    Database, ListedItem, ListedKind, ListedZone, OperationError, OperationResult, Operations,
    TakeItem, ZoneDetails, ZoneTemplate, zone_name,
};

/// Times in the SOA of a new zone: refresh, retry, expire, minimum.
const TIMES: [u32; 4] = [10_800, 3_600, 604_800, 3_600];

impl Operations {
    /// Lists all zones, in the order of their names.
    pub fn list_zones(&self, items: TakeItem<'_>) -> Result<OperationResult, OperationError> {
        let mut zones = Vec::new();
        for database in &self.databases {
            let listed = self.runtime.block_on(database.backend.zones());
            let listed =
                listed.map_err(|error| OperationError::of_sql(database.address(), &error))?;
            zones.extend(listed.zones.into_iter().map(|zone| ListedZone {
                name: zone.name.to_string(),
                kind: zone.kind.into(),
                backend: database.number(),
            }));
        }
        (self.each_zone)(&mut |name, rank| {
            if !self.databases.iter().any(|database| database.rank == rank) {
                zones.push(ListedZone {
                    name: name.to_string(),
                    kind: ListedKind::File,
                    backend: u32::from(rank),
                });
            }
        });
        zones.sort_unstable_by(|a, b| (&a.name, a.backend).cmp(&(&b.name, b.backend)));
        let count = zones.len() as u64;
        let _ = zones.into_iter().all(|zone| items(ListedItem::Zone(zone)));
        Ok(OperationResult::Listed { items: count })
    }

    /// Shows a zone.
    pub fn show_zone(&self, name: &str) -> Result<OperationResult, OperationError> {
        let (database, row) = match self.place(&zone_name(name)?)? {
            ZonePlace::Database(database, row) => (database, row),
            ZonePlace::Memory(zone) => return Ok(OperationResult::Zone(self.show_memory(&zone))),
        };
        let (mut records, mut disabled, mut serial) = (0_u64, 0_u64, None);
        let mut take = |record: StoredRecord| {
            match record.disabled {
                true => disabled += 1,
                false => records += 1,
            }
            if record.rtype == "SOA" && !record.disabled && record.problem.is_none() {
                let field = record.content.split(' ').nth(2);
                serial = field.and_then(|text| text.parse().ok());
            }
            true
        };
        let listing = database.backend.stored_records(&row, None, &mut take);
        let listed = self.runtime.block_on(listing);
        listed.map_err(|error| database.error(&error))?;
        let stored = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Ok(OperationResult::Zone(ZoneDetails {
            name: row.name.to_string(),
            kind: row.kind.into(),
            serial,
            records,
            disabled,
            backend: database.number(),
            database: database.address().to_string(),
            mode: database.mode.into(),
            primaries: stored(&row.primaries),
            account: stored(&row.account),
            catalog: stored(&row.catalog),
            signing: self.signing_of(row.name.as_name()),
        }))
    }

    fn show_memory(&self, zone: &MemoryZone) -> ZoneDetails {
        let (version, name) = (&zone.version, zone.name());
        let policies = self.policies.load();
        let policy = policies.of(name.as_name());
        let nodes = version.nodes_in_any_order();
        let records = nodes.flat_map(|node| node.rrsets().map(|rrset| rrset.records().count()));
        let primaries = policy.primaries.iter();
        let primaries: Vec<String> = primaries.map(|one| one.address.to_string()).collect();
        ZoneDetails {
            name: name.to_string(),
            kind: policy.kind.into(),
            serial: Some(version.serial().0),
            records: records.sum::<usize>() as u64,
            disabled: 0,
            backend: u32::from(version.rank()),
            database: match policy.kind.is_transferred() {
                true => "state store".into(),
                false => "file".into(),
            },
            mode: "resident".into(),
            primaries: (!primaries.is_empty()).then(|| primaries.join(", ")),
            account: None,
            catalog: policy.catalog.map(|catalog| catalog.to_string()),
            signing: self.signing_of(name.as_name()),
        }
    }

    /// Creates a zone with its SOA and NS records.
    pub fn create_zone(&self, template: &ZoneTemplate) -> Result<OperationResult, OperationError> {
        let name = zone_name(&template.zone)?;
        let kind = creatable(template.kind)?;
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            let place = place_of_rank(rank);
            return Err(OperationError::conflict(format!(
                "zone {name} exists already, in {place}"
            )));
        }
        let database = self.database(template.backend)?;
        let zone = template.read(name, kind)?;
        let committed = self
            .runtime
            .block_on(database.backend.create_zone(&zone))
            .map_err(|error| database.error(&error))?;
        let mut warnings = self.publish(database, &committed)?;
        let (number, engine) = (database.number(), database.address().engine());
        tracing::info!("created zone {name} in backend {number} ({engine})");
        warnings.extend(servers_without_address(&zone).map(|server| {
            format!(
                "{server} has no address yet: `nameward record set {name} {server} A 3600 ADDRESS`"
            )
        }));
        let changed = database.changed(&committed, warnings);
        Ok(OperationResult::ZoneCreated(changed))
    }

    /// Finds the database with this number; the first one if nothing is said.
    pub(super) fn database(&self, number: Option<u32>) -> Result<&Database, OperationError> {
        let Some(number) = number else {
            return self.databases.first().ok_or_else(|| {
                OperationError::refused(
                    "no backend is a database: create a zone in a file by making its file",
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
                OperationError::not_found(match known.is_empty() {
                    true => format!("backend {number} is no database; no backend is one"),
                    false => format!(
                        "backend {number} is no database; databases are {}",
                        known.join(", ")
                    ),
                })
            })
    }
}

/// Zones of these kinds work; others would be served empty or never change.
fn creatable(kind: ListedKind) -> Result<ZoneKind, OperationError> {
    let missing = match kind {
        ListedKind::OfZone(ZoneKind::Producer) => {
            "create it as primary and set domains.type to PRODUCER"
        }
        ListedKind::OfZone(kind) => return Ok(kind),
        ListedKind::File => "a zone in a file is created by making its file",
    };
    Err(OperationError::refused(format!(
        "cannot create a zone of kind {}: {missing}",
        kind.name()
    )))
}

/// Reads a mailbox as the SOA has it (RFC 1035 section 8): `joe.smith@example.org` is `joe\.smith.example.org.`
fn mailbox(
    text: &str,
    host: &impl Fn(&str) -> Result<NameBuf, OperationError>,
) -> Result<NameBuf, OperationError> {
    match text.split_once('@') {
        Some((user, domain)) if !user.is_empty() && !domain.is_empty() => {
            host(&format!("{}.{domain}", user.replace('.', "\\.")))
        }
        _ => host(text),
    }
}

/// Checks the addresses of primaries, and writes them as `domains.master` has them.
pub(super) fn check_primaries(primaries: &[String]) -> Result<String, OperationError> {
    for text in primaries {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let is_address =
            text.parse::<SocketAddr>().is_ok() || bare.unwrap_or(text).parse::<IpAddr>().is_ok();
        if !is_address {
            return Err(OperationError::invalid(format!(
                "{text:?} is no address: 192.0.2.1, 192.0.2.1:5300, 2001:db8::1 or [2001:db8::1]:5300"
            )));
        }
    }
    let text = primaries.join(", ");
    match text.len() <= MASTER_MAX {
        true => Ok(text),
        false => Err(OperationError::invalid(format!(
            "the primaries have {} characters, and domains.master takes {MASTER_MAX}",
            text.len()
        ))),
    }
}

/// The name servers of a new zone that are in the zone itself, where nothing has an address yet.
fn servers_without_address(zone: &NewZone) -> impl Iterator<Item = NameBuf> + '_ {
    let of_ns = zone.rrsets.iter().filter(|rrset| rrset.rtype == Type::NS);
    let records = of_ns.flat_map(|rrset| &rrset.records);
    let servers = records.filter_map(|record| Name::from_wire(&record.rdata).ok());
    servers
        .filter(|server| server.is_at_or_below(zone.name.as_name()))
        .map(NameBuf::from)
}

impl ZoneTemplate {
    fn read(&self, name: NameBuf, kind: ZoneKind) -> Result<NewZone, OperationError> {
        let now = SystemTime::now();
        let is_transferred = kind.is_transferred();
        let (primaries, rrsets) = match is_transferred {
            true => (Some(self.primaries_text()?), Vec::new()),
            false if self.primaries.is_empty() && !self.records.is_empty() => {
                (None, self.given_records(&name)?)
            }
            false if self.primaries.is_empty() => (None, self.first_records(&name, now)?),
            false => {
                return Err(OperationError::invalid(
                    "--primary is for zones of kind secondary or consumer",
                ));
            }
        };
        Ok(NewZone {
            name,
            kind,
            primaries,
            account: String::new(),
            key: None,
            rrsets,
            now,
        })
    }

    /// The records that the request has.
    fn given_records(&self, name: &NameBuf) -> Result<Vec<RrsetData>, OperationError> {
        let rrsets = self.records.iter().map(|records| read_rrset(records, name));
        let rrsets = rrsets.collect::<Result<Vec<_>, _>>()?;
        let has = |rtype| {
            let is_it = |rrset: &RrsetData| rrset.rtype == rtype && rrset.name == *name;
            rrsets.iter().any(is_it)
        };
        match has(Type::SOA) && has(Type::NS) {
            true => Ok(rrsets),
            false => Err(OperationError::invalid(format!(
                "a zone needs a SOA and a name server at {name}"
            ))),
        }
    }

    /// The primaries as `domains.master` has them.
    fn primaries_text(&self) -> Result<String, OperationError> {
        if !self.name_servers.is_empty() || self.hostmaster.is_some() {
            return Err(OperationError::invalid(
                "a zone that is transferred gets its name servers from its primary: leave --ns and --hostmaster out",
            ));
        }
        if self.primaries.is_empty() {
            return Err(OperationError::invalid(
                "a zone that is transferred needs a primary: --primary ADDRESS, once or more",
            ));
        }
        check_primaries(&self.primaries)
    }

    fn first_records(
        &self,
        name: &NameBuf,
        now: SystemTime,
    ) -> Result<Vec<RrsetData>, OperationError> {
        let host = |text: &str| {
            zone_name(text).map_err(|_| {
                OperationError::invalid(format!("{text:?} is no name of a name server or mailbox"))
            })
        };
        let server = |text: &String| match text.trim_end_matches('.').contains('.') {
            true => host(text),
            false => Err(OperationError::invalid(format!(
                "{text:?} is no name in full: if {text}.{name} is meant, write that"
            ))),
        };
        let servers: Vec<NameBuf> = self
            .name_servers
            .iter()
            .map(server)
            .collect::<Result<_, _>>()?;
        let Some(first) = servers.first() else {
            return Err(OperationError::invalid(
                "a zone needs a name server: --ns NAME, once or more",
            ));
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
        let record = |rdata| NewRecord {
            rdata,
            disabled: false,
        };
        let servers = servers
            .iter()
            .map(|server| server.as_name().as_wire().to_vec());
        let rrset = |rtype, records| RrsetData {
            name: *name,
            rtype,
            ttl: self.ttl,
            records,
        };
        Ok(vec![
            rrset(Type::SOA, vec![record(soa)]),
            rrset(Type::NS, servers.map(record).collect()),
        ])
    }
}
