//! Owns what a request is about: the running server itself, some zones, or all.

use super::OperationRequest;

/// The things that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestReach<'r> {
    /// A running server: its counters, caches, timers or connections.
    Server,
    /// The contents of these zones.
    Zones(Vec<&'r str>),
    /// The contents of all zones.
    AllZones,
    /// Names of zones at the most, or what belongs to no zone.
    Lists,
}

impl OperationRequest {
    /// Returns what it needs; all but [`RequestReach::Server`] can be done on the stores themselves.
    pub fn reach(&self) -> RequestReach<'_> {
        let one = |zone| RequestReach::Zones(vec![zone]);
        match self {
            OperationRequest::Status
            | OperationRequest::Stop
            | OperationRequest::Reload { .. }
            | OperationRequest::Stats { .. }
            | OperationRequest::QueryLogOn(_)
            | OperationRequest::QueryLogOff
            | OperationRequest::QueryLogStatus
            | OperationRequest::LogLevel { .. }
            | OperationRequest::CacheFlush { .. }
            | OperationRequest::ZoneStatus { .. }
            | OperationRequest::ZoneRetrieve { .. }
            | OperationRequest::ZoneNotify { .. }
            | OperationRequest::ZoneSync { .. }
            | OperationRequest::ZoneFreeze { .. }
            | OperationRequest::ZoneThaw { .. } => RequestReach::Server,
            OperationRequest::RecordSearch { .. }
            | OperationRequest::CommentSearch { .. }
            | OperationRequest::CatalogList
            | OperationRequest::ZoneAttributes { zone: None }
            | OperationRequest::ZoneSecureAll => RequestReach::AllZones,
            OperationRequest::ZoneList
            | OperationRequest::DeletedZoneList
            | OperationRequest::AutoprimaryList
            | OperationRequest::AutoprimaryAdd(_)
            | OperationRequest::AutoprimaryRemove(_)
            | OperationRequest::KeyList { zone: None }
            | OperationRequest::TsigGenerate { .. }
            | OperationRequest::TsigImport { .. }
            | OperationRequest::TsigList { .. }
            | OperationRequest::TsigRemove { .. }
            | OperationRequest::AuditList(_)
            | OperationRequest::ApiKeyCreate(_)
            | OperationRequest::ApiKeyList
            | OperationRequest::ApiKeyDelete { .. } => RequestReach::Lists,
            OperationRequest::Apply(batches) => {
                let zones = batches.zones.iter();
                RequestReach::Zones(zones.map(|batch| batch.zone.as_str()).collect())
            }
            OperationRequest::RrsetsBatch { zones, .. } => {
                RequestReach::Zones(zones.iter().map(|zone| zone.zone.as_str()).collect())
            }
            OperationRequest::ZoneCreate(template) => one(&template.zone),
            OperationRequest::ZoneProvision(request) => one(&request.zone),
            OperationRequest::RrsetsChange(request) => one(&request.zone),
            OperationRequest::RecordSet(template) | OperationRequest::RecordAdd(template) => {
                one(&template.zone)
            }
            OperationRequest::RecordUse(request) => one(&request.zone),
            OperationRequest::RecordComment(request) => one(&request.zone),
            OperationRequest::MetadataChange(request) => one(&request.zone),
            OperationRequest::ZoneSet(terms) => one(&terms.zone),
            OperationRequest::KeyAdd(template) | OperationRequest::KeyImport { template, .. } => {
                one(&template.zone)
            }
            OperationRequest::CatalogMembers { catalog: zone }
            | OperationRequest::ZoneShow { zone }
            | OperationRequest::ZoneAttributes { zone: Some(zone) }
            | OperationRequest::ZoneDelete { zone, .. }
            | OperationRequest::ZoneUndelete { zone, .. }
            | OperationRequest::ZoneHistory { zone }
            | OperationRequest::ZoneRollback { zone, .. }
            | OperationRequest::ZoneDifference { zone, .. }
            | OperationRequest::RecordList { zone, .. }
            | OperationRequest::CommentList { zone }
            | OperationRequest::MetadataList { zone, .. }
            | OperationRequest::RecordDelete { zone, .. }
            | OperationRequest::ZoneSecure { zone, .. }
            | OperationRequest::ZoneUnsecure { zone, .. }
            | OperationRequest::ZoneRectify { zone }
            | OperationRequest::ZoneDs { zone }
            | OperationRequest::KeyList { zone: Some(zone) }
            | OperationRequest::KeyExport { zone, .. }
            | OperationRequest::KeyChange { zone, .. }
            | OperationRequest::KeyRollover { zone, .. }
            | OperationRequest::KeyDs { zone, .. }
            | OperationRequest::KeyRemove { zone, .. } => one(zone),
        }
    }
}
