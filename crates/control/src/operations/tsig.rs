//! Operations on TSIG keys: generate, import, list, remove.
//!
//! A key is stored where other servers find it: in the first writable database, so that all servers on that database,
//! including PowerDNS, have it. Without a database it is stored in the state store of this server. Configured keys
//! are changed in the configuration.

use data_encoding::BASE64;
use nameward_base::secret::Secret;
use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey, read_secret};
use nameward_maintain::policy::{PolicySource, StoredKeyRow, StoredPolicyError};
use nameward_sql::write::{TSIG_SECRET_MAX, TsigEdit, WriteError};
use nameward_sql::{SqlError, StoredTsigKey};
use nameward_wire::{Name, NameBuf};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

use super::{
    Database, ErrorKind, ItemSink, OperationError, OperationResult, Operations, Outcome,
    SecretText, list_all, or_dash, table_row,
};

/// Minimum length of a secret in octets: half of the shortest hash, as for MACs (RFC 8945 section 5.2.2.1).
const SECRET_MIN: usize = 8;
/// Maximum length of a secret in octets; every algorithm hashes a longer one to a shorter key.
const SECRET_MAX: usize = 512;

/// A TSIG key that the server knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTsigKey {
    /// Its name.
    pub name: String,
    /// Its algorithm.
    pub algorithm: String,
    /// Where it is stored: `configuration`, `backend N` or `state store`.
    pub source: String,
    /// The secret as base64, if it was requested and is in the state store or a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
}

table_row! { ListedTsigKey as item:
    "NAME" = item.name,
    "ALGORITHM" = item.algorithm,
    "SOURCE" = item.source,
    "SECRET" = or_dash(item.secret.as_ref().map(SecretText::reveal)),
}

impl Operations {
    /// Generates a key with a secret of the length of its hash.
    pub fn generate_key(
        &self,
        name: &str,
        algorithm: Option<&str>,
        backend: Option<u32>,
        replace: bool,
    ) -> Outcome {
        let algorithm = read_algorithm(algorithm)?;
        let mut secret = Secret::new(vec![0; algorithm.mac_len()]);
        aws_lc_rs::rand::fill(secret.reveal_mut())
            .map_err(|_| OperationError::new(ErrorKind::Internal, "no random numbers available"))?;
        self.store_key(name, algorithm, secret, backend, replace)
    }

    /// Imports a key that was generated elsewhere.
    pub fn import_key(
        &self,
        name: &str,
        algorithm: Option<&str>,
        secret: &SecretText,
        backend: Option<u32>,
        replace: bool,
    ) -> Outcome {
        let algorithm = read_algorithm(algorithm)?;
        let secret = read_secret(secret.reveal());
        let secret =
            secret.ok_or_else(|| OperationError::invalid("the secret is not valid base64"))?;
        if !(SECRET_MIN..=SECRET_MAX).contains(&secret.reveal().len()) {
            let octets = secret.reveal().len();
            return Err(OperationError::invalid(format!(
                "a secret has {SECRET_MIN} to {SECRET_MAX} octets, this one has {octets}"
            )));
        }
        self.store_key(name, algorithm, secret, backend, replace)
    }

    fn store_key(
        &self,
        name: &str,
        algorithm: TsigAlgorithm,
        secret: Secret<Vec<u8>>,
        backend: Option<u32>,
        replace: bool,
    ) -> Outcome {
        let key = StoredKeyRow {
            name: key_name(name)?,
            algorithm,
            secret,
        };
        let name = key.name;
        let backend = match (self.key_source(name.as_name()), replace) {
            (None, _) => backend,
            (Some(PolicySource::Configured), true) => {
                return Err(OperationError::refused(format!(
                    "TSIG key {name} is in the configuration: change it there"
                )));
            }
            // It stays in its location, unless another one is given.
            (Some(source), true) => backend.or(Some(match source {
                PolicySource::Backend(rank) => rank.into(),
                _ => 0,
            })),
            (Some(source), false) => {
                let location = source_text(source);
                return Err(OperationError::conflict(format!(
                    "TSIG key {name} already exists ({location}); use --replace to replace it"
                )));
            }
        };
        let source = self.write_key(&key, backend, replace)?;
        let place = source_text(source);
        tracing::info!("stored TSIG key {name} ({algorithm}) in {place}");
        Ok(OperationResult::TsigKey(ListedTsigKey {
            name: name.to_string(),
            algorithm: algorithm.word().into(),
            source: place,
            secret: Some(BASE64.encode(key.secret.reveal()).into()),
        }))
    }

    /// Writes a key into a backend, or into the first writable location.
    fn write_key(
        &self,
        key: &StoredKeyRow,
        backend: Option<u32>,
        replace: bool,
    ) -> Outcome<PolicySource> {
        let in_store = || {
            self.stored_policies
                .set_key(key)
                .map_err(stored_policy_error)?;
            Ok(PolicySource::Kept)
        };
        match backend {
            Some(0) => in_store(),
            Some(_) => {
                let database = self.database(backend)?;
                self.write_database_key(database, key, replace)
                    .map_err(|error| error.into_operation_error(database))
            }
            None => {
                let write =
                    |database: &Database| match self.write_database_key(database, key, replace) {
                        Ok(source) => Ok(Ok(source)),
                        Err(KeyWriteError::Refused(error)) => Ok(Err(error)),
                        Err(KeyWriteError::Database(error)) => Err(error),
                    };
                match write_first(self.databases.iter(), write)? {
                    Some(written) => written,
                    None => in_store(),
                }
            }
        }
    }

    fn write_database_key(
        &self,
        database: &Database,
        key: &StoredKeyRow,
        replace: bool,
    ) -> Result<PolicySource, KeyWriteError> {
        let row = StoredTsigKey {
            name: key.name,
            algorithm: key.algorithm.word().into(),
            secret: BASE64.encode(key.secret.reveal()).into(),
        };
        if row.secret.reveal().len() > TSIG_SECRET_MAX {
            return Err(KeyWriteError::Refused(OperationError::invalid(format!(
                "the secret has {} base64 characters, but a database stores at most {TSIG_SECRET_MAX}; use --backend 0 \
                 to store it in the state store",
                row.secret.reveal().len()
            ))));
        }
        let edit = if replace {
            TsigEdit::Replace(row)
        } else {
            TsigEdit::Add(row)
        };
        let changed = self
            .runtime
            .block_on(database.backend.change_tsig_key(&edit))
            .map_err(KeyWriteError::Database)?;
        if !changed {
            return Err(KeyWriteError::Refused(OperationError::conflict(format!(
                "TSIG key {} already exists (backend {}); use --replace to replace it",
                key.name, database.rank
            ))));
        }
        let source = PolicySource::Backend(database.rank);
        let known = TsigKey::new(key.name.as_name(), key.algorithm, key.secret.reveal());
        self.policies
            .change_key(source, key.name.as_name(), Some(Arc::new(known)));
        (database.request_list)();
        Ok(source)
    }

    /// Lists all keys, sorted by name; with the secrets of those in the state store and in databases if requested.
    pub fn list_keys(&self, has_secrets: bool, items: ItemSink<'_>) -> Outcome {
        let secrets = if has_secrets {
            self.secrets()?
        } else {
            HashMap::new()
        };
        let mut keys: Vec<_> = self.policies.keys_by_source();
        keys.sort_by(|(a, one), (b, other)| {
            let names = one.name().canonical_cmp(other.name());
            names.then(a.cmp(b))
        });
        let listed = keys.into_iter().map(|(source, key)| {
            let algorithm = key.algorithm().word();
            let secret = secrets.get(&(source, NameBuf::from(key.name()), algorithm.to_string()));
            ListedTsigKey {
                name: key.name().to_string(),
                algorithm: algorithm.into(),
                source: source_text(source),
                secret: secret.cloned().map(SecretText),
            }
        });
        list_all(listed, items)
    }

    /// Reads the secrets that are stored here, as base64.
    fn secrets(&self) -> Outcome<Secrets> {
        let mut secrets = Secrets::new();
        match self.stored_policies.keys() {
            Ok(keys) => {
                for key in keys {
                    let id = (PolicySource::Kept, key.name, key.algorithm.word().into());
                    secrets.insert(id, BASE64.encode(key.secret.reveal()).into());
                }
            }
            // Databases may still have keys.
            Err(StoredPolicyError::NoStore) if !self.databases.is_empty() => {}
            Err(error) => return Err(stored_policy_error(error)),
        }
        for database in &self.databases {
            let rows = self.runtime.block_on(database.backend.tsig_keys());
            // The secrets of an unreachable database are not listed; its keys are.
            for row in rows.unwrap_or_default() {
                let mut name = row.name;
                name.make_lowercase();
                let word = TsigAlgorithm::from_word(&row.algorithm).map(TsigAlgorithm::word);
                let source = PolicySource::Backend(database.rank);
                secrets.insert((source, name, word.unwrap_or_default().into()), row.secret);
            }
        }
        Ok(secrets)
    }

    /// Removes a key from the state store and from every database that has it.
    pub fn remove_key(&self, name: &str) -> Outcome {
        let name = key_name(name)?;
        let sources = self.key_sources(name.as_name());
        let mut removed = Vec::new();
        for database in &self.databases {
            let source = PolicySource::Backend(database.rank);
            let edit = TsigEdit::Remove(name);
            let change = database.backend.change_tsig_key(&edit);
            match self.runtime.block_on(change) {
                Ok(true) => {
                    self.policies.change_key(source, name.as_name(), None);
                    (database.request_list)();
                    removed.push(source_text(source));
                }
                Ok(false) => {}
                // A database that is known to have the key must not keep it.
                Err(error) if sources.contains(&source) => return Err(database.error(&error)),
                Err(_) => {}
            }
        }
        match self.stored_policies.remove_key(name.as_name()) {
            Ok(true) => removed.push(source_text(PolicySource::Kept)),
            Ok(false) => {}
            Err(StoredPolicyError::NoStore) if !self.databases.is_empty() => {}
            Err(error) => return Err(stored_policy_error(error)),
        }
        if removed.is_empty() {
            return Err(match sources.first() {
                Some(source) => OperationError::refused(format!(
                    "TSIG key {name} is in the {}: remove it there",
                    source_text(*source)
                )),
                None => OperationError::not_found(format!("TSIG key {name} not found")),
            });
        }
        let source = removed.join(", ");
        tracing::info!("removed TSIG key {name} from {source}");
        Ok(OperationResult::TsigKeyRemoved {
            name: name.to_string(),
            source,
        })
    }

    /// Returns the effective source of a key.
    fn key_source(&self, name: Name<'_>) -> Option<PolicySource> {
        self.key_sources(name).first().copied()
    }

    /// Returns all sources that have a key, the effective one first.
    fn key_sources(&self, name: Name<'_>) -> Vec<PolicySource> {
        let keys = self.policies.keys_by_source().into_iter();
        let sources = keys.filter(|(_, key)| key.name() == name);
        let mut sources: Vec<PolicySource> = sources.map(|(source, _)| source).collect();
        sources.sort_unstable();
        sources
    }
}

/// Secrets as base64, by the source of a key, its name and its algorithm.
type Secrets = HashMap<(PolicySource, NameBuf, String), Secret<String>>;

/// Why a key was not written to a database.
enum KeyWriteError {
    Database(WriteError),
    Refused(OperationError),
}

impl KeyWriteError {
    fn into_operation_error(self, database: &Database) -> OperationError {
        match self {
            KeyWriteError::Database(error) => database.error(&error),
            KeyWriteError::Refused(error) => error,
        }
    }
}

/// Writes rows of `tsigkeys` to the first of these databases that accepts them; `None` if all refuse: an account may
/// be read-only, and a schema may lack the table.
pub(super) fn write_first<'d, T>(
    databases: impl Iterator<Item = &'d Database>,
    write: impl Fn(&Database) -> Result<T, WriteError>,
) -> Outcome<Option<T>> {
    for database in databases {
        match write(database) {
            Ok(written) => return Ok(Some(written)),
            Err(WriteError::Sql(SqlError::Refused(reason) | SqlError::ReadOnly(reason))) => {
                tracing::debug!("{}: cannot write tsigkeys: {reason}", database.address());
            }
            Err(error) => return Err(database.error(&error)),
        }
    }
    Ok(None)
}

/// Formats the location of a key or a secret.
pub fn source_text(source: PolicySource) -> String {
    match source {
        PolicySource::Configured => "configuration".into(),
        PolicySource::Backend(rank) => format!("backend {rank}"),
        PolicySource::Catalogs => "catalog".into(),
        PolicySource::Kept => "state store".into(),
    }
}

fn read_algorithm(word: Option<&str>) -> Outcome<TsigAlgorithm> {
    let Some(word) = word else {
        return Ok(TsigAlgorithm::HmacSha256);
    };
    TsigAlgorithm::from_word(word).ok_or_else(|| {
        let words = TsigAlgorithm::ALL.map(TsigAlgorithm::word).join(", ");
        OperationError::invalid(format!("unknown algorithm {word:?}: expected {words}"))
    })
}

fn key_name(text: &str) -> Outcome<NameBuf> {
    let name = NameBuf::from_text(text.as_bytes(), Name::ROOT);
    let mut name =
        name.map_err(|error| OperationError::invalid(format!("invalid name {text:?}: {error}")))?;
    name.make_lowercase();
    if name.as_name().is_root() {
        Err(OperationError::invalid("a key needs a name"))
    } else {
        Ok(name)
    }
}

pub(super) fn stored_policy_error(error: StoredPolicyError) -> OperationError {
    match error {
        StoredPolicyError::NoStore => OperationError::refused(error.to_string()),
        StoredPolicyError::Store(_) => OperationError::backend(error.to_string()),
    }
}
