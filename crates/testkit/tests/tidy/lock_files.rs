//! The lock file of the fuzz targets, which no build of the workspace looks at: a dependency that a crate gains or loses
//! leaves it behind, and `scripts/fuzz` then builds nothing.

use crate::sources::root;
use std::collections::BTreeSet;
use std::fs;

/// Crates of the workspace whose dependencies are not those that the lock file of the fuzz targets has for them.
pub fn outdated() -> Vec<String> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let lock = read("fuzz/Cargo.lock");
    let packages = lock.split("[[package]]").skip(1);
    let ours = packages
        .filter_map(|package| Some((value(package, "name")?.strip_prefix("nameward-")?, package)));
    let ours = ours.filter(|(name, _)| *name != "fuzz");
    let is_outdated = |(name, package): &(&str, &str)| {
        declared(&read(&format!("crates/{name}/Cargo.toml"))) != locked(package)
    };
    ours.filter(is_outdated)
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn value<'t>(package: &'t str, key: &str) -> Option<&'t str> {
    let start = format!("{key} = \"");
    let line = package.lines().find_map(|line| line.strip_prefix(&start))?;
    line.strip_suffix('"')
}

/// Names of the dependencies of a package in a lock file. Those with several versions have one behind the name.
fn locked(package: &str) -> BTreeSet<&str> {
    let lines = package.lines().filter_map(|line| line.strip_prefix(" \""));
    lines
        .filter_map(|line| line.split([' ', '"']).next())
        .collect()
}

/// Names of the dependencies in a manifest, without those of its tests.
fn declared(manifest: &str) -> BTreeSet<&str> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let lines = lines.filter(|line| !line.starts_with(['#', ' ', '}', ']']));
    lines
        .filter_map(|line| line.split([' ', '.', '=']).next())
        .filter(|name| !name.is_empty())
        .collect()
}
