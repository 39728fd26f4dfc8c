//! Golden files: texts that users see, kept in `tests/golden` so that a change of wording is a visible diff.

use std::fs;
use std::path::Path;

/// Panics if a text differs from its golden file. `UPDATE_GOLDEN=1` rewrites the file instead.
pub fn assert_golden(file: &str, text: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let path = directory.join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(&directory).expect("tests/golden can be created");
        fs::write(&path, text).expect("a golden file can be written");
        return;
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    if golden == text {
        return;
    }
    let (old, new): (Vec<_>, Vec<_>) = (golden.lines().collect(), text.lines().collect());
    let removed = old.iter().filter(|line| !new.contains(line));
    let added = new.iter().filter(|line| !old.contains(line));
    let difference: Vec<String> = removed
        .map(|line| format!("-{line}"))
        .chain(added.map(|line| format!("+{line}")))
        .collect();
    panic!(
        "tests/golden/{file} differs; UPDATE_GOLDEN=1 rewrites it, then review the diff:\n{}",
        difference.join("\n")
    );
}
