//! Requirements of a request: the running server, some zones, or all zones.

use super::OperationRequest;

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

impl OperationRequest {
    /// Returns what it needs; all but [`RequestReach::Server`] can run directly on the stores.
    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    pub fn reach(&self) -> RequestReach<'_> {
        use OperationRequest as Request;
        let one = |zone| RequestReach::Zones(vec![zone]);
        match self {
            Request::Status
            | Request::Stop
            | Request::Process
            | Request::TakeOver
            | Request::Reload { .. }
            | Request::Stats { .. }
            | Request::QueryLogOn(_)
            | Request::QueryLogOff
            | Request::QueryLogStatus
            | Request::HealthList
            | Request::HealthForce { .. }
            | Request::LogLevel { .. }
            | Request::CacheFlush { .. }
            | Request::ZoneStatus { .. }
            | Request::ZoneRetrieve { .. }
            | Request::ZoneNotify { .. }
            | Request::ZoneSync { .. }
            | Request::ZoneFreeze { .. }
            | Request::ZoneThaw { .. } => RequestReach::Server,
            Request::RecordSearch { .. }
            | Request::CommentSearch { .. }
            | Request::CatalogList
            | Request::ZoneAttributes { zone: None }
            | Request::ZoneAttributesPage { .. }
            | Request::ZoneSecureAll => RequestReach::AllZones,
            Request::ZoneList
            | Request::DeletedZoneList
            | Request::AutoprimaryList
            | Request::AutoprimaryAdd(_)
            | Request::AutoprimaryRemove(_)
            | Request::KeyList { zone: None }
            | Request::TsigGenerate { .. }
            | Request::TsigImport { .. }
            | Request::TsigList { .. }
            | Request::TsigRemove { .. }
            | Request::CookieRoll { .. }
            | Request::CookieList
            | Request::ViewList
            | Request::ViewAddZone { .. }
            | Request::ViewRemoveZone { .. }
            | Request::NetworkList
            | Request::NetworkSet { .. }
            | Request::AuditList(_)
            | Request::ApiKeyCreate(_)
            | Request::ApiKeyList
            | Request::ApiKeyDelete { .. } => RequestReach::Lists,
            Request::Apply(batches) => {
                let zones = batches.zones.iter();
                RequestReach::Zones(zones.map(|batch| batch.zone.as_str()).collect())
            }
            Request::RrsetsBatch { zones, .. } => {
                RequestReach::Zones(zones.iter().map(|zone| zone.zone.as_str()).collect())
            }
            Request::ZoneCreate(template) => one(&template.zone),
            Request::ZoneProvision(request) => one(&request.zone),
            Request::RrsetsChange(request) => one(&request.zone),
            Request::RecordSet(template) | Request::RecordAdd(template) => one(&template.zone),
            Request::RecordUse(request) => one(&request.zone),
            Request::RecordComment(request) => one(&request.zone),
            Request::MetadataChange(request) => one(&request.zone),
            Request::ZoneSet(terms) => one(&terms.zone),
            Request::KeyAdd(template) | Request::KeyImport { template, .. } => one(&template.zone),
            Request::CatalogMembers { catalog: zone }
            | Request::ZoneShow { zone }
            | Request::ZoneAttributes { zone: Some(zone) }
            | Request::ZoneDelete { zone, .. }
            | Request::ZoneUndelete { zone, .. }
            | Request::ZoneHistory { zone }
            | Request::ZoneRollback { zone, .. }
            | Request::ZoneDifference { zone, .. }
            | Request::RecordList { zone, .. }
            | Request::CommentList { zone }
            | Request::MetadataList { zone, .. }
            | Request::RecordDelete { zone, .. }
            | Request::ZoneSecure { zone, .. }
            | Request::ZoneUnsecure { zone, .. }
            | Request::ZoneRectify { zone }
            | Request::ZoneDs { zone }
            | Request::KeyList { zone: Some(zone) }
            | Request::KeyExport { zone, .. }
            | Request::KeyChange { zone, .. }
            | Request::KeyRollover { zone, .. }
            | Request::KeyDs { zone, .. }
            | Request::KeyRemove { zone, .. } => one(zone),
        }
    }
}
