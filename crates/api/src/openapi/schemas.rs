//! The schemas of bodies and replies.

use serde_json::{Map, Value, json};

/// All schemas by name.
pub fn all() -> Value {
    let schemas = [general(), zones(), changes(), settings()];
    let schemas = schemas.into_iter().flatten();
    Value::Object(
        schemas
            .map(|(name, schema)| (name.to_owned(), schema))
            .collect(),
    )
}

/// A schema with its name.
type Named = (&'static str, Value);

/// Errors and the server.
fn general() -> Vec<Named> {
    vec![
        ("Object", json!({ "type": "object" })),
        ("Error", object(&[("error", text())], &["error"])),
        (
            "Problem",
            object(
                &[
                    ("type", text()),
                    ("title", text()),
                    ("status", number()),
                    ("detail", text()),
                ],
                &["type", "title", "status"],
            ),
        ),
        (
            "Server",
            object(
                &[
                    ("id", text()),
                    ("daemon_type", text()),
                    ("version", text()),
                    ("url", text()),
                ],
                &["id"],
            ),
        ),
        (
            "Setting",
            object(
                &[("name", text()), ("type", text()), ("value", text())],
                &["name", "value"],
            ),
        ),
    ]
}

/// Zones and their RRsets.
fn zones() -> Vec<Named> {
    vec![
        (
            "Record",
            object(&[("content", text()), ("disabled", flag())], &["content"]),
        ),
        (
            "Comment",
            object(
                &[
                    ("content", text()),
                    ("account", text()),
                    ("modified_at", number()),
                ],
                &["content"],
            ),
        ),
        (
            "RRSet",
            object(
                &[
                    ("name", text()),
                    ("type", text()),
                    ("ttl", number()),
                    (
                        "changetype",
                        json!({ "enum": ["REPLACE", "DELETE", "EXTEND", "PRUNE"] }),
                    ),
                    ("records", list("Record")),
                    ("comments", list("Comment")),
                ],
                &["name", "type"],
            ),
        ),
        ("Zone", zone()),
    ]
}

fn zone() -> Value {
    object(
        &[
            ("id", text()),
            ("name", text()),
            (
                "kind",
                json!({ "enum": ["Native", "Master", "Slave", "Primary", "Secondary", "Producer", "Consumer"] }),
            ),
            ("url", text()),
            ("account", text()),
            ("catalog", text()),
            ("masters", texts()),
            ("nameservers", texts()),
            ("serial", number()),
            ("notified_serial", number()),
            ("edited_serial", number()),
            ("last_check", number()),
            ("dnssec", flag()),
            ("nsec3param", text()),
            ("nsec3narrow", flag()),
            ("soa_edit", text()),
            ("soa_edit_api", text()),
            ("api_rectify", flag()),
            ("master_tsig_key_ids", texts()),
            ("slave_tsig_key_ids", texts()),
            ("zone", text()),
            ("rrsets", list("RRSet")),
        ],
        &[],
    )
}

/// Changes and versions of zones.
fn changes() -> Vec<Named> {
    vec![
        (
            "ZonesChange",
            object(&[("zones", list("Zone"))], &["zones"]),
        ),
        (
            "ZonesChanged",
            object(&[("zones", list("ZoneChanged"))], &["zones"]),
        ),
        (
            "ZoneChanged",
            object(
                &[
                    ("name", text()),
                    ("changed", flag()),
                    ("check", flag()),
                    ("serial", json!({ "type": ["integer", "null"] })),
                    ("warnings", texts()),
                    ("removed", list("Object")),
                    ("added", list("Object")),
                ],
                &["name", "changed"],
            ),
        ),
        (
            "Version",
            object(
                &[
                    ("serial", number()),
                    ("before", number()),
                    ("time", text()),
                    ("origin", text()),
                    ("removed", number()),
                    ("added", number()),
                    ("who", optional_text()),
                    ("message", optional_text()),
                ],
                &["serial", "before", "time"],
            ),
        ),
    ]
}

/// Keys, metadata, the audit log and operations.
fn settings() -> Vec<Named> {
    vec![
        (
            "Metadata",
            object(&[("kind", text()), ("metadata", texts())], &["metadata"]),
        ),
        (
            "Cryptokey",
            object(
                &[
                    ("id", number()),
                    ("keytype", json!({ "enum": ["ksk", "zsk", "csk"] })),
                    ("active", flag()),
                    ("published", flag()),
                    ("dnskey", text()),
                    ("ds", texts()),
                    ("privatekey", text()),
                    ("algorithm", json!({ "type": ["string", "integer"] })),
                    ("bits", number()),
                    ("flags", number()),
                ],
                &[],
            ),
        ),
        (
            "TsigKey",
            object(
                &[
                    ("id", text()),
                    ("name", text()),
                    ("algorithm", text()),
                    ("key", text()),
                    ("type", text()),
                ],
                &[],
            ),
        ),
        (
            "Autoprimary",
            object(
                &[("ip", text()), ("nameserver", text()), ("account", text())],
                &["ip", "nameserver"],
            ),
        ),
        (
            "AuditEntry",
            object(
                &[
                    ("number", number()),
                    ("time", text()),
                    ("who", text()),
                    ("address", optional_text()),
                    ("key", optional_text()),
                    ("operation", text()),
                    ("zone", optional_text()),
                    ("detail", text()),
                    ("serial", json!({ "type": ["integer", "null"] })),
                    ("outcome", json!({ "enum": ["done", "failed"] })),
                    ("error", optional_text()),
                    ("message", optional_text()),
                ],
                &["number", "time", "who", "operation", "outcome"],
            ),
        ),
        (
            "Operation",
            object(
                &[
                    ("message", text()),
                    ("request", json!({ "type": "object" })),
                ],
                &["request"],
            ),
        ),
    ]
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn optional_text() -> Value {
    json!({ "type": ["string", "null"] })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn list(name: &str) -> Value {
    json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{name}") } })
}

fn object(fields: &[(&str, Value)], required: &[&str]) -> Value {
    let fields = fields.iter();
    let properties: Map<String, Value> = fields
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}
