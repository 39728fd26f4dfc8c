//! The work of the fuzz targets on their input, shared by `fuzz/` and the short run among the tests.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use super::{MovedServer, SecretPlace, TomlPlan, knot, nsd, pdns};
use crate::{Files, bind};

/// Every file that is included is the input again, so many times.
struct EchoFiles<'d> {
    data: &'d [u8],
    left: usize,
}

impl Files for EchoFiles<'_> {
    fn read(&mut self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.data.to_vec())
    }

    fn matching(&mut self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![pattern.join("1"), pattern.join("2")])
    }

    fn interfaces(&mut self) -> io::Result<Vec<(IpAddr, u8)>> {
        Ok(vec![(Ipv4Addr::LOCALHOST.into(), 8)])
    }
}

type ConfigReader = fn(&Path, &mut dyn Files) -> MovedServer;

/// Any bytes: no panic, bounded errors with a place, and a text of lines that are settings or comments.
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
        secrets: SecretPlace::Directory("keys".into()),
    });
    for line in text.lines() {
        let is_known = line.is_empty() || line.starts_with(['#', '[']) || line.contains(" = ");
        assert!(is_known, "{line:?}");
        assert!(!line.contains('\r'), "{line:?}");
    }
}

/// Any bytes as a pdns.conf.
pub fn pdns_conf(data: &[u8]) {
    run(data, pdns::read);
}

/// Any bytes as an nsd.conf.
pub fn nsd_conf(data: &[u8]) {
    run(data, nsd::read);
}

/// Any bytes as a knot.conf.
pub fn knot_conf(data: &[u8]) {
    run(data, knot::read);
}

/// Any bytes as a named.conf that is moved.
pub fn moved_named_conf(data: &[u8]) {
    run(data, bind::moving::read);
}
