//! Results of health checks that the servers on a database share.
//!
//! `nameward_health` has a row for each server and target: 0 for down, else the weight of the target. The rows of the server with
//! the empty name are the states that operators set, by address. `nameward_health_servers` has two numbers for each server: one
//! rises while it runs, the other one with each change of its rows, so that nothing else is read while nothing changes. As
//! with leases no clocks are compared: the results of a server count while its number was seen to rise within
//! [`FRESH_FOR`].

use super::super::SqlBackend;
use super::super::dialect::{SqlEngine, int, text};
use super::super::error::SqlError;
use super::super::row::Cells;
use super::WriteError;
use super::session::{Failure, Session, Value};
use crate::SqlFuture;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How often the number of a server rises.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How long the results of a server count after its number has risen.
const FRESH_FOR: Duration = Duration::from_secs(20);
/// How long a server is away before its rows are deleted.
const FORGET_AFTER: Duration = Duration::from_secs(3600);
/// The rows of one statement.
const ROWS_MAX: usize = 50;
/// The server that has the states set by operators.
const OPERATORS: &str = "";

/// A state that an operator set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedResult {
    /// The checks decide.
    No,
    /// Down, whatever checks find.
    Down,
    /// Up, whatever checks find.
    Up,
}

/// Results and states that a server shares.
pub struct OwnResults<'r> {
    /// The name of the server.
    pub server: &'r str,
    /// Its results, by target: 0 for down, else the weight.
    pub results: &'r BTreeMap<String, i64>,
    /// States that operators have set here.
    pub forced: &'r BTreeMap<IpAddr, ForcedResult>,
}

/// The results of a server as they were last read.
#[derive(Default)]
struct ServerResults {
    beat: i64,
    version: i64,
    /// When the beat was last seen to change; before that it may be the last one of a server that is gone.
    risen: Option<Instant>,
    first_seen: Option<Instant>,
    results: BTreeMap<String, i64>,
}

/// The results of all servers as one of them has seen them.
#[derive(Default)]
pub struct FleetResults {
    servers: HashMap<String, ServerResults>,
    last_beat: Option<Instant>,
    is_read: bool,
}

impl FleetResults {
    /// Returns the results of each other server that is running.
    pub fn others(&self, own: &str, now: Instant) -> Vec<&BTreeMap<String, i64>> {
        let is_running = |(name, seen): &(&String, &ServerResults)| {
            let risen = seen.risen.filter(|risen| now - *risen < FRESH_FOR);
            risen.is_some() && *name != own && *name != OPERATORS
        };
        let servers = self.servers.iter().filter(is_running);
        servers.map(|(_, seen)| &seen.results).collect()
    }

    /// Returns the states that operators have set; `None` if they were never read.
    pub fn forced(&self) -> Option<BTreeMap<IpAddr, ForcedResult>> {
        if !self.is_read {
            return None;
        }
        let rows = self.servers.get(OPERATORS).map(|seen| &seen.results);
        let states = rows.into_iter().flatten().filter_map(|(address, state)| {
            let forced = match state {
                0 => ForcedResult::Down,
                _ => ForcedResult::Up,
            };
            Some((address.parse().ok()?, forced))
        });
        Some(states.collect())
    }

    /// Notes the numbers of all servers; returns those whose results have changed.
    fn note(&mut self, rows: Vec<(String, i64, i64)>, now: Instant) -> Vec<(String, i64)> {
        self.servers
            .retain(|name, _| rows.iter().any(|(row, ..)| row == name));
        let mut changed = Vec::new();
        for (name, beat, version) in rows {
            let is_new = !self.servers.contains_key(&name);
            let seen = self.servers.entry(name.clone()).or_default();
            seen.first_seen.get_or_insert(now);
            if beat != seen.beat && !is_new {
                seen.risen = Some(now);
            }
            seen.beat = beat;
            if version != seen.version {
                changed.push((name, version));
            }
        }
        changed
    }

    /// Returns the servers that are away for long.
    fn forgotten(&self, own: &str, now: Instant) -> Vec<String> {
        let is_away = |seen: &ServerResults| {
            let last = seen.risen.or(seen.first_seen);
            last.is_some_and(|last| now - last >= FORGET_AFTER)
        };
        let servers = self.servers.iter();
        let away =
            servers.filter(|(name, seen)| *name != own && *name != OPERATORS && is_away(seen));
        away.map(|(name, _)| name.clone()).collect()
    }
}

impl SqlBackend {
    /// Writes what has changed of the results of a server, and reads what has changed of others.
    pub fn share_health<'a>(
        &'a self,
        own: &'a OwnResults<'a>,
        seen: &'a mut FleetResults,
    ) -> SqlFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let mut result = read(&mut session, seen).await;
            if result.is_ok() {
                result = write(&mut session, own, seen).await;
            }
            self.end_use(session, &result).await;
            match result {
                Err(Failure::Sql(SqlError::Refused(reason))) => {
                    let reason = format!("{reason}; `nameward db init` creates the tables");
                    Err(WriteError::Sql(SqlError::Refused(reason)))
                }
                result => Ok(result?),
            }
        })
    }

    /// Deletes the results of a server that no longer shares them.
    pub fn withdraw_health<'a>(&'a self, server: &'a str) -> SqlFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let result = withdraw(&mut session, &[server.to_owned()]).await;
            self.end_use(session, &result).await;
            Ok(result?)
        })
    }
}

async fn read(session: &mut Session, seen: &mut FleetResults) -> Result<(), Failure> {
    let engine = session.engine();
    let sql = format!(
        "SELECT {}, {}, {} FROM nameward_health_servers",
        text(engine, "server"),
        int(engine, "beat"),
        int(engine, "version")
    );
    let read = |row: &dyn Cells| {
        let number = |column| row.int(column).unwrap_or(0);
        (row.string(0).unwrap_or_default(), number(1), number(2))
    };
    let rows = session.list(&sql, &[], read).await?;
    for (name, version) in seen.note(rows, Instant::now()) {
        let sql = format!(
            "SELECT {}, {} FROM nameward_health WHERE server = ?",
            text(engine, "target"),
            int(engine, "state")
        );
        let read = |row: &dyn Cells| (row.string(0).unwrap_or_default(), row.int(1).unwrap_or(0));
        let results = session.list(&sql, &[Value::Text(&name)], read).await?;
        if let Some(server) = seen.servers.get_mut(&name) {
            (server.results, server.version) = (results.into_iter().collect(), version);
        }
    }
    seen.is_read = true;
    Ok(())
}

/// Writes all changes in one transaction: a server that reads the new version also reads the rows that belong to it.
async fn write(
    session: &mut Session,
    own: &OwnResults<'_>,
    seen: &mut FleetResults,
) -> Result<(), Failure> {
    let now = Instant::now();
    let none = BTreeMap::new();
    let stored = |server: &str| seen.servers.get(server).map_or(&none, |seen| &seen.results);
    let results = difference(stored(own.server), own.results);
    let mut states = stored(OPERATORS).clone();
    for (address, forced) in own.forced {
        let address = address.to_string();
        match forced {
            ForcedResult::No => states.remove(&address),
            ForcedResult::Down => states.insert(address, 0),
            ForcedResult::Up => states.insert(address, 1),
        };
    }
    let forced = difference(stored(OPERATORS), &states);
    let forgotten = seen.forgotten(own.server, now);
    let beat = seen.last_beat;
    let is_due = beat.is_none_or(|beat| now - beat >= BEAT_INTERVAL);
    if results.is_empty() && forced.is_empty() && forgotten.is_empty() && !is_due {
        return Ok(());
    }
    session.begin().await?;
    store(session, own.server, &results).await?;
    advance(session, own.server, !results.is_empty()).await?;
    if !forced.is_empty() {
        store(session, OPERATORS, &forced).await?;
        advance(session, OPERATORS, true).await?;
    }
    delete(session, &forgotten).await?;
    session.commit().await?;
    seen.last_beat = Some(now);
    if !forced.is_empty() {
        // In effect here even if the database cannot be read again.
        let operators = seen.servers.entry(OPERATORS.to_owned());
        operators.or_default().results = states;
    }
    Ok(())
}

async fn withdraw(session: &mut Session, servers: &[String]) -> Result<(), Failure> {
    session.begin().await?;
    delete(session, servers).await?;
    session.commit().await
}

async fn delete(session: &mut Session, servers: &[String]) -> Result<(), Failure> {
    for server in servers {
        for table in ["nameward_health", "nameward_health_servers"] {
            let sql = format!("DELETE FROM {table} WHERE server = ?");
            session.run(&sql, &[Value::Text(server)]).await?;
        }
    }
    Ok(())
}

/// The rows to write, and those to delete.
type RowChanges = BTreeMap<String, Option<i64>>;

fn difference(stored: &BTreeMap<String, i64>, wanted: &BTreeMap<String, i64>) -> RowChanges {
    let gone = stored.keys().filter(|target| !wanted.contains_key(*target));
    let gone = gone.map(|target| (target.clone(), None));
    let changed = wanted
        .iter()
        .filter(|(target, state)| stored.get(*target) != Some(*state));
    let changed = changed.map(|(target, state)| (target.clone(), Some(*state)));
    gone.chain(changed).collect()
}

async fn store(session: &mut Session, server: &str, changes: &RowChanges) -> Result<(), Failure> {
    let update = match session.engine() {
        SqlEngine::Sqlite | SqlEngine::Postgres => {
            "ON CONFLICT (server, target) DO UPDATE SET state = excluded.state"
        }
        SqlEngine::Mysql => "ON DUPLICATE KEY UPDATE state = VALUES(state)",
    };
    let written: Vec<_> = changes
        .iter()
        .filter_map(|(target, state)| Some((target, (*state)?)))
        .collect();
    for rows in written.chunks(ROWS_MAX) {
        let places = vec!["(?, ?, ?)"; rows.len()].join(", ");
        let sql =
            format!("INSERT INTO nameward_health (server, target, state) VALUES {places} {update}");
        let values: Vec<_> = rows
            .iter()
            .flat_map(|(target, state)| {
                [Value::Text(server), Value::Text(target), Value::Int(*state)]
            })
            .collect();
        session.run(&sql, &values).await?;
    }
    for (target, _) in changes.iter().filter(|(_, state)| state.is_none()) {
        let sql = "DELETE FROM nameward_health WHERE server = ? AND target = ?";
        let values = [Value::Text(server), Value::Text(target)];
        session.run(sql, &values).await?;
    }
    Ok(())
}

/// Raises the numbers of a server.
async fn advance(session: &mut Session, server: &str, has_changed: bool) -> Result<(), Failure> {
    let insert = "INSERT INTO nameward_health_servers (server, beat, version) VALUES (?, 1, ?)";
    let sql = match session.engine() {
        SqlEngine::Sqlite | SqlEngine::Postgres => format!(
            "{insert} ON CONFLICT (server) DO UPDATE SET beat = nameward_health_servers.beat + 1, \
             version = nameward_health_servers.version + excluded.version"
        ),
        SqlEngine::Mysql => format!(
            "{insert} ON DUPLICATE KEY UPDATE beat = beat + 1, version = version + VALUES(version)"
        ),
    };
    let values = [Value::Text(server), Value::Int(i64::from(has_changed))];
    session.run(&sql, &values).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_count_while_the_number_of_their_server_rises() {
        let (mut seen, start) = (FleetResults::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let row = |beat| vec![("one".to_owned(), beat, 1)];
        assert_eq!(seen.note(row(9), at(0)), [("one".to_owned(), 1)]);
        assert!(seen.others("two", at(0)).is_empty(), "it may be gone");
        seen.note(row(10), at(5));
        assert_eq!(seen.others("two", at(24)).len(), 1);
        assert!(seen.others("one", at(24)).is_empty(), "its own");
        assert!(seen.others("two", at(25)).is_empty(), "too old");
        // A restored copy of the database has an older number: it changes, too.
        seen.note(row(3), at(30));
        assert_eq!(seen.others("two", at(31)).len(), 1);
        assert!(seen.forgotten("two", at(3629)).is_empty());
        assert_eq!(seen.forgotten("two", at(3630)), ["one"]);
        seen.note(Vec::new(), at(31));
        assert!(seen.others("two", at(31)).is_empty(), "deleted");
    }

    #[test]
    fn only_differences_are_written() {
        let map = |rows: &[(&str, i64)]| {
            let rows = rows
                .iter()
                .map(|(target, state)| ((*target).to_owned(), *state));
            rows.collect::<BTreeMap<_, _>>()
        };
        let stored = map(&[("a", 1), ("b", 0), ("c", 1)]);
        let changes = difference(&stored, &map(&[("a", 1), ("b", 5), ("d", 0)]));
        let expected = [("b", Some(5)), ("c", None), ("d", Some(0))];
        assert!(changes.iter().map(|(k, v)| (&k[..], *v)).eq(expected));
        assert!(difference(&stored, &stored).is_empty());
    }
}
