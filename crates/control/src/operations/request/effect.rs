//! The effect of a request and its subject, for the permissions of API keys and the audit log; its requirements; and
//! how it is queued.

use std::fmt::{self, Write as _};

use super::OperationRequest;

/// The effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEffect {
    /// Reads data that every operator may see.
    Read,
    /// Reads private keys or secrets.
    ReadSecret,
    /// Changes records, whole zones, or the running server.
    Change,
    /// Changes settings of zones or of the server.
    ChangeSettings,
    /// Changes keys or secrets.
    ChangeKeys,
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

/// The requirements of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestReach<'r> {
    /// A running server: its counters, caches, timers or connections.
    Server,
    /// The contents of these zones.
    Zones(Vec<&'r str>),
    /// The contents of all zones.
    AllZones,
    /// Only names of zones, or data that does not belong to a zone.
    Lists,
}

/// The kind of object that a request is run on.
enum RequestBase {
    /// A running server.
    Running,
    /// The contents of zones.
    Contents,
    /// Names of zones, or data that does not belong to a zone.
    Lists,
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

    /// Returns what it is run on, the zones or other things that it is about, and its effect.
    #[expect(clippy::too_many_lines, reason = "one row for each operation")]
    fn properties(&self) -> (RequestBase, RequestSubject<'_>, RequestEffect) {
        use OperationRequest as Request;
        use RequestBase::{Contents, Lists, Running};
        use RequestEffect::{Change, ChangeKeys, ChangeSettings, Read, ReadSecret};
        use RequestSubject::{Listing, Server, Zones};
        let one = |zone| Zones(vec![zone]);
        let change_unless = |is_trial: bool| if is_trial { Read } else { Change };
        match self {
            Request::Status => (Running, Server, Read),
            Request::Stop => (Running, Server, Change),
            Request::Process => (Running, Server, Read),
            Request::TakeOver => (Running, Server, Change),
            Request::Reload { .. } => (Running, Server, Change),
            Request::Stats { .. } => (Running, Server, Read),
            Request::QueryLogOn(_) => (Running, Server, Change),
            Request::QueryLogOff => (Running, Server, Change),
            Request::QueryLogStatus => (Running, Server, Read),
            Request::HealthList => (Running, Server, Read),
            Request::HealthForce { .. } => (Running, Server, Change),
            Request::LogLevel { level: None } => (Running, Server, Read),
            Request::LogLevel { .. } => (Running, Server, Change),
            Request::CacheFlush { .. } => (Running, Server, Change),
            Request::ZoneStatus { zone: None, .. } => (Running, Listing, Read),
            Request::ZoneStatus {
                zone: Some(zone), ..
            } => (Running, one(zone), Read),
            Request::ZoneRetrieve { zone, .. } => (Running, one(zone), Change),
            Request::ZoneNotify { zone } => (Running, one(zone), Change),
            Request::ZoneSync { zone, .. } => (Running, one(zone), Change),
            Request::ZoneFreeze { zone } => (Running, one(zone), Change),
            Request::ZoneThaw { zone } => (Running, one(zone), Change),
            Request::ZoneList => (Lists, Listing, Read),
            Request::ZoneShow { zone } => (Contents, one(zone), Read),
            Request::ZoneCreate(template) => (Contents, one(&template.zone), Change),
            Request::ZoneProvision(request) => (Contents, one(&request.zone), Change),
            Request::ZoneAttributes { zone: None } => (Contents, Listing, Read),
            Request::ZoneAttributes { zone: Some(zone) } => (Contents, one(zone), Read),
            Request::ZoneAttributesPage { .. } => (Contents, Listing, Read),
            Request::ZoneRollback { zone, dry_run, .. } => {
                (Contents, one(zone), change_unless(*dry_run))
            }
            Request::ZoneDelete { zone, .. } => (Contents, one(zone), Change),
            Request::ZoneUndelete { zone, .. } => (Contents, one(zone), Change),
            Request::ZoneHistory { zone } => (Contents, one(zone), Read),
            Request::ZoneDifference { zone, .. } => (Contents, one(zone), Read),
            Request::ZoneSet(settings) => (Contents, one(&settings.zone), ChangeSettings),
            Request::ZoneRectify { zone } => (Contents, one(zone), ChangeSettings),
            Request::ZoneSecure { zone, .. } => (Contents, one(zone), ChangeKeys),
            Request::ZoneSecureAll => (Contents, Server, ChangeKeys),
            Request::ZoneUnsecure { zone, .. } => (Contents, one(zone), ChangeKeys),
            Request::ZoneDs { zone } => (Contents, one(zone), Read),
            Request::DeletedZoneList => (Lists, Listing, Read),
            Request::CatalogList => (Contents, Listing, Read),
            Request::CatalogMembers { catalog } => (Contents, one(catalog), Read),
            Request::AutoprimaryList => (Lists, Server, Read),
            Request::AutoprimaryAdd(_) => (Lists, Server, ChangeSettings),
            Request::AutoprimaryRemove(_) => (Lists, Server, ChangeSettings),
            Request::RrsetsChange(request) => (Contents, one(&request.zone), Change),
            Request::RrsetsBatch { zones, dry_run } => {
                let zones = zones.iter().map(|request| request.zone.as_str());
                (Contents, Zones(zones.collect()), change_unless(*dry_run))
            }
            Request::Apply(batch) => {
                let zones = batch.zones.iter().map(|batch| batch.zone.as_str());
                (
                    Contents,
                    Zones(zones.collect()),
                    change_unless(batch.dry_run),
                )
            }
            Request::RecordList { zone, .. } => (Contents, one(zone), Read),
            Request::RecordSet(template) => (Contents, one(&template.zone), Change),
            Request::RecordAdd(template) => (Contents, one(&template.zone), Change),
            Request::RecordDelete { zone, .. } => (Contents, one(zone), Change),
            Request::RecordUse(request) => (Contents, one(&request.zone), Change),
            Request::RecordComment(request) => (Contents, one(&request.zone), ChangeSettings),
            Request::RecordSearch { .. } => (Contents, Listing, Read),
            Request::CommentSearch { .. } => (Contents, Listing, Read),
            Request::CommentList { zone } => (Contents, one(zone), Read),
            Request::MetadataList { zone, .. } => (Contents, one(zone), Read),
            Request::MetadataChange(request) => (Contents, one(&request.zone), ChangeSettings),
            Request::KeyList { zone: None } => (Lists, Listing, Read),
            Request::KeyList { zone: Some(zone) } => (Contents, one(zone), Read),
            Request::KeyAdd(template) => (Contents, one(&template.zone), ChangeKeys),
            Request::KeyImport { template, .. } => (Contents, one(&template.zone), ChangeKeys),
            Request::KeyExport { zone, .. } => (Contents, one(zone), ReadSecret),
            Request::KeyChange { zone, .. } => (Contents, one(zone), ChangeKeys),
            Request::KeyRollover { zone, .. } => (Contents, one(zone), ChangeKeys),
            Request::KeyDs { zone, .. } => (Contents, one(zone), ChangeKeys),
            Request::KeyRemove { zone, .. } => (Contents, one(zone), ChangeKeys),
            Request::TsigGenerate { .. } => (Lists, Server, ChangeKeys),
            Request::TsigImport { .. } => (Lists, Server, ChangeKeys),
            Request::TsigList { secrets: false } => (Lists, Server, Read),
            Request::TsigList { secrets: true } => (Lists, Server, ReadSecret),
            Request::TsigRemove { .. } => (Lists, Server, ChangeKeys),
            Request::CookieRoll { .. } => (Lists, Server, ChangeKeys),
            Request::CookieList => (Lists, Server, Read),
            Request::ViewList => (Lists, Server, Read),
            Request::ViewAddZone { .. } => (Lists, Server, ChangeSettings),
            Request::ViewRemoveZone { .. } => (Lists, Server, ChangeSettings),
            Request::NetworkList => (Lists, Server, Read),
            Request::NetworkSet { .. } => (Lists, Server, ChangeSettings),
            Request::AuditList(request) => match &request.zone {
                None => (Lists, Listing, Read),
                Some(zone) => (Lists, one(zone), Read),
            },
            Request::ApiKeyCreate(_) => (Lists, Server, ChangeKeys),
            Request::ApiKeyList => (Lists, Server, Read),
            Request::ApiKeyDelete { .. } => (Lists, Server, ChangeKeys),
        }
    }

    /// Returns its effect.
    pub fn effect(&self) -> RequestEffect {
        self.properties().2
    }

    /// Returns what it needs; all but [`RequestReach::Server`] can run directly on the stores.
    pub fn reach(&self) -> RequestReach<'_> {
        match self.properties() {
            (RequestBase::Running, ..) => RequestReach::Server,
            (RequestBase::Lists, ..) => RequestReach::Lists,
            (RequestBase::Contents, RequestSubject::Zones(zones), _) => RequestReach::Zones(zones),
            (RequestBase::Contents, ..) => RequestReach::AllZones,
        }
    }

    /// Returns its subject. A member changes its catalog.
    pub fn subject(&self) -> RequestSubject<'_> {
        let catalog = match self {
            OperationRequest::ZoneSet(settings) => settings.catalog.as_deref(),
            OperationRequest::ZoneProvision(request) if !request.is_default_catalog => {
                Some(request.catalog.as_str())
            }
            _ => None,
        };
        let (_, mut subject, _) = self.properties();
        if let RequestSubject::Zones(zones) = &mut subject {
            zones.extend(catalog.filter(|catalog| !catalog.is_empty()));
        }
        subject
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
