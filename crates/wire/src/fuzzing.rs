//! The bodies of the fuzz targets, shared by `fuzz/` (coverage-guided, nightly compiler) and `tests/fuzz_smoke.rs` (a
//! short run in every test run).
//!
//! Each function accepts arbitrary bytes and panics only if a guarantee of this crate is violated.

use core::fmt::Write;

use crate::message::{Message, Query};
use crate::name::{Name, NameBuf};
use crate::rdata;
use crate::rtype::Type;
use crate::text::Fields;
use crate::zonefile::{self, MAX_ERRORS, Options, Record, Sink, SinkRefusal};

/// One fuzz target.
pub type Target = fn(&[u8]);

/// All fuzz targets with their names.
pub const TARGETS: &[(&str, Target)] = &[
    ("message", message),
    ("name", name),
    ("record_text", record_text),
    ("zonefile", zonefile),
];

/// Fuzzes packets: accepted data lies inside the packet, and record data is either expanded or rejected.
pub fn message(packet: &[u8]) {
    if let Ok(query) = Query::parse(packet) {
        assert!(query.question_end <= packet.len());
        assert!(Name::from_wire(query.qname.as_wire()).is_ok());
    }
    if let Some(cookie) = Query::parse_cookie_only(packet) {
        assert!(matches!(cookie.len(), 8 | 16..=40));
    }
    if let Ok(message) = Message::parse(packet) {
        let mut data = Vec::new();
        let mut end = 0;
        for record in message.records().flatten() {
            assert!(record.data_offset() >= end, "records overlap");
            end = record.data_offset() + record.raw_data().len();
            assert!(Name::from_wire(record.name().as_wire()).is_ok());
            let _ = record.expand_data(&mut data);
        }
        assert!(end <= packet.len());
        // Each record takes at least eleven octets, and names in its data add at most 510.
        assert!(data.len() <= packet.len() * 48, "{}", data.len());
        assert!(message.questions().count() <= packet.len());
    }
    // Any offset can be interpreted as record data of any type with compressed names.
    let mut out = Vec::new();
    for (at, octets) in packet.windows(4).enumerate().take(64) {
        let rtype = Type(u16::from_be_bytes([octets[0] & 1, octets[1]]));
        let rdlength = octets[2] as usize;
        if rdata::from_message(rtype, packet, at, rdlength, &mut out).is_ok() {
            assert!(rdata::validate(rtype, &out).is_ok(), "{rtype} {out:?}");
        } else {
            assert!(out.is_empty());
        }
        out.clear();
    }
}

/// Fuzzes names in messages, on the wire and in text: accepted names are valid and survive conversion to text.
pub fn name(bytes: &[u8]) {
    let at = bytes.first().copied().unwrap_or(0) as usize;
    if let Ok((name, end)) = NameBuf::from_message(bytes, at) {
        assert!(end <= bytes.len());
        survives_text(name.as_name());
    }
    if let Ok((name, rest)) = Name::split_from(bytes) {
        assert_eq!(name.as_wire().len() + rest.len(), bytes.len());
        survives_text(name);
    }
    let origin = NameBuf::from_text(b"origin", Name::ROOT).unwrap_or(NameBuf::root());
    let read = NameBuf::from_text(bytes, origin.as_name());
    let mut appended = Vec::new();
    let again = rdata::append_name(bytes, origin.as_name(), &mut appended);
    assert_eq!(read.is_ok(), again.is_ok(), "two readers of names differ");
    if let Ok(name) = read {
        assert_eq!(name.as_name().as_wire(), appended);
        survives_text(name.as_name());
    }
}

fn survives_text(name: Name<'_>) {
    assert!(Name::from_wire(name.as_wire()).is_ok());
    let text = name.to_string();
    let back = NameBuf::from_text(text.as_bytes(), Name::ROOT);
    assert_eq!(
        back.as_ref().map(|n| n.as_name().as_wire()),
        Ok(name.as_wire()),
        "{text}"
    );
}

/// Fuzzes two octets of type followed by record data, as text and as wire data: both survive printing.
pub fn record_text(bytes: &[u8]) {
    let Some((&[high, low], data)) = bytes.split_first_chunk() else {
        return;
    };
    // Most types with a text form are below 264; the private ones are at 65401.
    let rtype = Type(u16::from_be_bytes([
        if high == 255 { 255 } else { high & 1 },
        low,
    ]));
    let mut out = Vec::new();
    if rdata::parse_text(rtype, &mut Fields::new(data), Name::ROOT, &mut out).is_ok() {
        record_survives_text(rtype, &out);
    } else {
        assert!(out.is_empty(), "a refused record left data");
    }
    if rdata::validate(rtype, data).is_ok() {
        record_survives_text(rtype, data);
    }
}

fn record_survives_text(rtype: Type, rdata: &[u8]) {
    let valid = rdata::validate(rtype, rdata);
    assert!(valid.is_ok(), "{rtype} accepted {rdata:02x?}: {valid:?}");
    let mut text = String::new();
    assert!(rdata::write_text(rtype, rdata, &mut text).is_ok());
    let mut back = Vec::new();
    let read = rdata::parse_text(
        rtype,
        &mut Fields::new(text.as_bytes()),
        Name::ROOT,
        &mut back,
    );
    assert!(read.is_ok(), "{rtype} {text}: {read:?}");
    assert_eq!(back, rdata, "{rtype} {text}");
}

/// Fuzzes zone files: records are valid, the number of messages is bounded, the block size makes no difference, and the
/// records printed as a zone file are read back as the same records.
pub fn zonefile(text: &[u8]) {
    let origin = NameBuf::from_text(b"example", Name::ROOT).unwrap_or(NameBuf::root());
    let options = Options {
        max_generate: 300,
        ..Options::new(origin)
    };
    let mut first = Printed::default();
    let report = zonefile::parse_bytes("zone", text, &options, &mut first);
    assert!(report.diagnostics.len() <= 2 * MAX_ERRORS + 2);

    let size = 1 + text.first().copied().unwrap_or(0) as usize % 64;
    let mut in_blocks = Printed::default();
    let blocks = zonefile::parse_in_blocks(text, size, &options, &mut in_blocks);
    assert_eq!(first.text, in_blocks.text, "blocks of {size}");
    assert_eq!(report.diagnostics, blocks.diagnostics, "blocks of {size}");
    assert_eq!(report.records, blocks.records);

    let mut again = Printed::default();
    let reread = zonefile::parse_bytes("printed", first.text.as_bytes(), &options, &mut again);
    assert!(
        !reread.has_errors(),
        "{}{:?}",
        first.text,
        reread.diagnostics
    );
    assert_eq!(again.text, first.text);
}

/// Collects the first 1000 records as a zone file.
#[derive(Default)]
struct Printed {
    text: String,
    count: u32,
    last: Option<NameBuf>,
}

impl Sink for Printed {
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal> {
        assert!(Name::from_wire(record.owner.as_wire()).is_ok());
        let valid = rdata::validate(record.rtype, record.rdata);
        assert!(valid.is_ok(), "{record:?}: {valid:?}");
        if record.same_owner {
            let last = self.last.as_ref().map(|last| last.as_name().as_wire());
            assert_eq!(last, Some(record.owner.as_wire()));
        }
        self.last = Some(record.owner.into());
        self.count += 1;
        if self.count <= 1000 {
            print(record, &mut self.text);
        }
        Ok(())
    }
}

fn print(record: &Record<'_>, out: &mut String) {
    let (owner, ttl, class, rtype) = (record.owner, record.ttl, record.class, record.rtype);
    let written = write!(out, "{owner} {ttl} {class} {rtype} ")
        .and_then(|()| rdata::write_text(rtype, record.rdata, out))
        .and_then(|()| out.write_str("\n"));
    assert!(written.is_ok());
}
