//! Additions of readers to the converted server, each with its line in the report.

use super::{
    ConfigLocation, ImportVerdict, ImportedKey, ImportedPolicy, ImportedServer, ImportedSetting,
    ImportedValue, ImportedZone, SettingKey, toml_text,
};

impl ImportedServer {
    /// Sets a setting and reports it as converted.
    pub(crate) fn take(
        &mut self,
        location: &ConfigLocation,
        (table, key): SettingKey,
        value: impl Into<ImportedValue>,
        from: &str,
    ) {
        let text = format!("{from}: {key} in [{table}]");
        self.report.add(ImportVerdict::Taken, location, text);
        self.set(Some(location), (table, key), value);
    }

    /// Sets a setting.
    pub(crate) fn set(
        &mut self,
        location: Option<&ConfigLocation>,
        (table, key): SettingKey,
        value: impl Into<ImportedValue>,
    ) {
        debug_assert!(
            toml_text::TABLES.contains(&table),
            "[{table}] is not written"
        );
        self.settings
            .retain(|known| (known.table, known.key) != (table, key));
        self.settings.push(ImportedSetting {
            table,
            key,
            value: value.into(),
            location: location.cloned(),
        });
    }

    /// Returns the list that a setting has so far.
    pub(crate) fn texts(&self, key: SettingKey) -> Vec<String> {
        let mut settings = self.settings.iter();
        match settings.find(|known| (known.table, known.key) == key) {
            Some(ImportedSetting {
                value: ImportedValue::Texts(texts),
                ..
            }) => texts.clone(),
            _ => Vec::new(),
        }
    }

    /// Sets the certificate and key files of TLS listeners.
    pub(crate) fn set_certificate<T: Into<ImportedValue>>(
        &mut self,
        location: &ConfigLocation,
        (certificate, key): (T, T),
    ) {
        self.set(Some(location), ("tls", "certificate"), certificate);
        self.set(Some(location), ("tls", "key"), key);
    }

    /// Adds a line to the report.
    pub(crate) fn note(
        &mut self,
        verdict: ImportVerdict,
        location: &ConfigLocation,
        text: impl Into<String>,
    ) {
        self.report.add(verdict, location, text);
    }

    /// Reports a list, template or pattern that zones may refer to.
    pub(crate) fn note_use(&mut self, location: &ConfigLocation, what: &str, is_used: bool) {
        let (verdict, end) = if is_used {
            (ImportVerdict::Taken, "used by its zones")
        } else {
            (ImportVerdict::NotNeeded, "unused")
        };
        self.note(verdict, location, format!("{what}: {end}"));
    }

    /// Reports a zone that would leak or break.
    pub(crate) fn omit_zone(
        &mut self,
        name: &str,
        location: &ConfigLocation,
        reason: impl std::fmt::Display,
    ) {
        let text = format!("zone {name} omitted: {reason}");
        self.note(ImportVerdict::Breaks, location, text);
    }

    /// Adds a TSIG key and reports it. Other servers spell the algorithm in any case, and MD5 as RFC 8945 does.
    pub(crate) fn take_key(&mut self, mut key: ImportedKey) {
        key.algorithm.make_ascii_lowercase();
        if key.algorithm == "hmac-md5.sig-alg.reg.int" {
            key.algorithm = "hmac-md5".into();
        }
        let text = format!("key {}", key.name);
        self.note(ImportVerdict::Taken, &key.location, text);
        self.keys.push(key);
    }

    /// Checks whether a policy was converted.
    pub(crate) fn has_policy(&self, name: &str) -> bool {
        self.policies.iter().any(|known| known.name == name)
    }

    /// Adds a policy, and reports it with the differences.
    pub(crate) fn take_policy(&mut self, policy: ImportedPolicy, changes: &[String], from: &str) {
        let mut text = format!("{from} {}: [[dnssec_policy]]", policy.name);
        let mut verdict = ImportVerdict::Taken;
        if !changes.is_empty() {
            text += &format!(": {}", changes.join("; "));
            verdict = ImportVerdict::Changed;
        }
        self.note(verdict, &policy.location, text);
        self.policies.push(policy);
    }

    /// Adds a zone and reports it.
    pub(crate) fn take_zone(&mut self, zone: ImportedZone) {
        let (name, kind) = (&zone.name, zone.kind.word());
        let text = match &zone.file {
            // The file of a signed zone is a new one.
            Some(file) if zone.signing.is_none() => {
                format!("zone {name}: {kind}, file {}", file.display())
            }
            _ => format!("zone {name}: {kind}"),
        };
        self.report.add(ImportVerdict::Taken, &zone.location, text);
        self.zones.push(zone);
    }
}
