//! The JSON of zones and RRsets. Fields are declared in alphabetical order, which is the order on the wire.

use std::io::Write;

use nameward_control::operations::{ListedKind, ZoneAttributes};
use nameward_zone::ZoneKind;
use serde::Serialize;

use crate::response::write_json;

use super::paging::SortField;
use super::{SERVER, zone_id};

/// A zone in a list.
#[derive(Debug, Serialize)]
pub struct ZoneListEntry {
    account: String,
    catalog: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dnssec: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_serial: Option<u32>,
    id: String,
    kind: &'static str,
    last_check: i64,
    masters: Vec<String>,
    name: String,
    notified_serial: u32,
    serial: u32,
    url: String,
}

impl ZoneListEntry {
    /// The fields that lists are sorted by.
    pub const SORT_FIELDS: &[SortField<Self>] = &[
        ("name", |a, b| a.name.cmp(&b.name)),
        ("kind", |a, b| a.kind.cmp(b.kind)),
        ("serial", |a, b| a.serial.cmp(&b.serial)),
        ("account", |a, b| a.account.cmp(&b.account)),
    ];

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the summary; `dnssec=false` leaves out what depends on keys.
    pub fn new(zone: ZoneAttributes, with_dnssec: bool) -> Self {
        let id = zone_id(&zone.name);
        ZoneListEntry {
            account: zone.account,
            catalog: zone.catalog,
            dnssec: with_dnssec.then_some(zone.is_signed),
            edited_serial: with_dnssec.then_some(zone.edited_serial),
            url: format!("{SERVER}/zones/{id}"),
            id,
            kind: kind_word(zone.kind),
            last_check: zone.last_check,
            masters: zone.primaries,
            name: zone.name,
            notified_serial: zone.notified_serial,
            serial: zone.serial,
        }
    }
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
            id,
            kind: kind_word(zone.kind),
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
    /// Its comments.
    pub comments: Vec<CommentJson>,
    /// The owner.
    pub name: String,
    /// Its records.
    pub records: Vec<RecordJson>,
    /// The TTL.
    pub ttl: u32,
    /// The type.
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
    /// The data.
    pub content: String,
    /// It is stored and not served.
    pub disabled: bool,
}

/// A comment.
#[derive(Debug, Clone, Serialize)]
pub struct CommentJson {
    /// The account of its author.
    pub account: String,
    /// The text.
    pub content: String,
    /// When it was written, in seconds since 1970.
    pub modified_at: i64,
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

/// The words of PowerDNS 4.7, which clients compare with.
fn kind_word(kind: ListedKind) -> &'static str {
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
