//! Zones in databases: SQLite, PostgreSQL, MySQL and MariaDB, in the schema of PowerDNS 4.7 and later.
//!
//! Owns the statements ([`dialect`]), the connections ([`sqlite`], [`postgres`], [`mysql`]), what rows mean
//! ([`row`]), and the part of a zone that one question needs ([`fragment`]). A database works unchanged after
//! PowerDNS, and may be shared with it: `ordername`, `auth` and rows of empty non-terminals are not trusted but derived.
//!
//! Two ways to use a zone:
//! - resident: [`SqlBackend::load_zone`] streams all rows into a `ZoneBuilder`;
//! - live: [`SqlBackend::lookup`] fetches a `ZonePart` that answers every question for one name exactly as
//!   the whole zone would.
//!
//! Nothing here caches answers; callers do, and drop them when [`SqlBackend::watch`] brings a [`Change`].

mod apex;
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
mod keys;
mod listing;
mod load;
mod lookup;
mod metadata;
mod mysql;
mod peer_settings;
mod postgres;
mod row;
mod schema;
mod shared_fragments;
mod signing_facts;
mod source;
mod sqlite;
pub(crate) mod sqlite_file;
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
use empty_nonterminals::AboveSets;
pub use error::{RowError, SqlError};
pub use fragment::row_error;
use health::Condition;
pub use health::Health;
pub use load::LoadReport;
use load::Loader;
pub use lookup::{Found, Round, SqlLookupBatch};
use metadata::Metadata;
use mysql::Mysql;
use nameward_dnssec::{Keys, SignatureCache, SoaEdit};
use nameward_wire::NameBuf;
use nameward_zone::{ZoneBuilder, ZoneKind, ZoneLimits};
pub use peer_settings::{StoredAutoprimary, StoredTsigKey, TermItem, TermItems, term_kind};
use postgres::Postgres;
use row::{Cells, read_name, shown};
use shared_fragments::SharedParts;
use sqlite::Sqlite;
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;
pub use url::DatabaseAddress;
pub use watch::Change;
pub use zone_cache::CacheBounds;
use zone_cache::ZoneCache;

/// Rows that are reported one by one; the rest is counted.
const MAX_REPORTED: usize = 20;

/// After this time facts that are kept about a zone are read again even without a change notice.
const MAX_AGE: Duration = Duration::from_secs(60);

/// How to use a database.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// Where it is; reads go to `replica` if there is one.
    pub address: DatabaseAddress,
    /// Where reads go.
    pub replica: Option<DatabaseAddress>,
    /// Connections, and batches of look-ups that are under way at one time. The fewer, the more look-ups share a
    /// statement.
    pub concurrency: Concurrency,
    /// Memory for pages of SQLite, over all connections, in KiB.
    pub page_cache_kib: usize,
    /// How long a statement or a connection attempt may take.
    pub timeout: Duration,
    /// For zones that are signed.
    pub security: SecurityOptions,
    /// The size that a zone may grow to when it is read as a whole.
    pub zone_limits: ZoneLimits,
}

/// The caches of signed zones.
#[derive(Debug, Clone)]
pub struct SecurityOptions {
    /// Whether keys and metadata are read at all; zones are not signed otherwise.
    pub is_read: bool,
    /// Zones whose keys are kept.
    pub keys: CacheBounds,
    /// Zones whose metadata is kept.
    pub metadata: CacheBounds,
    /// Where signatures are kept; all databases of a server share it.
    pub signatures: Arc<SignatureCache>,
    /// SOA-EDIT of zones without such metadata (`default-soa-edit-signed` of PowerDNS).
    pub soa_edit: SoaEdit,
}

/// Statements that a database is given at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// Connections for look-ups.
    pub connections: usize,
    /// Batches of look-ups.
    pub batches: usize,
}

impl Concurrency {
    /// Returns what suits a database and the cores of this machine.
    pub fn for_cores(address: &DatabaseAddress) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
        let (connections, batches) = match address {
            DatabaseAddress::Sqlite(_) => (cores, cores),
            // Each takes the next statement while it is at the one before; a second one in case the first is slow.
            DatabaseAddress::Postgres(_) => (cores.max(2), cores.clamp(2, 8) * 2),
            // Each waits for its answer.
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

/// Reads the kind of a zone from `domains.type`, in the words of PowerDNS before 4.5 and since.
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
#[derive(Debug, Clone)]
pub struct ZoneRow {
    /// Its id.
    pub id: i64,
    /// The name of the zone.
    pub name: NameBuf,
    /// The kind of the zone.
    pub kind: ZoneKind,
    /// `master`: addresses of primaries, as written.
    pub primaries: Option<Box<str>>,
    /// When a secondary was last checked, in seconds since 1970.
    pub last_check: Option<i64>,
    /// The serial of the last NOTIFY.
    pub notified_serial: Option<i64>,
    /// The account.
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
    /// The name of the zone.
    pub apex: NameBuf,
}

/// All zones of a database.
#[derive(Debug, Default)]
pub struct ZoneList {
    /// The zones.
    pub zones: Vec<ZoneRow>,
    /// Rows of `domains` that cannot be used, the first ones.
    pub bad: Vec<RowError>,
}

enum Driver {
    Sqlite(Sqlite),
    Postgres(Postgres),
    Mysql(Mysql),
}

impl Driver {
    /// Runs a statement and hands each row over.
    async fn query(
        &self,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut (dyn FnMut(&dyn Cells) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        match self {
            Driver::Sqlite(sqlite) => sqlite.query(statement, zone, names, each),
            // Apart: the futures of the clients have tens of kilobytes, and a look-up in SQLite would move them about.
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
    above: AboveSets,
    apexes: Apexes,
    parts: SharedParts,
    /// Of the fingerprints of zones.
    seed: RandomState,
    writer: write::Writer,
    own_commits: write::OwnCommits,
    condition: Condition,
    /// Whether changes by others are seen.
    watched: Condition,
    keys: ZoneCache<Keys>,
    metadata: ZoneCache<Metadata>,
    iterations: metadata::IterationWarnings,
    readable: signing_facts::Readable,
}

impl SqlBackend {
    /// Prepares the use of a database. Nothing is connected yet, so a database that is down does no harm. All
    /// calls to one backend that is not [`SqlBackend::is_blocking`] belong on one tokio runtime, which drives
    /// its connections.
    pub fn new(options: SqlOptions) -> Result<Self, SqlError> {
        let primary = ConnectTarget::new(&options.address)?;
        let read_from = match &options.replica {
            Some(replica) => ConnectTarget::new(replica)?,
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
        let above = AboveSets::new(MAX_AGE);
        let keys = ZoneCache::new(options.security.keys);
        let metadata = ZoneCache::new(options.security.metadata);
        Ok(SqlBackend {
            inner: Arc::new(BackendParts {
                options,
                primary,
                reads,
                above,
                apexes: Apexes::default(),
                parts: SharedParts::default(),
                seed: RandomState::new(),
                writer: write::Writer::default(),
                own_commits: write::OwnCommits::default(),
                condition: Condition::new(
                    "the database does not answer",
                    "the database answers again",
                ),
                watched: Condition::new(
                    "changes of the database are not seen",
                    "changes of the database are seen again",
                ),
                keys,
                metadata,
                iterations: metadata::IterationWarnings::default(),
                readable: signing_facts::Readable::default(),
            }),
        })
    }

    /// The options it was made from.
    pub fn options(&self) -> &SqlOptions {
        &self.inner.options
    }

    /// Whether look-ups run on the calling thread without ever waiting for another: their futures are
    /// ready when first polled, but may block on the disk.
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

    /// Whether the database answers.
    pub fn health(&self) -> Health {
        self.inner.condition.health()
    }

    /// Whether changes by others are seen. A database that has no means to notify of them is no failure.
    pub fn watch_health(&self) -> Health {
        self.inner.watched.health()
    }

    /// Notes how an attempt to see changes ended.
    fn note_watch(&self, result: Result<(), SqlError>) {
        let result = match result {
            Err(SqlError::Refused(_)) => Ok(()),
            result => result,
        };
        let inner = &self.inner;
        inner.watched.note(&result, &inner.options.address);
    }

    /// All zones, in no order.
    pub async fn zones(&self) -> Result<ZoneList, SqlError> {
        let mut list = ZoneList::default();
        self.query(Statement::Zones, None, &[], &mut |row| {
            match read_zone(row) {
                Ok(zone) => list.zones.push(zone),
                Err(error) if list.bad.len() < MAX_REPORTED => list.bad.push(error),
                Err(_) => {}
            }
            Ok(())
        })
        .await?;
        Ok(list)
    }

    /// Reads the version of each zone that was ever seen to change; none where the database keeps no versions. Rows that
    /// are read later are no older.
    pub async fn zone_versions(&self) -> Result<HashMap<i64, i64>, SqlError> {
        let mut versions = HashMap::new();
        if let Driver::Postgres(_) = self.inner.reads {
            return Ok(versions);
        }
        let each = &mut |row: &dyn Cells| {
            if let (Some(zone), Some(version)) = (row.int(0), row.int(1)) {
                versions.insert(zone, version);
            }
            Ok(())
        };
        // Not by the way that judges whether the database answers: the table is optional.
        let reads = &self.inner.reads;
        match reads.query(Statement::Versions, None, &[], each).await {
            // There is no such table.
            Err(SqlError::Refused(_)) | Ok(()) => Ok(versions),
            Err(error) => Err(error),
        }
    }

    /// One zone; `None` if it is not there (any more).
    pub async fn zone(&self, id: i64) -> Result<Option<ZoneRow>, SqlError> {
        let mut found = None;
        self.query(Statement::Zone, Some(id), &[], &mut |row| {
            found = Some(read_zone(row).map_err(SqlError::Row)?);
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// Streams all records of a zone into `builder`. Rows that do not parse are left out and reported. In the
    /// findings of the builder, the place is the row.
    pub async fn load_zone(
        &self,
        zone: &LiveZone,
        builder: &mut ZoneBuilder,
    ) -> Result<LoadReport, SqlError> {
        let signing = self.signing(zone).await?;
        builder.set_limits(self.inner.options.zone_limits);
        let mut loader = Loader::new(builder, &self.inner.seed, &zone.apex, signing);
        self.query(Statement::ZoneRows, Some(zone.id), &[], &mut |row| {
            loader.take(row);
            Ok(())
        })
        .await?;
        Ok(loader.finish())
    }

    /// Drops what is kept about a zone (`None`: about all), because it changed.
    /// Returns how many entries the key cache and the metadata cache lost.
    pub fn forget(&self, zone: Option<i64>) -> usize {
        self.inner.apexes.forget(zone);
        self.inner.parts.forget(zone);
        self.inner.above.forget(zone);
        self.inner.keys.forget(zone) + self.inner.metadata.forget(zone)
    }

    /// How many zones the key cache has.
    pub fn key_cache_len(&self) -> usize {
        self.inner.keys.len()
    }

    /// How many zones the metadata cache has.
    pub fn metadata_cache_len(&self) -> usize {
        self.inner.metadata.len()
    }
}

fn read_zone(row: &dyn Cells) -> Result<ZoneRow, RowError> {
    let id = row.int(0).unwrap_or(0);
    let bad = |reason| RowError {
        table: "domains",
        id,
        reason,
    };
    let mut name = NameBuf::root();
    read_name(row.text(1).unwrap_or_default(), &mut name)
        .map_err(|fault| bad(fault.to_string()))?;
    let kind = row.text(2).unwrap_or_default();
    let Some(kind) = read_kind(kind) else {
        let reason = "expected the type NATIVE, MASTER, SLAVE, PRODUCER or CONSUMER, found";
        return Err(bad(format!("{reason} '{}'", shown(kind))));
    };
    let text = |column| {
        row.text(column)
            .filter(|text| !text.is_empty())
            .map(|text| String::from_utf8_lossy(text).into())
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
