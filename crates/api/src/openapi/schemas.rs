//! The schemas of bodies and replies.

use serde_json::{Map, Value, json};

/// Makes the schemas: a name, the fields that must be there, and all fields with their types.
macro_rules! schemas {
    ($($name:ident [$($required:tt),*] { $($field:tt: $schema:expr),* $(,)? })*) => {
        [$((
            stringify!($name).to_owned(),
            object(&[$((stringify!($field), $schema)),*], &[$(stringify!($required)),*]),
        )),*]
    };
}

/// All schemas by name.
#[rustfmt::skip]
pub fn all() -> Value {
    let integer_or_null = || json!({ "type": ["integer", "null"] });
    let schemas = schemas! {
        Error [error] { error: text() }
        Problem [type, title, status] { type: text(), title: text(), status: number(), detail: text() }
        Server [id] { id: text(), daemon_type: text(), version: text(), url: text() }
        Setting [name, value] { name: text(), type: text(), value: text() }
        Record [content] { content: text(), disabled: flag() }
        Comment [content] { content: text(), account: text(), modified_at: number() }
        RRSet [name, type] {
            name: text(), type: text(), ttl: number(),
            changetype: json!({ "enum": ["REPLACE", "DELETE", "EXTEND", "PRUNE"] }), records: list("Record"),
            comments: list("Comment"),
        }
        Zone [] {
            id: text(), name: text(),
            kind: json!({ "enum": ["Native", "Master", "Slave", "Primary", "Secondary", "Producer", "Consumer"] }),
            url: text(), account: text(), catalog: text(), masters: texts(), nameservers: texts(), serial: number(),
            notified_serial: number(), edited_serial: number(), last_check: number(), dnssec: flag(), nsec3param: text(),
            nsec3narrow: flag(), soa_edit: text(), soa_edit_api: text(), api_rectify: flag(),
            master_tsig_key_ids: texts(), slave_tsig_key_ids: texts(), zone: text(), rrsets: list("RRSet"),
        }
        ZonesChange [zones] { zones: list("Zone") }
        ZonesChanged [zones] { zones: list("ZoneChanged") }
        ZoneChanged [name, changed] {
            name: text(), changed: flag(), check: flag(), serial: integer_or_null(),
            warnings: texts(), removed: list("Object"), added: list("Object"),
        }
        Version [serial, before, time] {
            serial: number(), before: number(), time: text(), origin: text(), removed: number(), added: number(),
            who: optional_text(), message: optional_text(),
        }
        Metadata [metadata] { kind: text(), metadata: texts() }
        Cryptokey [] {
            id: number(), keytype: json!({ "enum": ["ksk", "zsk", "csk"] }), active: flag(), published: flag(),
            dnskey: text(), ds: texts(), privatekey: text(), algorithm: json!({ "type": ["string", "integer"] }),
            bits: number(), flags: number(),
        }
        TsigKey [] { id: text(), name: text(), algorithm: text(), key: text(), type: text() }
        Autoprimary [ip, nameserver] { ip: text(), nameserver: text(), account: text() }
        AuditEntry [number, time, who, operation, outcome] {
            number: number(), time: text(), who: text(), address: optional_text(), key: optional_text(),
            operation: text(), zone: optional_text(), detail: text(), serial: integer_or_null(),
            outcome: json!({ "enum": ["done", "failed"] }), error: optional_text(), message: optional_text(),
        }
        Operation [request] { message: text(), request: json!({ "type": "object" }) }
    };
    let mut all = Map::from_iter(schemas);
    all.insert("Object".into(), json!({ "type": "object" }));
    all.into()
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
