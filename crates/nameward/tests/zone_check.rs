//! Good and bad zone files: `nameward check`, `named-checkzone` and `kzonecheck` must agree on them.
//!
//! The zone of every file is `example.org`. Justified differences of a tool are listed in `EXCEPTIONS`.

use nameward_testkit::server::binary;
use std::path::{Path, PathBuf};
use std::process::Command;

const ORIGIN: &str = "example.org";

/// Tool, file, why it says otherwise.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "kzonecheck",
        "good/generate",
        "Knot does not have $GENERATE",
    ),
    (
        "kzonecheck",
        "good/crlf",
        "Knot takes a carriage return for data",
    ),
    (
        "kzonecheck",
        "good/missing-glue",
        "an error in Knot, a warning in BIND and here",
    ),
    (
        "kzonecheck",
        "good/text-in-eight-bits",
        "Knot takes octets above 127 only as \\DDD",
    ),
    (
        "kzonecheck",
        "bad/two-soas",
        "Knot takes the last SOA and says nothing",
    ),
    (
        "kzonecheck",
        "bad/nsec3-many-iterations",
        "RFC 9276 is stricter than this release",
    ),
    (
        "named-checkzone",
        "bad/nsec3-many-iterations",
        "RFC 9276 is stricter than this release",
    ),
];

fn zone_files(kind: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/zones")
        .join(kind);
    let entries = std::fs::read_dir(&directory).expect("the directory of zone files is there");
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    assert!(
        files.len() >= 20,
        "{} files in {}",
        files.len(),
        directory.display()
    );
    files
}

/// Whether the tool calls the zone good, and what it says.
fn verdict(tool: &str, file: &Path) -> (bool, String) {
    let mut command = match tool {
        "named-checkzone" => {
            let mut command = Command::new(tool);
            command.arg(ORIGIN).arg(file);
            command
        }
        "kzonecheck" => {
            let mut command = Command::new(tool);
            command.args(["-o", ORIGIN]).arg(file);
            command
        }
        _ => {
            let mut command = Command::new(binary());
            command
                .args(["check", "--zone"])
                .arg(format!("{ORIGIN}={}", file.display()));
            command
        }
    };
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

fn complaints(tool: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for kind in ["good", "bad"] {
        for file in zone_files(kind) {
            let stem = file
                .file_stem()
                .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            let key = format!("{kind}/{stem}");
            let excused = EXCEPTIONS
                .iter()
                .any(|(own, path, _)| *own == tool && *path == key);
            let (good, said) = verdict(tool, &file);
            if (good == (kind == "good")) == excused {
                let what = if excused {
                    "no exception any more"
                } else {
                    "says otherwise"
                };
                complaints.push(format!("{key}: {tool} {what}\n{said}"));
            }
        }
    }
    complaints
}

#[test]
fn nameward_accepts_valid_zones_and_refuses_invalid_ones() {
    let complaints = complaints("nameward");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn named_checkzone_agrees() {
    let complaints = complaints("named-checkzone");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn kzonecheck_agrees() {
    let complaints = complaints("kzonecheck");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_error_names_file_and_line() {
    let mut silent = Vec::new();
    for file in zone_files("bad") {
        let (_, said) = verdict("nameward", &file);
        let place = format!("{}:", file.display());
        let named = said.lines().any(|line| {
            let rest = line.split_once(&place).map(|(_, rest)| rest);
            rest.is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
        });
        // A zone without an SOA has no line to blame.
        let blameless = ["no-soa", "empty"]
            .iter()
            .any(|stem| file.ends_with(format!("{stem}.zone")));
        if !named && !blameless {
            silent.push(format!("{}\n{said}", file.display()));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}
