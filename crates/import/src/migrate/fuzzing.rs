//! The bodies of the migration fuzz targets, shared by `fuzz/` and the short run among the tests.

use std::path::Path;

use super::{ImportedServer, SecretLocation, TomlPlan, knot, nsd, pdns};
use crate::{Files, bind, echo_files::EchoFiles};

type ConfigReader = fn(&Path, &mut dyn Files) -> ImportedServer;

/// Runs a reader: no panic, a bounded number of errors with a location, and output lines that are settings or comments.
fn run(data: &[u8], read: ConfigReader) {
    let mut files = EchoFiles { data, left: 20 };
    let server = read(Path::new("conf"), &mut files);
    assert!(server.errors.len() <= 40);
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    for error in &server.errors {
        assert!(!error.message.is_empty());
        assert!(error.line <= lines, "{error}");
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

/// Fuzzes pdns.conf.
pub fn pdns_conf(data: &[u8]) {
    run(data, pdns::read);
}

/// Fuzzes nsd.conf.
pub fn nsd_conf(data: &[u8]) {
    run(data, nsd::read);
}

/// Fuzzes knot.conf.
pub fn knot_conf(data: &[u8]) {
    run(data, knot::read);
}

/// Fuzzes the migration of named.conf.
pub fn moved_named_conf(data: &[u8]) {
    run(data, bind::migrate::read);
}
