//! The policy that the table of a zone and that of its template make.

use nameward_maintain::policy::{PolicyFragment, ZoneKind};
use nameward_sql::CatalogProperties;

use super::{
    Config,
    settings::{TemplateSettings, ZoneSettings},
};

impl Config {
    pub fn template(&self, name: &str) -> Option<&TemplateSettings> {
        let mut templates = self.templates.iter();
        templates.find(|template| template.name == name)
    }

    /// Returns the settings of a zone: its own and those of its template.
    pub fn zone_policy(&self, zone: &ZoneSettings) -> PolicyFragment {
        let own = PolicyFragment {
            kind: zone.kind.0,
            transfer_octets_max: octets_of_mib(zone.transfer_size_max_mb.get()),
            catalog_properties: (!zone.catalog_label.is_empty()).then(|| CatalogProperties {
                label: Some(zone.catalog_label.to_ascii_lowercase().into_bytes().into()),
                ..CatalogProperties::default()
            }),
            ..zone.shared_terms()
        };
        let mut part = match self.template(&zone.template) {
            Some(template) => own.or(&template.policy()),
            None => own,
        };
        match part.kind {
            Some(kind) if kind.is_transferred() => part.copy_file.clone_from(&zone.file),
            // Declared here by its file.
            None if zone.file.is_some() => part.kind = Some(ZoneKind::Native),
            _ => {}
        }
        part
    }
}

impl TemplateSettings {
    pub fn policy(&self) -> PolicyFragment {
        PolicyFragment {
            kind: self.kind.0,
            transfer_octets_max: octets_of_mib(self.transfer_size_max_mb.get()),
            ..self.shared_terms()
        }
    }
}

/// Converts a setting in MiB to octets; 0 leaves the decision to the next level.
pub fn octets_of_mib(mib: usize) -> Option<u64> {
    (mib > 0).then_some((mib as u64) << 20)
}
