//! The effect of a request and its subject, for the permissions of API keys and the audit log; and how it is queued.

use std::fmt::{self, Write as _};

use nameward_maintain::change_feed::SettingSubject;

use super::{OperationRequest, RequestReach};

/// The effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEffect {
    /// Reads data that every operator may see.
    Read,
    /// Reads private keys or secrets.
    ReadSecret,
    /// Changes zones, keys or the server.
    Change,
}

/// The subject of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestSubject<'r> {
    /// The whole server.
    Server,
    /// These zones.
    Zones(Vec<&'r str>),
    /// A list with items for each zone.
    Listing,
}

/// How a request is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Takes a moment and never waits for others.
    Immediate,
    /// Waits for other reloads only.
    Reload,
    /// Waits for its turn: a database may delay it.
    Ordinary,
}

impl OperationRequest {
    /// Returns how it is queued.
    pub fn urgency(&self) -> Urgency {
        match self {
            OperationRequest::Status
            | OperationRequest::Stop
            | OperationRequest::Process
            | OperationRequest::TakeOver
            | OperationRequest::Stats { .. } => Urgency::Immediate,
            OperationRequest::Reload { .. } => Urgency::Reload,
            _ => Urgency::Ordinary,
        }
    }

    /// Returns its effect. An operation that is not listed here as reading is a change.
    pub fn effect(&self) -> RequestEffect {
        match self {
            OperationRequest::Status
            | OperationRequest::Process
            | OperationRequest::Stats { .. }
            | OperationRequest::QueryLogStatus
            | OperationRequest::HealthList
            | OperationRequest::LogLevel { level: None }
            | OperationRequest::ZoneList
            | OperationRequest::ZoneShow { .. }
            | OperationRequest::ZoneAttributes { .. }
            | OperationRequest::ZoneAttributesPage { .. }
            | OperationRequest::DeletedZoneList
            | OperationRequest::CatalogList
            | OperationRequest::CatalogMembers { .. }
            | OperationRequest::AutoprimaryList
            | OperationRequest::ZoneStatus { .. }
            | OperationRequest::ZoneHistory { .. }
            | OperationRequest::ZoneDifference { .. }
            | OperationRequest::RecordList { .. }
            | OperationRequest::CommentList { .. }
            | OperationRequest::RecordSearch { .. }
            | OperationRequest::CommentSearch { .. }
            | OperationRequest::MetadataList { .. }
            | OperationRequest::ZoneDs { .. }
            | OperationRequest::KeyList { .. }
            | OperationRequest::TsigList { secrets: false }
            | OperationRequest::CookieList
            | OperationRequest::ViewList
            | OperationRequest::NetworkList
            | OperationRequest::AuditList(_)
            | OperationRequest::ApiKeyList => RequestEffect::Read,
            OperationRequest::KeyExport { .. } | OperationRequest::TsigList { secrets: true } => {
                RequestEffect::ReadSecret
            }
            OperationRequest::Apply(batch) if batch.dry_run => RequestEffect::Read,
            OperationRequest::RrsetsBatch { dry_run: true, .. }
            | OperationRequest::ZoneRollback { dry_run: true, .. } => RequestEffect::Read,
            _ => RequestEffect::Change,
        }
    }

    /// Returns what a change concerns other than records; `None` if it concerns records, whole zones, or the running
    /// server.
    pub fn setting_subject(&self) -> Option<SettingSubject> {
        match self {
            OperationRequest::ZoneSet(_)
            | OperationRequest::MetadataChange(_)
            | OperationRequest::RecordComment(_)
            | OperationRequest::ZoneRectify { .. }
            | OperationRequest::AutoprimaryAdd(_)
            | OperationRequest::AutoprimaryRemove(_)
            | OperationRequest::ViewAddZone { .. }
            | OperationRequest::ViewRemoveZone { .. }
            | OperationRequest::NetworkSet { .. } => Some(SettingSubject::Settings),
            OperationRequest::ZoneSecure { .. }
            | OperationRequest::ZoneUnsecure { .. }
            | OperationRequest::ZoneSecureAll
            | OperationRequest::KeyAdd(_)
            | OperationRequest::KeyImport { .. }
            | OperationRequest::KeyChange { .. }
            | OperationRequest::KeyRollover { .. }
            | OperationRequest::KeyDs { .. }
            | OperationRequest::KeyRemove { .. }
            | OperationRequest::TsigGenerate { .. }
            | OperationRequest::TsigImport { .. }
            | OperationRequest::TsigRemove { .. }
            | OperationRequest::CookieRoll { .. }
            | OperationRequest::ApiKeyCreate(_)
            | OperationRequest::ApiKeyDelete { .. } => Some(SettingSubject::Keys),
            _ => None,
        }
    }

    /// Returns its subject.
    pub fn subject(&self) -> RequestSubject<'_> {
        match self {
            OperationRequest::ZoneStatus {
                zone: Some(zone), ..
            }
            | OperationRequest::ZoneRetrieve { zone, .. }
            | OperationRequest::ZoneNotify { zone }
            | OperationRequest::ZoneSync { zone, .. }
            | OperationRequest::ZoneFreeze { zone }
            | OperationRequest::ZoneThaw { zone } => RequestSubject::Zones(vec![zone]),
            OperationRequest::AuditList(request) => match &request.zone {
                Some(zone) => RequestSubject::Zones(vec![zone]),
                None => RequestSubject::Listing,
            },
            OperationRequest::ZoneList
            | OperationRequest::ZoneStatus { zone: None, .. }
            | OperationRequest::ZoneAttributes { zone: None }
            | OperationRequest::ZoneAttributesPage { .. }
            | OperationRequest::DeletedZoneList
            | OperationRequest::CatalogList
            | OperationRequest::RecordSearch { .. }
            | OperationRequest::CommentSearch { .. }
            | OperationRequest::KeyList { zone: None } => RequestSubject::Listing,
            // A member changes its catalog.
            OperationRequest::ZoneSet(terms) => {
                let catalog = terms.catalog.as_deref().filter(|name| !name.is_empty());
                let zones = [Some(terms.zone.as_str()), catalog].into_iter();
                RequestSubject::Zones(zones.flatten().collect())
            }
            OperationRequest::ZoneProvision(request) => {
                let has_catalog = !request.catalog.is_empty() && !request.is_default_catalog;
                let catalog = has_catalog.then_some(request.catalog.as_str());
                let zones = [Some(request.zone.as_str()), catalog].into_iter();
                RequestSubject::Zones(zones.flatten().collect())
            }
            other => match other.reach() {
                RequestReach::Zones(zones) => RequestSubject::Zones(zones),
                RequestReach::Server | RequestReach::AllZones | RequestReach::Lists => {
                    RequestSubject::Server
                }
            },
        }
    }

    /// Returns the name of the operation, as in its JSON.
    pub fn name(&self) -> String {
        // Debug writes the name of the variant first; the writer refuses the rest, which may be large.
        let mut name = VariantName(String::new());
        let _ = write!(name, "{self:?}");
        name.0
    }
}

struct VariantName(String);

impl fmt::Write for VariantName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                'A'..='Z' if self.0.is_empty() => self.0.push(c.to_ascii_lowercase()),
                'A'..='Z' => self.0.extend(['_', c.to_ascii_lowercase()]),
                'a'..='z' => self.0.push(c),
                _ => return Err(fmt::Error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_operation_is_that_of_its_json() {
        for text in [
            r#"{"operation":"status"}"#,
            r#"{"operation":"zone_show","zone":"a.test"}"#,
            r#"{"operation":"zone_create","zone":"a.test"}"#,
            r#"{"operation":"api_key_list"}"#,
        ] {
            let request: OperationRequest = serde_json::from_str(text).unwrap();
            let name = format!("{{\"operation\":\"{}\"", request.name());
            assert!(text.starts_with(&name), "{text} {name}");
        }
    }
}
