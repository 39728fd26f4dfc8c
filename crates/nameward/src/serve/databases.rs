//! Owns the zones of databases: which there are, and what follows when a database says that something changed.
//!
//! Each database has a thread that reads its list of zones, puts stand-ins (live) or contents (resident) into the
//! table, and then follows its changes. A database that is down is tried again with back-off; its zones that
//! are known stay in the table meanwhile, and what cannot be looked up is answered SERVFAIL.

mod follower;
mod owed;
mod publish;
mod read;
mod remembered;
mod settings;

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use nameward_control::operations::PublishError;
use nameward_maintain::Commits;
use nameward_serve::pipeline::Shared;
use nameward_store::sql::{SqlBackend, write::Committed};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

use crate::config::settings::BackendMode;
use follower::{Follower, OwnChange};
use remembered::Remembered;
pub use settings::{live_settings, prepare, signatures, state_directory};

/// Changes of this server that wait to be followed.
const OWN_CHANGES: usize = 64;
/// How long a change of this server may take to be followed: a zone in memory is read as a whole.
const OWN_PATIENCE: Duration = Duration::from_secs(600);

/// The databases of a running server.
#[derive(Clone, Default)]
pub struct Databases {
    list: Vec<Followed>,
}

/// A database of a running server.
#[derive(Clone)]
pub struct Followed {
    /// Its place in the configuration.
    pub rank: u16,
    /// How its zones are served.
    pub mode: BackendMode,
    /// The database.
    pub backend: SqlBackend,
    refresh: Arc<Notify>,
    own: mpsc::Sender<OwnChange>,
}

impl Databases {
    /// Reads the lists of zones again some time soon.
    pub fn request_refresh(&self) {
        self.list.iter().for_each(|one| one.refresh.notify_one());
    }

    /// Closes them, at the end of the server. May block.
    pub fn close(&self) {
        for one in &self.list {
            if let Err(error) = one.backend.close() {
                let address = &one.backend.options().address;
                tracing::warn!("{address}: the write-ahead log is not emptied: {error}");
            }
        }
    }

    /// All of them, in the order of the configuration.
    pub fn all(&self) -> &[Followed] {
        &self.list
    }
}

impl Followed {
    /// Waits until the change that this server made in a zone is in its answers.
    pub fn follow(&self, runtime: &Handle, committed: &Committed) -> Result<(), PublishError> {
        let (done, followed) = oneshot::channel();
        runtime.block_on(async {
            let change = OwnChange {
                zone: committed.zone,
                difference: committed.difference.clone(),
                done,
            };
            let sent = self.own.send(change).await;
            sent.map_err(|_| PublishError::FollowerEnded)?;
            match timeout(OWN_PATIENCE, followed).await {
                Ok(Ok(result)) => result.map_err(|error| PublishError::Database(error.to_string())),
                Ok(Err(_)) => Err(PublishError::FollowerEnded),
                Err(_) => Err(PublishError::Timeout),
            }
        })
    }
}

/// Starts to follow the databases. Call within the runtime. The receivers are told when each was asked for its
/// zones for the first time, whether it answered or not.
pub fn start(
    shared: &Arc<Shared>,
    commits: &Arc<Commits>,
    databases: Vec<(u16, BackendMode, SqlBackend)>,
    refresh_interval: Duration,
    state_directory: Option<&Path>,
) -> std::io::Result<(Databases, Vec<oneshot::Receiver<()>>)> {
    let mut all = Databases::default();
    let mut asked = Vec::new();
    for (rank, mode, backend) in databases {
        let name = backend.options().address.to_string();
        let source = Arc::new(backend.clone());
        let refresh = Arc::new(Notify::new());
        let (own, own_changes) = mpsc::channel(OWN_CHANGES);
        let remembered = Remembered::new(state_directory, &name);
        let follower = Follower {
            index: shared.live.add_source(&name, source),
            commits: Arc::clone(commits),
            name,
            rank,
            mode,
            backend,
            known: HashMap::new(),
            failure: None,
            is_listed: false,
            told: HashSet::new(),
            remembered,
            refresh: Arc::clone(&refresh),
            refresh_interval,
            own_changes,
            waiting: Vec::new(),
        };
        all.list.push(Followed {
            rank,
            mode,
            backend: follower.backend.clone(),
            refresh,
            own,
        });
        let (first, first_asked) = oneshot::channel();
        let runtime = Handle::current();
        // A thread of its own: reading many zones would keep others of the runtime waiting.
        thread::Builder::new()
            .name(format!("database-{rank}"))
            .spawn(move || runtime.block_on(follower.run(first)))?;
        asked.push(first_asked);
    }
    Ok((all, asked))
}
