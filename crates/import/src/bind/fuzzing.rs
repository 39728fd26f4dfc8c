//! The work of the fuzz target on its input, shared by `fuzz/` and the short run among the tests.

use std::path::Path;

use super::read;
use crate::echo_files::EchoFiles;

/// Any bytes: no panic, bounded errors that stand in the text, and what is taken is whole.
pub fn named_conf(data: &[u8]) {
    let mut files = EchoFiles { data, left: 40 };
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
