//! Database zones: SQLite, PostgreSQL, MySQL and MariaDB, in the schema of PowerDNS 4.7 and later.
//!
//! Covers the statements ([`dialect`]), the connections ([`sqlite`], [`postgres`], [`mysql`]), the meaning of rows
//! ([`row`]), and the fragment of a zone that one query needs ([`fragment`]). A database works unchanged after
//! PowerDNS, and can be shared with it: `ordername`, `auth` and empty non-terminal rows are not trusted but derived.
//!
//! There are two ways to use a zone:
//! - resident: [`SqlBackend::load_zone`] streams all rows into a `ZoneBuilder`;
//! - live: [`SqlBackend::lookup`] fetches a `ZoneFragment` that answers every query for one name exactly as the whole zone
//!   would.
//!
//! Nothing here caches answers; callers do, and drop them when [`SqlBackend::watch`] reports a [`Change`].

#![deny(unsafe_code)]

mod apex;
pub mod authorities;
mod back_off;
mod catalog_options;
mod close;
mod connection;
pub mod db;
mod dialect;
mod empty_nonterminals;
mod error;
mod fragment;
mod health;
mod hosts;
mod lag;
mod listing;
mod load;
mod log_index;
mod long_strings;
mod lookup;
mod mysql;
mod packed_zones;
mod peer_settings;
mod postgres;
mod postgres_error;
mod postgres_pooler;
mod postgres_role;
mod row;
mod schema;
mod server_checks;
mod shared_fragments;
mod signing_data;
mod source;
mod sqlite;
mod stale_digest;
mod tls;
mod url;
mod watch;
pub mod write;
mod zone_cache;

use apex::Apexes;
pub use catalog_options::{CatalogProperties, CatalogRole};
use connection::ConnectTarget;
pub use dialect::SqlEngine;
use dialect::Statement;
use empty_nonterminals::AncestorSets;
pub use error::{RowError, SqlError};
pub use fragment::row_error;
use health::Condition;
pub use health::Health;
pub use lag::Lag;
pub use load::{LOADED_AT_ONCE, LoadReport};
pub use long_strings::split_long_strings;
pub use lookup::{Found, Round, SqlLookupBatch};
use mysql::Mysql;
use nameward_base::sync::Mutex;
use nameward_dnssec::{Keys, SignatureCache, SoaEdit};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{LookupRequest, ZoneKind, ZoneLimits};
pub use packed_zones::PackedZones;
pub use peer_settings::{SettingItem, SettingItems, StoredAutoprimary, StoredTsigKey, term_kind};
use postgres::Postgres;
use row::{Cells, read_zone_name, shown};
pub use server_checks::FailedServer;
use shared_fragments::SharedFragments;
use signing_data::metadata::{self, Metadata};
use sqlite::Sqlite;
use std::collections::HashMap;
use std::hash::RandomState;
use std::pin::Pin;
use std::sync::{Arc, atomic::AtomicBool};
use std::time::Duration;
pub use url::{DatabaseAddress, join_urls};
pub use watch::Change;
pub use zone_cache::CacheBounds;
use zone_cache::ZoneCache;

/// Maximum number of rows reported individually; the rest are counted.
const MAX_REPORTED: usize = 20;

/// Cached facts about a zone are read again after this time, even without a change notification.
const MAX_AGE: Duration = Duration::from_secs(60);

/// A request to a database. Boxed, because the compiler would otherwise build an `async fn` with everything below it, drivers
/// included, again in each crate that calls it: a third of the code of `control` was that.
pub type SqlFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How to use a database.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// The address of the database; reads go to `replica` if there is one.
    pub address: DatabaseAddress,
    /// Where reads go.
    pub replica: Option<DatabaseAddress>,
    /// Which of several servers is read.
    pub read_preference: ReadPreference,
    /// How far the server that is read may be behind before another one is preferred.
    pub lag_max: Duration,
    /// Connections, and concurrent lookup batches. The fewer there are, the more lookups share a statement.
    pub concurrency: Concurrency,
    /// Memory for SQLite pages over all connections, in KiB.
    pub page_cache_kib: usize,
    /// Timeout for a statement or a connection attempt.
    pub timeout: Duration,
    /// Settings for signed zones.
    pub security: SecurityOptions,
    /// Maximum size of a zone that is read as a whole.
    pub zone_limits: ZoneLimits,
}

/// Which of several servers is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadPreference {
    /// The one that accepts changes.
    #[default]
    Primary,
    /// The first in the list that is in step.
    Nearest,
}

/// The caches for signed zones.
#[derive(Debug, Clone)]
pub struct SecurityOptions {
    /// Whether keys and metadata are read at all; otherwise zones are not signed.
    pub is_read: bool,
    /// Bounds of the key cache, in zones.
    pub keys: CacheBounds,
    /// Bounds of the metadata cache, in zones.
    pub metadata: CacheBounds,
    /// The signature cache, shared by all databases of a server.
    pub signatures: Arc<SignatureCache>,
    /// SOA-EDIT for zones without such metadata (`default-soa-edit-signed` of PowerDNS).
    pub soa_edit: SoaEdit,
}

/// The number of statements a database gets at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// Connections for lookups.
    pub connections: usize,
    /// Lookup batches.
    pub batches: usize,
}

impl Concurrency {
    /// Returns values suitable for a database and the cores of this host.
    pub fn for_cores(address: &DatabaseAddress) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
        let (connections, batches) = match address {
            DatabaseAddress::Sqlite(_) => (cores, cores),
            // Each is pipelined, so it takes the next statement before the previous one completes; a second one in case
            // the first is slow.
            DatabaseAddress::Postgres(_) => (cores.max(2), cores.clamp(2, 8) * 2),
            // Each waits for its result.
            DatabaseAddress::Mysql(_) => (cores.clamp(2, 8) * 2, cores.clamp(2, 8) * 2),
        };
        Concurrency {
            connections,
            batches,
        }
    }
}

impl SqlOptions {
    /// Returns options for tests and examples; those of a server come from its configuration.
    pub fn for_tests(address: DatabaseAddress) -> Self {
        let bounds = CacheBounds {
            entries: 1000,
            ttl: Duration::from_secs(60),
        };
        SqlOptions {
            concurrency: Concurrency::for_cores(&address),
            address,
            replica: None,
            read_preference: ReadPreference::Primary,
            lag_max: Duration::from_secs(60),
            page_cache_kib: 64 * 1024,
            timeout: Duration::from_secs(2),
            security: SecurityOptions {
                is_read: true,
                keys: bounds,
                metadata: bounds,
                signatures: Arc::new(SignatureCache::new(1000)),
                soa_edit: SoaEdit::None,
            },
            zone_limits: ZoneLimits::default(),
        }
    }
}

/// Parses the zone kind in `domains.type`, in the keywords of PowerDNS before and since 4.5.
fn read_kind(text: &[u8]) -> Option<ZoneKind> {
    Some(match &text.trim_ascii().to_ascii_uppercase()[..] {
        b"NATIVE" => ZoneKind::Native,
        b"MASTER" | b"PRIMARY" => ZoneKind::Primary,
        b"SLAVE" | b"SECONDARY" => ZoneKind::Secondary,
        b"PRODUCER" => ZoneKind::Producer,
        b"CONSUMER" => ZoneKind::Consumer,
        _ => return None,
    })
}

/// A row of `domains`.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone)]
pub struct ZoneRow {
    pub id: i64,
    pub name: NameBuf,
    pub kind: ZoneKind,
    /// `master`: addresses of primaries, as written.
    pub primaries: Option<Box<str>>,
    /// When a secondary was last checked, in seconds since 1970.
    pub last_check: Option<i64>,
    /// The serial of the last NOTIFY.
    pub notified_serial: Option<i64>,
    pub account: Option<Box<str>>,
    /// Options as JSON.
    pub options: Option<Box<str>>,
    /// The catalog it is a member of.
    pub catalog: Option<Box<str>>,
}

/// A zone that is looked up at query time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveZone {
    /// `domains.id`.
    pub id: i64,
    /// The zone name.
    pub apex: NameBuf,
}

impl LiveZone {
    /// Returns the lookup of a name, which is at or below the apex.
    pub fn request<'n>(&'n self, name: Name<'n>) -> LookupRequest<'n> {
        LookupRequest {
            zone: self.id,
            apex: self.apex.as_name(),
            name,
        }
    }
}

enum Driver {
    Sqlite(Sqlite),
    Postgres(Postgres),
    Mysql(Mysql),
}

impl Driver {
    /// Runs a statement and passes each row on.
    async fn query(
        &self,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut (dyn FnMut(&dyn Cells) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        match self {
            Driver::Sqlite(sqlite) => sqlite.query(statement, zone, names, each),
            // Boxed: the clients' futures are tens of kilobytes, and a SQLite lookup would have to move them around.
            Driver::Postgres(postgres) => {
                Box::pin(postgres.query(statement, zone, names, each)).await
            }
            Driver::Mysql(mysql) => Box::pin(mysql.query(statement, zone, names, each)).await,
        }
    }
}

/// A database with zones. Cheap to clone; all clones share connections.
#[derive(Clone)]
pub struct SqlBackend {
    inner: Arc<BackendParts>,
}

struct BackendParts {
    options: SqlOptions,
    /// Where changes are written.
    primary: ConnectTarget,
    reads: Driver,
    ancestors: AncestorSets,
    apexes: Apexes,
    fragments: SharedFragments,
    /// Seed of the zone fingerprints.
    seed: RandomState,
    writer: write::Writer,
    commits: write::CommitQueue,
    own_commits: write::OwnCommits,
    /// The last measurement.
    lag: Mutex<Lag>,
    /// The servers that failed when they were last probed.
    failed_servers: Mutex<Vec<FailedServer>>,
    condition: Condition,
    /// Whether changes by others are detected.
    watched: Condition,
    /// There is no table of changes: those of others may never be detected.
    lacks_change_table: AtomicBool,
    keys: ZoneCache<Keys>,
    metadata: ZoneCache<Metadata>,
    iterations: metadata::IterationWarnings,
    stale_digests: stale_digest::StaleDigests,
    readable: signing_data::Readable,
}

impl SqlBackend {
    /// Prepares the use of a database. No connection is opened yet, so a database that is down does no harm. All calls
    /// to a backend that is not [`SqlBackend::is_blocking`] must use the same tokio runtime, which drives its
    /// connections.
    pub fn new(options: SqlOptions) -> Result<Self, SqlError> {
        let primary = ConnectTarget::new(&options.address)?;
        let read_from = match &options.replica {
            Some(replica) => ConnectTarget::new(replica)?.for_reads(options.lag_max),
            None if options.read_preference == ReadPreference::Nearest => {
                ConnectTarget::new(&options.address)?.for_reads(options.lag_max)
            }
            // Reads go to the server that changes are written to.
            None => primary.clone(),
        };
        let (connections, timeout) = (options.concurrency.connections, options.timeout);
        let reads = match read_from {
            ConnectTarget::Sqlite(path) => Driver::Sqlite(Sqlite::new(&path, &options)),
            ConnectTarget::Postgres(target) => {
                Driver::Postgres(Postgres::new(*target, connections, timeout))
            }
            ConnectTarget::Mysql(target) => Driver::Mysql(Mysql::new(target, connections, timeout)),
        };
        let ancestors = AncestorSets::new(MAX_AGE);
        let own_commits = write::OwnCommits::new(&options.address);
        let keys = ZoneCache::new(options.security.keys);
        let metadata = ZoneCache::new(options.security.metadata);
        Ok(SqlBackend {
            inner: Arc::new(BackendParts {
                options,
                primary,
                reads,
                ancestors,
                apexes: Apexes::default(),
                fragments: SharedFragments::default(),
                seed: RandomState::new(),
                writer: write::Writer::default(),
                commits: write::CommitQueue::default(),
                own_commits,
                lag: Mutex::default(),
                failed_servers: Mutex::default(),
                condition: Condition::new("database not responding", "database responding again"),
                watched: Condition::new("change detection lost", "change detection restored"),
                lacks_change_table: AtomicBool::new(false),
                keys,
                metadata,
                iterations: metadata::IterationWarnings::default(),
                stale_digests: stale_digest::StaleDigests::default(),
                readable: signing_data::Readable::default(),
            }),
        })
    }

    /// Returns the options it was created with.
    pub fn options(&self) -> &SqlOptions {
        &self.inner.options
    }

    /// Checks whether lookups run on the calling thread without ever waiting for another: their futures are ready when
    /// first polled, but may block on the disk.
    pub fn is_blocking(&self) -> bool {
        matches!(self.inner.reads, Driver::Sqlite(_))
    }

    async fn query(
        &self,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut (dyn FnMut(&dyn Cells) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        let result = self.inner.reads.query(statement, zone, names, each).await;
        self.inner
            .condition
            .note(&result, &self.inner.options.address);
        result
    }

    /// Returns whether the database responds.
    pub fn health(&self) -> Health {
        self.inner.condition.health()
    }

    /// Checks whether reads may go to another server than changes.
    pub fn has_replica(&self) -> bool {
        let options = &self.inner.options;
        options.replica.is_some() || options.read_preference == ReadPreference::Nearest
    }

    /// Reads the version of each zone that ever changed; empty if the database keeps no versions. Rows read later are
    /// at least as new.
    pub fn zone_versions(&self) -> SqlFuture<'_, Result<HashMap<i64, i64>, SqlError>> {
        Box::pin(async move {
            let mut versions = HashMap::new();
            if let Driver::Postgres(_) = self.inner.reads {
                return Ok(versions);
            }
            let each = &mut |row: &dyn Cells| {
                // Rows below are counters.
                if let (Some(zone @ 0..), Some(version)) = (row.int(0), row.int(1)) {
                    versions.insert(zone, version);
                }
                Ok(())
            };
            // Not through the path that determines whether the database responds: the table is optional.
            let reads = &self.inner.reads;
            match reads.query(Statement::Versions, None, &[], each).await {
                // The table does not exist.
                Err(SqlError::Refused(_)) | Ok(()) => Ok(versions),
                Err(error) => Err(error),
            }
        })
    }

    /// Returns one zone; `None` if it does not exist.
    pub fn zone(&self, id: i64) -> SqlFuture<'_, Result<Option<ZoneRow>, SqlError>> {
        Box::pin(async move {
            let mut found = None;
            self.query(Statement::Zone, Some(id), &[], &mut |row| {
                found = Some(read_zone(row)?);
                Ok(())
            })
            .await?;
            Ok(found)
        })
    }

    /// Drops cached data about a zone (`None`: about all zones), because it changed. Returns how many entries the key
    /// and metadata caches lost.
    pub fn forget(&self, zone: Option<i64>) -> usize {
        self.inner.apexes.forget(zone);
        self.inner.fragments.forget(zone);
        self.inner.ancestors.forget(zone);
        self.inner.keys.forget(zone) + self.inner.metadata.forget(zone)
    }
}

fn read_zone(row: &dyn Cells) -> Result<ZoneRow, RowError> {
    let id = row.int(0).unwrap_or(0);
    let bad = |reason: String| RowError::new("domains", id, reason);
    let mut name = NameBuf::root();
    read_zone_name(row.text(1).unwrap_or_default(), &mut name)
        .map_err(|fault| bad(fault.to_string()))?;
    let kind = row.text(2).unwrap_or_default();
    let Some(kind) = read_kind(kind) else {
        let reason = "expected type NATIVE, MASTER, SLAVE, PRODUCER or CONSUMER, found";
        return Err(bad(format!("{reason} '{}'", shown(kind))));
    };
    let text = |column| {
        let text = row.string(column).filter(|text| !text.is_empty())?;
        Some(text.into_boxed_str())
    };
    Ok(ZoneRow {
        id,
        name,
        kind,
        primaries: text(3),
        last_check: row.int(4),
        notified_serial: row.int(5),
        account: text(6),
        options: text(7),
        catalog: text(8),
    })
}
