//! Owns the table of routes: a path pattern, its methods and their handlers.

use crate::openapi;
use crate::operator::{Api, Call};
use crate::request::{ApiMethod, ApiRequest};
use crate::resources::{
    actions, audit, autoprimaries, cache, changes, config, cryptokeys, events, history, metadata,
    operations, search, servers, statistics, tsigkeys, views, zones,
};
use crate::response::{ApiError, ApiResponse, ApiResult, ReplyRest};
use nameward_control::api_keys::ApiKey;
use std::sync::Arc;

/// Answers a request; gets the segments that match `{}` in the pattern.
type Handler = fn(&Call<'_>, &[&str]) -> ApiResult;

/// A pattern below `/api`, and what each method does there.
struct ApiRoute {
    pattern: &'static [&'static str],
    methods: &'static [(ApiMethod, Handler)],
}

/// The segment of a pattern that matches any text.
const ANY: &str = "{}";

macro_rules! server {
    ($($segment:expr),*) => { &["v1", "servers", "localhost", $($segment),*] };
}

use ApiMethod::{Delete, Get, Patch, Post, Put};

#[rustfmt::skip]
const ROUTES: &[ApiRoute] = &[
    ApiRoute { pattern: &[], methods: &[(Get, servers::versions)] },
    ApiRoute { pattern: &["docs"], methods: &[(Get, openapi::show)] },
    ApiRoute { pattern: &["docs.json"], methods: &[(Get, openapi::show)] },
    ApiRoute { pattern: &["v1"], methods: &[(Get, servers::features)] },
    ApiRoute { pattern: &["v1", "servers"], methods: &[(Get, servers::list)] },
    ApiRoute { pattern: server![], methods: &[(Get, servers::show)] },
    ApiRoute { pattern: server!["config"], methods: &[(Get, config::list)] },
    ApiRoute { pattern: server!["config", ANY], methods: &[(Get, config::show)] },
    ApiRoute { pattern: server!["statistics"], methods: &[(Get, statistics::list)] },
    ApiRoute { pattern: server!["search-data"], methods: &[(Get, search::search)] },
    ApiRoute { pattern: server!["cache", "flush"], methods: &[(Put, cache::flush)] },
    ApiRoute { pattern: server!["operations"], methods: &[(Post, operations::run)] },
    ApiRoute { pattern: server!["audit"], methods: &[(Get, audit::list)] },
    ApiRoute { pattern: server!["events"], methods: &[(Get, events::open)] },
    ApiRoute { pattern: server!["autoprimaries"], methods: &[(Get, autoprimaries::list), (Post, autoprimaries::add)] },
    ApiRoute { pattern: server!["autoprimaries", ANY, ANY], methods: &[(Delete, autoprimaries::remove)] },
    ApiRoute { pattern: server!["tsigkeys"], methods: &[(Get, tsigkeys::list), (Post, tsigkeys::create)] },
    ApiRoute {
        pattern: server!["tsigkeys", ANY],
        methods: &[(Get, tsigkeys::show), (Put, tsigkeys::change), (Delete, tsigkeys::delete)],
    },
    ApiRoute { pattern: server!["views"], methods: &[(Get, views::list)] },
    ApiRoute { pattern: server!["views", ANY], methods: &[(Get, views::show), (Post, views::add_zone)] },
    ApiRoute { pattern: server!["views", ANY, ANY], methods: &[(Delete, views::remove_zone)] },
    ApiRoute { pattern: server!["networks"], methods: &[(Get, views::list_networks)] },
    ApiRoute { pattern: server!["networks", ANY, ANY], methods: &[(Get, views::show_network), (Put, views::set_network), (Delete, views::remove_network)] },
    ApiRoute {
        pattern: server!["zones"],
        methods: &[(Get, zones::list), (Post, zones::create), (Patch, changes::patch_many)],
    },
    ApiRoute {
        pattern: server!["zones", ANY],
        methods: &[(Get, zones::show), (Put, zones::change), (Patch, zones::patch), (Delete, zones::delete)],
    },
    ApiRoute { pattern: server!["zones", ANY, "axfr-retrieve"], methods: &[(Put, actions::retrieve)] },
    ApiRoute { pattern: server!["zones", ANY, "notify"], methods: &[(Put, actions::notify)] },
    ApiRoute { pattern: server!["zones", ANY, "rectify"], methods: &[(Put, actions::rectify)] },
    ApiRoute { pattern: server!["zones", ANY, "history"], methods: &[(Get, history::list)] },
    ApiRoute { pattern: server!["zones", ANY, "difference"], methods: &[(Get, history::difference)] },
    ApiRoute { pattern: server!["zones", ANY, "rollback"], methods: &[(Put, history::rollback)] },
    ApiRoute { pattern: server!["zones", ANY, "export"], methods: &[(Get, actions::export)] },
    ApiRoute { pattern: server!["zones", ANY, "check"], methods: &[(Get, actions::check)] },
    ApiRoute { pattern: server!["zones", ANY, "metadata"], methods: &[(Get, metadata::list), (Post, metadata::add)] },
    ApiRoute {
        pattern: server!["zones", ANY, "metadata", ANY],
        methods: &[(Get, metadata::show), (Put, metadata::set), (Delete, metadata::delete)],
    },
    ApiRoute { pattern: server!["zones", ANY, "cryptokeys"], methods: &[(Get, cryptokeys::list), (Post, cryptokeys::create)] },
    ApiRoute {
        pattern: server!["zones", ANY, "cryptokeys", ANY],
        methods: &[(Get, cryptokeys::show), (Put, cryptokeys::change), (Delete, cryptokeys::delete)],
    },
];

impl Api {
    /// Answers a request of a client that has shown this key. It may block.
    pub fn respond(&self, request: &ApiRequest, key: &Arc<ApiKey>) -> ApiResponse {
        match dispatch(&Call::new(self, request, key)) {
            Ok(response) => response,
            Err(error) => {
                if error.status() >= 500 {
                    tracing::error!("API request failed: {error:?}");
                }
                ApiResponse::from_error(&error, request.error_form())
            }
        }
    }

    /// Makes the next part of a long reply, and what follows it. It may block.
    pub fn continue_reply(
        &self,
        rest: ReplyRest,
        request: &ApiRequest,
        key: &Arc<ApiKey>,
    ) -> ApiResult<(Vec<u8>, Option<ReplyRest>)> {
        rest.make(&Call::new(self, request, key))
    }
}

fn dispatch(call: &Call<'_>) -> ApiResult {
    let path = &call.request.path;
    let route = ROUTES.iter().find(|route| matches(route.pattern, path));
    let route = route.ok_or(ApiError::NotFound)?;
    if call.request.method == ApiMethod::Options {
        return Ok(preflight());
    }
    let mut methods = route.methods.iter();
    let found = methods.find(|(method, _)| *method == call.request.method);
    let (method, handler) = found.ok_or(ApiError::MethodNotAllowed)?;
    // A client that requests an unsupported dry run does not want a change.
    let is_read = *method == Get || openapi::takes(route.pattern, *method, "check");
    if !is_read && call.request.flag("check", false)? {
        return Err(ApiError::invalid(
            "check=true is not supported here: it covers changes of RRsets and rollbacks; nothing was changed",
        ));
    }
    let segments = route.pattern.iter().zip(path);
    let arguments: Vec<&str> = segments
        .filter(|(pattern, _)| **pattern == ANY)
        .map(|(_, segment)| segment.as_str())
        .collect();
    handler(call, &arguments)
}

/// The reply to a CORS preflight request; the actual requests still need the key.
pub fn preflight() -> ApiResponse {
    ApiResponse::text(200, "text/plain", "")
        .with("access-control-allow-headers", "Content-Type, X-API-Key")
        .with(
            "access-control-allow-methods",
            "GET, POST, PUT, PATCH, DELETE, OPTIONS",
        )
        .with("access-control-max-age", "3600")
}

fn matches(pattern: &[&str], path: &[String]) -> bool {
    let is_same = |(pattern, segment): (&&str, &String)| *pattern == ANY || *pattern == segment;
    pattern.len() == path.len() && pattern.iter().zip(path).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_every_description_has_a_route() {
        let mut served = 0;
        for route in ROUTES {
            for (method, _) in route.methods {
                let count = openapi::count(route.pattern, *method);
                assert_eq!(count, 1, "{method:?} {:?}", route.pattern);
                served += 1;
            }
        }
        assert_eq!(served, openapi::COUNT);
    }

    #[test]
    fn no_two_routes_match_one_path() {
        for (at, route) in ROUTES.iter().enumerate() {
            let path: Vec<String> = route
                .pattern
                .iter()
                .map(|segment| segment.replace("{}", "example.org."))
                .collect();
            let found: Vec<usize> = (0..ROUTES.len())
                .filter(|other| matches(ROUTES[*other].pattern, &path))
                .collect();
            assert_eq!(found, [at], "{path:?}");
        }
    }
}
