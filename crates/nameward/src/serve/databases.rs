//! Owns the zones of databases: which there are, and what follows when a database says that something changed.
//!
//! Each database has a thread that reads its list of zones, puts stand-ins (live) or contents (resident) into the
//! table, and then follows its changes. A database that is down is tried again with back-off; its zones that
//! are known stay in the table meanwhile, and what cannot be looked up is answered SERVFAIL.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use nameward_answer::BackendFailure;
use nameward_serve::{
    live::{Fetched, LiveSettings, LiveSource, Lookup, LookupError, Wanted},
    pipeline::Shared,
};
use nameward_store::sql::{
    Address, Change, LiveZone, RowError, SqlBackend, SqlError, SqlOptions, ZoneRow,
};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Live, Offered, Zone, ZoneBuilder, ZoneTable};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

use super::announce::counted;
use crate::{
    config::{
        Config,
        settings::{Backend, BackendMode, BackendType},
    },
    memory, zones,
};

/// How soon a database that is down is asked for its zones again, at first and at the most.
const BACK_OFF: Duration = Duration::from_millis(250);
const MAX_BACK_OFF: Duration = Duration::from_secs(10);
/// Changes that are followed together.
const CHANGES_AT_ONCE: usize = 1000;
/// Zones in memory that are made visible together, while many are loaded.
const PUBLISH_AT: usize = 1000;
/// Lines about zones that one round writes to the log.
const LINES_MAX: usize = 100;

/// The databases of a running server.
#[derive(Clone, Default)]
pub struct Databases {
    refresh: Vec<Arc<Notify>>,
}

impl Databases {
    /// Reads the lists of zones again some time soon.
    pub fn request_refresh(&self) {
        self.refresh.iter().for_each(|refresh| refresh.notify_one());
    }
}

/// How a zone that two sources have is told.
pub fn contested(name: Name<'_>, served: u16, other: u16) -> String {
    let (served, other) = (served + 1, other + 1);
    format!("zone {name} is in backend {served} and in backend {other}: the first one serves it")
}

/// The settings of caches and overload.
pub fn live_settings(config: &Config) -> LiveSettings {
    let (cache, overload) = (&config.cache, &config.overload);
    LiveSettings {
        packet_entries: cache.packet_entries.get(),
        packet_ttl: cache.packet_ttl.seconds(),
        query_entries: cache.query_entries.get(),
        query_ttl: cache.query_ttl.seconds(),
        negative_ttl: cache.negative_ttl.seconds(),
        stale_while_down: cache.stale_while_down.seconds(),
        overload_queue: overload.overload_queue.get(),
        query_timeout: overload.query_timeout_ms.millis(),
        lookups_per_zone: overload.lookups_per_zone.get(),
        threads: or_cores(overload.lookup_threads.get()),
    }
}

fn or_cores(number: usize) -> usize {
    match number {
        0 => thread::available_parallelism().map_or(1, usize::from),
        number => number,
    }
}

/// The databases of a configuration, each with its rank. Nothing is connected yet.
pub fn prepare(config: &Config) -> Result<Vec<(u16, BackendMode, SqlBackend)>, String> {
    let numbered = config.backends.iter().enumerate();
    numbered
        .filter(|(_, backend)| backend.r#type != BackendType::File)
        .map(|(index, backend)| {
            let options = options(backend).map_err(|error| error.to_string())?;
            let sql = SqlBackend::new(options).map_err(|error| error.to_string())?;
            Ok((zones::rank(index), backend.mode, sql))
        })
        .collect()
}

fn options(backend: &Backend) -> Result<SqlOptions, SqlError> {
    let address = match &backend.path {
        Some(path) => Address::Sqlite(path.clone()),
        None => Address::parse(backend.url.reveal())?,
    };
    let replica = match backend.replica_url.reveal() {
        "" => None,
        url => Some(Address::parse(url)?),
    };
    Ok(SqlOptions {
        replica,
        connections: or_cores(backend.connections.get()),
        timeout: backend.timeout_ms.millis(),
        ..SqlOptions::new(address)
    })
}

/// Starts to follow the databases. Call within the runtime. The receivers are told when each was asked for its
/// zones for the first time, whether it answered or not.
pub fn start(
    shared: &Arc<Shared>,
    databases: Vec<(u16, BackendMode, SqlBackend)>,
    refresh_interval: Duration,
) -> std::io::Result<(Databases, Vec<oneshot::Receiver<()>>)> {
    let mut all = Databases::default();
    let mut asked = Vec::new();
    for (rank, mode, backend) in databases {
        let name = backend.options().address.to_string();
        let source = Arc::new(SqlSource(backend.clone()));
        let refresh = Arc::new(Notify::new());
        let follower = Follower {
            index: shared.live.add_source(&name, source),
            shared: Arc::clone(shared),
            name,
            rank,
            mode,
            backend,
            known: HashMap::new(),
            told: HashSet::new(),
            refresh: Arc::clone(&refresh),
            refresh_interval,
        };
        let (first, first_asked) = oneshot::channel();
        let runtime = Handle::current();
        // A thread of its own: reading many zones would keep others of the runtime waiting.
        thread::Builder::new()
            .name(format!("database-{rank}"))
            .spawn(move || runtime.block_on(follower.run(first)))?;
        all.refresh.push(refresh);
        asked.push(first_asked);
    }
    Ok((all, asked))
}

/// A database as a source of look-ups.
struct SqlSource(SqlBackend);

impl LiveSource for SqlSource {
    fn lookup<'a>(&'a self, wanted: &'a Wanted) -> Lookup<'a> {
        Box::pin(async move {
            let zone = LiveZone {
                id: wanted.zone,
                apex: wanted.apex,
            };
            match self.0.lookup(&zone, wanted.name.as_name()).await {
                Ok(fragment) => Ok(Fetched {
                    zone: fragment.zone,
                    statements: fragment.statements,
                }),
                Err(error) => Err(LookupError {
                    kind: match error {
                        SqlError::Row(_) => BackendFailure::BadData,
                        _ => BackendFailure::Unreachable,
                    },
                    reason: error.to_string(),
                }),
            }
        })
    }

    fn is_blocking(&self) -> bool {
        self.0.is_blocking()
    }

    fn is_up(&self) -> bool {
        self.0.health().is_up
    }
}

/// A zone of the database that is in the table, or would be if no other source had it.
struct Known {
    /// Its name in wire form.
    name: Box<[u8]>,
    /// Set in live mode.
    live: Option<Arc<Live>>,
    served: bool,
}

impl Known {
    fn name(&self) -> Name<'_> {
        Name::from_wire(&self.name).unwrap_or(Name::ROOT)
    }
}

/// A change of the table.
enum Step {
    Offer(i64, Arc<Zone>),
    Withdraw(Box<[u8]>),
}

/// Follows one database.
struct Follower {
    shared: Arc<Shared>,
    /// As the source of look-ups.
    index: u32,
    name: String,
    rank: u16,
    mode: BackendMode,
    backend: SqlBackend,
    known: HashMap<i64, Known>,
    /// Zones of which was told that another source has them.
    told: HashSet<i64>,
    refresh: Arc<Notify>,
    refresh_interval: Duration,
}

/// What is to be read again.
#[derive(Default)]
struct Owed {
    all: bool,
    /// Contents may have changed, not only the list.
    contents: bool,
    zones: HashSet<i64>,
}

impl Owed {
    fn is_nothing(&self) -> bool {
        !self.all && self.zones.is_empty()
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Zone(id) if self.zones.len() < CHANGES_AT_ONCE => {
                self.zones.insert(id);
            }
            Change::Zone(_) | Change::All => {
                self.all = true;
                self.contents = true;
            }
        }
    }
}

impl Follower {
    async fn run(mut self, first: oneshot::Sender<()>) {
        // First, so that no change is missed between the list and the watching.
        let mut changes = self.backend.watch();
        let mut first = Some(first);
        let mut owed = Owed {
            all: true,
            ..Owed::default()
        };
        let mut back_off = BACK_OFF;
        loop {
            let result = self.settle(&mut owed).await;
            if let Some(first) = first.take() {
                let _ = first.send(());
            }
            let wait = match &result {
                Ok(()) => {
                    back_off = BACK_OFF;
                    self.refresh_interval
                }
                Err(error) => {
                    let name = &self.name;
                    tracing::warn!(
                        "{name}: the zones cannot be read: {error}; next try in {back_off:?}"
                    );
                    let wait = back_off;
                    back_off = (back_off * 2).min(MAX_BACK_OFF);
                    wait
                }
            };
            match self.next(&mut changes, &mut owed, wait).await {
                Some(()) => {}
                None => return,
            }
        }
    }

    /// Waits for something to do.
    async fn next(
        &mut self,
        changes: &mut mpsc::Receiver<Change>,
        owed: &mut Owed,
        wait: Duration,
    ) -> Option<()> {
        let refresh = Arc::clone(&self.refresh);
        let event = async {
            tokio::select! {
                change = changes.recv() => change.map(Some),
                () = refresh.notified() => Some(None),
            }
        };
        match timeout(wait, event).await {
            Ok(Some(Some(change))) => {
                self.take_note(change, owed);
                while let Ok(change) = changes.try_recv() {
                    self.take_note(change, owed);
                }
            }
            Ok(Some(None)) => {
                owed.note(Change::All);
                self.outdate(Change::All);
            }
            Ok(None) => return None,
            Err(_) => owed.all |= owed.is_nothing(),
        }
        Some(())
    }

    fn take_note(&self, change: Change, owed: &mut Owed) {
        self.outdate(change);
        owed.note(change);
    }

    /// What the caches have of a zone is out of date at once, before anything is read.
    fn outdate(&self, change: Change) {
        let advance = |known: &Known| {
            if let Some(live) = &known.live {
                live.advance();
            }
        };
        match change {
            Change::Zone(id) => {
                if let Some(known) = self.known.get(&id) {
                    advance(known);
                }
            }
            Change::All => self.known.values().for_each(advance),
        }
    }

    /// Reads what is owed. What fails stays owed.
    async fn settle(&mut self, owed: &mut Owed) -> Result<(), SqlError> {
        if owed.all {
            self.read_all(owed.contents).await?;
            *owed = Owed::default();
            return Ok(());
        }
        for id in owed.zones.iter().copied().collect::<Vec<_>>() {
            let row = match self.backend.zone(id).await {
                Err(SqlError::Row(error)) => {
                    tracing::warn!("{}: {error}", self.name);
                    None
                }
                row => row?,
            };
            let mut steps = Vec::new();
            match row {
                Some(row) => self.admit(&row, Contents::Changed, &mut steps).await?,
                None => self.forget(id, &mut steps),
            }
            self.publish(&steps);
            owed.zones.remove(&id);
        }
        Ok(())
    }

    async fn read_all(&mut self, contents_changed: bool) -> Result<(), SqlError> {
        let is_first = self.known.is_empty();
        let list = self.backend.zones().await?;
        self.tell_bad(&list.bad);
        let there: HashSet<i64> = list.zones.iter().map(|row| row.id).collect();
        let gone: Vec<i64> = self
            .known
            .keys()
            .filter(|id| !there.contains(id))
            .copied()
            .collect();
        let mut steps = Vec::new();
        for id in gone {
            self.forget(id, &mut steps);
        }
        let contents = match contents_changed {
            true => Contents::Changed,
            false => Contents::AsKnown,
        };
        for row in &list.zones {
            self.admit(row, contents, &mut steps).await?;
            if self.mode == BackendMode::Resident && steps.len() >= PUBLISH_AT {
                self.publish(&steps);
                steps.clear();
            }
        }
        self.publish(&steps);
        memory::give_back();
        if is_first {
            let (name, zones) = (&self.name, counted(self.known.len(), "zone"));
            tracing::info!("{name}: {zones}");
        }
        Ok(())
    }

    /// Takes a zone of the database over into the table.
    async fn admit(
        &mut self,
        row: &ZoneRow,
        contents: Contents,
        steps: &mut Vec<Step>,
    ) -> Result<(), SqlError> {
        if let Some(known) = self.known.get(&row.id) {
            if known.name() != row.name.as_name() {
                // Renamed.
                self.forget(row.id, steps);
            } else if known.served && contents == Contents::AsKnown {
                return Ok(());
            } else if known.served && known.live.is_some() {
                // Its generation tells the caches.
                return Ok(());
            }
        }
        let before = self.known.get(&row.id).and_then(|known| known.live.clone());
        let (zone, live) = match self.mode {
            BackendMode::Live => {
                let live = before.unwrap_or_else(|| Live::new(self.index, row.id));
                let zone = Zone::stand_in(row.name.as_name(), Arc::clone(&live));
                (Some(zone), Some(live))
            }
            BackendMode::Resident => (self.load(row).await?, None),
        };
        // A new version that cannot be used is not taken: the old one stays.
        let Some(mut zone) = zone else {
            return Ok(());
        };
        zone.set_rank(self.rank);
        let known = self.known.entry(row.id).or_insert_with(|| Known {
            name: row.name.as_name().as_wire().into(),
            live: None,
            served: false,
        });
        known.live = live;
        steps.push(Step::Offer(row.id, Arc::new(zone)));
        Ok(())
    }

    fn forget(&mut self, id: i64, steps: &mut Vec<Step>) {
        if let Some(known) = self.known.remove(&id) {
            if known.served {
                tracing::info!("{}: zone {} is gone", self.name, known.name());
            }
            steps.push(Step::Withdraw(known.name));
        }
        self.told.remove(&id);
    }

    /// Loads a zone into memory; `None` and a line in the log if it cannot be served.
    async fn load(&self, row: &ZoneRow) -> Result<Option<Zone>, SqlError> {
        let zone = LiveZone {
            id: row.id,
            apex: row.name,
        };
        let mut builder = ZoneBuilder::new(row.name.as_name());
        let report = self.backend.load_zone(&zone, &mut builder).await?;
        self.tell_bad(&report.bad);
        let (zone, findings) = builder.finish();
        if zone.is_none() {
            let reason = findings.first().map(|finding| format!("{finding:?}"));
            let (name, reason) = (&self.name, reason.unwrap_or_default());
            tracing::error!("{name}: zone {} cannot be served: {reason}", row.name);
        }
        Ok(zone)
    }

    fn tell_bad(&self, bad: &[RowError]) {
        for error in bad.iter().take(LINES_MAX) {
            tracing::warn!("{}: {error}", self.name);
        }
    }

    /// Applies steps to the table, whoever else changes it at the same time.
    fn publish(&mut self, steps: &[Step]) {
        if steps.is_empty() {
            return;
        }
        let offered = Mutex::new(Vec::new());
        self.shared.zones.rcu(|table| {
            let mut table = ZoneTable::clone(table);
            let mut outcomes = Vec::with_capacity(steps.len());
            for step in steps {
                match step {
                    Step::Offer(id, zone) => {
                        outcomes.push((*id, table.offer(Arc::clone(zone))));
                    }
                    Step::Withdraw(name) => {
                        let name = Name::from_wire(name).unwrap_or(Name::ROOT);
                        table.withdraw(name, self.rank);
                    }
                }
            }
            if let Ok(mut offered) = offered.lock() {
                *offered = outcomes;
            }
            table
        });
        for (id, outcome) in offered.into_inner().unwrap_or_default() {
            self.take_outcome(id, outcome);
        }
    }

    fn take_outcome(&mut self, id: i64, outcome: Offered) {
        let Some(known) = self.known.get_mut(&id) else {
            return;
        };
        let text = match outcome {
            Offered::Taken => None,
            Offered::TakenFrom(other) => Some(contested(known.name(), self.rank, other)),
            Offered::KeptBy(other) => Some(contested(known.name(), other, self.rank)),
        };
        known.served = !matches!(outcome, Offered::KeptBy(_));
        if let Some(text) = text
            && self.told.len() < LINES_MAX
            && self.told.insert(id)
        {
            tracing::warn!("{text}");
        }
    }
}

/// Whether the contents of a zone that is known may have changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    AsKnown,
    Changed,
}

/// What `nameward cache flush` is for: everything, a name, or with a final `$` all at and below a name.
pub fn flush(shared: &Shared, what: Option<&str>) -> Result<String, String> {
    let name = |text: &str| -> Result<NameBuf, String> {
        NameBuf::from_text(text.as_bytes(), Name::ROOT)
            .map_err(|error| format!("{text:?} is no name: {error}"))
    };
    let outdate = |below: Name<'_>| {
        for zone in shared.zones.load().zones() {
            if let Some(live) = zone.live()
                && zone.apex_name().is_at_or_below(below)
            {
                live.advance();
            }
        }
    };
    let count = match what {
        None => {
            outdate(Name::ROOT);
            shared.live.flush(&|_| true)
        }
        Some(text) => match text.strip_suffix('$') {
            Some(text) => {
                let top = name(text)?;
                outdate(top.as_name());
                shared
                    .live
                    .flush(&|name| name.is_at_or_below(top.as_name()))
            }
            None => {
                let exact = name(text)?;
                shared.live.flush(&|name| name == exact.as_name())
            }
        },
    };
    let noun = if count == 1 { "entry" } else { "entries" };
    Ok(format!("{count} {noun} dropped from the caches\n"))
}
