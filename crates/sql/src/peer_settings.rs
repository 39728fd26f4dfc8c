//! Zone settings that PowerDNS stores next to the zones: metadata about transfers and updates, TSIG keys,
//! autoprimaries.
//!
//! They are read for all zones in one statement each. A table that cannot be read is an error, never an empty list: the
//! caller must not mistake "unknown" for "nothing is set".

use super::SqlFuture;
use super::dialect::{Statement, TERM_KINDS};
use super::row::{Cells, read_name};
use super::{SqlBackend, SqlError};
use nameward_base::secret::Secret;
use nameward_wire::NameBuf;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

/// Returns a metadata kind about transfers and updates as used in items, if it is one; `kind` must be in upper case.
pub fn term_kind(kind: &str) -> Option<&'static str> {
    TERM_KINDS.into_iter().find(|known| *known == kind)
}

/// Maximum number of items per zone; more peers are never listed by hand.
const MAX_ITEMS: usize = 10_000;
/// The port on which an autoprimary is queried.
const PORT: u16 = 53;
/// Maximum number of keys and of autoprimaries.
const MAX_ROWS: usize = 1_000_000;

/// A metadata item: its kind and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingItem {
    /// The kind, in upper case.
    pub kind: &'static str,
    /// The content as stored.
    pub content: Box<str>,
}

/// The items of zones, by zone ID.
pub type SettingItems = HashMap<i64, Vec<SettingItem>>;

/// A row of `tsigkeys`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredTsigKey {
    /// The key name.
    pub name: NameBuf,
    /// The algorithm keyword.
    pub algorithm: String,
    /// The secret in base64.
    pub secret: Secret<String>,
}

impl fmt::Debug for StoredTsigKey {
    /// Shows everything except the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredTsigKey({} {})", self.name, self.algorithm)
    }
}

/// A row of `supermasters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAutoprimary {
    /// The address that sends NOTIFY, with the port on which it is queried: 53, unless the row has another one after
    /// the address.
    pub address: SocketAddr,
    /// The name server that its zones must have.
    pub name_server: NameBuf,
    /// The account of zones created for it.
    pub account: String,
}

impl SqlBackend {
    /// Reads the settings of all zones, or of one; zones without any are not in the result.
    pub fn setting_items(
        &self,
        zone: Option<i64>,
    ) -> SqlFuture<'_, Result<SettingItems, SqlError>> {
        Box::pin(async move {
            let mut items = SettingItems::new();
            let mut take = |row: &dyn Cells| {
                let kind = row.text(1).unwrap_or_default();
                let kind = TERM_KINDS
                    .iter()
                    .find(|known| known.as_bytes().eq_ignore_ascii_case(kind));
                if let (Some(kind), Some(zone)) = (kind, row.int(3)) {
                    let of = items.entry(zone).or_default();
                    if of.len() < MAX_ITEMS {
                        let content = row.string(2).unwrap_or_default().into();
                        of.push(SettingItem { kind, content });
                    }
                }
                Ok(())
            };
            let reads = &self.inner.reads;
            match zone.map(|zone| zone.to_string()) {
                Some(zone) => {
                    reads
                        .query(Statement::Metadata, None, &[&zone], &mut take)
                        .await?
                }
                None => reads.query(Statement::Terms, None, &[], &mut take).await?,
            }
            Ok(items)
        })
    }

    /// Reads the TSIG keys. Rows with an invalid name are left out: they cannot be requested.
    pub fn tsig_keys(&self) -> SqlFuture<'_, Result<Vec<StoredTsigKey>, SqlError>> {
        Box::pin(self.read_list(Statement::TsigKeys, |row| {
            let mut name = NameBuf::root();
            read_name(row.text(0).unwrap_or_default(), &mut name).ok()?;
            Some(StoredTsigKey {
                name,
                algorithm: row.string(1).unwrap_or_default(),
                secret: row.string(2).unwrap_or_default().into(),
            })
        }))
    }

    /// Reads the autoprimaries. Invalid rows are left out: they grant no access.
    pub fn autoprimaries(&self) -> SqlFuture<'_, Result<Vec<StoredAutoprimary>, SqlError>> {
        Box::pin(self.read_list(Statement::Autoprimaries, |row| {
            let mut name_server = NameBuf::root();
            read_name(row.text(1).unwrap_or_default(), &mut name_server).ok()?;
            // The column type in PostgreSQL is INET, which is printed with a prefix length.
            let address = row.string(0).unwrap_or_default();
            let address = address.split('/').next().unwrap_or_default().trim();
            let without_port = || Some(SocketAddr::new(address.parse().ok()?, PORT));
            Some(StoredAutoprimary {
                address: address.parse().ok().or_else(without_port)?,
                name_server,
                account: row.string(2).unwrap_or_default(),
            })
        }))
    }

    /// Reads the rows of a statement, up to [`MAX_ROWS`] of those that `read` accepts.
    async fn read_list<T: Send>(
        &self,
        statement: Statement,
        mut read: impl FnMut(&dyn Cells) -> Option<T> + Send,
    ) -> Result<Vec<T>, SqlError> {
        let mut found = Vec::new();
        let each = &mut |row: &dyn Cells| {
            if found.len() < MAX_ROWS {
                found.extend(read(row));
            }
            Ok(())
        };
        self.inner.reads.query(statement, None, &[], each).await?;
        Ok(found)
    }
}
