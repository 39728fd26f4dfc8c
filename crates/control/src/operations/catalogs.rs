//! Catalogs (RFC 9432) and autoprimaries as operators see them, and changes of the latter in databases.

use std::net::IpAddr;

use nameward_maintain::catalog::{Catalog, CatalogMember, read_catalog};
use nameward_maintain::policy::{PolicySource, ZoneKind, address_text};
use nameward_sql::write::{AutoprimaryRow, WriteError};
use nameward_wire::{Name, NameBuf};
use nameward_zone::Zone;
use serde::{Deserialize, Serialize};

use super::{
    ItemSink, OperationError, OperationResult, Operations, Outcome, dash_if_empty, domain_name,
    list_all, or_dash, source_text, table_row, zone_name,
};

/// A catalog that is produced or consumed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedCatalog {
    /// The name, with its final dot.
    pub name: String,
    /// `producer` or `consumer`.
    pub kind: String,
    /// The source that declares it: `configuration` or `backend N`.
    pub source: String,
    /// Its serial; none if it has no contents yet.
    pub serial: Option<u32>,
    /// Number of members; none if it has no contents or is broken.
    pub members: Option<u64>,
    /// Why it is not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

table_row! { ListedCatalog as item:
    "CATALOG" = item.name,
    "KIND" = item.kind,
    "SOURCE" = item.source,
    "SERIAL" = or_dash(item.serial),
    "MEMBERS" = or_dash(item.members),
    "PROBLEM" = or_dash(item.problem.as_ref()),
}

/// A member of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMember {
    /// The zone, with its final dot.
    pub zone: String,
    /// The label of its node in the catalog.
    pub label: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// The catalog that it may move to (`coo`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<String>,
    /// Whether the zone is served here.
    pub served: bool,
}

table_row! { ListedMember as item:
    "ZONE" = item.zone,
    "LABEL" = item.label,
    "GROUPS" = dash_if_empty(&item.groups.join(",")),
    "MOVES TO" = or_dash(item.moves_to.as_ref()),
    "SERVED" = if item.served { "yes" } else { "no" },
}

/// A server whose zones become secondaries here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedAutoprimary {
    /// Its address; the port is omitted if it is 53.
    pub address: String,
    /// The name server that its zones must have, with its final dot.
    pub name_server: String,
    /// The account of zones created in a database.
    pub account: String,
    /// The source that lists it: `configuration` or `backend N`.
    pub source: String,
    /// The key that must sign the NOTIFY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

table_row! { ListedAutoprimary as item:
    "ADDRESS" = item.address,
    "NAME SERVER" = item.name_server,
    "ACCOUNT" = dash_if_empty(&item.account),
    "SOURCE" = item.source,
    "KEY" = or_dash(item.key.as_ref()),
}

/// An autoprimary in a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoprimaryTemplate {
    /// Its address.
    pub address: String,
    /// The name server that its zones must have.
    pub name_server: String,
    /// The account of zones created for it.
    #[serde(default)]
    pub account: String,
    /// The number of the backend; by default the first database.
    pub backend: Option<u32>,
}

impl AutoprimaryTemplate {
    /// Checks the fields, and converts them to the format of the table.
    fn row(&self) -> Outcome<AutoprimaryRow> {
        let address: IpAddr = self.address.parse().map_err(|_| {
            OperationError::invalid(format!(
                "invalid address {:?}: expected one such as 192.0.2.1 or 2001:db8::1",
                self.address
            ))
        })?;
        let server = domain_name(&self.name_server)?;
        if server.as_name().is_root() {
            return Err(OperationError::invalid("the root is not a name server"));
        }
        if self.account.chars().any(char::is_control) {
            return Err(OperationError::invalid("an account must be a single line"));
        }
        Ok(AutoprimaryRow {
            address,
            name_server: server
                .to_string()
                .trim_end_matches('.')
                .to_ascii_lowercase(),
            account: self.account.clone(),
        })
    }
}

impl Operations {
    /// Lists the catalogs that are produced or consumed here, by name.
    pub fn list_catalogs(&self, items: ItemSink<'_>) -> Outcome {
        let (policies, table) = (self.policies.load(), self.commits.table().load());
        let mut catalogs: Vec<ListedCatalog> = Vec::new();
        for (zone, policy) in policies.zones() {
            if !matches!(policy.kind, ZoneKind::Producer | ZoneKind::Consumer) {
                continue;
            }
            let version = table.exact(zone).filter(|version| has_contents(version));
            let read = version.map(|version| read_catalog(version));
            catalogs.push(ListedCatalog {
                name: zone.to_string(),
                kind: policy.kind.word().into(),
                source: source_text(policy.declared_by),
                serial: version.map(|version| version.serial().0),
                members: match &read {
                    Some(Ok(catalog)) => Some(catalog.members.len() as u64),
                    _ => None,
                },
                problem: match read {
                    Some(Err(error)) => Some(error.to_string()),
                    _ => None,
                },
            });
        }
        catalogs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        list_all(catalogs, items)
    }

    /// Lists the members of a catalog, by name.
    pub fn list_members(&self, catalog: &str, items: ItemSink<'_>) -> Outcome {
        let name = zone_name(catalog)?;
        let table = self.commits.table().load();
        let read = self.read_served_catalog(&name)?;
        let mut members: Vec<(NameBuf, CatalogMember)> = read
            .members
            .into_iter()
            .map(|(zone, member)| (Name::from_valid_wire(&zone).into(), member))
            .collect();
        members.sort_unstable_by(|(a, _), (b, _)| a.as_name().canonical_cmp(b.as_name()));
        let listed = members.into_iter().map(|(zone, member)| {
            let new = member.new_catalog.as_deref().map(Name::from_valid_wire);
            ListedMember {
                zone: zone.to_string(),
                label: String::from_utf8_lossy(&member.label).into_owned(),
                groups: member.groups,
                moves_to: new.map(|new| new.to_string()),
                served: table.exact(zone.as_name()).is_some(),
            }
        });
        list_all(listed, items)
    }

    fn read_served_catalog(&self, name: &NameBuf) -> Outcome<Catalog> {
        let kind = self.policies.load().own(name.as_name()).map(|own| own.kind);
        if !matches!(kind, Some(ZoneKind::Producer | ZoneKind::Consumer)) {
            return Err(match (self.rank_of)(name.as_name()) {
                Some(_) => OperationError::invalid(format!("zone {name} is not a catalog")),
                None => OperationError::not_found(format!(
                    "catalog {name} not found; see `nameward catalog list`"
                )),
            });
        }
        let table = self.commits.table().load();
        let version = table
            .exact(name.as_name())
            .filter(|version| has_contents(version))
            .ok_or_else(|| OperationError::refused(format!("catalog {name} has no data yet")))?;
        read_catalog(version)
            .map_err(|error| OperationError::invalid(format!("catalog {name} is invalid: {error}")))
    }

    /// Lists the autoprimaries in the configuration and in databases.
    pub fn list_autoprimaries(&self, items: ItemSink<'_>) -> Outcome {
        let policies = self.policies.load();
        let configured = policies.autoprimaries().iter();
        let mut listed: Vec<ListedAutoprimary> = configured
            .filter(|one| !matches!(one.listed_by, PolicySource::Backend(_)))
            .map(|one| ListedAutoprimary {
                address: address_text(one.address),
                name_server: one.name_server.to_string(),
                account: one.account.clone(),
                source: source_text(one.listed_by),
                key: one.key.map(|key| key.to_string()),
            })
            .collect();
        for database in &self.databases {
            let rows = self.runtime.block_on(database.backend.autoprimaries());
            let rows = rows.map_err(|error| database.error(&WriteError::Sql(error)))?;
            listed.extend(rows.into_iter().map(|row| ListedAutoprimary {
                address: address_text(row.address),
                name_server: row.name_server.to_string(),
                account: row.account,
                source: source_text(PolicySource::Backend(database.rank)),
                key: None,
            }));
        }
        list_all(listed, items)
    }

    /// Adds an autoprimary to a database.
    pub fn add_autoprimary(&self, template: &AutoprimaryTemplate) -> Outcome {
        let (row, database) = (template.row()?, self.database(template.backend)?);
        if !self.wait(database, database.backend.add_autoprimary(&row))? {
            return Err(OperationError::conflict(format!(
                "autoprimary {} {} already exists",
                row.address, row.name_server
            )));
        }
        (database.request_list)();
        let ((address, name_server), backend) = (autoprimary_texts(&row), database.number());
        tracing::info!("added autoprimary {address} {name_server} to backend {backend}");
        Ok(OperationResult::AutoprimaryAdded {
            address,
            name_server,
            backend,
        })
    }

    /// Removes an autoprimary from a database; if none is given, from all that have it.
    pub fn remove_autoprimary(&self, template: &AutoprimaryTemplate) -> Outcome {
        let row = template.row()?;
        let mut removed_from = Vec::new();
        for database in &self.databases {
            if template
                .backend
                .is_some_and(|number| number != database.number())
            {
                continue;
            }
            if self.wait(database, database.backend.remove_autoprimary(&row))? {
                (database.request_list)();
                removed_from.push(database.number());
            }
        }
        let Some(first) = removed_from.first() else {
            return Err(self.no_such_autoprimary(&row));
        };
        let (address, name_server) = autoprimary_texts(&row);
        for number in &removed_from {
            tracing::info!("removed autoprimary {address} {name_server} from backend {number}");
        }
        Ok(OperationResult::AutoprimaryRemoved {
            address,
            name_server,
            backend: *first,
            backends: removed_from,
        })
    }

    fn no_such_autoprimary(&self, row: &AutoprimaryRow) -> OperationError {
        let policies = self.policies.load();
        let is_configured = policies.autoprimaries().iter().any(|one| {
            one.listed_by == PolicySource::Configured && one.address.ip() == row.address
        });
        let (address, server) = (row.address, &row.name_server);
        OperationError::not_found(if is_configured {
            format!(
                "autoprimary {address} {server} is not in a database: remove its [[autoprimary]] table from the \
             configuration"
            )
        } else {
            format!("autoprimary {address} {server} not found")
        })
    }
}

/// Returns the address and the name server of a row, as in results.
fn autoprimary_texts(row: &AutoprimaryRow) -> (String, String) {
    (row.address.to_string(), format!("{}.", row.name_server))
}

fn has_contents(version: &Zone) -> bool {
    version.is_ready() && !version.is_stub()
}
