//! Owns the description of the API: OpenAPI 3.1 at `/api/docs` and `/api/docs.json`.
//!
//! A test of the router refuses a route without a description here and a description without a route.

mod schemas;

use serde_json::{Map, Value, json};

use crate::operator::Call;
use crate::request::ApiMethod;
use crate::response::{ApiResponse, ApiResult};

/// The description of a method at a path.
struct Description {
    method: ApiMethod,
    /// The path below `/api`; the names in braces are those of the parameters.
    path: &'static str,
    summary: &'static str,
    /// Query parameters.
    query: &'static [&'static str],
    /// The schema of the body.
    body: Option<&'static str>,
    reply: DescribedReply,
}

/// The reply of a request that succeeds.
enum DescribedReply {
    /// JSON with this schema.
    One(u16, &'static str),
    /// A JSON list of this schema.
    Many(&'static str),
    /// No body.
    Empty,
    /// Text of this media type.
    Text(&'static str),
}

use ApiMethod::{Delete, Get, Patch, Post, Put};
use DescribedReply::{Empty, Many, One, Text};

macro_rules! describe {
    ($($method:ident $path:literal $summary:literal [$($query:literal),*] $body:expr => $reply:expr;)*) => {
        &[$(Description {
            method: $method,
            path: $path,
            summary: $summary,
            query: &[$($query),*],
            body: $body,
            reply: $reply,
        }),*]
    };
}

const ZONE: Option<&str> = Some("Zone");

#[rustfmt::skip]
const DESCRIPTIONS: &[Description] = describe! {
    Get "" "List the versions of the API" [] None => Many("Object");
    Get "/docs" "This description" [] None => One(200, "Object");
    Get "/docs.json" "This description" [] None => One(200, "Object");
    Get "/v1" "Show the features of this version" [] None => One(200, "Object");
    Get "/v1/servers" "List the servers: this one" [] None => Many("Server");
    Get "/v1/servers/localhost" "Show the server" [] None => One(200, "Server");
    Get "/v1/servers/localhost/config" "List settings under their PowerDNS names" [] None => Many("Setting");
    Get "/v1/servers/localhost/config/{setting}" "Show a setting" [] None => One(200, "Setting");
    Get "/v1/servers/localhost/statistics" "List counters and rings" ["statistic", "includerings"] None => Many("Object");
    Get "/v1/servers/localhost/search-data" "Search zones, records and comments" ["q", "max", "object_type"] None => Many("Object");
    Get "/v1/servers/localhost/audit" "List requested changes, newest first" ["zone", "key", "since", "before", "limit"] None => Many("AuditEntry");
    Get "/v1/servers/localhost/events" "Follow changes of zones as server-sent events; Last-Event-ID resumes" ["zone"] None => Text("text/event-stream");
    Post "/v1/servers/localhost/operations" "Run an operation of the control socket" [] Some("Operation") => Text("application/x-ndjson");
    Put "/v1/servers/localhost/cache/flush" "Flush the caches at a name" ["domain"] None => One(200, "Object");
    Get "/v1/servers/localhost/autoprimaries" "List autoprimaries" [] None => Many("Autoprimary");
    Post "/v1/servers/localhost/autoprimaries" "Add an autoprimary" [] Some("Autoprimary") => Empty;
    Delete "/v1/servers/localhost/autoprimaries/{ip}/{nameserver}" "Remove an autoprimary" [] None => Empty;
    Get "/v1/servers/localhost/tsigkeys" "List TSIG keys, without secrets" [] None => Many("TsigKey");
    Post "/v1/servers/localhost/tsigkeys" "Create a TSIG key" [] Some("TsigKey") => One(201, "TsigKey");
    Get "/v1/servers/localhost/tsigkeys/{tsigkey_id}" "Show a TSIG key with its secret" [] None => One(200, "TsigKey");
    Put "/v1/servers/localhost/tsigkeys/{tsigkey_id}" "Change a TSIG key" [] Some("TsigKey") => One(200, "TsigKey");
    Delete "/v1/servers/localhost/tsigkeys/{tsigkey_id}" "Delete a TSIG key" [] None => Empty;
    Get "/v1/servers/localhost/views" "List views" [] None => One(200, "Object");
    Get "/v1/servers/localhost/views/{view}" "Show a view" [] None => One(200, "Object");
    Post "/v1/servers/localhost/views/{view}" "Add a zone to a view" [] Some("Object") => Empty;
    Delete "/v1/servers/localhost/views/{view}/{zone_id}" "Remove a zone from a view" [] None => Empty;
    Get "/v1/servers/localhost/networks" "List networks" [] None => One(200, "Object");
    Get "/v1/servers/localhost/networks/{ip}/{prefix}" "Show a network" [] None => One(200, "Object");
    Put "/v1/servers/localhost/networks/{ip}/{prefix}" "Set the view of a network" [] Some("Object") => Empty;
    Delete "/v1/servers/localhost/networks/{ip}/{prefix}" "Remove a network" [] None => Empty;
    Get "/v1/servers/localhost/zones" "List zones" ["zone", "dnssec", "limit", "offset", "after", "sort", "q"] None => Many("Zone");
    Post "/v1/servers/localhost/zones" "Create a zone" ["rrsets"] ZONE => One(201, "Zone");
    Patch "/v1/servers/localhost/zones" "Change RRsets of several zones" ["check"] Some("ZonesChange") => One(200, "ZonesChanged");
    Get "/v1/servers/localhost/zones/{zone_id}" "Show a zone with its RRsets"
        ["rrsets", "rrset_name", "rrset_type", "include_disabled", "limit", "offset", "after", "sort", "q"] None => One(200, "Zone");
    Put "/v1/servers/localhost/zones/{zone_id}" "Change settings of a zone, or replace its RRsets" ["check"] ZONE => Empty;
    Patch "/v1/servers/localhost/zones/{zone_id}" "Change RRsets, all or none" ["check"] ZONE => Empty;
    Delete "/v1/servers/localhost/zones/{zone_id}" "Delete a zone" [] None => Empty;
    Put "/v1/servers/localhost/zones/{zone_id}/axfr-retrieve" "Transfer a secondary zone" [] None => One(200, "Object");
    Put "/v1/servers/localhost/zones/{zone_id}/notify" "Send NOTIFY to the secondaries" [] None => One(200, "Object");
    Get "/v1/servers/localhost/zones/{zone_id}/check" "Report errors and warnings about a zone" [] None => One(200, "Object");
    Put "/v1/servers/localhost/zones/{zone_id}/rectify" "Recompute derived columns" [] None => One(200, "Object");
    Get "/v1/servers/localhost/zones/{zone_id}/export" "Export a zone as a zone file" [] None => Text("text/plain");
    Get "/v1/servers/localhost/zones/{zone_id}/history" "List the versions in the journal" [] None => Many("Version");
    Get "/v1/servers/localhost/zones/{zone_id}/difference" "Compare two versions" ["from", "to"] None => One(200, "Object");
    Put "/v1/servers/localhost/zones/{zone_id}/rollback" "Restore a version" ["serial", "check"] None => One(200, "ZoneChanged");
    Get "/v1/servers/localhost/zones/{zone_id}/metadata" "List metadata" [] None => Many("Metadata");
    Post "/v1/servers/localhost/zones/{zone_id}/metadata" "Add metadata" [] Some("Metadata") => One(201, "Metadata");
    Get "/v1/servers/localhost/zones/{zone_id}/metadata/{metadata_kind}" "Show metadata of a kind" [] None => One(200, "Metadata");
    Put "/v1/servers/localhost/zones/{zone_id}/metadata/{metadata_kind}" "Replace metadata of a kind" [] Some("Metadata") => One(200, "Metadata");
    Delete "/v1/servers/localhost/zones/{zone_id}/metadata/{metadata_kind}" "Delete metadata of a kind" [] None => Empty;
    Get "/v1/servers/localhost/zones/{zone_id}/cryptokeys" "List DNSSEC keys" [] None => Many("Cryptokey");
    Post "/v1/servers/localhost/zones/{zone_id}/cryptokeys" "Create or import a DNSSEC key" [] Some("Cryptokey") => One(201, "Cryptokey");
    Get "/v1/servers/localhost/zones/{zone_id}/cryptokeys/{cryptokey_id}" "Show a DNSSEC key with its private key" [] None => One(200, "Cryptokey");
    Put "/v1/servers/localhost/zones/{zone_id}/cryptokeys/{cryptokey_id}" "Activate, publish or withdraw a DNSSEC key" [] Some("Cryptokey") => Empty;
    Delete "/v1/servers/localhost/zones/{zone_id}/cryptokeys/{cryptokey_id}" "Delete a DNSSEC key" [] None => Empty;
};

/// Answers with the description.
pub fn show(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Ok(ApiResponse::json(200, &document()))
}

/// The description as an OpenAPI document.
fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for described in DESCRIPTIONS {
        let entry = paths.entry(format!("/api{}", described.path));
        let methods = entry.or_insert_with(|| json!({}));
        methods[described.method.word()] = operation(described);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Nameward HTTP API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The HTTP API of PowerDNS Authoritative, and what Nameward adds to it.",
        },
        "servers": [{ "url": "/" }],
        "security": [{ "ApiKey": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": { "ApiKey": { "type": "apiKey", "in": "header", "name": "X-API-Key" } },
        },
    })
}

fn operation(found: &Description) -> Value {
    let names = found.path.split(['{', '}']).skip(1).step_by(2);
    let in_path = names.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let in_query = found.query.iter().map(|name| {
        json!({ "name": name, "in": "query", "required": false, "schema": { "type": "string" } })
    });
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let json_of = |schema: Value| json!({ "application/json": { "schema": schema } });
    let (status, content) = match found.reply {
        One(status, name) => (status, Some(json_of(schema(name)))),
        Many(name) => {
            let list = json!({ "type": "array", "items": schema(name) });
            (200, Some(json_of(list)))
        }
        Empty if found.method == Post => (201, None),
        Empty => (204, None),
        Text(media) => (
            200,
            Some(json!({ media: { "schema": { "type": "string" } } })),
        ),
    };
    let mut success = json!({ "description": "Success" });
    if let Some(content) = content {
        success["content"] = content;
    }
    let failure = json!({
        "description": "Error",
        "content": {
            "application/json": { "schema": schema("Error") },
            "application/problem+json": { "schema": schema("Problem") },
        },
    });
    let id: String = found
        .path
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let mut operation = json!({
        "operationId": format!("{}{id}", found.method.word()),
        "summary": found.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": { status.to_string(): success, "default": failure },
    });
    if matches!(found.reply, Empty) && found.query.contains(&"check") {
        operation["responses"]["200"] = json!({
            "description": "With check=true: what the request would change",
            "content": json_of(schema("ZoneChanged")),
        });
    }
    if let Some(body) = found.body {
        operation["requestBody"] = json!({ "required": true, "content": json_of(schema(body)) });
    }
    operation
}

fn find(pattern: &[&str], method: ApiMethod) -> Option<&'static Description> {
    let mut found = find_all(pattern, method);
    found.next()
}

fn find_all(pattern: &[&str], method: ApiMethod) -> impl Iterator<Item = &'static Description> {
    let path = plain_path(pattern);
    let known = DESCRIPTIONS.iter();
    known.filter(move |one| one.method == method && same_path(one.path, &path))
}

/// Returns how often a route is described, for a test.
#[cfg(test)]
pub fn count(pattern: &[&str], method: ApiMethod) -> usize {
    find_all(pattern, method).count()
}

/// The number of descriptions, for a test.
#[cfg(test)]
pub const COUNT: usize = DESCRIPTIONS.len();

/// Checks whether a request has a query parameter of this name.
pub fn takes(pattern: &[&str], method: ApiMethod, parameter: &str) -> bool {
    find(pattern, method).is_some_and(|one| one.query.contains(&parameter))
}

fn plain_path(pattern: &[&str]) -> String {
    pattern
        .iter()
        .map(|segment| format!("/{segment}"))
        .collect()
}

/// Compares a path with named parameters and one with `{}`.
fn same_path(named: &str, plain: &str) -> bool {
    let without_names = named.split('/').map(|segment| {
        if segment.starts_with('{') {
            "{}"
        } else {
            segment
        }
    });
    without_names.eq(plain.split('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_that_are_referred_to_exist_and_operation_ids_are_unique() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            let schema = &document["components"]["schemas"][name];
            assert!(schema.is_object(), "{name}");
        }
        let mut ids: Vec<&str> = Vec::new();
        for path in document["paths"].as_object().unwrap().values() {
            let methods = path.as_object().unwrap().values();
            ids.extend(methods.map(|method| method["operationId"].as_str().unwrap()));
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), count), (DESCRIPTIONS.len(), DESCRIPTIONS.len()));
    }
}
