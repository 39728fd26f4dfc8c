//! Owns the interface between the API and the server: operations, counters, settings.

use std::sync::Arc;

use nameward_control::api_keys::ApiKey;
use nameward_control::operations::{
    Caller, ItemSink, KeyScope, ListedItem, OperationError, OperationRequest, OperationResult,
    ZoneAttributes,
};
use nameward_control::web::{ZoneListPage, ZoneListQuery};
use nameward_maintain::change_feed::ChangeFeed;
use nameward_stats::Snapshot;
use nameward_zone::ScriptCheck;

use crate::request::ApiRequest;
use crate::response::{ApiError, ApiResult};
use crate::turns::ConditionalTurns;

/// The server behind the API.
pub trait ApiOperator: Send + Sync + 'static {
    /// Runs an operation within the rights of the caller, and records changes in the audit log. It may block.
    fn run(
        &self,
        caller: &Caller,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError>;

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
    operator: Box<dyn ApiOperator>,
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

    /// Runs an operation within the rights of the caller. It may block.
    pub(crate) fn run(
        &self,
        caller: &Caller,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        self.operator.run(caller, request, items)
    }

    /// One page of the zones by name.
    pub(crate) fn zone_page(&self, query: &ZoneListQuery) -> Option<ZoneListPage> {
        self.operator.zone_page(query)
    }

    /// The feed of zone changes.
    pub(crate) fn feed(&self) -> Option<Arc<ChangeFeed>> {
        self.operator.feed()
    }

    /// The check of LUA records.
    pub(crate) fn script_check(&self) -> ScriptCheck {
        self.operator.script_check()
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
        let result = self.api.run(&self.caller, request, items);
        result.map_err(ApiError::from)
    }

    /// Runs an operation with the reason that the client gives for it.
    pub fn run_with_message(
        &self,
        message: Option<&str>,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        let caller = self.caller.with_message(message);
        self.api.operator.run(&caller, request, items)
    }

    /// The attributes of a zone; 404 if there is none.
    pub fn zone(&self, name: &str) -> ApiResult<ZoneAttributes> {
        let mut found = None;
        let request = OperationRequest::ZoneAttributes {
            zone: Some(name.to_owned()),
        };
        self.list(&request, &mut |item| {
            if let ListedItem::Attributes(zone) = item {
                found = Some(*zone);
            }
            true
        })?;
        found.ok_or(ApiError::NotFound)
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
