//! Test files that no binary has: with `autotests = false` a file counts only if a module names it, and the compiler says
//! nothing about one that is forgotten.

use crate::sources::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Paths of test files that are neither a test target nor a module of one.
pub fn forgotten() -> Vec<PathBuf> {
    let mut forgotten = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("the crates are there") {
        let home = entry.expect("an entry").path();
        let tests = home.join("tests");
        if tests.is_dir() {
            let manifest = fs::read_to_string(home.join("Cargo.toml")).expect("a manifest");
            let main = tests.join(format!("{}.rs", stem(&home)));
            walk(&tests, &main, &manifest, &mut forgotten);
        }
    }
    forgotten
}

/// Collects the files in `directory` that `parent` does not have as modules. Targets are named in the manifest.
fn walk(directory: &Path, parent: &Path, manifest: &str, forgotten: &mut Vec<PathBuf>) {
    let modules = fs::read_to_string(parent).unwrap_or_default();
    let is_module = |name: &str| {
        let declared = format!("mod {name};");
        modules.lines().any(|line| line.ends_with(&declared))
    };
    for entry in fs::read_dir(directory).expect("a directory of tests") {
        let path = entry.expect("an entry").path();
        let name = stem(&path);
        let target = format!("tests/{name}/main.rs");
        if path.is_dir() && manifest.contains(&target) {
            walk(&path, &path.join("main.rs"), manifest, forgotten);
        } else if path.is_dir() {
            walk(&path, &path.with_extension("rs"), manifest, forgotten);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_target = manifest.contains(&format!("name = \"{name}\"")) || path == parent;
            if !is_target && !is_module(&name) {
                forgotten.push(path);
            }
        }
    }
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}
