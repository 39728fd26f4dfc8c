//! Owns zones: listed, shown, made, deleted.

use std::fmt::Write;
use std::time::SystemTime;

use nameward_store::sql::Kind;
use nameward_store::sql::write::NewZone;
use nameward_wire::{NameBuf, Type};
use nameward_zone::Serial;
use nameward_zone::change::{NewRecord, RrsetData};

use super::{Database, LINES_MAX, Operations, describe, zone_name};

/// What the SOA of a new zone says: refresh, retry, expire, minimum.
const TIMES: [u32; 4] = [10_800, 3_600, 604_800, 3_600];

/// A zone to be made, as an operator writes it.
#[derive(Default)]
pub struct ZoneWords<'w> {
    /// Its name.
    pub name: &'w str,
    /// `native` if nothing is said.
    pub kind: Option<&'w str>,
    /// Its name servers, the first one for the SOA.
    pub name_servers: Vec<&'w str>,
    /// The mailbox for the SOA, as a name.
    pub hostmaster: Option<&'w str>,
    /// Where a secondary gets it from.
    pub primaries: Vec<&'w str>,
    /// The TTL of its records.
    pub ttl: Option<&'w str>,
    /// The number of the backend.
    pub backend: Option<&'w str>,
}

impl Operations {
    /// `name kind backend` for each zone.
    pub fn list_zones(&self) -> Result<String, String> {
        let mut lines = Vec::new();
        for database in &self.databases {
            let listed = self.runtime.block_on(database.backend.zones());
            let listed = listed
                .map_err(|error| format!("{}: {error}", database.backend.options().address))?;
            let number = database.number();
            for zone in listed.zones {
                lines.push(format!("{} {} {number}", zone.name, kind_name(zone.kind)));
            }
        }
        (self.each_zone)(&mut |name, rank| {
            if !self.databases.iter().any(|database| database.rank == rank) {
                lines.push(format!("{name} file {}", u32::from(rank) + 1));
            }
        });
        lines.sort_unstable();
        let more = lines.len().saturating_sub(LINES_MAX);
        lines.truncate(LINES_MAX);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        Ok(lines.into_iter().map(|line| line + "\n").collect())
    }

    /// What is known of a zone of a database.
    pub fn show_zone(&self, name: &str) -> Result<String, String> {
        let name = zone_name(name)?;
        let (database, row) = self.locate(&name)?;
        let (mut records, mut disabled, mut soa) = (0_u64, 0_u64, None);
        let mut take = |record: nameward_store::sql::write::StoredRecord| {
            match record.disabled {
                true => disabled += 1,
                false => records += 1,
            }
            if record.rtype == "SOA" && !record.disabled {
                soa = record.content.ok();
            }
            true
        };
        let listing = database.backend.stored_records(row.id, None, &mut take);
        let listed = self.runtime.block_on(listing);
        listed.map_err(|error| describe(database, &error))?;
        let mut text = String::new();
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(text, "{key} {value}");
        };
        line("name", &row.name.to_string());
        line("kind", kind_name(row.kind));
        let serial = soa.as_deref().and_then(|soa| soa.split(' ').nth(2));
        line("serial", serial.unwrap_or("none"));
        line("records", &records.to_string());
        line("disabled", &disabled.to_string());
        let address = &database.backend.options().address;
        line("backend", &format!("{} {address}", database.number()));
        line("mode", database.mode);
        for (key, value) in [
            ("primaries", &row.primaries),
            ("account", &row.account),
            ("catalog", &row.catalog),
        ] {
            if let Some(value) = value {
                line(key, value);
            }
        }
        Ok(text)
    }

    /// Makes a zone.
    pub fn create_zone(&self, words: &ZoneWords<'_>) -> Result<String, String> {
        let name = zone_name(words.name)?;
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            let number = u32::from(rank) + 1;
            return Err(format!(
                "the zone {name} is there already, in backend {number}"
            ));
        }
        let database = self.database(words.backend)?;
        let zone = words.read(name)?;
        let committed = self
            .runtime
            .block_on(database.backend.create_zone(&zone))
            .map_err(|error| describe(database, &error))?;
        let lines = self.publish(database, &committed)?;
        tracing::info!("zone {name} made over the control socket");
        let mut text = format!("{name} is there now, in backend {}\n", database.number());
        text.push_str(&lines);
        for server in zone.name_servers() {
            if server.as_name().is_at_or_below(name.as_name()) {
                let _ = writeln!(
                    text,
                    "{server} has no address yet: `nameward record set {name} {server} A 3600 ADDRESS`"
                );
            }
        }
        Ok(text)
    }

    /// Deletes a zone.
    pub fn delete_zone(&self, name: &str) -> Result<String, String> {
        let name = zone_name(name)?;
        let (database, row) = self.locate(&name)?;
        let committed = self
            .runtime
            .block_on(database.backend.delete_zone(row.id))
            .map_err(|error| describe(database, &error))?;
        let lines = self.publish(database, &committed)?;
        tracing::info!("zone {name} deleted over the control socket");
        let text = format!("{name} is gone, with its records, comments, metadata and keys\n");
        Ok(text + &lines)
    }

    /// The database with this number; the first one if nothing is said.
    fn database(&self, number: Option<&str>) -> Result<&Database, String> {
        let Some(text) = number else {
            return self.databases.first().ok_or_else(|| {
                "there is no database: zones in files are made by making their files".into()
            });
        };
        let is_it = |database: &&Database| database.number().to_string() == text;
        self.databases.iter().find(is_it).ok_or_else(|| {
            let list = self.databases.iter();
            let known: Vec<String> = list
                .map(|database| {
                    let address = &database.backend.options().address;
                    format!("{} ({address})", database.number())
                })
                .collect();
            format!(
                "backend {text:?} is no database; there are {}",
                known.join(", ")
            )
        })
    }
}

/// The name servers that a new zone names.
trait NameServers {
    fn name_servers(&self) -> Vec<NameBuf>;
}

impl NameServers for NewZone {
    fn name_servers(&self) -> Vec<NameBuf> {
        let of_ns = self.rrsets.iter().filter(|rrset| rrset.rtype == Type::NS);
        let records = of_ns.flat_map(|rrset| &rrset.records);
        records
            .filter_map(|record| nameward_wire::Name::from_wire(&record.rdata).ok())
            .map(NameBuf::from)
            .collect()
    }
}

impl ZoneWords<'_> {
    fn read(&self, name: NameBuf) -> Result<NewZone, String> {
        let kind = match self.kind {
            None => Kind::Native,
            Some(text) => read_kind(text)?,
        };
        let now = SystemTime::now();
        let is_transferred = matches!(kind, Kind::Secondary | Kind::Consumer);
        if is_transferred == self.primaries.is_empty() {
            return Err(match is_transferred {
                true => {
                    "a secondary zone needs the address of its primary: --primary ADDRESS".into()
                }
                false => "only a secondary zone has a primary".into(),
            });
        }
        for primary in &self.primaries {
            check_primary(primary)?;
        }
        let rrsets = match is_transferred {
            true => Vec::new(),
            false => self.first_records(&name, now)?,
        };
        Ok(NewZone {
            name,
            kind,
            primaries: is_transferred.then(|| self.primaries.join(", ")),
            rrsets,
            now,
        })
    }

    fn first_records(&self, name: &NameBuf, now: SystemTime) -> Result<Vec<RrsetData>, String> {
        let host = |text: &str| {
            zone_name(text).map_err(|_| format!("{text:?} is no name of a name server or mailbox"))
        };
        let servers: Vec<NameBuf> = self
            .name_servers
            .iter()
            .map(|text| host(text))
            .collect::<Result<_, _>>()?;
        let Some(first) = servers.first() else {
            return Err("a zone needs a name server: --ns NAME, once or more".into());
        };
        let hostmaster = match self.hostmaster {
            Some(text) => host(text)?,
            None => NameBuf::join(b"\x0ahostmaster", name.as_name())
                .map_err(|error| format!("hostmaster.{name}: {error}; use --hostmaster"))?,
        };
        let ttl = match self.ttl {
            None => 3600,
            Some(text) => nameward_wire::rdata::parse_ttl(text.as_bytes())
                .ok_or_else(|| format!("expected a TTL such as 300 or 1h, found {text:?}"))?,
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
            ttl,
            records,
        };
        Ok(vec![
            rrset(Type::SOA, vec![record(soa)]),
            rrset(Type::NS, servers.map(record).collect()),
        ])
    }
}

fn check_primary(text: &str) -> Result<(), String> {
    let is_address =
        text.parse::<std::net::IpAddr>().is_ok() || text.parse::<std::net::SocketAddr>().is_ok();
    match is_address {
        true => Ok(()),
        false => Err(format!(
            "expected the address of a primary such as 192.0.2.1 or 192.0.2.1:5300, found {text:?}"
        )),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Native => "native",
        Kind::Primary => "primary",
        Kind::Secondary => "secondary",
        Kind::Producer => "producer",
        Kind::Consumer => "consumer",
    }
}

fn read_kind(text: &str) -> Result<Kind, String> {
    [
        Kind::Native,
        Kind::Primary,
        Kind::Secondary,
        Kind::Producer,
        Kind::Consumer,
    ]
    .into_iter()
    .find(|kind| kind_name(*kind) == text)
    .ok_or_else(|| {
        format!("expected native, primary, secondary, producer or consumer, found {text:?}")
    })
}
