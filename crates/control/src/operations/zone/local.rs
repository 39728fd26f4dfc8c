//! Operations on whole zones that are not in a database: files in the directory of a file backend, and zones declared
//! in the state store. Zones declared in the configuration are left to the operator.
//!
//! A zone file is the zone; its kind, template and catalog are declared in the state store if they differ from the
//! defaults. A transferred zone, or a catalog produced here, consists of its declaration only.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nameward_maintain::follow::ServedFile;
use nameward_maintain::policy::{
    DeclaredSettings, PolicySource, RemoteServer, StoredPolicyError, UNCONFIGURED_RANK,
};
use nameward_wire::NameBuf;
use nameward_zone::ZoneKind;
use nameward_zone::change::RrsetData;

use super::list::shown_backend;
use super::new_zone_warnings;
use crate::operations::record::data_text;
use crate::operations::tsig::stored_policy_error;
use crate::operations::{
    OperationError, OperationResult, Operations, Outcome, ZoneChanged, ZoneTemplate, domain_name,
    zone_name,
};

/// The default port of a primary.
const PORT: u16 = 53;
/// Maximum number of primaries per zone.
const PRIMARIES_MAX: usize = 32;
/// How long the creation of a catalog waits for its first version, which usually takes milliseconds.
const PRODUCED_WITHIN: Duration = Duration::from_secs(5);

/// Where a zone that is not in a database is stored.
pub(crate) enum LocalZone {
    /// A file in a directory, with its settings in the state store.
    File(ServedFile, DeclaredSettings),
    /// Declared in the state store.
    Declared(DeclaredSettings),
}

impl Operations {
    /// Finds a zone that is not in a database, if commands may change it.
    pub(crate) fn local_zone(&self, name: &NameBuf) -> Outcome<LocalZone> {
        if let Some(location) = self.files.declared_at(name.as_name()) {
            return Err(OperationError::refused(format!(
                "zone {name} is declared at {location}: change it there and run `nameward reload`"
            )));
        }
        let settings = match self.stored_policies.zone(name.as_name()) {
            Err(StoredPolicyError::NoStore) => None,
            settings => settings.map_err(stored_policy_error)?,
        };
        if let Some(file) = self.files.find(name)? {
            if !file.is_in_directory {
                return Err(OperationError::refused(format!(
                    "zone {name} is in {}, listed in the configuration of backend {}: change it there",
                    file.path.display(),
                    file.rank
                )));
            }
            return Ok(LocalZone::File(file, settings.unwrap_or_default()));
        }
        if let Some(settings) = settings {
            return Ok(LocalZone::Declared(settings));
        }
        let policies = self.policies.load();
        let own = policies.own(name.as_name());
        match own.map(|policy| policy.declared_by) {
            Some(PolicySource::Catalogs) => Err(OperationError::refused(format!(
                "zone {name} is a member of a catalog zone: change the catalog at its producer"
            ))),
            _ => Err(OperationError::unknown_zone(name)),
        }
    }

    /// Creates a zone as a file in a directory, or declares it in the state store.
    pub(crate) fn create_local(
        &self,
        name: NameBuf,
        kind: ZoneKind,
        template: &ZoneTemplate,
    ) -> Outcome {
        if let Some(location) = self.files.declared_at(name.as_name()) {
            return Err(OperationError::conflict(format!(
                "zone {name} is already declared at {location}"
            )));
        }
        let declared_before = self.stored_policies.zone(name.as_name()).ok().flatten();
        // Settings of a file that was removed manually are replaced.
        if declared_before.is_some_and(|before| !is_file(before.kind)) {
            return Err(OperationError::conflict(format!(
                "zone {name} already exists in the state store"
            )));
        }
        let settings = DeclaredSettings {
            kind,
            primaries: read_primaries(&template.primaries)?,
            template: self.checked_template(template.template.as_deref())?,
            ..DeclaredSettings::default()
        };
        check_settings(&settings)?;
        let changed = match kind {
            ZoneKind::Native | ZoneKind::Primary => {
                let rrsets = template.rrsets(&name, SystemTime::now())?;
                let warnings = new_zone_warnings(&name, &rrsets);
                let text = zone_text(&rrsets);
                let mut changed = self.create_file((&name, template.backend), settings, text)?;
                changed.warnings.extend(warnings);
                changed
            }
            ZoneKind::Secondary | ZoneKind::Consumer | ZoneKind::Producer => {
                template.check_no_records()?;
                if template.backend.is_some() {
                    return Err(OperationError::invalid(format!(
                        "a {} zone in the state store has no backend: omit --backend",
                        kind.word()
                    )));
                }
                self.declare(&name, &settings)?;
                declared(&name, self.key_warnings(&settings))
            }
        };
        tracing::info!("zone {name}: created via control socket");
        Ok(OperationResult::ZoneCreated(changed))
    }

    /// Waits for the first version of a catalog declared in the state store, which another thread produces: the reply
    /// promises that it is served.
    pub fn wait_until_produced(&self, name: &NameBuf) {
        let policies = self.policies.load();
        let policy = policies.get(name.as_name());
        let is_local = matches!(self.stored_policies.zone(name.as_name()), Ok(Some(_)));
        if policy.kind != ZoneKind::Producer || !is_local {
            return;
        }
        let deadline = Instant::now() + PRODUCED_WITHIN;
        let is_missing = || {
            let table = self.commits.table().load();
            let zone = table.exact(name.as_name());
            zone.is_none_or(|zone| !zone.is_ready())
        };
        while is_missing() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes the file of a new zone and serves it, with its settings.
    pub(crate) fn create_file(
        &self,
        (name, backend): (&NameBuf, Option<u32>),
        settings: DeclaredSettings,
        text: Vec<u8>,
    ) -> Outcome<ZoneChanged> {
        let backend = backend.map(|number| {
            u16::try_from(number)
                .map_err(|_| OperationError::not_found(format!("backend {number} not found")))
        });
        let is_declared = settings != DeclaredSettings::default();
        if is_declared && self.commits.store().is_none() {
            return Err(no_store(name));
        }
        if !is_declared
            && self
                .stored_policies
                .zone(name.as_name())
                .is_ok_and(|declared| declared.is_some())
        {
            self.stored_policies
                .remove_zone(name.as_name())
                .map_err(stored_policy_error)?;
        }
        // If two commands create the same zone, the one that creates the file continues.
        let file = self.files.create(name, backend.transpose()?, text)?;
        if is_declared && let Err(error) = self.declare(name, &settings) {
            self.files.remove(name, file.path, file.rank)?;
            return Err(error);
        }
        (self.keys_changed)(*name);
        let served = self.commits.table().version(name.as_name(), file.rank);
        Ok(ZoneChanged {
            serial: served.map(|zone| zone.serial().0),
            ..in_file(name, file.rank, Vec::new())
        })
    }

    pub(crate) fn declare(&self, name: &NameBuf, settings: &DeclaredSettings) -> Outcome<()> {
        let set = self.stored_policies.set_zone(name.as_name(), settings);
        set.map_err(|error| match error {
            StoredPolicyError::NoStore => no_store(name),
            error => stored_policy_error(error),
        })
    }

    /// Returns the name of a configured template; `None` for an empty text.
    pub(crate) fn checked_template(&self, name: Option<&str>) -> Outcome<String> {
        let name = name.unwrap_or_default();
        match name.is_empty() || self.stored_policies.has_template(name) {
            true if name.contains('\n') => Err(OperationError::invalid(
                "the template name must be a single line",
            )),
            true => Ok(name.into()),
            false => Err(OperationError::not_found(format!(
                "no [[template]] {name:?} is configured"
            ))),
        }
    }

    /// Returns the name of a catalog produced here; `None` for an empty text.
    pub(crate) fn local_catalog(&self, text: &str) -> Outcome<Option<NameBuf>> {
        if text.is_empty() {
            return Ok(None);
        }
        let name = zone_name(text)?;
        match self.policies.load().get(name.as_name()).kind {
            ZoneKind::Producer => Ok(Some(name)),
            _ => Err(OperationError::invalid(format!(
                "zone {name} is not a catalog of this server: its kind must be producer"
            ))),
        }
    }

    /// Warns of unknown TSIG keys: transfers with them fail.
    pub(crate) fn key_warnings(&self, settings: &DeclaredSettings) -> Vec<String> {
        let policies = self.policies.load();
        let keys = settings.primaries.iter().filter_map(|server| server.key);
        let unknown = keys.filter(|key| policies.keys().find(key.as_name()).is_none());
        let warn = |key: NameBuf| {
            format!("unknown TSIG key {key}; add it with `nameward tsig import {key}`")
        };
        unknown.map(warn).collect()
    }
}

/// Checks whether zones of a kind are files.
pub(crate) fn is_file(kind: ZoneKind) -> bool {
    matches!(kind, ZoneKind::Native | ZoneKind::Primary)
}

pub(crate) fn no_store(name: &NameBuf) -> OperationError {
    OperationError::refused(format!(
        "zone {name}: zone settings are kept in the state store: set server.state_directory"
    ))
}

/// Returns a zone in the state store, as shown in results.
pub(crate) fn declared(name: &NameBuf, warnings: Vec<String>) -> ZoneChanged {
    ZoneChanged {
        zone: name.to_string(),
        backend: shown_backend(UNCONFIGURED_RANK.into()),
        engine: "state store".into(),
        serial: None,
        previous_serial: None,
        warnings,
    }
}

/// Returns a zone in a file, as shown in results.
pub(crate) fn in_file(name: &NameBuf, rank: u16, warnings: Vec<String>) -> ZoneChanged {
    ZoneChanged {
        backend: u32::from(rank),
        engine: "file".into(),
        ..declared(name, warnings)
    }
}

/// Refuses contradicting settings.
pub(crate) fn check_settings(settings: &DeclaredSettings) -> Outcome<()> {
    let (kind, has_primaries) = (settings.kind, !settings.primaries.is_empty());
    match kind.is_transferred() {
        true if !has_primaries => Err(OperationError::invalid(format!(
            "a {} zone needs a primary: --primary ADDRESS[,KEY], once or more",
            kind.word()
        ))),
        false if has_primaries => Err(OperationError::invalid(format!(
            "a {} zone is not transferred from primaries: omit --primary",
            kind.word()
        ))),
        _ => Ok(()),
    }
}

/// Reads primaries as `192.0.2.1`, `192.0.2.1:5300`, `[2001:db8::1]:5300`, each optionally followed by `,key.name`.
pub(crate) fn read_primaries(texts: &[String]) -> Outcome<Vec<RemoteServer>> {
    if texts.len() > PRIMARIES_MAX {
        return Err(OperationError::invalid(format!(
            "a zone has at most {PRIMARIES_MAX} primaries"
        )));
    }
    texts.iter().map(|text| read_primary(text)).collect()
}

fn read_primary(text: &str) -> Outcome<RemoteServer> {
    let (address, key) = match text.split_once(',') {
        Some((address, key)) => (address, Some(key)),
        None => (text, None),
    };
    let bare = address
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = address.parse::<SocketAddr>().or_else(|_| {
        let ip = bare.unwrap_or(address).parse::<IpAddr>();
        ip.map(|ip| SocketAddr::new(ip, PORT))
    });
    let address = address.map_err(|_| {
        OperationError::invalid(format!(
            "invalid primary {text:?}: expected 192.0.2.1, 192.0.2.1:5300, 2001:db8::1 or [2001:db8::1]:5300, followed \
             by ,KEY if transfers are signed with a TSIG key"
        ))
    })?;
    let key = key.map(|key| {
        domain_name(key)
            .map_err(|_| OperationError::invalid(format!("invalid TSIG key name {key:?}")))
    });
    Ok(RemoteServer {
        address,
        key: key.transpose()?,
        source: None,
        tls: None,
    })
}

/// Formats RRsets as a zone file.
fn zone_text(rrsets: &[RrsetData]) -> Vec<u8> {
    let mut text = String::from("; created by nameward zone create\n");
    for rrset in rrsets {
        for record in &rrset.records {
            let data = data_text(rrset.rtype, &record.rdata);
            let line = format!("{} {} IN {} {data}\n", rrset.name, rrset.ttl, rrset.rtype);
            text.push_str(&line);
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_are_read_with_ports_and_keys() {
        for (text, address, key) in [
            ("192.0.2.1", "192.0.2.1:53", None),
            (
                "192.0.2.1:5300,k.example",
                "192.0.2.1:5300",
                Some("k.example."),
            ),
            ("2001:db8::1", "[2001:db8::1]:53", None),
            ("[2001:db8::1],k", "[2001:db8::1]:53", Some("k.")),
            ("[2001:db8::1]:1", "[2001:db8::1]:1", None),
        ] {
            let server = read_primary(text).unwrap();
            assert_eq!(server.address, address.parse().unwrap(), "{text}");
            assert_eq!(server.key.map(|key| key.to_string()).as_deref(), key);
        }
        for wrong in ["", "ns1.example", "192.0.2.1:99999", "192.0.2.1,a..b"] {
            assert!(read_primary(wrong).is_err(), "{wrong}");
        }
    }
}
