//! Owns the description of the API: OpenAPI 3.1 at `/api/docs` and `/api/docs.json`.
//!
//! It is made from the table of routes.

mod schemas;

use serde_json::{Map, Value, json};

use crate::operator::Call;
use crate::request::ApiMethod;
use crate::response::{ApiResponse, ApiResult};
use crate::routes::{ApiRoute, ROUTES};

/// The reply of a request that succeeds.
pub enum DescribedReply {
    /// JSON with this schema.
    One(u16, &'static str),
    /// A JSON list of this schema.
    Many(&'static str),
    /// No body.
    Empty,
    /// Text of this media type.
    Text(&'static str),
}

/// Answers with the description.
pub fn show(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Ok(ApiResponse::json(200, &document()))
}

/// The description as an OpenAPI document.
fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let entry = paths.entry(format!("/api{}", route.path));
        let methods = entry.or_insert_with(|| json!({}));
        methods[route.method.word()] = operation(route);
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

fn operation(route: &ApiRoute) -> Value {
    let names = route.path.split(['{', '}']).skip(1).step_by(2);
    let in_path = names.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let in_query = route.query.iter().map(|name| {
        json!({ "name": name, "in": "query", "required": false, "schema": { "type": "string" } })
    });
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let json_of = |schema: Value| json!({ "application/json": { "schema": schema } });
    let (status, content) = match route.reply {
        DescribedReply::One(status, name) => (status, Some(json_of(schema(name)))),
        DescribedReply::Many(name) => {
            let list = json!({ "type": "array", "items": schema(name) });
            (200, Some(json_of(list)))
        }
        DescribedReply::Empty if route.method == ApiMethod::Post => (201, None),
        DescribedReply::Empty => (204, None),
        DescribedReply::Text(media) => (
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
    let id: String = route
        .path
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let mut operation = json!({
        "operationId": format!("{}{id}", route.method.word()),
        "summary": route.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": { status.to_string(): success, "default": failure },
    });
    if matches!(route.reply, DescribedReply::Empty) && route.query.contains(&"check") {
        operation["responses"]["200"] = json!({
            "description": "With check=true: what the request would change",
            "content": json_of(schema("ZoneChanged")),
        });
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({ "required": true, "content": json_of(schema(body)) });
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referenced_schemas_exist_and_operation_ids_are_unique() {
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
        assert_eq!((ids.len(), count), (ROUTES.len(), ROUTES.len()));
    }
}
