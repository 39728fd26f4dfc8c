//! The history of a zone, from its journal or from the table in its database: the list of versions, and the
//! difference between two.

use nameward_peers::transfer_out::encode::condense;
use nameward_state::{JournalEntry, JournalOrigin, JournalVersion};
use nameward_wire::{NameBuf, Type};
use nameward_zone::RecordList;
use nameward_zone::change::Difference;
use serde::{Deserialize, Serialize};

use crate::operations::record::change::listed_difference;
use crate::operations::{
    ItemSink, ListedItem, OperationError, OperationResult, Operations, Outcome, list_all, or_dash,
    table_row, zone_name,
};
use nameward_base::text::utc_text;

/// A version of a zone, and its predecessor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedVersion {
    /// The serial.
    pub serial: u32,
    /// The previous serial.
    pub before: u32,
    /// When it was created, in seconds since 1970.
    pub time: u64,
    /// Its origin: `storage` (its file or database was changed), `change` (DNS UPDATE or a command) or `transfer`.
    pub origin: String,
    /// Number of removed records, besides the SOA.
    pub removed: u64,
    /// Number of added records, besides the SOA.
    pub added: u64,
    /// The author: `user NAME` (a command), `update ADDRESS key NAME`, `primary ADDRESS`, `file`, `database`; none if
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The reason given by the author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

table_row! { ListedVersion as item:
    "SERIAL" = item.serial,
    "BEFORE" = item.before,
    "TIME" = utc_text(item.time),
    "REMOVED" = item.removed,
    "ADDED" = item.added,
    "ORIGIN" = item.origin,
    "WHO" = or_dash(item.who.as_ref()),
    "MESSAGE" = or_dash(item.message.as_ref()),
}

impl Operations {
    /// Lists the versions of a zone, oldest first.
    pub fn list_history(&self, zone: &str, items: ItemSink<'_>) -> Outcome {
        let (name, versions) = self.versions_of(zone)?;
        let rank = (self.rank_of)(name.as_name());
        let is_stored = rank.is_some_and(|rank| self.is_database(rank));
        let storage = if is_stored { "database" } else { "file" };
        let listed = versions.into_iter().map(|(entry, author)| {
            let by_itself = (entry.origin == JournalOrigin::Storage).then(|| storage.to_owned());
            let who = author.as_ref().map(|author| author.who.to_string());
            let message = author.and_then(|author| author.message.as_deref().map(str::to_owned));
            ListedVersion {
                serial: entry.to.0,
                before: entry.from.0,
                time: entry.time,
                origin: origin_keyword(entry.origin).into(),
                removed: records_of(&entry.difference.removed),
                added: records_of(&entry.difference.added),
                who: who.or(by_itself),
                message,
            }
        });
        list_all(listed, items)
    }

    /// Lists the records that differ between two versions; the serials may be in either order.
    pub fn list_difference(
        &self,
        zone: &str,
        (from, to): (u32, Option<u32>),
        items: ItemSink<'_>,
    ) -> Outcome {
        let (name, to, difference) = self.difference_between(zone, (from, to))?;
        let mut records = 0;
        let _ = listed_difference(&name, &difference).all(|record| {
            records += 1;
            items(ListedItem::Difference(record))
        });
        Ok(OperationResult::ZoneDifference {
            zone: name.to_string(),
            from,
            to,
            records,
        })
    }

    /// Returns the zone, the serial of the later version, and the difference between two versions; the serials may be in either
    /// order.
    pub(crate) fn difference_between(
        &self,
        zone: &str,
        (from, to): (u32, Option<u32>),
    ) -> Outcome<(NameBuf, u32, Difference)> {
        let (name, versions) = self.versions_of(zone)?;
        let entries: Vec<_> = versions.into_iter().map(|(entry, _)| entry).collect();
        let newest = entries.last().map(|entry| entry.to.0);
        let to = to.or(newest).unwrap_or(from);
        let between = |from: u32, to: u32| -> Option<Difference> {
            let leaves = |entry: &JournalEntry| entry.from.0 == from && entry.to.0 != from;
            let rest = &entries[entries.iter().rposition(leaves)?..];
            let count = 1 + rest.iter().position(|entry| entry.to.0 == to)?;
            // Changes that keep the serial belong to the version: databases have such changes.
            let kept = rest[count..].iter();
            let kept = kept.take_while(|entry| entry.from.0 == to && entry.to.0 == to);
            let chain = &rest[..count + kept.count()];
            // Another program may have changed the zone in its database.
            let is_whole = chain.windows(2).all(|pair| pair[0].to == pair[1].from);
            let differences: Vec<_> = chain.iter().map(|entry| entry.difference.clone()).collect();
            is_whole.then(|| condense(&differences))
        };
        let reversed = |difference: Difference| Difference {
            removed: difference.added,
            added: difference.removed,
        };
        let is_known = |serial: u32| {
            let mut entries = entries.iter();
            entries.any(|entry| entry.from.0 == serial || entry.to.0 == serial)
        };
        let difference = if from == to && is_known(from) {
            Some(Difference::default())
        } else {
            between(from, to).or_else(|| between(to, from).map(reversed))
        };
        let difference = difference.ok_or_else(|| {
            let oldest = entries.first().map(|entry| entry.from.0);
            OperationError::not_found(match (oldest, newest) {
                (Some(oldest), Some(newest)) => format!(
                    "zone {name}: the history does not cover serials {from} to {to}; it has {oldest} to {newest}, see \
                     `nameward zone history {name}`"
                ),
                _ => format!("zone {name}: the history has no versions yet"),
            })
        })?;
        Ok((name, to, difference))
    }

    /// Returns the versions of a served zone with their authors, oldest first.
    fn versions_of(&self, zone: &str) -> Outcome<(NameBuf, Vec<JournalVersion>)> {
        let name = zone_name(zone)?;
        let table = self.commits.table().load();
        let Some(served) = table.exact(name.as_name()) else {
            return Err(OperationError::unknown_zone(&name));
        };
        if served.live().is_some() {
            let (database, row) = self.locate(&name)?;
            let versions = self.wait(database, database.backend.history(&row))?;
            let versions = versions.ok_or_else(|| {
                OperationError::refused(format!(
                    "zone {name} is a live zone, and its database has no table for its history: run `nameward db init` for \
                     the database, or use `mode = \"resident\"`"
                ))
            })?;
            return Ok((name, versions));
        }
        let store = self
            .commits
            .store()
            .ok_or_else(|| OperationError::refused("no journal: set server.state_directory"))?;
        let versions = store.history(&name);
        let versions = versions.map_err(|error| OperationError::backend(error.to_string()))?;
        Ok((name, versions))
    }
}

fn origin_keyword(origin: JournalOrigin) -> &'static str {
    match origin {
        JournalOrigin::Storage => "storage",
        JournalOrigin::Change => "change",
        JournalOrigin::Transfer => "transfer",
    }
}

fn records_of(list: &RecordList) -> u64 {
    list.iter()
        .filter(|record| record.rtype != Type::SOA)
        .count() as u64
}
