//! Operations on DNS cookie secrets: roll, list.
//!
//! A new secret is stored where other servers find it: in the first writable database, so that all its servers have
//! the secret before it is used. Without a database it is stored in the state store of this server.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use nameward_base::secret::Secret;
use nameward_base::text::utc_text;
use nameward_base::time::now_seconds;
use nameward_maintain::policy::{COOKIE_SECRET_OCTETS, PolicySource, RolledCookieSecret};
use nameward_sql::write::{TsigEdit, WriteError};
use serde::{Deserialize, Serialize};

use super::tsig::{stored_policy_error, write_first};
use super::{
    Database, ErrorKind, ItemSink, OperationError, OperationResult, Operations, Outcome, list_all,
    or_dash, source_text, table_row,
};

/// How long a secret verifies cookies after its replacement, in seconds: a cookie is valid for an hour (RFC 9018
/// section 4.3), and clocks differ by at most five minutes.
pub const COOKIE_OVERLAP: u64 = 3600 + 300;
/// Default delay in seconds until a secret in a database is used: servers that lost their connection can read it in
/// time.
const FLEET_DELAY: u64 = 300;
/// Maximum delay in seconds.
const DELAY_MAX: u64 = 30 * 86_400;
/// Maximum number of secrets: a cookie is verified with one after the other.
const SECRETS_MAX: usize = 8;

/// A secret whose cookies the server accepts, without its octets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedCookieSecret {
    /// The first digits of its SHA-256, to compare servers.
    pub id: String,
    /// `next`: accepted, not used yet; `active`: generates cookies; `old`: accepted for now.
    pub state: String,
    /// Where it is stored: `configuration`, `memory`, `state store` or `backend N`.
    pub source: String,
    /// When it starts to generate cookies, in seconds since 1970; none if it always did, or never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_from: Option<u64>,
    /// Until when its cookies are accepted, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_until: Option<u64>,
}

table_row! { ListedCookieSecret as item:
    "ID" = item.id,
    "STATE" = item.state,
    "SOURCE" = item.source,
    "ACTIVE FROM" = or_dash(item.active_from.map(utc_text)),
    "ACCEPTED UNTIL" = or_dash(item.accepted_until.map(utc_text)),
}

impl ListedCookieSecret {
    /// Formats it as one line.
    pub(super) fn line(&self) -> String {
        let from = self.active_from.map(utc_text);
        let from = from.map_or_else(String::new, |from| format!(" from {from}"));
        let until = self.accepted_until.map(utc_text);
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        format!("{} {}{from}{until} ({})", self.id, self.state, self.source)
    }
}

/// Returns the public ID of a secret.
pub fn cookie_secret_id(secret: &[u8]) -> String {
    HEXLOWER.encode(&digest(&SHA256, secret).as_ref()[..4])
}

impl Operations {
    /// Stores a new secret, which is used after a delay in seconds. With `revoke` it replaces all others at once.
    pub fn roll_cookies(&self, delay: Option<u64>, revoke: bool) -> Outcome {
        if (self.cookies)().iter().any(|one| one.source == CONFIGURED) {
            return Err(OperationError::refused(
                "cookies.secrets is configured: change the list there",
            ));
        }
        if delay.is_some_and(|delay| delay > DELAY_MAX) {
            return Err(OperationError::invalid(format!(
                "the delay is at most {DELAY_MAX} seconds"
            )));
        }
        let now = now_seconds();
        let (source, mut secrets) = match self.policies.cookies_with_source() {
            Some((source, secrets)) => (Some(source), secrets),
            None => (None, Vec::new()),
        };
        secrets.sort_by_key(|secret| secret.active_from);
        let old = no_longer_used(&secrets, now, revoke);
        if secrets.len() - old.len() >= SECRETS_MAX {
            return Err(OperationError::refused(format!(
                "there are {SECRETS_MAX} secrets, the maximum; roll again when one is no longer accepted, or use --revoke"
            )));
        }
        let mut secret = Secret::new(vec![0; COOKIE_SECRET_OCTETS]);
        aws_lc_rs::rand::fill(secret.reveal_mut())
            .map_err(|_| OperationError::new(ErrorKind::Internal, "no random numbers available"))?;
        let last = secrets.last().map_or(0, |last| last.active_from);
        let start = |default: u64| {
            let delay = if revoke { 0 } else { delay.unwrap_or(default) };
            (now + delay).max(if revoke { 0 } else { last + 1 })
        };
        let source = self.store_cookie(source, &secret, &old, start)?;
        let id = cookie_secret_id(secret.reveal());
        let rolled = (self.cookies)().into_iter().find(|one| one.id == id);
        let rolled = rolled.ok_or_else(|| {
            OperationError::refused("the secret is stored; cookies are disabled (cookies.enabled)")
        })?;
        tracing::info!("stored cookie secret {id} in {}", source_text(source));
        Ok(OperationResult::CookieRolled(rolled))
    }

    /// Lists the secrets whose cookies are accepted.
    pub fn list_cookies(&self, items: ItemSink<'_>) -> Outcome {
        list_all((self.cookies)(), items)
    }

    /// Stores a secret where the others are, or in the first writable location.
    fn store_cookie(
        &self,
        source: Option<PolicySource>,
        secret: &Secret<Vec<u8>>,
        old: &[RolledCookieSecret],
        start: impl Fn(u64) -> u64,
    ) -> Outcome<PolicySource> {
        let new = |default| RolledCookieSecret {
            active_from: start(default),
            secret: secret.clone(),
        };
        let location = |database: &Database| PolicySource::Backend(database.rank);
        let is_there =
            |database: &&Database| source.is_none_or(|source| source == location(database));
        let databases = self.databases.iter().filter(is_there);
        let write = |database: &Database| {
            self.write_cookie(database, &new(FLEET_DELAY), old)?;
            Ok(location(database))
        };
        match (write_first(databases, write)?, source) {
            (Some(location), _) => Ok(location),
            // The secrets of the database would still be used.
            (None, Some(source @ PolicySource::Backend(_))) => {
                Err(OperationError::refused(format!(
                    "the secrets are in {}, which accepts no changes",
                    source_text(source)
                )))
            }
            (None, _) => {
                self.stored_policies
                    .add_cookie(&new(0), old)
                    .map_err(stored_policy_error)?;
                Ok(PolicySource::Kept)
            }
        }
    }

    fn write_cookie(
        &self,
        database: &Database,
        new: &RolledCookieSecret,
        old: &[RolledCookieSecret],
    ) -> Result<(), WriteError> {
        let change = |edit| {
            self.runtime
                .block_on(database.backend.change_tsig_key(&edit))
        };
        change(TsigEdit::Replace(new.to_row()))?;
        // A secret with the same start second had the same name, and was replaced.
        for secret in old.iter().filter(|one| one.active_from != new.active_from) {
            change(TsigEdit::Remove(secret.row_name()))?;
        }
        // This server uses it at once, others when they read the table.
        let source = PolicySource::Backend(database.rank);
        let mut secrets = match self.policies.cookies_with_source() {
            Some((at, secrets)) if at == source => secrets,
            _ => Vec::new(),
        };
        secrets.retain(|secret| !old.contains(secret) && secret.active_from != new.active_from);
        secrets.push(new.clone());
        self.policies.change_cookies(source, secrets);
        (database.request_list)();
        Ok(())
    }
}

/// The source of a secret in the configuration.
const CONFIGURED: &str = "configuration";

/// Returns the secrets that no longer verify cookies; all of them if they are revoked. They are sorted by time.
fn no_longer_used(
    secrets: &[RolledCookieSecret],
    now: u64,
    revoke: bool,
) -> Vec<RolledCookieSecret> {
    let next = secrets.iter().skip(1).map(|next| Some(next.active_from));
    let pairs = secrets.iter().zip(next.chain([None]));
    let is_over = |next: Option<u64>| next.is_some_and(|next| next + COOKIE_OVERLAP < now);
    let old = pairs.filter(|(_, next)| revoke || is_over(*next));
    old.map(|(secret, _)| secret.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_deleted_when_none_of_its_cookies_can_be_valid() {
        let secrets = [100, 200, 50_000].map(|active_from| RolledCookieSecret {
            active_from,
            secret: vec![active_from as u8; COOKIE_SECRET_OCTETS].into(),
        });
        let deleted = |now, revoke| no_longer_used(&secrets, now, revoke).len();
        assert_eq!(deleted(200, false), 0);
        assert_eq!(deleted(200 + COOKIE_OVERLAP, false), 0);
        assert_eq!(deleted(201 + COOKIE_OVERLAP, false), 1);
        assert_eq!(deleted(50_001 + COOKIE_OVERLAP, false), 2);
        assert_eq!(deleted(200, true), 3);
    }
}
