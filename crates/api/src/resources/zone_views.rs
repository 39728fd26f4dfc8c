//! The JSON of zones and RRsets. Fields are declared in alphabetical order, which is the order on the wire.

use std::io::Write;

use nameward_control::operations::{ListedKind, ZoneAttributes};
use nameward_zone::ZoneKind;
use serde::Serialize;

use crate::response::write_json;

use super::paging::SortField;
use super::{SERVER, zone_id};

/// The fields that lists of zones are sorted by.
pub const ZONE_SORT_FIELDS: &[SortField<ZoneAttributes>] = &[
    ("name", |a, b| a.name.cmp(&b.name)),
    ("kind", |a, b| {
        kind_keyword(a.kind).cmp(kind_keyword(b.kind))
    }),
    ("serial", |a, b| a.serial.cmp(&b.serial)),
    ("account", |a, b| a.account.cmp(&b.account)),
];

/// Appends the JSON of a zone in a list; `dnssec=false` leaves out what depends on keys. Lists have a hundred thousand of them, so that
/// each is written at once and without working space.
pub fn write_zone(zone: &ZoneAttributes, with_dnssec: bool, out: &mut Vec<u8>) {
    let id = zone_id(&zone.name);
    let text = |key: &str, text: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(key.as_bytes());
        write_string(text, out);
    };
    let number = |key: &str, number: i64, out: &mut Vec<u8>| {
        out.extend_from_slice(key.as_bytes());
        write_number(number, out);
    };
    text("{\"account\": ", &zone.account, out);
    text(", \"catalog\": ", &zone.catalog, out);
    if with_dnssec {
        let dnssec = if zone.is_signed {
            ", \"dnssec\": true"
        } else {
            ", \"dnssec\": false"
        };
        out.extend_from_slice(dnssec.as_bytes());
        number(", \"edited_serial\": ", zone.edited_serial.into(), out);
    }
    text(", \"id\": ", &id, out);
    text(", \"kind\": ", kind_keyword(zone.kind), out);
    number(", \"last_check\": ", zone.last_check, out);
    out.extend_from_slice(b", \"masters\": [");
    for (i, primary) in zone.primaries.iter().enumerate() {
        text(if i == 0 { "" } else { ", " }, primary, out);
    }
    text("], \"name\": ", &zone.name, out);
    number(", \"notified_serial\": ", zone.notified_serial.into(), out);
    number(", \"serial\": ", zone.serial.into(), out);
    out.extend_from_slice(b", \"url\": \"");
    out.extend_from_slice(SERVER.as_bytes());
    out.extend_from_slice(b"/zones/");
    // It has no characters that JSON escapes.
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b"\"}");
}

/// A zone with everything there is about it.
#[derive(Debug, Serialize)]
pub struct ZoneDocument {
    account: String,
    api_rectify: bool,
    catalog: String,
    dnssec: bool,
    edited_serial: u32,
    id: String,
    kind: &'static str,
    last_check: i64,
    master_tsig_key_ids: Vec<String>,
    masters: Vec<String>,
    name: String,
    notified_serial: u32,
    nsec3narrow: bool,
    nsec3param: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rrsets: Option<Vec<RrsetJson>>,
    serial: u32,
    slave_tsig_key_ids: Vec<String>,
    soa_edit: String,
    soa_edit_api: String,
    url: String,
}

impl ZoneDocument {
    /// Makes the view from attributes, metadata and RRsets.
    pub fn new(
        zone: ZoneAttributes,
        metadata: &[(String, Vec<String>)],
        rrsets: Option<Vec<RrsetJson>>,
    ) -> Self {
        let items = |kind: &str| {
            let mut kinds = metadata.iter();
            let found = kinds.find(|(known, _)| known == kind);
            found.map_or(&[][..], |(_, items)| items.as_slice())
        };
        let first = |kind: &str| items(kind).first().cloned().unwrap_or_default();
        let keys = |kind: &str| -> Vec<String> {
            let names = items(kind).iter();
            names
                .map(|name| format!("{}.", name.trim_end_matches('.')))
                .collect()
        };
        let id = zone_id(&zone.name);
        ZoneDocument {
            account: zone.account,
            api_rectify: first("API-RECTIFY") == "1",
            catalog: zone.catalog,
            dnssec: zone.is_signed,
            edited_serial: zone.edited_serial,
            url: format!("{SERVER}/zones/{id}"),
            id: id.into_owned(),
            kind: kind_keyword(zone.kind),
            last_check: zone.last_check,
            master_tsig_key_ids: keys("TSIG-ALLOW-AXFR"),
            masters: zone.primaries,
            name: zone.name,
            notified_serial: zone.notified_serial,
            nsec3narrow: first("NSEC3NARROW") == "1",
            nsec3param: first("NSEC3PARAM"),
            rrsets,
            serial: zone.serial,
            slave_tsig_key_ids: keys("AXFR-MASTER-TSIG"),
            soa_edit: first("SOA-EDIT"),
            soa_edit_api: first("SOA-EDIT-API"),
        }
    }
}

/// An RRset. No `]` stands between `name` and the content of its records: acme.sh depends on it.
#[derive(Debug, Clone, Serialize)]
pub struct RrsetJson {
    pub comments: Vec<CommentJson>,
    pub name: String,
    pub records: Vec<RecordJson>,
    pub ttl: u32,
    #[serde(rename = "type")]
    pub rtype: String,
}

impl RrsetJson {
    /// The fields that lists are sorted by.
    pub const SORT_FIELDS: &[SortField<Self>] = &[
        ("name", |a, b| a.name.cmp(&b.name)),
        ("type", |a, b| a.rtype.cmp(&b.rtype)),
        ("ttl", |a, b| a.ttl.cmp(&b.ttl)),
    ];

    /// Appends its JSON, as [`write_json`] writes it. A zone has many of them, nearly all without comments and with plain texts.
    pub fn write(&self, out: &mut Vec<u8>) {
        if !self.comments.is_empty() {
            return write_json(self, out);
        }
        out.extend_from_slice(b"{\"comments\": [], \"name\": ");
        write_string(&self.name, out);
        out.extend_from_slice(b", \"records\": [");
        for (i, record) in self.records.iter().enumerate() {
            let start = if i == 0 { "" } else { ", " };
            out.extend_from_slice(start.as_bytes());
            out.extend_from_slice(b"{\"content\": ");
            write_string(&record.content, out);
            let end = if record.disabled {
                ", \"disabled\": true}"
            } else {
                ", \"disabled\": false}"
            };
            out.extend_from_slice(end.as_bytes());
        }
        // Writing to memory cannot fail.
        let _ = write!(out, "], \"ttl\": {}, \"type\": ", self.ttl);
        write_string(&self.rtype, out);
        out.push(b'}');
    }
}

/// A record.
#[derive(Debug, Clone, Serialize)]
pub struct RecordJson {
    pub content: String,
    /// It is stored and not served.
    pub disabled: bool,
}

/// A comment.
#[derive(Debug, Clone, Serialize)]
pub struct CommentJson {
    /// The account of its author.
    pub account: String,
    pub content: String,
    /// When it was written, in seconds since 1970.
    pub modified_at: i64,
}

/// Appends a number.
fn write_number(number: i64, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(digit @ 0..=9) => out.push(b'0' + digit),
        // Writing to memory cannot fail.
        _ => drop(write!(out, "{number}")),
    }
}

/// Appends a JSON string.
fn write_string(text: &str, out: &mut Vec<u8>) {
    // RFC 8259 section 7: all other characters may be themselves.
    if text
        .bytes()
        .any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\'))
    {
        return write_json(&text, out);
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// The keywords of PowerDNS 4.7, which clients compare with.
fn kind_keyword(kind: ListedKind) -> &'static str {
    match kind {
        ListedKind::OfZone(ZoneKind::Primary) => "Master",
        ListedKind::OfZone(ZoneKind::Secondary) => "Slave",
        ListedKind::OfZone(ZoneKind::Producer) => "Producer",
        ListedKind::OfZone(ZoneKind::Consumer) => "Consumer",
        ListedKind::OfZone(ZoneKind::Native) | ListedKind::File => "Native",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::to_json;
    use serde_json::json;

    #[test]
    fn zones_are_written_as_the_serializer_writes_them() {
        for (name, id) in [
            ("example.org.", "example.org."),
            (".", "=2E"),
            ("0/25.\"\\.", "0=2F25.=22=5C."),
        ] {
            for primaries in [
                &[][..],
                &["192.0.2.1"],
                &["192.0.2.1", "[2001:db8::1]:5300"],
            ] {
                let zone = ZoneAttributes {
                    name: name.into(),
                    kind: ListedKind::OfZone(ZoneKind::Secondary),
                    account: "sales \u{fc} \"".into(),
                    catalog: "catalog.test.".into(),
                    primaries: primaries.iter().map(|one| (*one).into()).collect(),
                    last_check: -1,
                    notified_serial: 9,
                    serial: 10,
                    edited_serial: u32::MAX,
                    is_signed: primaries.is_empty(),
                    backend: 1,
                    is_in_database: true,
                    settings: Vec::new(),
                };
                let mut expected = json!({
                    "account": zone.account, "catalog": zone.catalog, "dnssec": zone.is_signed, "edited_serial": zone.edited_serial,
                    "id": id, "kind": "Slave", "last_check": -1, "masters": primaries, "name": name, "notified_serial": 9,
                    "serial": 10, "url": format!("{SERVER}/zones/{id}"),
                });
                let mut written = Vec::new();
                write_zone(&zone, true, &mut written);
                assert_eq!(written, to_json(&expected));
                let fields = expected.as_object_mut().unwrap();
                fields.retain(|key, _| !matches!(key.as_str(), "dnssec" | "edited_serial"));
                written.clear();
                write_zone(&zone, false, &mut written);
                assert_eq!(written, to_json(&expected));
            }
        }
    }

    #[test]
    fn rrsets_are_written_as_the_serializer_writes_them() {
        let comment = CommentJson {
            account: "me".into(),
            content: "why \"this\"".into(),
            modified_at: 1,
        };
        for content in [
            "192.0.2.1",
            "\"a b\"",
            "a\\.b.",
            "\u{1}\t\u{7f}caf\u{e9}",
            "",
        ] {
            for (records, comments) in [(0, vec![]), (1, vec![]), (3, vec![comment.clone()])] {
                let record = |number| RecordJson {
                    content: content.to_owned(),
                    disabled: number == 1,
                };
                let rrset = RrsetJson {
                    comments,
                    name: format!("{content}.example.org."),
                    records: (0..records).map(record).collect(),
                    ttl: u32::MAX,
                    rtype: "TXT".into(),
                };
                let mut written = Vec::new();
                rrset.write(&mut written);
                assert_eq!(written, to_json(&rrset));
            }
        }
    }
}
