//! A policy fragment: the settings of a zone from one source, and how fragments are combined.

use super::{
    NameServerNotify, PolicySource, RemoteServer, UpdateRule, UpdateSerial, ZoneKind, ZonePolicy,
    ZonemdRule,
};
use nameward_sql::CatalogProperties;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessEntry, AccessList, AccessWord};
use std::path::PathBuf;
use std::sync::Arc;

/// The settings of a zone from one source; those that are `None` are left to the next source.
#[allow(missing_docs)] // as in [`ZonePolicy`]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PolicyFragment {
    pub kind: Option<ZoneKind>,
    pub primaries: Option<Vec<RemoteServer>>,
    pub also_notify: Option<Vec<RemoteServer>>,
    pub notify_name_servers: Option<bool>,
    pub notify_at_once: Option<bool>,
    pub allow_transfer: Option<AccessList>,
    /// Clients that may transfer the zone besides those that the next sources allow.
    pub also_transfer: Option<AccessList>,
    pub transfer_to_name_servers: Option<bool>,
    pub allow_notify: Option<AccessList>,
    pub allow_update: Option<AccessList>,
    pub update_rules: Option<Vec<UpdateRule>>,
    pub update_serial: Option<UpdateSerial>,
    pub forward_updates: Option<bool>,
    pub transfer_unsigned: Option<bool>,
    pub transfer_octets_max: Option<u64>,
    pub is_incremental: Option<bool>,
    pub runs_scripts: Option<bool>,
    pub expands_alias: Option<bool>,
    pub is_presigned: Option<bool>,
    pub copy_file: Option<PathBuf>,
    pub catalog: Option<NameBuf>,
    pub catalog_group: Option<String>,
    pub catalog_moves_to: Option<NameBuf>,
    pub catalog_properties: Option<CatalogProperties>,
    pub dnssec_policy: Option<String>,
    pub key_directory: Option<PathBuf>,
    pub zonemd: Option<ZonemdRule>,
}

impl PolicyFragment {
    /// Returns the fragment for a zone whose policy cannot be read: nothing is allowed, and nothing is done
    /// automatically.
    pub fn closed(kind: ZoneKind) -> Self {
        PolicyFragment {
            kind: Some(kind),
            primaries: Some(Vec::new()),
            also_notify: Some(Vec::new()),
            notify_name_servers: Some(false),
            allow_transfer: Some(AccessList::default()),
            transfer_to_name_servers: Some(false),
            allow_notify: Some(AccessList::default()),
            allow_update: Some(AccessList::default()),
            update_rules: Some(Vec::new()),
            forward_updates: Some(false),
            ..PolicyFragment::default()
        }
    }

    /// Returns this fragment with missing settings filled in from another.
    pub fn or(&self, other: &PolicyFragment) -> PolicyFragment {
        fn first<T: Clone>(one: &Option<T>, other: &Option<T>) -> Option<T> {
            one.as_ref().or(other.as_ref()).cloned()
        }
        PolicyFragment {
            kind: self.kind.or(other.kind),
            primaries: first(&self.primaries, &other.primaries),
            also_notify: first(&self.also_notify, &other.also_notify),
            notify_name_servers: self.notify_name_servers.or(other.notify_name_servers),
            notify_at_once: self.notify_at_once.or(other.notify_at_once),
            allow_transfer: first(&self.allow_transfer, &other.allow_transfer),
            // A list in the first fragment is final.
            also_transfer: match self.allow_transfer {
                Some(_) => self.also_transfer.clone(),
                None => first(&self.also_transfer, &other.also_transfer),
            },
            transfer_to_name_servers: self
                .transfer_to_name_servers
                .or(other.transfer_to_name_servers),
            allow_notify: first(&self.allow_notify, &other.allow_notify),
            allow_update: first(&self.allow_update, &other.allow_update),
            update_rules: first(&self.update_rules, &other.update_rules),
            update_serial: self.update_serial.or(other.update_serial),
            forward_updates: self.forward_updates.or(other.forward_updates),
            transfer_unsigned: self.transfer_unsigned.or(other.transfer_unsigned),
            transfer_octets_max: self.transfer_octets_max.or(other.transfer_octets_max),
            is_incremental: self.is_incremental.or(other.is_incremental),
            runs_scripts: self.runs_scripts.or(other.runs_scripts),
            expands_alias: self.expands_alias.or(other.expands_alias),
            is_presigned: self.is_presigned.or(other.is_presigned),
            copy_file: first(&self.copy_file, &other.copy_file),
            catalog: self.catalog.or(other.catalog),
            catalog_group: first(&self.catalog_group, &other.catalog_group),
            catalog_moves_to: self.catalog_moves_to.or(other.catalog_moves_to),
            catalog_properties: first(&self.catalog_properties, &other.catalog_properties),
            dnssec_policy: first(&self.dnssec_policy, &other.dnssec_policy),
            key_directory: first(&self.key_directory, &other.key_directory),
            zonemd: self.zonemd.or(other.zonemd),
        }
    }

    /// Completes the policy; settings that no source has deny access.
    pub fn finish(self, declared_by: PolicySource) -> ZonePolicy {
        let kind = self.kind.unwrap_or_default();
        let update_rules = self.update_rules.unwrap_or_default();
        // Rules with keys alone allow those keys: they would have no other purpose.
        let allow_update = self
            .allow_update
            .unwrap_or_else(|| access_by_keys(&update_rules));
        let also = self.also_transfer.unwrap_or_default();
        let allow_transfer = match self.allow_transfer {
            Some(list) if also.is_none() => list,
            Some(list) => list.union(&also),
            None => also,
        };
        let notify_name_servers = match (self.notify_name_servers, kind) {
            (Some(true), _) | (None, ZoneKind::Primary | ZoneKind::Producer) => {
                NameServerNotify::Always
            }
            (Some(false), _) | (None, ZoneKind::Secondary | ZoneKind::Consumer) => {
                NameServerNotify::Never
            }
            (None, ZoneKind::Native) => NameServerNotify::UnlessInDatabase,
        };
        ZonePolicy {
            kind,
            declared_by,
            primaries: self.primaries.unwrap_or_default(),
            also_notify: self.also_notify.unwrap_or_default(),
            remotes: Arc::default(),
            notify_name_servers,
            notify_at_once: self.notify_at_once.unwrap_or(true),
            allow_transfer,
            transfer_to_name_servers: self.transfer_to_name_servers.unwrap_or(false),
            allow_notify: self.allow_notify.unwrap_or_default(),
            allow_update,
            update_rules,
            update_serial: self.update_serial.unwrap_or_default(),
            forward_updates: self.forward_updates.unwrap_or(false),
            transfer_unsigned: self.transfer_unsigned.unwrap_or(false),
            transfer_octets_max: self.transfer_octets_max.unwrap_or(u64::MAX),
            is_incremental: self.is_incremental.unwrap_or(true),
            runs_scripts: self.runs_scripts,
            expands_alias: self.expands_alias.unwrap_or(false),
            is_presigned: self.is_presigned.unwrap_or(false),
            copy_file: self.copy_file,
            catalog: self.catalog,
            catalog_group: self.catalog_group,
            catalog_moves_to: self.catalog_moves_to,
            catalog_properties: self.catalog_properties.unwrap_or_default(),
            dnssec_policy: self.dnssec_policy,
            key_directory: self.key_directory,
            zonemd: self.zonemd.unwrap_or_default(),
        }
    }

    /// Returns the fragment with the settings that are configured for its servers.
    pub(super) fn with_remotes(&self, remotes: &[RemoteServer]) -> Self {
        let configured = |servers: &Option<Vec<RemoteServer>>| {
            let servers = servers.as_ref()?.iter();
            Some(
                servers
                    .map(|server| server.configured_by(remotes))
                    .collect(),
            )
        };
        PolicyFragment {
            primaries: configured(&self.primaries),
            also_notify: configured(&self.also_notify),
            ..self.clone()
        }
    }

    /// Returns the names of the keys that the fragment refers to.
    pub fn keys(&self) -> Vec<NameBuf> {
        let servers = [&self.primaries, &self.also_notify].into_iter().flatten();
        let of_servers = servers.flatten().filter_map(|server| server.key);
        let lists = [&self.allow_transfer, &self.allow_notify, &self.allow_update];
        let of_lists = lists.into_iter().flatten().flat_map(|list| {
            list.named_keys()
                .map(|key| NameBuf::from(Name::from_valid_wire(key)))
        });
        let rules = self.update_rules.iter().flatten();
        of_servers
            .chain(of_lists)
            .chain(rules.filter_map(|rule| rule.key))
            .collect()
    }
}

/// Returns an access list with the keys that rules name.
fn access_by_keys(rules: &[UpdateRule]) -> AccessList {
    let keys = rules.iter().filter_map(|rule| rule.key);
    let entries = keys.map(|key| AccessEntry::positive(AccessWord::Key(key)));
    AccessList::new(&entries.collect::<Vec<_>>())
}
