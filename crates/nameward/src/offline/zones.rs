//! The zones that a command finds without a server: their backends, and the contents of those it needs.
//!
//! From databases only the rows with a zone's location are read. The contents of zone files and of zones stored in
//! the state store are loaded into a table, as a server would have them, if the request needs them.

use nameward_base::sync::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use nameward_control::operations::{
    OperationError, OperationRequest, Outcome, RequestReach, zone_name,
};
use nameward_files::{FileSource, each_zone_name, sources_of};
use nameward_maintain::{
    Commits,
    follow::{FileFollower, databases::ServedFrom},
    policy::{
        CONFIGURED_RANK, PolicyFragment, PolicySet, PolicySource, PolicyTable, SharedApiKey,
        UNCONFIGURED_RANK, ZoneKind,
        database::{read_cookies, read_keys},
    },
    read_contents,
};
use nameward_sql::{SqlBackend, ZoneRow};
use nameward_state::ZoneStorage;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{TableChange, Zone};
use tokio::runtime::Handle;

use crate::{cli::print, config::Config, zones};

/// Maximum number of names looked up one by one; beyond it the zone lists of databases are read completely.
const LOOKED_UP_MAX: usize = 200;

pub struct StoredZones {
    sources: Vec<FileSource>,
    commits: Arc<Commits>,
    policies: Arc<PolicyTable>,
    databases: Vec<(u16, ServedFrom, SqlBackend)>,
    runtime: Handle,
    /// The ranks of zones stored in files.
    file_ranks: OnceLock<HashMap<NameBuf, u16>>,
    found: Mutex<FoundZones>,
}

/// How a request treats a database that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestForm {
    /// Shows what is known without it.
    Show,
    /// Fails.
    Other,
}

/// The known ranks of database zones.
#[derive(Default)]
struct FoundZones {
    ranks: HashMap<NameBuf, Option<u16>>,
    /// The databases were read completely: a name without a rank is not a zone.
    is_complete: bool,
}

impl StoredZones {
    /// Creates the zones; nothing is read yet. The runtime drives the database connections.
    pub fn new(
        config: &Config,
        commits: Arc<Commits>,
        policies: Arc<PolicyTable>,
        databases: Vec<(u16, ServedFrom, SqlBackend)>,
        runtime: Handle,
    ) -> Self {
        StoredZones {
            sources: zones::sources(config),
            commits,
            policies,
            databases,
            runtime,
            file_ranks: OnceLock::new(),
            found: Mutex::default(),
        }
    }

    /// Reads the contents of the zones that a request refers to.
    pub fn read(&self, request: &OperationRequest) -> Outcome<()> {
        match request.reach() {
            RequestReach::Server => Ok(()),
            RequestReach::Lists => {
                self.read_tsig_keys(request);
                Ok(())
            }
            RequestReach::Zones(names) => {
                // The operation rejects invalid names.
                let names = names.iter().filter_map(|name| zone_name(name).ok());
                let form = match request {
                    OperationRequest::ZoneShow { .. } => RequestForm::Show,
                    _ => RequestForm::Other,
                };
                self.read_zones(&names.collect::<Vec<_>>(), form)
            }
            RequestReach::AllZones => {
                let mut files = self.files();
                self.warn(&files.read_some(&self.sources).errors);
                self.read_catalog_rows()?;
                for name in self.stored_names()? {
                    self.read_stored(&name)?;
                }
                Ok(())
            }
        }
    }

    fn files(&self) -> FileFollower {
        FileFollower::unwatched(Arc::clone(&self.commits)).judged_by(&self.policies)
    }

    fn warn(&self, errors: &[String]) {
        errors
            .iter()
            .for_each(|error| print::note(&format!("warning: {error}")));
    }

    fn read_zones(&self, names: &[NameBuf], request: RequestForm) -> Outcome<()> {
        for name in names {
            for (rank, mode, backend) in &self.databases {
                let row = self.runtime.block_on(backend.find_zone(name.as_name()));
                let address = &backend.options().address;
                match row {
                    Ok(Some(row)) => self.offer_row(&row, *rank, *mode),
                    Ok(None) => {}
                    // `zone show` shows the data of other databases, and names the one that failed.
                    Err(error) if request == RequestForm::Show => {
                        self.warn(&[format!("{address}: {error}")]);
                    }
                    Err(error) => {
                        return Err(OperationError::backend(format!("{address}: {error}")));
                    }
                }
            }
            self.read_stored(name)?;
        }
        let sources = sources_of(&self.sources, names);
        if !sources.is_empty() {
            self.warn(&self.files().read_some(&sources).errors);
        }
        Ok(())
    }

    /// Adds a stub for a database zone to the table.
    fn offer_row(&self, row: &ZoneRow, rank: u16, mode: ServedFrom) {
        let name = row.name.as_name();
        let mut zone = match mode {
            ServedFrom::Lookups => Zone::stub(name, rank.into(), row.id),
            ServedFrom::Memory => Zone::not_ready(name),
        };
        zone.set_rank(rank);
        self.offer(zone);
        if matches!(row.kind, ZoneKind::Producer | ZoneKind::Consumer) {
            self.declare(PolicySource::Backend(rank), name, row.kind);
        }
    }

    /// Sets the kind of a zone, as the only policy of a source.
    fn declare(&self, source: PolicySource, zone: Name<'_>, kind: ZoneKind) {
        let mut set = PolicySet::default();
        set.set_zone(zone, Arc::new(PolicyFragment::closed(kind)));
        self.policies.set(source, set);
    }

    fn offer(&self, zone: Zone) {
        let offer = TableChange::Offer(Arc::new(zone));
        self.commits.table().publish(&[offer]);
    }

    /// Reads a zone from the state store, if it is stored there: a transferred zone, or a catalog produced here.
    fn read_stored(&self, name: &NameBuf) -> Outcome<()> {
        let Some(store) = self.commits.store() else {
            return Ok(());
        };
        let zone = read_contents(store, name);
        let zone = zone.map_err(|error| OperationError::backend(error.to_string()))?;
        let policy = Arc::clone(self.policies.load().get(name.as_name()));
        let is_ours =
            policy.kind.is_transferred() && !matches!(policy.declared_by, PolicySource::Backend(_));
        let Some(mut zone) = zone.or_else(|| is_ours.then(|| Zone::not_ready(name.as_name())))
        else {
            return Ok(());
        };
        zone.set_rank(match (policy.kind, policy.declared_by) {
            (ZoneKind::Producer, _) | (_, PolicySource::Configured) => CONFIGURED_RANK,
            _ => UNCONFIGURED_RANK,
        });
        if matches!(policy.kind, ZoneKind::Native | ZoneKind::Primary) {
            // A member of a followed catalog: a server knows that when it has read the catalog.
            self.declare(PolicySource::Catalogs, name.as_name(), ZoneKind::Secondary);
            zone.set_rank(UNCONFIGURED_RANK);
        }
        self.offer(zone);
        Ok(())
    }

    /// Lists the zones stored in the state store.
    fn stored_names(&self) -> Outcome<Vec<NameBuf>> {
        let Some(store) = self.commits.store() else {
            return Ok(Vec::new());
        };
        let kept = store.zones();
        let kept = kept.map_err(|error| OperationError::backend(error.to_string()))?;
        let own = kept
            .into_iter()
            .filter(|zone| zone.storage == ZoneStorage::Store);
        Ok(own.map(|zone| zone.name).collect())
    }

    /// Loads the catalogs that databases have.
    fn read_catalog_rows(&self) -> Outcome<()> {
        for (rank, _, backend) in &self.databases {
            let listed = self.runtime.block_on(backend.zones());
            let address = &backend.options().address;
            let listed =
                listed.map_err(|error| OperationError::backend(format!("{address}: {error}")))?;
            let mut set = PolicySet::default();
            for row in listed.rows() {
                if matches!(row.kind, ZoneKind::Producer | ZoneKind::Consumer) {
                    let part = Arc::new(PolicyFragment::closed(row.kind));
                    set.set_zone(row.name.as_name(), part);
                }
            }
            self.policies.set(PolicySource::Backend(*rank), set);
        }
        Ok(())
    }

    /// Loads the TSIG keys that databases have. A database that does not answer has none for a command.
    fn read_tsig_keys(&self, request: &OperationRequest) {
        if !matches!(
            request,
            OperationRequest::ApiKeyCreate(_)
                | OperationRequest::ApiKeyList
                | OperationRequest::ApiKeyDelete { .. }
                | OperationRequest::CookieRoll { .. }
                | OperationRequest::CookieList
                | OperationRequest::TsigList { .. }
                | OperationRequest::TsigGenerate { .. }
                | OperationRequest::TsigImport { .. }
                | OperationRequest::TsigRemove { .. }
        ) {
            return;
        }
        for (rank, _, backend) in &self.databases {
            match self.runtime.block_on(backend.tsig_keys()) {
                Ok(rows) => {
                    let set = PolicySet {
                        keys: read_keys(&rows).0,
                        cookies: read_cookies(&rows).0,
                        api_keys: SharedApiKey::from_rows(&rows).0,
                        ..PolicySet::default()
                    };
                    self.policies.set(PolicySource::Backend(*rank), set);
                }
                Err(error) => {
                    let address = &backend.options().address;
                    print::note(&format!("warning: {address}: cannot read keys: {error}"));
                }
            }
        }
    }

    /// Returns the rank of the backend that would serve a zone.
    pub fn rank_of(&self, name: Name<'_>) -> Option<u16> {
        let table = self.commits.table().load();
        if let Some(zone) = table.exact(name) {
            return Some(zone.rank());
        }
        let name = NameBuf::from(name);
        let file = self.file_ranks().get(&name).copied();
        let ranks = [file, self.rank_in_databases(name)];
        ranks.into_iter().flatten().min()
    }

    /// Passes on the zones stored in files and in the state store; databases are listed separately.
    pub fn each_name(&self, each: &mut dyn FnMut(Name<'_>, u16)) {
        let mut ranks = self.file_ranks().clone();
        let stored = self.stored_names().unwrap_or_else(|error| {
            self.warn(&[format!("zones in the state store: {error}")]);
            Vec::new()
        });
        for name in stored {
            let declared_by = self.policies.load().get(name.as_name()).declared_by;
            let rank = match declared_by {
                PolicySource::Configured => CONFIGURED_RANK,
                _ => UNCONFIGURED_RANK,
            };
            ranks.entry(name).or_insert(rank);
        }
        ranks
            .iter()
            .for_each(|(name, rank)| each(name.as_name(), *rank));
    }

    fn file_ranks(&self) -> &HashMap<NameBuf, u16> {
        self.file_ranks.get_or_init(|| {
            let mut ranks = HashMap::new();
            each_zone_name(&self.sources, &mut |name, rank| {
                ranks.entry(name.into()).or_insert(rank);
            });
            ranks
        })
    }

    fn rank_in_databases(&self, name: NameBuf) -> Option<u16> {
        let mut found = self.found.lock();
        if let Some(rank) = found.ranks.get(&name) {
            return *rank;
        }
        if found.is_complete {
            return None;
        }
        if found.ranks.len() >= LOOKED_UP_MAX {
            for (rank, _, backend) in &self.databases {
                let listed = self.runtime.block_on(backend.zones()).unwrap_or_default();
                for row in listed.into_rows() {
                    found.ranks.entry(row.name).or_insert(Some(*rank));
                }
            }
            found.is_complete = true;
            return found.ranks.get(&name).copied().flatten();
        }
        let has_it = |backend: &SqlBackend| {
            let row = self.runtime.block_on(backend.find_zone(name.as_name()));
            row.is_ok_and(|row| row.is_some())
        };
        let mut databases = self.databases.iter();
        let first = databases.find(|(.., backend)| has_it(backend));
        let rank = first.map(|(rank, ..)| *rank);
        found.ranks.insert(name, rank);
        rank
    }
}
