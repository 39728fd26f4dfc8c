//! Operations on zones, implemented once for every caller: their requests, results and errors, and their execution.
//!
//! An operation finds the location of a zone's contents (a database, or memory with a journal), makes the change
//! there, and returns when this server answers with it. Zone files are written by `zone sync`. Everything here may
//! block.
//!
//! ```text
//! request, result, error   what callers send and get, on the control socket and in the API
//! caller, scope            the caller, and what an API key permits
//! templates                zones, records and keys in requests
//! server                   the server as a whole: status, logs, the audit log
//! zone                     whole zones: create, list, show, settings, history, delete
//! record                   records: edit, replace RRsets, search, comments, batches
//! key                      DNSSEC keys, signing settings, DS records at the parent
//! tsig, catalogs, api_keys TSIG keys, catalog zones and autoprimaries, keys of the HTTP API
//! ```

mod api_keys;
mod caller;
mod catalogs;
mod cookies;
mod error;
mod key;
mod record;
mod request;
mod result;
mod scope;
mod server;
mod templates;
mod tsig;
mod views;
mod zone;

pub use api_keys::{ApiKeyTemplate, ListedApiKey};
pub use caller::Caller;
pub use catalogs::{AutoprimaryTemplate, ListedAutoprimary, ListedCatalog, ListedMember};
pub use cookies::{COOKIE_OVERLAP, ListedCookieSecret, cookie_secret_id};
pub use error::{ErrorKind, OperationError, Outcome};
pub use key::ds_advice::{DsAdvice, DsTime, ListedSecondary};
pub use key::parent::{DsLookup, FindDs, NoParent};
pub use key::rollover::{KeySteps, ListedStep};
pub use key::secure_all::SecuredZone;
pub use key::signing_status::ListedSigning;
pub use key::zone_keys::ListedZoneKey;
use nameward_keys::rollover::RolloverManager;
use nameward_maintain::Commits;
pub use nameward_maintain::PublishError;
use nameward_maintain::follow::place_of_rank;
use nameward_maintain::policy::{PolicyTable, StoredPolicies};
use nameward_maintain::stored_views::StoredViews;
pub use record::batch::{BatchDeletion, BatchRecords, BatchRequest, BatchStep, ZoneBatch};
pub use record::comments::{ListedComment, RecordComment};
pub use record::data_text;
pub use record::rrset_step::{CommentSpec, RecordSpec, RrsetChange, RrsetStep};
pub use record::rrsets::RrsetsRequest;
pub use record::search::{FoundRecord, matches_pattern};
pub use request::{
    ConfigFile, ControlRequest, OperationRequest, RequestEffect, RequestReach, RequestSubject,
    Urgency,
};
pub use result::{
    Columns, ListedChange, ListedDifference, ListedItem, ListedRecord, ListedZone, NamedCounter,
    OperationResult, RecordChange, ReloadReport, ReplyLine, ZoneChanged,
};
use result::{dash_if_empty, list_all, or_dash, table_row};
pub use server::ServerProcess;
pub use server::audit::{AuditRequest, ListedAudit};
pub use server::backend_status::{BackendLag, BackendStatus, FailedBackendServer, UnseenChanges};
pub use server::fault::{FaultKind, ServerFault};
pub use server::health::{ForcedTarget, HealthTarget, TargetVotes};
pub use server::logs::{QueryLogStatus, QueryLogTemplate};
pub use server::status::{
    DnstapStatus, InternalError, LimitedNetwork, ListenerStatus, MemoryRefusal, QueryRates,
    QueueStatus, RateLimitStatus, ReadyRules, ReloadStatus, ServerStatus, TransferCounts,
    XdpStatus,
};
pub use templates::{
    DsReport, KeyChange, KeyTemplate, ListedKind, RecordTemplate, ZoneTemplate, default_ttl,
};
pub use tsig::{ListedTsigKey, source_text};
pub use views::{ChangedView, ListedNetwork, ListedView};
pub use zone::attributes::ZoneAttributes;
pub use zone::deleted::ListedDeletedZone;
pub use zone::files::ZoneFiles;
pub use zone::history::ListedVersion;
pub use zone::metadata::{ListedMetadata, MetadataChange, MetadataRequest, RecordUse};
pub use zone::metadata_check::MetadataSpec;
pub use zone::provision::ZoneProvision;
pub use zone::rollback::steps_of;
pub use zone::settings::ZoneSettings;
pub use zone::show::ZoneDetails;
pub use zone::status::{ListedZoneStatus, RunningTransferStatus};

use crate::api_keys::ApiKeys;
pub use crate::secret_text::SecretText;
use key::signing_settings::read_signing;
use nameward_sql::write::{Committed, WriteError};
use nameward_sql::{DatabaseAddress, SqlBackend, ZoneRow};
use nameward_state::CopyBoundsInForce;
use nameward_wire::{Name, NameBuf};
use nameward_zone::ScriptCheck;
use nameward_zone::change::{ChangeAuthor, Edit};
use record::read_deletion;
pub use scope::KeyScope;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A database of the server.
pub struct Database {
    /// Its position among the configured backends, from 1.
    pub rank: u16,
    /// `live` or `resident`.
    pub mode: &'static str,
    /// The database.
    pub backend: SqlBackend,
    /// Makes the server answer with the database's contents of a zone, and returns when it does.
    pub publish: Publish,
    /// Schedules another read of the zone list, keys and autoprimaries.
    pub request_list: Box<dyn Fn() + Send + Sync>,
}

/// Makes the server answer with a change that is already in its database.
pub type Publish = Box<dyn Fn(&Committed) -> Result<(), PublishError> + Send + Sync>;

impl Database {
    /// Its number as operators know it: from 1.
    pub fn number(&self) -> u32 {
        u32::from(self.rank)
    }

    /// Its address, shown without the password.
    pub fn address(&self) -> &DatabaseAddress {
        &self.backend.options().address
    }

    fn error(&self, error: &WriteError) -> OperationError {
        OperationError::from_write_error(self.address(), error)
    }

    fn changed(&self, committed: &Committed, warnings: Vec<String>) -> ZoneChanged {
        ZoneChanged {
            zone: committed.apex.to_string(),
            backend: self.number(),
            engine: self.address().engine().into(),
            serial: committed.has_soa.then_some(committed.serial.0),
            previous_serial: committed.previous.map(|serial| serial.0),
            warnings,
        }
    }
}

/// Passes on the name and rank of every served zone.
pub type EachZone = Box<dyn Fn(&mut dyn FnMut(Name<'_>, u16)) + Send + Sync>;
/// The rank of the backend that serves a zone.
pub type RankOf = Box<dyn Fn(Name<'_>) -> Option<u16> + Send + Sync>;
/// Returns whether changes of a zone are currently suspended.
pub type IsFrozen = Box<dyn Fn(Name<'_>) -> bool + Send + Sync>;
/// Queries the secondaries of a zone for their serials; `None` without a running server that could query them.
pub type SecondarySerials = Box<dyn Fn(NameBuf) -> Option<Vec<ListedSecondary>> + Send + Sync>;
/// Notified when operators change keys.
pub type KeysChanged = Box<dyn Fn(NameBuf) + Send + Sync>;
/// Receives the items of a listing; returns false if no more are accepted.
pub type ItemSink<'t> = &'t mut (dyn FnMut(ListedItem) -> bool + Send);

/// The zones of a server and how to change them.
pub struct Operations {
    /// The databases, in the order of the configuration.
    pub databases: Vec<Database>,
    /// Which backend serves a zone.
    pub rank_of: RankOf,
    /// All zones.
    pub each_zone: EachZone,
    /// The commit path of zones in memory, with the journal.
    pub commits: Arc<Commits>,
    /// Zones that are frozen.
    pub is_frozen: IsFrozen,
    /// The zone policies and TSIG keys.
    pub policies: Arc<PolicyTable>,
    /// The policies in the state store.
    pub stored_policies: Arc<StoredPolicies>,
    /// The views in the state store.
    pub views: Arc<StoredViews>,
    /// The keys of zones that are signed here but do not have their keys in their own storage, and their manager.
    pub rollover: Arc<RolloverManager>,
    /// Schedules a check of a zone's keys, and notifies its secondaries.
    pub keys_changed: KeysChanged,
    /// The zone files and the configuration of zones that are not in a database.
    pub files: Box<dyn ZoneFiles>,
    /// Queries the parent of a zone for its DS.
    pub find_ds: FindDs,
    /// The serials that secondaries have.
    pub secondary_serials: SecondarySerials,
    /// How many copies of deleted zones are stored, and for how long.
    pub copies: Arc<CopyBoundsInForce>,
    /// The keys of the HTTP API.
    pub api_keys: Arc<ApiKeys>,
    /// The DNS cookie secrets in use; none if cookies are disabled.
    pub cookies: Box<dyn Fn() -> Vec<ListedCookieSecret> + Send + Sync>,
    /// The check of LUA records.
    pub scripts: ScriptCheck,
    /// Drives the connections of the databases.
    pub runtime: Handle,
}

impl Operations {
    /// Runs an operation on zones or records; other operations are not handled here. Changes of records are recorded
    /// with their author.
    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    pub fn run_for(
        &self,
        author: Option<&Arc<ChangeAuthor>>,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Outcome {
        use OperationRequest as Request;
        match request {
            Request::ZoneList => self.list_zones(items),
            Request::ZoneShow { zone } => self.show_zone(zone),
            Request::ZoneCreate(template) => self.create_zone(template),
            Request::ZoneProvision(request) => self.provision_zone(request),
            Request::ZoneAttributes { zone } => self.list_attributes(zone.as_deref(), items),
            Request::ZoneAttributesPage { position } => self.list_attributes_page(position, items),
            Request::RrsetsChange(request) => self.change_rrsets(request, author),
            Request::RrsetsBatch { zones, dry_run } => {
                self.change_many_rrsets(zones, *dry_run, author, items)
            }
            Request::ZoneRollback {
                zone,
                serial,
                dry_run,
            } => self.roll_back((zone, *serial), *dry_run, author, items),
            Request::ZoneDelete {
                zone,
                no_copy,
                serial,
            } => self.delete_zone(zone, *no_copy, *serial),
            Request::ZoneUndelete { zone, backend } => self.undelete_zone(zone, *backend),
            Request::DeletedZoneList => self.list_deleted(items),
            Request::CatalogList => self.list_catalogs(items),
            Request::CatalogMembers { catalog } => self.list_members(catalog, items),
            Request::AutoprimaryList => self.list_autoprimaries(items),
            Request::AutoprimaryAdd(template) => self.add_autoprimary(template),
            Request::AutoprimaryRemove(template) => self.remove_autoprimary(template),
            Request::RecordList { zone, name, rtype } => {
                self.list_records(zone, name.as_deref(), rtype.as_deref(), items)
            }
            Request::ZoneHistory { zone } => self.list_history(zone, items),
            Request::ZoneDifference { zone, from, to } => {
                self.list_difference(zone, (*from, *to), items)
            }
            Request::RecordUse(request) => self.use_records(request, author),
            Request::RecordComment(request) => self.comment(request),
            Request::CommentList { zone } => self.list_comments(zone, items),
            Request::RecordSearch { pattern, limit } => self.search(pattern, *limit, items),
            Request::CommentSearch { pattern, limit } => {
                self.search_comments(pattern, *limit, items)
            }
            Request::MetadataList { zone, kind } => {
                self.list_metadata(zone, kind.as_deref(), items)
            }
            Request::MetadataChange(request) => self.change_metadata(request),
            Request::ZoneRectify { zone } => self.rectify_zone(zone),
            Request::ZoneSet(terms) => self.change_settings(terms, author),
            Request::Apply(batches) => self.apply_batches(batches, author, items),
            Request::RecordSet(record) => self.change_records(&record.zone, author, |apex| {
                Ok(Edit::Replace(record.read(apex)?))
            }),
            Request::RecordAdd(record) => self.change_records(&record.zone, author, |apex| {
                Ok(Edit::Add(record.read(apex)?))
            }),
            Request::RecordDelete {
                zone,
                name,
                rtype,
                content,
            } => self.change_records(zone, author, |apex| {
                read_deletion(name, rtype.as_deref(), content, apex)
            }),
            Request::TsigGenerate {
                name,
                algorithm,
                backend,
                replace,
            } => self.generate_key(name, algorithm.as_deref(), *backend, *replace),
            Request::TsigImport {
                name,
                algorithm,
                secret,
                backend,
                replace,
            } => self.import_key(name, algorithm.as_deref(), secret, *backend, *replace),
            Request::TsigList { secrets } => self.list_keys(*secrets, items),
            Request::TsigRemove { name } => self.remove_key(name),
            Request::CookieRoll { delay, revoke } => self.roll_cookies(*delay, *revoke),
            Request::CookieList => self.list_cookies(items),
            Request::ViewList => self.list_views(items),
            Request::ViewAddZone { view, zone } => self.add_view_zone(view, zone),
            Request::ViewRemoveZone { view, zone } => self.remove_view_zone(view, zone),
            Request::NetworkList => self.list_networks(items),
            Request::NetworkSet { network, view } => self.set_network(network, view.as_deref()),
            Request::AuditList(request) => self.list_audit(request, items),
            Request::ApiKeyCreate(template) => self.create_api_key(template),
            Request::ApiKeyList => self.list_api_keys(items),
            Request::ApiKeyDelete { key } => self.delete_api_key(key),
            Request::ZoneSecureAll => self.secure_all(items),
            Request::ZoneSecure {
                zone,
                algorithm,
                denial,
                soa_edit,
            } => {
                let signing = read_signing(denial.as_deref(), soa_edit.as_deref())?;
                let secured = self.secure_zone(zone, algorithm.as_deref(), &signing)?;
                Ok(self.with_advice(secured))
            }
            Request::ZoneUnsecure { zone, force } => self.unsecure_zone(zone, *force),
            Request::ZoneDs { zone } => self.list_ds(zone, items),
            Request::KeyList { zone } => self.list_zone_keys(zone.as_deref(), items),
            Request::KeyAdd(template) => self.add_zone_key(template, template.generate()?, true),
            Request::KeyImport { private, template } => {
                self.add_zone_key(template, template.read(private)?, false)
            }
            Request::KeyExport { zone, key, pem } => self.export_key(zone, *key, *pem),
            Request::KeyChange { zone, key, change } => self.change_key(zone, *key, *change),
            Request::KeyRemove { zone, key } => self.remove_zone_key(zone, *key),
            Request::KeyRollover { zone, role } => self.roll_keys(zone, role.as_deref()),
            Request::KeyDs { zone, key, report } => self.report_ds(zone, *key, *report),
            Request::Status
            | Request::ZoneStatus { .. }
            | Request::ZoneRetrieve { .. }
            | Request::ZoneNotify { .. }
            | Request::Stop
            | Request::Process
            | Request::TakeOver
            | Request::Reload { .. }
            | Request::Stats { .. }
            | Request::ZoneSync { .. }
            | Request::ZoneFreeze { .. }
            | Request::ZoneThaw { .. }
            | Request::QueryLogOn(_)
            | Request::QueryLogOff
            | Request::QueryLogStatus
            | Request::HealthList
            | Request::HealthForce { .. }
            | Request::LogLevel { .. }
            | Request::CacheFlush { .. } => Err(OperationError::refused(
                "not an operation on zones or records",
            )),
        }
    }

    /// Waits for a database; an error names it.
    fn wait<T>(
        &self,
        database: &Database,
        work: impl Future<Output = Result<T, WriteError>>,
    ) -> Outcome<T> {
        let done = self.runtime.block_on(work);
        done.map_err(|error| database.error(&error))
    }

    /// Checks whether a backend is a database.
    fn is_database(&self, rank: u16) -> bool {
        self.databases.iter().any(|database| database.rank == rank)
    }

    /// Finds the database that serves a zone, and the zone's row there.
    fn locate(&self, name: &NameBuf) -> Outcome<(&Database, ZoneRow)> {
        let find =
            |database: &Database| self.wait(database, database.backend.find_zone(name.as_name()));
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            let serves = self.databases.iter().find(|database| database.rank == rank);
            let database = serves.ok_or_else(|| {
                let location = place_of_rank(rank);
                OperationError::refused(format!(
                    "zone {name} is loaded from a file ({location}); this operation needs a database zone"
                ))
            })?;
            let row = find(database)?.ok_or_else(|| {
                OperationError::not_found(format!("zone {name} is no longer in the database"))
            })?;
            return Ok((database, row));
        }
        // The zone cannot be served yet, for example because it has no SOA.
        for database in &self.databases {
            if let Some(row) = find(database)? {
                return Ok((database, row));
            }
        }
        Err(OperationError::unknown_zone(name))
    }

    /// Makes a committed change visible; returns warnings for the operator.
    fn publish(&self, database: &Database, committed: &Committed) -> Outcome<Vec<String>> {
        let waiting = database.backend.await_replica(committed);
        let is_there = self.runtime.block_on(waiting);
        (database.publish)(committed).map_err(|error| {
            OperationError::backend(format!(
                "zone {}: changed in the database, but this server does not serve the change yet: {error}",
                committed.apex
            ))
        })?;
        let mut warnings = committed.warnings.clone();
        if !is_there {
            warnings
                .push("the replica does not have the change yet; it is served once it does".into());
        }
        Ok(warnings)
    }
}

/// Parses the name of a zone; the final dot is optional.
pub fn zone_name(text: &str) -> Outcome<NameBuf> {
    check_ascii(text)?;
    NameBuf::zone_from_text(text)
        .map_err(|error| OperationError::invalid(format!("invalid zone name {text:?}: {error}")))
}

/// Parses a domain name that is not the name of a zone version; the final dot is optional.
pub fn domain_name(text: &str) -> Outcome<NameBuf> {
    check_ascii(text)?;
    NameBuf::from_text(text.as_bytes(), Name::ROOT)
        .map_err(|error| OperationError::invalid(format!("invalid name {text:?}: {error}")))
}

/// Internationalized names must be given in their ASCII form (RFC 5891), which is what is looked up.
fn check_ascii(text: &str) -> Outcome<()> {
    if text.is_ascii() {
        Ok(())
    } else {
        Err(OperationError::invalid(format!(
            "{text:?} is not ASCII: use the A-label form (xn--...)"
        )))
    }
}

#[cfg(test)]
mod tests;
