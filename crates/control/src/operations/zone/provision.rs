//! Creation of a zone with everything that a database stores about it in one transaction: records, comments,
//! metadata, account, catalog and the first DNSSEC key. Without a database the zone becomes a zone file.

use std::time::SystemTime;

use nameward_keys::database::first_key;
use nameward_maintain::follow::place_of_rank;
use nameward_sql::write::{AttributeChange, NewZone};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{Edit, RrsetData, set_soa_serial, soa_serial};
use nameward_zone::{Serial, SerialRule, ZoneKind};
use serde::{Deserialize, Serialize};

use super::local::is_file;
use super::local_settings::LocalMetadata;
use super::metadata_check::MetadataSpec;
use super::settings::check_version;
use super::{creatable, new_zone_warnings, stored_primaries};
use crate::operations::key::signing_settings::check_denial_item;
use crate::operations::record::data_text;
use crate::operations::record::rrset_step::read_zone_file;
use crate::operations::record::rrsets::refuse_stored_only;
use crate::operations::{
    BatchRecords, Database, KeyTemplate, ListedKind, OperationError, OperationResult, Operations,
    Outcome, RrsetStep, ZoneSettings, ZoneTemplate, default_ttl, zone_name,
};

/// A zone to be created with all its attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneProvision {
    /// The name of the zone.
    pub zone: String,
    /// The kind.
    #[serde(default)]
    pub kind: ListedKind,
    /// The addresses that a secondary is transferred from.
    #[serde(default)]
    pub primaries: Vec<String>,
    /// The account.
    #[serde(default)]
    pub account: String,
    /// The catalog that lists the zone; none if empty.
    #[serde(default)]
    pub catalog: String,
    /// The catalog is the configured default, not the client's choice.
    #[serde(skip)]
    pub is_default_catalog: bool,
    /// Name servers, whose NS records are added to `rrsets`.
    #[serde(default)]
    pub name_servers: Vec<String>,
    /// The RRsets; a SOA is generated if there is none.
    #[serde(default)]
    pub rrsets: Vec<RrsetStep>,
    /// The records as a zone file, instead of `rrsets`.
    pub zone_file: Option<String>,
    /// Metadata; SOA-EDIT-API determines the first serial.
    #[serde(default)]
    pub metadata: Vec<MetadataSpec>,
    /// Metadata of database zones that the request does not set itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_metadata: Vec<MetadataSpec>,
    /// Sign the zone with a new key.
    #[serde(default)]
    pub secure: bool,
}

impl Operations {
    /// Creates a zone with all its attributes.
    pub fn provision_zone(&self, request: &ZoneProvision) -> Outcome {
        let name = zone_name(&request.zone)?;
        let kind = creatable(request.kind)?;
        check_version(&name, Some(request.kind), &request.catalog)?;
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            let location = place_of_rank(rank);
            return Err(OperationError::conflict(format!(
                "zone {name} already exists in {location}"
            )));
        }
        match self.databases.first() {
            Some(database) => self.provision_in_database(database, (name, kind), request),
            None => self.provision_file((name, kind), request),
        }
    }

    fn provision_in_database(
        &self,
        database: &Database,
        (name, kind): (NameBuf, ZoneKind),
        request: &ZoneProvision,
    ) -> Outcome {
        let now = SystemTime::now();
        let apex = NameBuf::from(name.as_name().zone());
        let steps = request.steps(&apex)?;
        let mut attributes = Vec::new();
        for item in request.all_metadata() {
            attributes.push(item.change()?);
        }
        for step in &steps {
            attributes.extend(step.comments_change(&apex)?);
        }
        let (mut primaries, mut key) = (None, None);
        if !request.primaries.is_empty() {
            let (text, named) = stored_primaries(&request.primaries)?;
            (primaries, key) = (Some(text), named);
        }
        if kind.is_transferred() && primaries.is_none() {
            return Err(OperationError::invalid(format!(
                "zone {name} is transferred from a primary, and no primary is given"
            )));
        }
        if !request.catalog.is_empty() {
            let catalog = self.catalog_name(database, &request.catalog)?;
            attributes.push(AttributeChange::SetCatalog(catalog));
        }
        if request.secure {
            let template = KeyTemplate::default();
            let key = template.key(template.generate()?)?;
            for item in &request.metadata {
                check_denial_item(&name, item, std::slice::from_ref(&key))?;
            }
            attributes.push(first_key(&key));
        }
        let rrsets = match kind.is_transferred() {
            true if steps.is_empty() && request.name_servers.is_empty() => Vec::new(),
            true => {
                return Err(OperationError::invalid(format!(
                    "zone {name} is transferred from its primary: leave out records and name servers"
                )));
            }
            false => request.rrsets(&apex, steps, now)?,
        };
        let zone = NewZone {
            attributes,
            name,
            // This server generates the catalog of a producer, from its first members on.
            kind,
            primaries,
            account: request.account.clone(),
            key,
            rrsets,
            now,
        };
        let mut changed = self.create_in_database(database, &zone)?;
        if request.secure {
            (self.keys_changed)(name);
        }
        if !kind.is_transferred() {
            let warnings = new_zone_warnings(&name, &zone.rrsets);
            changed.warnings.extend(warnings);
        }
        Ok(OperationResult::ZoneCreated(changed))
    }

    /// Creates a zone that is not in a database.
    fn provision_file(
        &self,
        (name, kind): (NameBuf, ZoneKind),
        request: &ZoneProvision,
    ) -> Outcome {
        if !request.account.is_empty() {
            return Err(OperationError::refused(format!(
                "account: zone {name} would not be in a database; only database zones have an account"
            )));
        }
        let metadata = LocalMetadata::read(&name, &request.metadata)?;
        if !request.secure && !metadata.signing.is_empty() {
            return Err(OperationError::refused(format!(
                "soa_edit, nsec3param: zone {name} is not signed, and outside databases these are kept with its keys (dnssec)"
            )));
        }
        let apex = NameBuf::from(name.as_name().zone());
        let steps = request.steps(&apex)?;
        let mut comments = Vec::new();
        for step in &steps {
            comments.extend(step.comments_change(&apex)?);
        }
        // Other zones are transferred, or generated from their members.
        let records = if is_file(kind) {
            request.rrsets(&apex, steps, SystemTime::now())?
        } else if steps.is_empty() && request.name_servers.is_empty() {
            Vec::new()
        } else {
            return Err(OperationError::invalid(format!(
                "zone {name} has no records of its own: leave out records and name servers"
            )));
        };
        let edits: Vec<Edit> = records.iter().cloned().map(Edit::Replace).collect();
        refuse_stored_only(&name, &edits, &comments)?;
        let template = ZoneTemplate {
            zone: request.zone.clone(),
            kind: request.kind,
            primaries: request.primaries.clone(),
            ttl: default_ttl(),
            records: records.iter().map(batch_records).collect(),
            ..ZoneTemplate::default()
        };
        let result = self.create_zone(&template)?;
        let signing = ZoneSettings {
            zone: request.zone.clone(),
            catalog: Some(request.catalog.clone()).filter(|catalog| !catalog.is_empty()),
            metadata: request.metadata.clone(),
            secure: request.secure.then_some(true),
            ..ZoneSettings::default()
        };
        let plain = ZoneSettings {
            zone: request.zone.clone(),
            ..ZoneSettings::default()
        };
        if signing != plain
            && let Err(error) = self.set_local(&signing, None)
        {
            self.delete_zone(&request.zone, true, None)?;
            return Err(error);
        }
        Ok(result)
    }
}

impl ZoneProvision {
    /// Returns the metadata of the request, and the defaults of kinds that it does not set. Empty items set nothing.
    fn all_metadata(&self) -> impl Iterator<Item = &MetadataSpec> {
        let is_set = |kind: &str| self.metadata.iter().any(|item| item.kind == kind);
        let defaults = self.default_metadata.iter();
        let all = self
            .metadata
            .iter()
            .chain(defaults.filter(move |item| !is_set(&item.kind)));
        all.filter(|item| !item.content.is_empty())
    }

    /// Returns the RRsets of the request, from its list or its zone file.
    fn steps(&self, name: &NameBuf) -> Outcome<Vec<RrsetStep>> {
        match &self.zone_file {
            None => Ok(self.rrsets.clone()),
            Some(_) if !self.rrsets.is_empty() => Err(OperationError::invalid(
                "You cannot give rrsets AND zone data as text",
            )),
            Some(text) => read_zone_file(name, text),
        }
    }

    /// Returns the first records: those of the request, NS records of its name servers, and a SOA if there is none.
    fn rrsets(
        &self,
        name: &NameBuf,
        steps: Vec<RrsetStep>,
        now: SystemTime,
    ) -> Outcome<Vec<RrsetData>> {
        let mut rrsets = Vec::new();
        for step in &steps {
            if let Some(Edit::Replace(rrset)) = step.edit(name)? {
                rrsets.push(rrset);
            }
        }
        let has = |rrsets: &[RrsetData], rtype| {
            let is_it = |rrset: &RrsetData| rrset.rtype == rtype && rrset.name == *name;
            rrsets.iter().any(is_it)
        };
        if has(&rrsets, Type::NS) && !self.name_servers.is_empty() {
            return Err(OperationError::invalid(
                "Nameservers list MUST NOT be mixed with zone-level NS in rrsets",
            ));
        }
        let template = ZoneTemplate {
            zone: self.zone.clone(),
            kind: self.kind,
            name_servers: self.name_servers.clone(),
            ttl: default_ttl(),
            ..ZoneTemplate::default()
        };
        let is_made = !has(&rrsets, Type::SOA);
        for rrset in template.rrsets(name, now)? {
            match rrset.rtype {
                Type::SOA if !is_made => {}
                _ => rrsets.push(rrset),
            }
        }
        let find = |kind: &str| {
            let mut items = self.all_metadata();
            let item = items.find(|item| item.kind.eq_ignore_ascii_case(kind));
            item.and_then(|item| item.content.first().map(String::as_str))
        };
        let rule = SerialRule::for_api(find("SOA-EDIT-API"), find("SOA-EDIT"));
        for rrset in rrsets.iter_mut().filter(|rrset| rrset.rtype == Type::SOA) {
            for record in &mut rrset.records {
                // A new SOA counts from 0, as in PowerDNS.
                let serial = if is_made {
                    Serial(0)
                } else {
                    soa_serial(&record.rdata).unwrap_or_default()
                };
                set_soa_serial(&mut record.rdata, serial.raised(rule, now));
            }
        }
        Ok(rrsets)
    }
}

fn batch_records(rrset: &RrsetData) -> BatchRecords {
    let records = rrset.records.iter();
    let content = records.map(|record| data_text(rrset.rtype, &record.rdata));
    BatchRecords {
        name: rrset.name.to_string(),
        rtype: rrset.rtype.to_string(),
        ttl: rrset.ttl,
        content: content.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provision(metadata: &[(&str, &str)]) -> ZoneProvision {
        let item = |(kind, content): &(&str, &str)| MetadataSpec {
            kind: (*kind).into(),
            content: vec![(*content).into()],
        };
        ZoneProvision {
            zone: "a.test.".into(),
            name_servers: vec!["ns1.a.test.".into()],
            metadata: metadata.iter().map(item).collect(),
            ..ZoneProvision::default()
        }
    }

    fn first_serial(request: &ZoneProvision) -> u32 {
        let name: NameBuf = "a.test.".parse().unwrap();
        let steps = request.steps(&name).unwrap();
        let rrsets = request.rrsets(&name, steps, SystemTime::now()).unwrap();
        let soa = rrsets.iter().find(|rrset| rrset.rtype == Type::SOA);
        soa_serial(&soa.unwrap().records[0].rdata).unwrap().0
    }

    #[test]
    fn the_first_serial_follows_soa_edit_api() {
        assert_eq!(first_serial(&provision(&[])), 0);
        assert_eq!(first_serial(&provision(&[("SOA-EDIT-API", "INCREASE")])), 1);
        let dated = first_serial(&provision(&[("SOA-EDIT-API", "DEFAULT")]));
        assert_eq!(dated % 100, 1);
        assert!(dated > 2_026_000_000);
    }
}
