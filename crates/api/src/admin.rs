//! The web administration at `/admin`: pages rendered on the server, over the same operations as the API.
//!
//! ```text
//! session    logged-in users: random identifiers, a bounded table, idle and absolute expiry
//! request    path, query, cookie and form of a request, and whether it was sent by one of our own pages
//! page       the frame of every page, and the headers of every reply
//! proposal   every record change: preview by a dry run, then commit of exactly the confirmed difference
//! login, zones, zone, editor, import, dnssec, transfers, history, deleted, audit, api_keys
//!            one file for each group of pages
//! ```
//! Invariants:
//! - A page decides nothing: each one calls operations and shows their results and errors.
//! - Every form has the session's token, and every request that changes something must come from our own origin.
//! - Templates escape every value; the pages contain no script and no style, and load nothing from outside.
//! - Everything works without scripts.

mod api_keys;
mod audit;
mod deleted;
mod dnssec;
mod editor;
mod history;
mod import;
mod login;
mod page;
mod proposal;
mod request;
mod rrsets;
mod session;
mod transfers;
mod zone;
mod zones;

use nameward_control::operations::{
    Caller, ErrorKind, ItemSink, ListedItem, OperationError, OperationRequest, OperationResult,
    ZoneAttributes,
};

use crate::operator::Api;
use crate::request::ApiMethod;
use crate::response::ApiResponse;
use crate::routes::path_arguments;

pub(crate) use login::{LOGIN_MAX, logged_in, login_page, redirect_to_login};
pub(crate) use page::{HEADERS, refusal};
pub(crate) use request::AdminRequest;
use session::Notice;
pub(crate) use session::{AdminSession, Sessions};

/// The web administration of a server.
pub struct Admin {
    /// The logged-in users.
    pub(crate) sessions: Sessions,
    /// The name of the server, shown on every page; may be empty.
    pub(crate) server: String,
}

/// A page, or the error that is shown instead.
type PageResult<T = ApiResponse> = Result<T, OperationError>;

/// One request of a logged-in user.
pub(crate) struct Visit<'v> {
    admin: &'v Admin,
    api: &'v Api,
    request: &'v AdminRequest,
    session: &'v AdminSession,
    caller: Caller,
}

/// Answers a request; gets the segments that match `{}` in the pattern.
type Handler = fn(&Visit<'_>, &[&str]) -> PageResult;

struct AdminRoute {
    path: &'static str,
    get: Option<Handler>,
    post: Option<Handler>,
}

const fn route(path: &'static str, get: Option<Handler>, post: Option<Handler>) -> AdminRoute {
    AdminRoute { path, get, post }
}

#[rustfmt::skip]
const ROUTES: &[AdminRoute] = &[
    route("", Some(zones::home), None),
    route("/logout", None, Some(login::logout)),
    route("/zones", Some(zones::list), None),
    route("/new-zone", Some(zones::new), Some(zones::create)),
    route("/search", Some(zones::search), None),
    route("/audit", Some(audit::list), None),
    route("/api-keys", Some(api_keys::list), Some(api_keys::change)),
    route("/deleted", Some(deleted::list), Some(deleted::restore)),
    route("/zones/{}", Some(zone::show), None),
    route("/zones/{}/rrset", Some(editor::form), Some(editor::change)),
    route("/zones/{}/import", Some(import::form), Some(import::import)),
    route("/zones/{}/export", Some(import::export), None),
    route("/zones/{}/dnssec", Some(dnssec::show), Some(dnssec::change)),
    route("/zones/{}/transfers", Some(transfers::show), Some(transfers::start)),
    route("/zones/{}/history", Some(history::list), Some(history::roll_back)),
    route("/zones/{}/delete", Some(zone::confirm_deletion), Some(zone::delete)),
];

impl Admin {
    /// Makes the web administration of a server with this name.
    pub fn new(server: String) -> Self {
        Admin {
            sessions: Sessions::default(),
            server,
        }
    }

    /// Returns a file that pages refer to. It is served to everyone: the login page needs it too.
    pub(crate) fn asset(&self, request: &AdminRequest) -> Option<ApiResponse> {
        page::asset(request)
    }

    /// Answers a request of a logged-in user. It may block.
    pub(crate) fn respond(
        &self,
        api: &Api,
        request: &AdminRequest,
        session: &AdminSession,
    ) -> ApiResponse {
        let reason = request.form.field("reason").trim();
        let visit = Visit {
            admin: self,
            api,
            request,
            session,
            caller: Caller::for_key(
                &session.key,
                request.client,
                Some(reason).filter(|reason| !reason.is_empty()),
            ),
        };
        let reply = visit.dispatch();
        reply.unwrap_or_else(|error| page::failure(&visit, &error))
    }
}

impl Visit<'_> {
    fn dispatch(&self) -> PageResult {
        let path = &self.request.path;
        let not_found = || OperationError::not_found("There is no such page.");
        let mut routes = ROUTES.iter();
        let found = routes.find_map(|route| Some((route, path_arguments(route.path, path)?)));
        let (route, arguments) = found.ok_or_else(not_found)?;
        let handler = match self.request.method {
            ApiMethod::Get => route.get,
            ApiMethod::Post => route.post,
            _ => None,
        };
        handler.ok_or_else(not_found)?(self, &arguments)
    }

    /// Runs an operation that lists nothing.
    fn run(&self, request: &OperationRequest) -> PageResult<OperationResult> {
        self.list(request, &mut |_| true)
    }

    /// Runs an operation, and passes on the items that it lists.
    fn list(&self, request: &OperationRequest, items: ItemSink<'_>) -> PageResult<OperationResult> {
        self.api.operator.run(&self.caller, request, items)
    }

    /// Runs an operation, and returns the items of one kind that it lists.
    fn listed<T: TryFrom<ListedItem> + Send>(
        &self,
        request: &OperationRequest,
    ) -> PageResult<Vec<T>> {
        self.api.listed(&self.caller, request)
    }

    /// Does the same for a page that shows errors of some kinds instead of a list.
    fn listed_or_problem<T: TryFrom<ListedItem> + Send>(
        &self,
        request: &OperationRequest,
        is_shown: impl Fn(ErrorKind) -> bool,
    ) -> PageResult<(Vec<T>, Option<String>)> {
        match self.listed(request) {
            Ok(listed) => Ok((listed, None)),
            Err(error) if is_shown(error.kind) => Ok((Vec::new(), Some(error.message))),
            Err(error) => Err(error),
        }
    }

    /// Finds the zone of a path segment.
    fn zone(&self, segment: &str) -> PageResult<ZoneAttributes> {
        let name = if segment == "=2E" { "." } else { segment };
        self.api.zone(&self.caller, name)
    }

    /// Leads to another page, with a message about what was done.
    fn redirect_with(&self, target: &str, text: String, warnings: Vec<String>) -> ApiResponse {
        self.session.leave_notice(Notice { text, warnings });
        page::redirect(target)
    }

    /// Whether the key of the user permits changes.
    fn can_write(&self) -> bool {
        !self.session.key.scope.is_read_only()
    }

    /// The value of a form field, without spaces around it.
    fn field(&self, name: &str) -> &str {
        self.request.form.field(name).trim()
    }

    /// The value of a query parameter, without spaces around it.
    fn parameter(&self, name: &str) -> &str {
        self.request.parameter(name).trim()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_one_route() {
        for (at, route) in ROUTES.iter().enumerate() {
            let same = |other: &AdminRoute| other.path == route.path;
            assert_eq!(ROUTES.iter().position(same), Some(at), "{:?}", route.path);
        }
    }
}
