//! The keys of one database zone, as a [`KeyStorage`].

use super::rows::{first_key, list_row, number_of, read_rows, removal, row, signing_metadata};
use super::{DatabaseKeys, KeyDatabase};
use crate::local::{KeyPlan, KeyProgress, SigningSettings, ZoneKey, ZoneKeysError};
use crate::storage::{KeyEntry, KeyStorage, Manageability, RequestedSigning, UseChange};
use nameward_dnssec::SigningPolicy;
use nameward_dnssec::rollover::{KeyState, RolloverTimes};
use nameward_maintain::policy::POLICY_METADATA;
use nameward_sql::ZoneRow;
use nameward_sql::write::{
    AttributeChange, Committed, KEY_SERVER, KeyEdit, KeyRefusal, LeaseHolder, LeaseTask, StoredKey,
    StoredRecord,
};
use nameward_wire::Name;

/// The interval at which managed keys are read again: others may have changed them.
const REREAD_INTERVAL: u64 = 3600;

/// A zone of a database.
pub struct DatabaseZoneKeys<'d> {
    pub(super) keys: &'d DatabaseKeys,
    pub(super) database: &'d KeyDatabase,
    pub(super) row: ZoneRow,
}

impl DatabaseZoneKeys<'_> {
    pub(super) fn name(&self) -> Name<'_> {
        self.row.name.as_name()
    }

    pub(super) fn rows(&self) -> Result<Vec<StoredKey>, ZoneKeysError> {
        let rows = self.database.backend.stored_keys(&self.row);
        self.database.wait(rows)
    }

    /// Reads the metadata: kinds in upper case, contents without surrounding space.
    fn metadata(&self) -> Result<Vec<(String, String)>, ZoneKeysError> {
        let items = self.database.backend.stored_metadata(&self.row);
        let items = self.database.wait(items)?.into_iter();
        let items = items.map(|item| (item.kind.to_ascii_uppercase(), item.content.trim().into()));
        Ok(items.collect())
    }

    /// Changes keys and metadata in one transaction, and updates the server's answers; false if nothing changed.
    fn write(&self, changes: &[AttributeChange]) -> Result<bool, ZoneKeysError> {
        let changed = self
            .database
            .backend
            .change_attributes(self.row.id, changes);
        let committed = self.database.wait(changed)?;
        if committed.is_changed {
            self.publish(&committed)?;
            for warning in &committed.warnings {
                tracing::warn!("zone {}: {warning}", self.row.name);
            }
        }
        Ok(committed.is_changed)
    }

    /// Makes the server answer with a committed change.
    pub(super) fn publish(&self, committed: &Committed) -> Result<(), ZoneKeysError> {
        let database = self.database;
        let waiting = database.backend.await_replica(committed);
        let is_there = database.runtime.block_on(waiting);
        (database.publish)(committed)
            .map_err(|error| ZoneKeysError::NotServed(error.to_string()))?;
        if !is_there {
            tracing::warn!(
                "zone {}: the replica does not have the change yet; it is served once it does",
                self.row.name
            );
        }
        Ok(())
    }

    /// Returns the server that rolls the keys of all zones in the database.
    fn key_lease(&self) -> Result<LeaseHolder, ZoneKeysError> {
        let holder = self.database.backend.lease_holder(LeaseTask::Keys);
        self.database.wait(holder)
    }

    /// Checks whether another server took the last step: the states recorded here are older.
    pub(super) fn is_taken_over(&self) -> Result<bool, ZoneKeysError> {
        let metadata = self.metadata()?;
        let server = self.keys.server()?;
        Ok(metadata
            .iter()
            .any(|(kind, content)| kind == KEY_SERVER && !content.is_empty() && *content != server))
    }

    fn edit(&self, edit: KeyEdit) -> Result<(), ZoneKeysError> {
        self.write(&[AttributeChange::Key(edit)]).map(drop)
    }

    /// Finds the number that the database assigned to a key.
    fn number_of_new(&self, key: &StoredKey) -> Result<u32, ZoneKeysError> {
        let rows = self.rows()?;
        let is_it = |row: &&StoredKey| (row.flags, &row.content) == (key.flags, &key.content);
        let number = rows.iter().find(is_it).map(number_of);
        number.ok_or(ZoneKeysError::Refused(KeyRefusal::ChangedMeanwhile))
    }
}

impl KeyStorage for DatabaseZoneKeys<'_> {
    fn keys(&self) -> Result<Vec<ZoneKey>, ZoneKeysError> {
        let mut keys = read_rows(&self.rows()?)?;
        self.keys.add_lives(self.name(), &mut keys)?;
        Ok(keys)
    }

    fn list(&self) -> Result<Vec<KeyEntry>, ZoneKeysError> {
        let rows = self.rows()?;
        let mut entries: Vec<KeyEntry> = rows.iter().map(list_row).collect();
        let usable = entries.iter_mut().filter_map(|entry| match entry {
            KeyEntry::Usable(key) => Some(&mut **key),
            KeyEntry::Unusable(_) => None,
        });
        self.keys.add_lives(self.name(), usable)?;
        Ok(entries)
    }

    fn has_keys(&self) -> Result<bool, ZoneKeysError> {
        Ok(!self.rows()?.is_empty())
    }

    fn check_signable(&self) -> Result<(), ZoneKeysError> {
        // The transaction that adds a key decides by the current rows.
        Ok(())
    }

    fn sign(&self, key: ZoneKey, request: &RequestedSigning, _: u64) -> Result<u32, ZoneKeysError> {
        let mut changes = signing_metadata(request);
        changes.push(first_key(&key));
        self.write(&changes)?;
        self.number_of_new(&row(&key))
    }

    fn change_signing(&self, request: &RequestedSigning, _: u64) -> Result<bool, ZoneKeysError> {
        self.write(&signing_metadata(request))
    }

    fn add(&self, key: ZoneKey, _: u64) -> Result<u32, ZoneKeysError> {
        // A key that cannot sign is not stored.
        key.key()?;
        let row = row(&key);
        self.edit(KeyEdit::Add(row.clone()))?;
        self.number_of_new(&row)
    }

    fn change_use(&self, number: u32, change: UseChange, _: u64) -> Result<(), ZoneKeysError> {
        let id = i64::from(number);
        self.edit(match change {
            UseChange::Active(is_active) => KeyEdit::SetActive(id, is_active),
            UseChange::Published(is_published) => KeyEdit::SetPublished(id, is_published),
        })
    }

    fn remove(&self, number: u32, _: u64) -> Result<(), ZoneKeysError> {
        self.edit(KeyEdit::Remove(number.into()))
    }

    fn remove_all(&self, _: u64) -> Result<usize, ZoneKeysError> {
        let count = self.rows()?.len();
        self.write(&removal().collect::<Vec<_>>())?;
        Ok(count)
    }

    fn uses_nsec3(&self) -> Result<bool, ZoneKeysError> {
        let metadata = self.metadata()?;
        Ok(metadata.iter().any(|(kind, _)| kind == "NSEC3PARAM"))
    }

    fn settings(&self) -> Result<SigningSettings, ZoneKeysError> {
        self.keys.terms(self.name())
    }

    fn stored_policy(&self) -> Result<Option<SigningPolicy>, ZoneKeysError> {
        let items = self.database.backend.stored_metadata(&self.row);
        let mut policy = SigningPolicy::default();
        for item in self.database.wait(items)? {
            // Invalid items are in the log.
            let _ = policy.take(&item.kind, &item.content);
        }
        Ok(Some(policy))
    }

    /// Reads the policy from the metadata each time: the policy table may not have it yet, and a zone must not go
    /// insecure because of that.
    fn manageability(&self) -> Result<Manageability, ZoneKeysError> {
        let metadata = self.metadata()?;
        let item = |wanted: &str| {
            let mut items = metadata.iter();
            let found = items.find(|(kind, content)| kind == wanted && !content.is_empty());
            found.map(|(_, content)| content.clone())
        };
        let is_others = || match self.key_lease()? {
            LeaseHolder::Server(server) => Ok::<_, ZoneKeysError>(server != self.keys.server()?),
            LeaseHolder::Free => Ok(false),
            LeaseHolder::NoTable => match item(KEY_SERVER) {
                Some(server) => Ok(server != self.keys.server()?),
                None => Ok(false),
            },
        };
        let obstacle = if item("PRESIGNED").as_deref() == Some("1") {
            Some(ZoneKeysError::Presigned)
        } else if self.row.kind.is_transferred() {
            Some(ZoneKeysError::Secondary)
        } else {
            match is_others() {
                Ok(false) => None,
                Ok(true) => Some(ZoneKeysError::Refused(KeyRefusal::OtherServer)),
                Err(error) => Some(error),
            }
        };
        Ok(Manageability {
            policy: item(POLICY_METADATA),
            obstacle,
        })
    }

    /// Raises delays to the longest TTL of the zone, and that of the records that signing adds.
    fn raise_times(&self, times: &mut RolloverTimes) -> Result<(), ZoneKeysError> {
        let (backend, apex) = (&self.database.backend, self.name());
        let longest = self.database.wait(backend.longest_ttl(&self.row))?;
        times.zone_ttl = times.zone_ttl.max(longest.into());
        let (mut ttl, mut minimum) = (0, 0);
        let mut take = |record: StoredRecord| {
            if record.rtype == "SOA" && !record.disabled {
                ttl = record.ttl;
                let last = record.content.split(' ').next_back();
                minimum = last.and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            true
        };
        let records = backend.stored_records(&self.row, Some(apex), &mut take);
        self.database.wait(records)?;
        times.negative_ttl = times.negative_ttl.max(ttl.into());
        times.dnskey_ttl = times.dnskey_ttl.max(minimum);
        Ok(())
    }

    fn signed_since(&self, _: &[ZoneKey], _: u64) -> Option<u64> {
        // Rows have no times.
        None
    }

    fn advance(&self, plan: Option<&KeyPlan>, now: u64) -> Result<KeyProgress, ZoneKeysError> {
        let progress = self.take_due_steps(plan.ok_or(ZoneKeysError::NoPolicy)?, now)?;
        Ok(KeyProgress {
            reread_at: Some(now.saturating_add(REREAD_INTERVAL)),
            ..progress
        })
    }

    fn change_states(
        &self,
        number: Option<u32>,
        change: &mut dyn FnMut(&mut KeyState),
    ) -> Result<(), ZoneKeysError> {
        self.keys.change_lives(self.name(), number, change)
    }
}
