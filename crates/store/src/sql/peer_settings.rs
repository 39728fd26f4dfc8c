//! The terms of zones that PowerDNS keeps beside them: metadata about transfers and updates, keys of TSIG, autoprimaries.
//!
//! They are read for all zones in one statement each. A table that cannot be read is an error, never an empty list:
//! the caller must not take "unknown" for "nothing is set".

use super::dialect::Statement;
use super::row::{Cells, read_name};
use super::{SqlBackend, SqlError};
use nameward_wire::NameBuf;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

/// Kinds of metadata about who may transfer, notify and update a zone, and how.
pub(crate) const TERM_KINDS: [&str; 14] = [
    "ALLOW-AXFR-FROM",
    "TSIG-ALLOW-AXFR",
    "AXFR-MASTER-TSIG",
    "AXFR-SOURCE",
    "ALSO-NOTIFY",
    "ALLOW-DNSUPDATE-FROM",
    "TSIG-ALLOW-DNSUPDATE",
    "FORWARD-DNSUPDATE",
    "NOTIFY-DNSUPDATE",
    "SOA-EDIT-DNSUPDATE",
    "SLAVE-RENOTIFY",
    "IXFR",
    "PRESIGNED",
    "X-NAMEWARD-DNSSEC-POLICY",
];
/// Returns a kind of metadata about transfers and updates as items have it, if it is one; `kind` is in upper case.
pub fn term_kind(kind: &str) -> Option<&'static str> {
    TERM_KINDS.into_iter().find(|known| *known == kind)
}

/// Items of one zone that are taken; nobody lists more peers by hand.
const MAX_ITEMS: usize = 10_000;
/// The port that an autoprimary is asked on.
const PORT: u16 = 53;
/// Keys and autoprimaries that are taken.
const MAX_ROWS: usize = 1_000_000;

/// An item of metadata: its kind and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermItem {
    /// Its kind, in upper case.
    pub kind: &'static str,
    /// Its content.
    pub content: Box<str>,
}

/// The items of zones by the ids of these.
pub type TermItems = HashMap<i64, Vec<TermItem>>;

/// A row of `tsigkeys`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredTsigKey {
    /// The name of the key.
    pub name: NameBuf,
    /// The word for its algorithm.
    pub algorithm: String,
    /// The secret as base64.
    pub secret: String,
}

impl fmt::Debug for StoredTsigKey {
    /// Shows everything but the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredTsigKey({} {})", self.name, self.algorithm)
    }
}

/// A row of `supermasters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAutoprimary {
    /// The address that notifies, with the port that it is asked on: 53, unless the row has another behind the address.
    pub address: SocketAddr,
    /// The name server that its zones must have.
    pub name_server: NameBuf,
    /// The account of zones that are made for it.
    pub account: String,
}

impl SqlBackend {
    /// Reads the terms of all zones, or of one; zones without any are not in the result.
    pub async fn term_items(&self, zone: Option<i64>) -> Result<TermItems, SqlError> {
        let mut items = TermItems::new();
        let mut take = |row: &dyn Cells| {
            let kind = row.text(1).unwrap_or_default();
            let kind = TERM_KINDS
                .iter()
                .find(|known| known.as_bytes().eq_ignore_ascii_case(kind));
            if let (Some(kind), Some(zone)) = (kind, row.int(3)) {
                let of = items.entry(zone).or_default();
                if of.len() < MAX_ITEMS {
                    let content = String::from_utf8_lossy(row.text(2).unwrap_or_default());
                    let content = content.into();
                    of.push(TermItem { kind, content });
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
    }

    /// Reads the keys of TSIG. Rows whose name is none are left out: nobody can ask for them.
    pub async fn tsig_keys(&self) -> Result<Vec<StoredTsigKey>, SqlError> {
        let mut keys = Vec::new();
        let mut take = |row: &dyn Cells| {
            let mut name = NameBuf::root();
            if keys.len() < MAX_ROWS
                && read_name(row.text(0).unwrap_or_default(), &mut name).is_ok()
            {
                let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
                keys.push(StoredTsigKey {
                    name,
                    algorithm: text(1).into(),
                    secret: text(2).into(),
                });
            }
            Ok(())
        };
        let reads = &self.inner.reads;
        reads
            .query(Statement::TsigKeys, None, &[], &mut take)
            .await?;
        Ok(keys)
    }

    /// Reads the autoprimaries. Rows that make no sense are left out: nobody is let in by them.
    pub async fn autoprimaries(&self) -> Result<Vec<StoredAutoprimary>, SqlError> {
        let mut found = Vec::new();
        let mut take = |row: &dyn Cells| {
            let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
            let mut name_server = NameBuf::root();
            let has_name = read_name(row.text(1).unwrap_or_default(), &mut name_server).is_ok();
            // The type of PostgreSQL is INET, which is written with the length of a network.
            let address = text(0);
            let address = address.split('/').next().unwrap_or_default().trim();
            let without_port = || Some(SocketAddr::new(address.parse().ok()?, PORT));
            if let Some(address) = address.parse().ok().or_else(without_port)
                && has_name
                && found.len() < MAX_ROWS
            {
                found.push(StoredAutoprimary {
                    address,
                    name_server,
                    account: text(2).into(),
                });
            }
            Ok(())
        };
        let reads = &self.inner.reads;
        reads
            .query(Statement::Autoprimaries, None, &[], &mut take)
            .await?;
        Ok(found)
    }
}
