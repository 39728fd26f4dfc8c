//! Owns the sessions of logged-in users.
//!
//! An identifier is 256 random bits and is made at login, never taken from a client. The table holds its digest, is bounded, and
//! forgets a session that was idle for too long or is too old. Sessions do not survive a restart.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use nameward_base::sync::Mutex;
use nameward_control::api_keys::ApiKey;
use nameward_control::web::same_secret;

/// Maximum number of sessions; the one idle longest is evicted for a new one.
const SESSIONS_MAX: usize = 256;
/// A session ends after this time without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// A session ends this long after the login.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Octets of an identifier and of a form token.
const SECRET_OCTETS: usize = 32;
/// The name of the cookie.
pub const COOKIE: &str = "nameward-session";

type Digest = [u8; 32];

/// The sessions of all users.
#[derive(Default)]
pub struct Sessions {
    table: Mutex<HashMap<Digest, SessionEntry>>,
}

struct SessionEntry {
    session: Arc<AdminSession>,
    started: Instant,
    used: Instant,
}

/// A logged-in user.
pub struct AdminSession {
    /// The API key that the user logged in with, with its rights.
    pub key: Arc<ApiKey>,
    /// The token that every form must carry.
    pub token: String,
    /// A message for the next page.
    notice: Mutex<Option<Notice>>,
}

/// A message about something that was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notice {
    /// A sentence about the change.
    pub text: String,
    /// Warnings about it.
    pub warnings: Vec<String>,
}

impl AdminSession {
    /// Leaves a message for the next page.
    pub fn leave_notice(&self, notice: Notice) {
        *self.notice.lock() = Some(notice);
    }

    /// Takes the message for this page.
    pub fn take_notice(&self) -> Option<Notice> {
        self.notice.lock().take()
    }

    /// Checks the token of a form, in constant time.
    pub fn has_token(&self, given: &str) -> bool {
        same_secret(given, &self.token)
    }
}

impl Sessions {
    /// Starts a session and returns its identifier; `None` if there is no randomness.
    pub fn start(&self, key: &Arc<ApiKey>, now: Instant) -> Option<String> {
        let (id, token) = (secret()?, secret()?);
        let session = Arc::new(AdminSession {
            key: Arc::clone(key),
            token,
            notice: Mutex::new(None),
        });
        let entry = SessionEntry {
            session,
            started: now,
            used: now,
        };
        let mut table = self.table.lock();
        table.retain(|_, entry| entry.is_alive(now));
        if table.len() >= SESSIONS_MAX {
            let oldest = table.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                table.remove(&oldest);
            }
        }
        table.insert(digest_of(&id), entry);
        Some(id)
    }

    /// Finds the session of an identifier, and counts the request as use of it.
    pub fn find(&self, id: &str, now: Instant) -> Option<Arc<AdminSession>> {
        let mut table = self.table.lock();
        let digest = digest_of(id);
        let entry = table.get_mut(&digest)?;
        if !entry.is_alive(now) {
            table.remove(&digest);
            return None;
        }
        entry.used = now;
        Some(Arc::clone(&entry.session))
    }

    /// Ends a session.
    pub fn end(&self, id: &str) {
        self.table.lock().remove(&digest_of(id));
    }
}

impl SessionEntry {
    fn is_alive(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < IDLE
            && now.saturating_duration_since(self.started) < LIFETIME
    }
}

fn secret() -> Option<String> {
    let mut octets = [0; SECRET_OCTETS];
    aws_lc_rs::rand::fill(&mut octets).ok()?;
    Some(HEXLOWER.encode(&octets))
}

fn digest_of(id: &str) -> Digest {
    let mut out = Digest::default();
    out.copy_from_slice(digest(&SHA256, id.as_bytes()).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_when_idle_when_old_and_at_logout() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let key = ApiKey::configured();
        let id = sessions.start(&key, now).unwrap();
        assert_eq!(id.len(), 2 * SECRET_OCTETS);
        assert!(sessions.find(&id, now + IDLE / 2).is_some());
        assert!(sessions.find(&id, now + IDLE).is_some());
        assert!(sessions.find(&id, now + IDLE * 2).is_none());
        let id = sessions.start(&key, now).unwrap();
        let mut at = now;
        while at + IDLE / 2 < now + LIFETIME {
            at += IDLE / 2;
            assert!(sessions.find(&id, at).is_some());
        }
        assert!(sessions.find(&id, now + LIFETIME).is_none());
        let id = sessions.start(&key, now).unwrap();
        sessions.end(&id);
        assert!(sessions.find(&id, now).is_none());
    }

    #[test]
    fn sessions_are_limited_and_the_longest_idle_one_is_evicted() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let key = ApiKey::configured();
        let first = sessions.start(&key, now).unwrap();
        let second = sessions.start(&key, now).unwrap();
        assert_ne!(first, second);
        assert!(sessions.find(&first, now + IDLE / 4).is_some());
        for _ in 0..SESSIONS_MAX - 1 {
            sessions.start(&key, now + IDLE / 8).unwrap();
        }
        assert!(sessions.find(&second, now + IDLE / 4).is_none());
        assert!(sessions.find(&first, now + IDLE / 4).is_some());
        assert_eq!(sessions.table.lock().len(), SESSIONS_MAX);
    }
}
