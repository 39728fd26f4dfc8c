//! The work of the fuzz target on its input, shared by `fuzz/` and the short run among the tests.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use super::read;
use crate::Files;

/// Every file that is included is the input again, so many times.
struct Mirror<'d> {
    data: &'d [u8],
    left: usize,
}

impl Files for Mirror<'_> {
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

/// Any bytes: no panic, bounded errors that stand in the text, and what is taken is whole.
pub fn named_conf(data: &[u8]) {
    let mut files = Mirror { data, left: 40 };
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
            assert!(zone.name().to_string().ends_with('.'));
        }
    }
}
