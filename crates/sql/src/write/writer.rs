//! The connections to the primary that change zones and read them for operations: how many change at a time, and which are kept.

use super::super::connection::ConnectTarget;
use super::super::dialect::SqlEngine;
use super::session::Session;
use nameward_base::sync::Mutex;
use tokio::sync::Semaphore;

/// Maximum number of connections that change zones at the same time; further changes wait. SQLite has one writer in any
/// case.
const SESSIONS: usize = 4;
/// Connections to a SQLite file that are kept for the next operation, as many as the API runs at a time. To open one reads
/// the schema and prepares every statement again, which costs more than a change; to keep one costs a server nothing.
const IDLE_FILES: usize = 32;

/// The connections to the primary.
pub(crate) struct Writer {
    /// A permit for each change.
    pub(super) seats: Semaphore,
    idle: Mutex<Vec<Session>>,
}

impl Default for Writer {
    fn default() -> Self {
        Writer {
            seats: Semaphore::new(SESSIONS),
            idle: Mutex::default(),
        }
    }
}

impl Writer {
    pub(super) fn take(&self, target: &ConnectTarget) -> Option<Session> {
        let mut idle = self.idle.lock();
        idle.retain(|session| session.server().is_none_or(|server| target.prefers(server)));
        // If the file was replaced, all of them have the old one, and each is found out when its turn comes.
        std::iter::from_fn(|| idle.pop()).find(|session| !session.is_replaced())
    }

    /// Drops a session whose server failed or accepts no changes, with all others to that server.
    pub(super) fn leave(&self, session: Session, target: &ConnectTarget) {
        if let Some(server) = session.server() {
            target.avoid(server);
        }
        self.close();
    }

    pub(super) fn give_back(&self, session: Session) {
        let most = match session.engine() {
            SqlEngine::Sqlite => IDLE_FILES,
            SqlEngine::Postgres | SqlEngine::Mysql => SESSIONS,
        };
        let mut idle = self.idle.lock();
        if idle.len() < most {
            idle.push(session);
        }
    }

    /// Closes unused connections.
    pub(crate) fn close(&self) {
        self.idle.lock().clear();
    }
}
