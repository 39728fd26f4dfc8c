//! Operations on the keys of the HTTP API: create, list, delete.

use nameward_base::time::now_seconds;
use nameward_maintain::policy::{PolicySource, SharedApiKey};
use nameward_sql::write::{TsigEdit, WriteError};
use nameward_wire::NameBuf;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::api_keys::{ApiKey, ApiKeyError};

use super::tsig::write_first;
use super::{
    Database, ErrorKind, ItemSink, KeyScope, OperationError, OperationResult, Operations, Outcome,
    list_all, source_text, table_row, zone_name,
};
use nameward_base::text::utc_text;

/// Maximum number of zone suffixes of one key.
const ZONES_MAX: usize = 100;
/// Maximum length of a description in octets.
const DESCRIPTION_MAX: usize = 200;

/// A key to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyTemplate {
    /// Zones at and below these names; all if empty.
    #[serde(default)]
    pub zones: Vec<String>,
    /// It permits no changes and shows no secrets.
    #[serde(default)]
    pub read_only: bool,
    /// When it expires, in seconds since 1970; never by default.
    pub expires: Option<u64>,
    /// The purpose.
    #[serde(default)]
    pub description: String,
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedApiKey {
    /// Its ID, which is part of the key.
    pub id: String,
    /// Zones at and below these names; all if empty.
    pub zones: Vec<String>,
    /// It permits no changes and shows no secrets.
    pub read_only: bool,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// When it expires, in seconds since 1970; never if none.
    pub expires: Option<u64>,
    /// Where it is stored: `state store` or `backend N`.
    #[serde(default)]
    pub source: String,
    /// The purpose.
    pub description: String,
}

table_row! { ListedApiKey as item:
    "ID" = item.id,
    "ZONES" = if item.zones.is_empty() {
                "all".into()
            } else {
                item.zones.join(",")
            },
    "RIGHTS" = if item.read_only { "read" } else { "change" },
    "CREATED" = utc_text(item.created),
    "EXPIRES" = item.expires.map_or_else(|| "never".into(), utc_text),
    "SOURCE" = item.source,
    "DESCRIPTION" = item.description,
}

impl From<&ApiKey> for ListedApiKey {
    fn from(key: &ApiKey) -> Self {
        ListedApiKey {
            id: key.id.clone(),
            zones: key.scope.zones().iter().map(NameBuf::to_string).collect(),
            read_only: key.scope.is_read_only(),
            created: key.created,
            expires: key.expires,
            source: source_text(key.source),
            description: key.description.clone(),
        }
    }
}

impl From<ApiKeyError> for OperationError {
    fn from(error: ApiKeyError) -> Self {
        let kind = match error {
            ApiKeyError::NoStore | ApiKeyError::TooMany => ErrorKind::Refused,
            ApiKeyError::NoRandomness => ErrorKind::Internal,
            ApiKeyError::Store(_) => ErrorKind::Backend,
        };
        OperationError::new(kind, error.to_string())
    }
}

impl Operations {
    /// Creates a key. Its text is in the result and stored nowhere.
    pub fn create_api_key(&self, template: &ApiKeyTemplate) -> Outcome {
        let now = now_seconds();
        if template.zones.len() > ZONES_MAX {
            return Err(OperationError::invalid(format!(
                "an API key can have {ZONES_MAX} zones, this one has {}",
                template.zones.len()
            )));
        }
        if template.description.len() > DESCRIPTION_MAX
            || template.description.contains(char::is_control)
        {
            return Err(OperationError::invalid(format!(
                "the description must have at most {DESCRIPTION_MAX} octets, without control characters"
            )));
        }
        if template.expires.is_some_and(|expires| expires <= now) {
            return Err(OperationError::invalid("the expiry is in the past"));
        }
        let zones = template.zones.iter().map(|zone| zone_name(zone));
        let mut zones = zones.collect::<Result<Vec<_>, _>>()?;
        zones.iter_mut().for_each(NameBuf::make_lowercase);
        let (key, secret) = self.api_keys.generate(
            template.description.clone(),
            KeyScope::new(zones, template.read_only),
            template.expires,
            now,
        )?;
        let key = self.store_api_key(key)?;
        tracing::info!("created API key {} in {}", key.id, source_text(key.source));
        Ok(OperationResult::ApiKeyCreated {
            key: (&*key).into(),
            secret,
        })
    }

    /// Stores a key in the first writable database if servers share their keys, otherwise in the state store.
    fn store_api_key(&self, mut key: ApiKey) -> Outcome<Arc<ApiKey>> {
        let databases = self.databases.iter();
        let databases = databases.filter(|_| self.api_keys.is_shared());
        let shared = key.to_shared();
        match write_first(databases, |database| self.share_api_key(database, &shared))? {
            Some(source) => {
                key.source = source;
                Ok(Arc::new(key))
            }
            None => Ok(self.api_keys.store(key)?),
        }
    }

    fn share_api_key(
        &self,
        database: &Database,
        key: &SharedApiKey,
    ) -> Result<PolicySource, WriteError> {
        for row in key.to_rows() {
            let edit = TsigEdit::Replace(row);
            let change = database.backend.change_tsig_key(&edit);
            self.runtime.block_on(change)?;
        }
        let source = PolicySource::Backend(database.rank);
        // This server uses it at once, others when they read the table.
        self.policies
            .change_api_key(source, &key.id, Some(key.clone()));
        (database.request_list)();
        Ok(source)
    }

    /// Deletes a key from the database that has it; `None` if none does.
    fn unshare_api_key(&self, id: &str) -> Outcome<Option<()>> {
        if !self.api_keys.is_shared() {
            return Ok(None);
        }
        let policies = self.policies.load();
        let mut keys = policies.api_keys().iter();
        let Some((source, key)) = keys.find(|(_, key)| key.id == id) else {
            return Ok(None);
        };
        let mut databases = self.databases.iter();
        let database = databases.find(|one| PolicySource::Backend(one.rank) == *source);
        let Some(database) = database else {
            return Ok(None);
        };
        for row in key.to_rows() {
            let edit = TsigEdit::Remove(row.name);
            self.wait(database, database.backend.change_tsig_key(&edit))?;
        }
        self.policies.change_api_key(*source, id, None);
        (database.request_list)();
        Ok(Some(()))
    }

    /// Lists all keys, oldest first.
    pub fn list_api_keys(&self, items: ItemSink<'_>) -> Outcome {
        let mut keys = self.api_keys.all();
        keys.sort_by_key(|key| key.created);
        list_all(keys.iter().map(|key| ListedApiKey::from(&**key)), items)
    }

    /// Deletes a key; the next request with it is refused.
    pub fn delete_api_key(&self, id: &str) -> Outcome {
        let is_deleted = self.api_keys.delete(id)?.is_some() || self.unshare_api_key(id)?.is_some();
        if is_deleted {
            tracing::info!("deleted API key {id}");
            Ok(OperationResult::ApiKeyDeleted { id: id.to_owned() })
        } else {
            Err(OperationError::not_found(format!(
                "API key {id:?} not found; `nameward api-key list` lists the keys"
            )))
        }
    }
}
