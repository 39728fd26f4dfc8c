//! The rules. Each returns its faults: a subject, and an amount.

use crate::sources::{SourceFile, Workspace};
use std::collections::BTreeMap;

type Faults = Vec<(String, usize)>;

/// Lines of a file that can be read.
const LENGTH_MAX: usize = 500;
/// Crates that are plain functions over memory and files.
const WITHOUT_TOKIO: [&str; 10] = [
    "base", "stats", "wire", "dnssec", "zone", "answer", "steering", "import", "state", "files",
];
/// Code that exists once, where it may be, and the advice for other places.
const OWNED: [(&str, &[&str], &str); 7] = [
    (
        "thread::Builder::new()",
        &[
            "crates/base/src/worker.rs",
            // Query workers, look-ups and signers are not maintenance.
            "crates/serve/src/",
            "crates/peers/src/transfer_out/",
            // Helpers that end with the function that starts them.
            "crates/peers/src/secondary/start/read_back.rs",
            "crates/files/src/loader.rs",
            "crates/nameward/src/config/zone_chunks.rs",
        ],
        "use nameward_base::worker",
    ),
    (
        "catch_unwind(",
        &[
            "crates/base/src/worker.rs",
            "crates/serve/src/",
            "crates/peers/src/transfer_out/",
            // One request, answered with an error.
            "crates/control/src/socket/serve.rs",
            // One file, reported as damaged.
            "crates/files/src/loader.rs",
        ],
        "use nameward_base::worker",
    ),
    (
        "= channel()",
        &[],
        "give the queue a bound: nameward_base::worker",
    ),
    (
        "fs::rename(",
        &[
            "crates/base/src/file.rs",
            // A socket and a process id file do not outlive a power failure.
            "crates/control/src/socket.rs",
            "crates/nameward/src/pid_file.rs",
            // Files that are moved out of the way.
            "crates/nameward/src/import/output.rs",
            "crates/state/src/condition.rs",
        ],
        "use nameward_base::file",
    ),
    (
        "SystemTime::now().duration_since",
        &["crates/base/src/time.rs", "crates/files/src/zone_file.rs"],
        "use nameward_base::time",
    ),
    (
        "PoisonError",
        &["crates/base/src/sync.rs"],
        "use nameward_base::sync",
    ),
    (
        "std::sync::Mutex<",
        &["crates/base/src/sync.rs"],
        "use nameward_base::sync",
    ),
];

/// The rows of the layers, from the top.
fn rows(workspace: &Workspace) -> Vec<&str> {
    let section = workspace.architecture.split("\n## Layers\n").nth(1);
    let block = section.and_then(|text| text.split("```").nth(1));
    let rows = block.expect("ARCHITECTURE.md draws the layers").lines();
    let name = |line: &'_ str| !line.starts_with(' ') && !line.is_empty();
    rows.filter(|line| name(line))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// Imports from a row that is not below, and crates without a row.
pub fn layers(workspace: &Workspace) -> Faults {
    let rows = rows(workspace);
    let row = |name: &str| rows.iter().position(|row| *row == name);
    let mut faults = Vec::new();
    for own in &workspace.crates {
        let Some(own_row) = row(&own.name) else {
            faults.push((format!("{}-has-no-row", own.name), 1));
            continue;
        };
        let layers = own
            .dependencies()
            .filter_map(|name| name.strip_prefix("nameward-"));
        for other in layers {
            // The kit for tests is imported by tests alone, which are no part of a layer.
            let is_below = row(other).is_some_and(|row| row > own_row) && other != "testkit";
            if !is_below {
                faults.push((format!("{}->{other}", own.name), 1));
            }
        }
    }
    faults
}

/// tokio in crates that have no use for it, drivers of databases outside of their crates, roots without a word on unsafe code.
pub fn places(workspace: &Workspace) -> Faults {
    let mut faults = Vec::new();
    for own in &workspace.crates {
        for dependency in own.dependencies() {
            let owners: &[&str] = match dependency {
                "mysql_async" | "tokio-postgres" => &["sql"],
                "rusqlite" => &["sql", "state"],
                _ => &[&own.name],
            };
            let is_wrong = (dependency == "tokio" && WITHOUT_TOKIO.contains(&own.name.as_str()))
                || !owners.contains(&own.name.as_str());
            if is_wrong {
                faults.push((format!("{}:{dependency}", own.name), 1));
            }
        }
    }
    for file in &workspace.files {
        let is_root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
        let says = |word: &str| file.text.contains(&format!("#![{word}(unsafe_code)]"));
        if is_root && !says("forbid") && !says("deny") {
            faults.push((format!("{}:unsafe", file.path), 1));
        }
    }
    faults
}

/// Copies of code that has one owner.
pub fn owners(workspace: &Workspace) -> Faults {
    let mut faults = Vec::new();
    let files = workspace.files.iter();
    for file in files.filter(|file| file.crate_name() != "testkit" && !file.is_test()) {
        for (code, owners, advice) in OWNED {
            let count = file.code().filter(|line| line.contains(code)).count();
            if count > 0 && !owners.iter().any(|owner| file.path.starts_with(owner)) {
                faults.push((
                    format!("{}:{code}:{advice}", file.path).replace(' ', "-"),
                    count,
                ));
            }
        }
    }
    faults
}

/// Files above the length, unit tests included: they are read too.
pub fn lengths(workspace: &Workspace) -> Faults {
    let length = |file: &SourceFile| (file.path.clone(), file.text.lines().count());
    let all = workspace.files.iter().map(length);
    all.filter(|(_, length)| *length > LENGTH_MAX).collect()
}

/// Modules in `mod.rs`.
pub fn module_style(workspace: &Workspace) -> Faults {
    let files = workspace.files.iter();
    let found = files.filter(|file| file.path.ends_with("/mod.rs"));
    found.map(|file| (file.path.clone(), 1)).collect()
}

/// The type that a line declares outside of all blocks.
fn declared(line: &str) -> Option<&str> {
    let mut words = line
        .split([' ', '<', '(', '{', ';', ':', '='])
        .filter(|word| !word.is_empty());
    let mut word = words.next().filter(|_| !line.starts_with(' '))?;
    while ["pub", "crate)", "super)", "crate", "super", "unsafe"].contains(&word) {
        word = words.next()?;
    }
    if ["struct", "enum", "trait", "union"].contains(&word) {
        words.next()
    } else {
        None
    }
}

/// Names that several types have.
pub fn type_names(workspace: &Workspace) -> Faults {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let files = workspace.files.iter();
    // The kit has its own DNS, on purpose the same words for the same things.
    let files = files.filter(|file| file.crate_name() != "testkit" && !file.is_test());
    for name in files.flat_map(|file| file.code().filter_map(declared)) {
        *counts.entry(name).or_default() += 1;
    }
    let several = counts.into_iter().filter(|(_, count)| *count > 1);
    several
        .map(|(name, count)| (name.to_string(), count))
        .collect()
}

/// Defaults of settings outside of the table of settings.
pub fn defaults(workspace: &Workspace) -> Faults {
    let is_default = |line: &&str| {
        let name = line.strip_prefix("impl Default for ");
        let name = name.map(|rest| rest.trim_end_matches(" {"));
        name.is_some_and(|name| name.ends_with("Settings") || name.ends_with("Options"))
    };
    let files = workspace.files.iter();
    let files = files.filter(|file| file.crate_name() != "testkit");
    let counted = files.map(|file| (file.path.clone(), file.code().filter(is_default).count()));
    counted.filter(|(_, count)| *count > 0).collect()
}

/// Files that do not say what they own.
pub fn first_lines(workspace: &Workspace) -> Faults {
    let files = workspace.files.iter();
    let found = files.filter(|file| !file.text.starts_with("//! "));
    found.map(|file| (file.path.clone(), 1)).collect()
}

/// Results whose error is a text: a caller cannot decide by it, and each `?` needs a conversion.
pub fn text_errors(workspace: &Workspace) -> Faults {
    let is_text = |line: &&str| line.contains("Result<") && line.contains(", String>");
    let all = workspace.files.iter().chain(&workspace.bench);
    let all = all.filter(|file| !file.is_test());
    let counted = all.map(|file| (file.path.clone(), file.text.lines().filter(is_text).count()));
    counted.filter(|(_, count)| *count > 0).collect()
}

/// Doc comments whose first word says nothing.
pub fn first_words(workspace: &Workspace) -> Faults {
    let mut faults = Vec::new();
    for file in &workspace.files {
        let mut before = "";
        let mut count = 0;
        for line in file.text.lines().map(str::trim_start) {
            let begins = !before.starts_with("///") && !before.starts_with("//!");
            let text = line.strip_prefix("/// ").or(line.strip_prefix("//! "));
            let word = text.and_then(|text| text.split([' ', ',']).next());
            let is_empty = word.is_some_and(|word| ["What", "Those", "Somebody"].contains(&word));
            count += usize::from(begins && is_empty);
            before = line;
        }
        if count > 0 {
            faults.push((file.path.clone(), count));
        }
    }
    faults
}
