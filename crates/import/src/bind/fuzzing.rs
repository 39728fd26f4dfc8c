//! The bodies of the BIND fuzz targets, shared by `fuzz/` and the short run among the tests.

use std::path::Path;

use nameward_wire::zonefile::Record;
use nameward_zone::Serial;

use super::{journal, raw, read};
use crate::echo_files::EchoFiles;

/// Fuzzes named.conf: no panic, a bounded number of errors located inside the text, and imported
/// zones are complete.
pub fn named_conf(data: &[u8]) {
    let mut files = EchoFiles {
        first: None,
        data,
        left: 40,
    };
    let found = read(Path::new("named.conf"), &mut files);
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    assert!(found.diagnostics.len() <= 20);
    for diagnostic in &found.diagnostics {
        assert!(!diagnostic.message.is_empty());
        assert!(diagnostic.line <= lines, "{diagnostic}");
        assert!(diagnostic.column as usize <= data.len() + 1, "{diagnostic}");
    }
    let is_good = found.diagnostics.is_empty();
    let all = found.list().len();
    let taken = found.take();
    assert!(taken.zones.len() <= all);
    if is_good {
        for zone in &taken.zones {
            assert!(zone.kind.is_some(), "{zone:?}");
            assert!(zone.name().zone().to_string().ends_with('.'));
        }
    }
}

/// Fuzzes raw zone files and journals of BIND: no panic, and everything read is complete.
pub fn bind_files(data: &[u8]) {
    let mut records = 0;
    let mut take = |_: &Record<'_>| {
        records += 1;
        Ok(())
    };
    let report = raw::parse(Path::new("raw"), data, &mut take);
    assert!(report.diagnostics.len() <= 1);
    assert_eq!(report.records, records);
    // The first version in the journal, so that all of it is read.
    let first = data.get(16..20).and_then(<[u8]>::first_chunk);
    let mut serial = Serial(first.map_or(0, |octets| u32::from_be_bytes(*octets)));
    for difference in journal::read(data, serial).unwrap_or_default() {
        let (from, to) = difference.serials().expect("a difference has two SOA");
        assert_eq!(from, serial);
        assert!(difference.octets() <= data.len());
        serial = to;
    }
}
