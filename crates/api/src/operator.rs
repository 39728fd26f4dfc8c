//! Owns the interface between the API and the server: operations, counters, settings.

use std::sync::Arc;

use nameward_control::api_keys::ApiKey;
use nameward_control::operations::{
    Caller, ItemSink, KeyScope, ListedItem, OperationError, OperationRequest, OperationResult,
    Outcome, ZoneAttributes,
};
use nameward_control::web::{ZoneListPage, ZoneListQuery};
use nameward_maintain::change_feed::ChangeFeed;
use nameward_stats::Snapshot;
use nameward_zone::ScriptCheck;

use crate::request::ApiRequest;
use crate::response::ApiResult;
use crate::turns::ConditionalTurns;

/// The server behind the API.
pub trait ApiOperator: Send + Sync + 'static {
    /// Runs an operation within the rights of the caller, and records changes in the audit log. It may block.
    fn run(&self, caller: &Caller, request: &OperationRequest, items: ItemSink<'_>) -> Outcome;

    /// One page of the zones by name, which costs no more than the page; none without a server that serves zones.
    fn zone_page(&self, query: &ZoneListQuery) -> Option<ZoneListPage> {
        let _ = query;
        None
    }

    /// The feed of zone changes; none without a server that serves zones.
    fn feed(&self) -> Option<Arc<ChangeFeed>> {
        None
    }

    /// The check of LUA records.
    fn script_check(&self) -> ScriptCheck {
        ScriptCheck::default()
    }

    /// The counters.
    fn snapshot(&self) -> Snapshot;

    /// Settings under their PowerDNS names, without secrets.
    fn settings(&self) -> Vec<(String, String)>;
}

/// Defaults of new zones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiDefaults {
    /// SOA-EDIT; none if empty.
    pub soa_edit: String,
    /// SOA-EDIT-API; `DEFAULT` if empty.
    pub soa_edit_api: String,
    /// The catalog of new primary zones; none if empty.
    pub catalog_zone: String,
}

/// The API: a function from requests to responses.
pub struct Api {
    /// The server behind it.
    pub(crate) operator: Box<dyn ApiOperator>,
    /// Turns of conditional requests.
    pub(crate) turns: ConditionalTurns,
    /// Defaults of new zones.
    pub(crate) defaults: ApiDefaults,
}

impl Api {
    /// Makes the API of a server.
    pub fn new(operator: impl ApiOperator, defaults: ApiDefaults) -> Self {
        Api {
            operator: Box::new(operator),
            turns: ConditionalTurns::default(),
            defaults,
        }
    }

    /// Runs an operation within the rights of the caller, and returns the items of one kind that it lists. It may block.
    pub(crate) fn listed<T: TryFrom<ListedItem> + Send>(
        &self,
        caller: &Caller,
        request: &OperationRequest,
    ) -> Outcome<Vec<T>> {
        let mut listed = Vec::new();
        self.operator.run(caller, request, &mut |item| {
            listed.extend(T::try_from(item));
            true
        })?;
        Ok(listed)
    }

    /// Returns the attributes of a zone.
    pub(crate) fn zone(&self, caller: &Caller, name: &str) -> Outcome<ZoneAttributes> {
        let zone = Some(name.to_owned());
        let found = self.listed(caller, &OperationRequest::ZoneAttributes { zone })?;
        let mut found = found.into_iter().map(|zone: Box<ZoneAttributes>| *zone);
        let not_found = || OperationError::not_found(format!("zone {name} not found"));
        found.next().ok_or_else(not_found)
    }
}

/// One request on its way through a resource.
pub struct Call<'c> {
    /// The API.
    pub api: &'c Api,
    /// The request.
    pub request: &'c ApiRequest,
    caller: Caller,
}

impl<'c> Call<'c> {
    /// Makes the call of a client that has shown this key.
    pub fn new(api: &'c Api, request: &'c ApiRequest, key: &Arc<ApiKey>) -> Self {
        Call {
            api,
            request,
            caller: Caller::for_key(key, request.client, None),
        }
    }

    /// The rights of the caller.
    pub fn scope(&self) -> &KeyScope {
        self.caller.scope()
    }

    /// Runs an operation that lists nothing.
    pub fn run(&self, request: &OperationRequest) -> ApiResult<OperationResult> {
        self.list(request, &mut |_| true)
    }

    /// Runs an operation, and hands over the items that it lists.
    pub fn list(
        &self,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> ApiResult<OperationResult> {
        Ok(self.api.operator.run(&self.caller, request, items)?)
    }

    /// Runs an operation, and returns the items of one kind that it lists.
    pub fn listed<T: TryFrom<ListedItem> + Send>(
        &self,
        request: &OperationRequest,
    ) -> ApiResult<Vec<T>> {
        Ok(self.api.listed(&self.caller, request)?)
    }

    /// Runs an operation with the reason that the client gives for it.
    pub fn run_with_message(
        &self,
        message: Option<&str>,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Outcome {
        let caller = self.caller.with_message(message);
        self.api.operator.run(&caller, request, items)
    }

    /// The attributes of a zone; 404 if there is none.
    pub fn zone(&self, name: &str) -> ApiResult<ZoneAttributes> {
        Ok(self.api.zone(&self.caller, name)?)
    }

    /// The counters, for keys that are not limited to some zones.
    pub fn snapshot(&self) -> ApiResult<Snapshot> {
        self.caller.scope().require_server()?;
        Ok(self.api.operator.snapshot())
    }

    /// The settings, for keys that are not limited to some zones.
    pub fn settings(&self) -> ApiResult<Vec<(String, String)>> {
        self.caller.scope().require_server()?;
        Ok(self.api.operator.settings())
    }
}
