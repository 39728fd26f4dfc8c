//! The state store as storage for secondary zones: all of them are in memory, and no other process changes
//! them.

use super::ZoneSuccessor;
use super::commit_thread::CommitThread;
use super::storage::{
    HeldVersion, SecondaryStorage, SeenDone, StorageOutcome, VersionDone, ZoneInStorage,
};
use crate::secondary::zone::{SecondarySettings, SharedName, ZoneState};
use crate::transfer_in::WholeZone;
use nameward_base::memory;
use nameward_base::sync::Mutex;
use nameward_maintain::commit::{CommitError, Commits, CommittedVersion, VersionSource};
use nameward_maintain::schedule::Moment;
use nameward_maintain::table::TableWriter;
use nameward_state::{JournalOrigin, StateChange, ZoneStorage, ZoneTimers};
use nameward_wire::NameBuf;
use nameward_zone::change::{ChangeAuthor, Difference};
use nameward_zone::{LargeRrset, Node, TableChange, Zone};
use std::net::SocketAddr;
use std::sync::Arc;

/// Size in octets from which on a replacement version is committed on a separate thread.
const LARGE: usize = 1 << 20;

/// RRsets of one transfer that are logged because they fit into no message.
const LARGE_RRSETS_LOGGED: usize = 5;

pub(super) struct StateStorage {
    pub(super) commits: Arc<Commits>,
    large: CommitThread,
}

impl StateStorage {
    pub(super) fn new(commits: Arc<Commits>) -> Self {
        StateStorage {
            commits,
            large: CommitThread::start(),
        }
    }

    /// Makes a commit, on the separate thread if the version is large.
    fn run(&self, zone: &SharedName, is_large: bool, commit: impl FnOnce() + Send + 'static) {
        if is_large {
            self.large.run(zone.to_buf(), commit);
        } else {
            commit();
        }
    }
}

impl SecondaryStorage for StateStorage {
    fn is_shared(&self) -> bool {
        false
    }

    fn read_states(&self, _: Vec<NameBuf>, done: SeenDone) {
        done(Ok(Vec::new()));
    }

    fn bring_differences(
        &self,
        zone: &ZoneInStorage<'_>,
        differences: Vec<Difference>,
        now: Moment,
        done: VersionDone,
    ) {
        if zone.state != ZoneState::Current {
            // Not in the table: the new version is built here and committed as a whole.
            let version = zone.held.and_then(|held| held.contents.clone());
            return match applied(version, &differences) {
                Some(version) => {
                    let contents = nameward_maintain::contents_of(&version);
                    let whole = WholeZone {
                        zone: version,
                        contents,
                    };
                    self.bring_whole(zone, whole, now, done);
                }
                None => done(StorageOutcome {
                    held: None,
                    error: Some("the differences do not apply".into()),
                }),
            };
        }
        let (commits, shown) = (Arc::clone(&self.commits), shown(zone));
        let source = source_of(zone.settings, zone.primary, now);
        let rule = zone.settings.policy.zonemd;
        let contents = zone.held.and_then(|held| held.contents.clone());
        let verified = contents.filter(|_| rule.verifies());
        let is_large = verified
            .as_ref()
            .is_some_and(|zone| zone.heap_bytes() >= LARGE);
        let commit = move || {
            // The resulting version is compared with its digest before the first difference takes effect.
            let objection = verified.and_then(|contents| match overlaid(contents, &differences) {
                Some(version) => rule.objection(&version),
                None => Some("the differences do not apply".into()),
            });
            if objection.is_some() {
                let (held, error) = (None, objection);
                return done(StorageOutcome { held, error });
            }
            let under_way = Arc::new(Mutex::new(SeveralCommits {
                left: differences.len(),
                held: None,
                error: None,
                done: Some(done),
            }));
            for difference in differences {
                let under_way = Arc::clone(&under_way);
                let table = Arc::clone(commits.table());
                let ended = commit_end((table, shown.clone()), move |result| {
                    note_end(&under_way, result);
                });
                commits.difference(source.clone(), difference, ended);
            }
        };
        self.run(&zone.settings.name, is_large, commit);
    }

    fn bring_whole(
        &self,
        zone: &ZoneInStorage<'_>,
        whole: WholeZone,
        now: Moment,
        done: VersionDone,
    ) {
        let table = Arc::clone(self.commits.table());
        let ended = commit_end((table, shown(zone)), move |result| {
            let error = result.as_ref().err().map(ToString::to_string);
            let held = result.ok();
            done(StorageOutcome { held, error });
        });
        let source = source_of(zone.settings, zone.primary, now);
        let WholeZone {
            zone: version,
            contents,
        } = whole;
        let has_version = zone.held.is_some_and(|held| held.contents.is_some());
        let rule = zone.settings.policy.zonemd;
        let is_large = (has_version || rule.verifies()) && version.heap_bytes() >= LARGE;
        let commits = Arc::clone(&self.commits);
        let commit = move || {
            let no_memory = || {
                let error = commits.memory_objection(&version)?;
                memory::note_refusal(format!("a transfer of {}", version.id()));
                Some(error)
            };
            match rule.objection(&version).or_else(no_memory) {
                Some(error) => ended(Err(CommitError::Unusable(error))),
                None => commits.version(source, version, Some(contents), ended),
            }
        };
        self.run(&zone.settings.name, is_large, commit);
    }

    fn confirm(&self, zone: &NameBuf, timers: ZoneTimers) {
        let zone = *zone;
        let set = StateChange::SetTimers { zone, timers };
        self.commits.write_state(zone, vec![set]);
    }

    fn show(&self, zone: &ZoneInStorage<'_>) {
        self.commits.table().publish(&shown(zone));
    }

    fn forget(&self, zone: &ZoneInStorage<'_>, successor: ZoneSuccessor) {
        let (name, rank) = (zone.settings.name.to_buf(), zone.settings.rank);
        // A later version would bring the zone back.
        self.large.wait_for(&name);
        if successor == ZoneSuccessor::None {
            let withdraw = TableChange::Withdraw(name.as_name().as_wire().into(), rank);
            self.commits.table().publish(&[withdraw]);
        }
        // After the zone's commits that are on their way to disk.
        self.commits
            .write_state(name, vec![StateChange::RemoveZone { zone: name }]);
        tracing::info!("zone {name}: no longer a secondary zone: removed from the state store");
    }
}

/// Returns the callback for the end of a commit. `shown` are the table changes that show the zone as it was.
fn commit_end(
    (table, shown): (Arc<TableWriter>, [TableChange; 2]),
    done: impl FnOnce(Result<HeldVersion, CommitError>) + Send + 'static,
) -> impl FnOnce(Result<CommittedVersion, CommitError>) + Send + 'static {
    move |result| {
        if matches!(result, Err(CommitError::NoSuchZone)) {
            // Another follower of the same rank has withdrawn its version: the zone is ours again.
            table.publish(&shown);
        }
        if let Ok(committed) = &result {
            warn_of_large_rrsets(committed);
        }
        done(result.map(|committed| committed.zone.into()));
    }
}

/// Warns of RRsets that a transfer has brought and that fit into no message, as loading a zone file does.
fn warn_of_large_rrsets(committed: &CommittedVersion) {
    let zone = &committed.zone;
    let mut large: Vec<LargeRrset> = Vec::new();
    let mut check = |node: Node<'_>| {
        for found in LargeRrset::in_node(node) {
            if large.len() < LARGE_RRSETS_LOGGED && !large.contains(&found) {
                large.push(found);
            }
        }
    };
    if committed.is_first {
        zone.nodes_in_any_order().for_each(&mut check);
    } else {
        let mut last = None;
        for record in committed.difference.added.iter() {
            let owner = Some(NameBuf::from(record.owner));
            if owner != last
                && let Some(node) = zone.node_of(record.owner)
            {
                check(node);
            }
            last = owner;
        }
    }
    for found in large {
        tracing::warn!("zone {}: {found}", zone.id());
    }
}

/// Commits of one transfer that are still in progress.
struct SeveralCommits {
    left: usize,
    held: Option<HeldVersion>,
    error: Option<String>,
    done: Option<VersionDone>,
}

/// Records the end of one of several commits, and reports the end of the last.
fn note_end(under_way: &Mutex<SeveralCommits>, result: Result<HeldVersion, CommitError>) {
    let mut commits = under_way.lock();
    commits.left -= 1;
    match result {
        Ok(held) => commits.held = Some(held),
        Err(error) => commits.error = Some(error.to_string()),
    }
    if commits.left > 0 {
        return;
    }
    let (held, error, done) = (
        commits.held.take(),
        commits.error.take(),
        commits.done.take(),
    );
    drop(commits);
    if let Some(done) = done {
        done(StorageOutcome { held, error });
    }
}

/// Applies differences to a version that is not served.
fn applied(version: Option<Arc<Zone>>, differences: &[Difference]) -> Option<Zone> {
    overlaid(version?, differences)?.pack()
}

/// Returns the version that differences lead to, as an overlay over the previous one.
fn overlaid(mut version: Arc<Zone>, differences: &[Difference]) -> Option<Arc<Zone>> {
    for difference in differences {
        version = Arc::new(version.apply(difference).ok()?);
    }
    Some(version)
}

/// Returns the table changes that show a zone according to its state.
pub(super) fn shown(zone: &ZoneInStorage<'_>) -> [TableChange; 2] {
    let SecondarySettings { name, rank, .. } = zone.settings;
    let contents = zone.held.and_then(|held| held.contents.as_ref());
    let version = match (zone.state, contents) {
        (ZoneState::Current, Some(version)) => Arc::clone(version),
        _ => {
            let mut stub = Zone::not_ready(name.as_name());
            stub.set_rank(*rank);
            Arc::new(stub)
        }
    };
    // A stub does not replace a version by itself.
    [
        TableChange::Withdraw(name.as_name().as_wire().into(), *rank),
        TableChange::Offer(version),
    ]
}

/// Returns the source of versions that a primary sent at `now`.
fn source_of(
    settings: &SecondarySettings,
    primary: Option<SocketAddr>,
    now: Moment,
) -> VersionSource {
    let (storage, origin) = (ZoneStorage::Store, JournalOrigin::Transfer);
    VersionSource {
        author: primary.map(|primary| ChangeAuthor::new(&format!("primary {primary}"), None)),
        confirmed: Some(now),
        ..VersionSource::new(settings.name.to_buf(), settings.rank, storage, origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_maintain::policy::{PolicyFragment, PolicySource, ZoneKind};
    use nameward_state::{JournalBounds, StateStore};
    use nameward_wire::Rcode;
    use nameward_wire::zonefile::{Options, parse_bytes};
    use nameward_zone::ZoneBuilder;
    use nameward_zone::change::{ChangeRefused, ConditionalChange, RecordsAt, ZoneChange};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    /// Builds a zone of more than [`LARGE`] octets.
    fn version(serial: u32) -> Zone {
        let origin: NameBuf = "example.".parse().unwrap();
        let mut text = format!("@ 60 SOA ns h {serial} 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n");
        for host in 0..30_000 {
            text += &format!("host{host} 60 A 192.0.2.{}\n", serial % 200);
        }
        let mut builder = ZoneBuilder::new(origin.as_name());
        parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
        builder.finish().0.expect("a zone")
    }

    fn now() -> Moment {
        Moment::from_seconds(1_700_000_000)
    }

    /// A change that reports its start and ends when the test lets it.
    struct SlowChange(Mutex<(Sender<()>, Receiver<()>)>);

    impl ConditionalChange for SlowChange {
        fn names(&self) -> Vec<NameBuf> {
            Vec::new()
        }

        fn decide(&self, _: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
            let channels = self.0.lock();
            channels.0.send(()).unwrap();
            channels.1.recv().unwrap();
            Err(ChangeRefused {
                rcode: Rcode::Refused,
                reason: "it was only slow".into(),
            })
        }
    }

    #[test]
    fn the_commit_of_a_large_version_blocks_no_caller() {
        let directory = tempfile::tempdir().unwrap();
        let bounds = JournalBounds {
            octets: 64 << 20,
            entries: 10,
        };
        let store = StateStore::open(directory.path(), bounds).unwrap();
        let table = Arc::new(TableWriter::default());
        let commits = Commits::new(Arc::clone(&table), Some(Arc::new(store)), ()).unwrap();
        let storage = StateStorage::new(Arc::clone(&commits));
        let (policy, mut first) = (PolicyFragment::closed(ZoneKind::Secondary), version(1));
        let settings = SecondarySettings {
            name: "example.".parse::<NameBuf>().unwrap().as_name().into(),
            rank: 0,
            policy: Arc::new(policy.finish(PolicySource::Configured)),
        };
        first.set_rank(0);
        let held = HeldVersion::from(Arc::new(first));
        let in_storage = ZoneInStorage {
            settings: &settings,
            state: ZoneState::Current,
            held: Some(&held),
            primary: None,
            is_forced: false,
        };
        storage.show(&in_storage);
        let zone = version(2);
        assert!(zone.heap_bytes() >= LARGE);
        let contents = nameward_maintain::contents_of(&zone);
        let (ended, end) = channel();
        // Other commits have to wait for this.
        let ((go, goes), (begun, begins)) = (channel(), channel());
        let (slow, source) = (Arc::clone(&commits), source_of(&settings, None, now()));
        let holder = thread::spawn(move || {
            let change = SlowChange(Mutex::new((begun, goes)));
            slow.conditional(source, &change, |_| ());
        });
        begins.recv().unwrap();
        let done = move |outcome: StorageOutcome| ended.send(outcome.error).unwrap();
        storage.bring_whole(
            &in_storage,
            WholeZone { zone, contents },
            now(),
            Box::new(done),
        );
        assert!(end.try_recv().is_err());
        go.send(()).unwrap();
        holder.join().unwrap();
        assert_eq!(end.recv().unwrap(), None);
        let served = table.version(settings.name.as_name(), settings.rank);
        assert_eq!(served.unwrap().serial().0, 2);
        // A removed zone does not come back.
        storage.forget(&in_storage, ZoneSuccessor::None);
        assert!(
            table
                .version(settings.name.as_name(), settings.rank)
                .is_none()
        );
    }
}
