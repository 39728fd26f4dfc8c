//! The bodies of the migration fuzz targets, shared by `fuzz/` and the short run among the tests.

use std::path::Path;

use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, Record, parse_bytes};

use super::{ImportedServer, ImportedZone, SecretLocation, TomlPlan, knot, nsd, pdns};
use crate::{Files, bind, echo_files::EchoFiles};

type ConfigReader = fn(&Path, &mut dyn Files) -> ImportedServer;

/// Runs a reader: no panic, a bounded number of errors with a location, and output lines that are settings or comments.
fn run(data: &[u8], read: ConfigReader) {
    run_after(None, data, read);
}

/// Like [`run`]; the input is what the first file includes.
fn run_after(first: Option<&str>, data: &[u8], read: ConfigReader) {
    let mut files = EchoFiles {
        first,
        data,
        left: 20,
    };
    let server = read(Path::new("conf"), &mut files);
    assert!(server.errors.len() <= 40);
    let count_lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    // An error may be in either of them: the first file names one that is not text.
    let lines = count_lines(data).max(count_lines(first.unwrap_or_default().as_bytes()));
    for error in &server.errors {
        assert!(!error.message.is_empty());
        assert!(error.line <= lines, "{error}");
    }
    for zone in &server.zones {
        check_text(zone);
    }
    let text = server.to_toml(&TomlPlan {
        from: "conf".into(),
        state_directory: "state".into(),
        secrets: SecretLocation::Directory("keys".into()),
    });
    for line in text.lines() {
        let is_known = line.is_empty() || line.starts_with(['#', '[']) || line.contains(" = ");
        assert!(is_known, "{line:?}");
        assert!(!line.contains('\r'), "{line:?}");
    }
}

/// Checks that new zone files can be read.
fn check_text(zone: &ImportedZone) {
    let (Some(text), Ok(name)) = (&zone.text, NameBuf::zone_from_text(&zone.name)) else {
        return;
    };
    let mut ignored = |_: &Record<'_>| Ok(());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(name), &mut ignored);
    assert!(!report.has_errors(), "{:?}\n{text}", report.diagnostics);
}

/// Fuzzes the zones file of PowerDNS's geoip backend, and the file of Knot's mod-geoip.
pub fn geo_files(data: &[u8]) {
    let conf = "launch=geoip\ngeoip-zones-file=zones.yaml\n";
    run_after(Some(conf), data, pdns::read);
    for mode in ["subnet", "geodb", "weighted"] {
        let conf = format!(
            "mod-geoip:\n  - id: g\n    config-file: geo\n    mode: {mode}\nzone:\n  - domain: a.test\n    module: mod-geoip/g\n"
        );
        run_after(Some(&conf), data, knot::read);
    }
}

pub fn pdns_conf(data: &[u8]) {
    run(data, pdns::read);
}

pub fn nsd_conf(data: &[u8]) {
    run(data, nsd::read);
}

pub fn knot_conf(data: &[u8]) {
    run(data, knot::read);
}

/// Fuzzes the migration of named.conf.
pub fn moved_named_conf(data: &[u8]) {
    run(data, bind::migrate::read);
}
