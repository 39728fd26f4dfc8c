//! Signed zones, their policies, consumed catalogs and the query log of a named.conf, for a migration.

use super::{
    super::{BindZone, Spot, dnssec_policy, server_statements::CatalogStatement},
    BindImporter,
};
use crate::migrate::{
    ImportRefusal,
    ImportVerdict::{Changed, Taken},
    ImportedKeyStore, ImportedPolicy, ImportedSigning,
};

impl BindImporter<'_> {
    /// Converts `querylog`, or else the category `queries`, which enables the query log.
    pub(super) fn query_log(&mut self) {
        let mut words = self.statements.words.iter();
        let switch = words.rfind(|(_, word, _)| word == "querylog");
        let is_off = |value: &str| ["no", "false", "0"].contains(&value);
        if let Some((spot, _, value)) = switch {
            let location = self.location(*spot);
            let key = ("query_log", "enabled");
            self.server.take(&location, key, !is_off(value), "querylog");
        }
        let Some(channel) = &self.statements.query_log else {
            return;
        };
        let location = self.location(channel.spot);
        if switch.is_none() {
            let key = ("query_log", "enabled");
            self.server.set(Some(&location), key, true);
        }
        if let Some(file) = &channel.file {
            let path = self.statements.directory.join(file);
            let key = ("query_log", "file");
            self.server.set(Some(&location), key, path.as_path());
        }
        let text = "logging category queries: see [query_log]; the line format differs";
        self.note(Changed, channel.spot, text);
    }

    /// Checks whether the members of a catalog are transferred from the catalog's primaries, as they are here.
    pub(super) fn has_members_of(&mut self, catalog: &CatalogStatement, zone: &BindZone) -> bool {
        let own = zone.primaries.iter().map(|remote| remote.address.ip());
        let own: Vec<String> = own.map(|address| address.to_string()).collect();
        if let Some(others) = &catalog.primaries
            && *others != own
        {
            let location = self.location(catalog.spot);
            let reason = "default-primaries is not supported: catalog members are transferred from the catalog's primaries";
            self.server.omit_zone(&catalog.zone, &location, reason);
            return false;
        }
        let text = format!("catalog-zones: {} is a consumer zone", catalog.zone);
        self.note(Taken, catalog.spot, text);
        true
    }

    /// Returns how a zone is signed: the file with BIND's signed version, its keys and its policy.
    pub(super) fn signing(&mut self, zone: &BindZone) -> Result<ImportedSigning, ImportRefusal> {
        let terms = zone.terms.as_deref().cloned().unwrap_or_default();
        let version = zone.file.clone().ok_or("no file")?;
        let directory = terms.key_directory.unwrap_or_default();
        let mut policy = None;
        if zone.signed_by == Some("dnssec-policy") {
            let name = terms.dnssec_policy.ok_or("dnssec-policy without a name")?;
            self.policy(&name, zone.spot)?;
            policy = Some(name);
        }
        Ok(ImportedSigning {
            source: if zone.is_signed_in_place {
                None
            } else {
                Some(version.with_extension(""))
            },
            version,
            keys: ImportedKeyStore::Pairs(self.statements.directory.join(directory)),
            policy,
            flush: "rndc sync",
        })
    }

    /// Converts a policy, once.
    fn policy(&mut self, name: &str, spot: Spot) -> Result<(), ImportRefusal> {
        if self.server.has_policy(name) {
            return Ok(());
        }
        let mut policies = self.statements.policies.iter();
        let written = policies.find(|found| found.name == name);
        let (settings, spot) = match written {
            Some(written) => {
                let settings = written.settings.clone();
                let settings = settings.map_err(|reason| format!("policy {name}: {reason}"))?;
                (settings, written.spot)
            }
            None if name == "default" => (dnssec_policy::built_in(), spot),
            None => return Err(format!("unknown dnssec-policy {name}").into()),
        };
        let changes = written.map_or(&[][..], |written| &written.changes);
        let policy = ImportedPolicy {
            name: name.to_string(),
            settings,
            location: self.location(spot),
        };
        self.server.take_policy(policy, changes, "dnssec-policy");
        Ok(())
    }
}
