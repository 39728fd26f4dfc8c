//! Tests of loads and reloads of directories and lists, valid and invalid.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nameward_wire::Type;
use nameward_zone::{NameKey, ZoneTable};
use tempfile::TempDir;

use super::*;

mod faulty;
mod scan;

const GOOD: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
const BROKEN: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1000\n";

/// A directory, its backend and the table it fills.
struct Fixture {
    dir: TempDir,
    backend: FileBackend,
    table: arc_swap::ArcSwap<ZoneTable>,
    sources: Vec<FileSource>,
}

/// The events of a load as text.
#[derive(Default)]
struct LoadedFiles {
    summary: LoadSummary,
    refused: Vec<String>,
    removed: Vec<String>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sources = vec![FileSource {
            rank: 0,
            directory: Some(dir.path().to_path_buf()),
            ..FileSource::default()
        }];
        Self {
            dir,
            backend: FileBackend::new(),
            table: arc_swap::ArcSwap::from_pointee(ZoneTable::default()),
            sources,
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Writes a file with an older time, so that it counts as settled.
    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let past = SystemTime::now() - Duration::from_secs(60);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(past).unwrap();
    }

    fn load(&mut self) -> LoadedFiles {
        let mut result = LoadedFiles::default();
        let text = |diagnostics: &[Diagnostic]| -> Vec<String> {
            diagnostics.iter().map(ToString::to_string).collect()
        };
        let summary = self
            .backend
            .load(&self.table, &self.sources, &mut |event| match event {
                LoadEvent::Served(_, _, diagnostics) => result.warnings.extend(text(diagnostics)),
                LoadEvent::Refused(name, diagnostics, fallback) => {
                    result.refused.push(format!("{name} {fallback:?}"));
                    result.refused.extend(text(diagnostics));
                }
                LoadEvent::Removed(name) => result.removed.push(name.to_string()),
                LoadEvent::Problem(text) => result.problems.push(text.into()),
                LoadEvent::Contested(..)
                | LoadEvent::Progress(..)
                | LoadEvent::Note(_)
                | LoadEvent::Waiting(..)
                | LoadEvent::Known
                | LoadEvent::Missing(_)
                | LoadEvent::Returned(_) => {}
            });
        LoadedFiles { summary, ..result }
    }

    /// Returns the names of the served zones, sorted.
    fn served(&self) -> Vec<String> {
        let table = self.table.load();
        let ready = table.zones().filter(|zone| zone.is_ready());
        let mut names: Vec<_> = ready.map(|zone| zone.apex_name().to_string()).collect();
        names.sort();
        names
    }

    /// Returns the names of the zones that are answered SERVFAIL, in no order.
    fn not_ready(&self) -> Vec<String> {
        let table = self.table.load();
        let waiting = table.zones().filter(|zone| !zone.is_ready());
        waiting.map(|zone| zone.apex_name().to_string()).collect()
    }

    fn has(&self, name: &str) -> bool {
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).unwrap();
        let key = NameKey::new(name.as_name());
        let table = self.table.load();
        let zone = table.zone_for(&key, Type::A);
        zone.is_some_and(|zone| matches!(zone.find(&key), nameward_zone::Find::Exact(_)))
    }
}

#[test]
fn files_below_a_directory_are_zones_of_their_names() {
    let mut fixture = Fixture::new();
    fixture.write("example.org.zone", GOOD);
    fixture.write("sub/deeper/Example.NET.zone", GOOD);
    fixture.write("@.zone", GOOD);
    fixture.write("0\\04763.2.0.192.in-addr.arpa.zone", GOOD);
    fixture.write("README", "not a zone");
    fixture.write(".hidden.zone", BROKEN);
    let result = fixture.load();
    assert_eq!(
        result.summary.loaded, 4,
        "{:?} {:?}",
        result.refused, result.problems
    );
    let expected = [
        ".",
        "0/63.2.0.192.in-addr.arpa.",
        "example.net.",
        "example.org.",
    ];
    assert_eq!(fixture.served(), expected);
}

#[test]
fn a_file_name_that_is_not_a_zone_name_is_reported_and_skipped() {
    let mut fixture = Fixture::new();
    fixture.write("a..b.c.zone", GOOD);
    fixture.write("good.example.zone", GOOD);
    let result = fixture.load();
    assert!(
        result.problems[0].contains("a..b.c.zone: ignored: the file name is not a zone name"),
        "{:?}",
        result.problems
    );
    assert_eq!(fixture.served(), ["good.example."]);
}

#[test]
fn listed_zones_come_first_and_a_second_file_for_a_zone_is_reported() {
    let mut fixture = Fixture::new();
    fixture.write(
        "example.org.zone",
        "$TTL 1\n@ SOA a b 1 2 3 4 5\n@ NS a\nfrom-directory A 192.0.2.1\n",
    );
    fixture.write(
        "elsewhere",
        "$TTL 1\n@ SOA a b 1 2 3 4 5\n@ NS a\nfrom-list A 192.0.2.1\n",
    );
    let name = NameBuf::from_text(b"EXAMPLE.org", Name::ROOT).unwrap();
    fixture.list(&[(name, "elsewhere")]);
    let result = fixture.load();
    assert!(result.problems[0].contains("zone example.org. already has a file"));
    assert!(fixture.has("from-list.example.org"));
    assert!(!fixture.has("from-directory.example.org"));
}

#[test]
fn an_unchanged_file_is_not_read_again_and_a_changed_one_is() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.write("two.example.zone", GOOD);
    assert_eq!(fixture.load().summary.loaded, 2);
    assert_eq!(fixture.load().summary.unchanged, 2);
    fixture.write("two.example.zone", &format!("{GOOD}new A 192.0.2.2\n"));
    let summary = fixture.load().summary;
    assert_eq!((summary.loaded, summary.unchanged), (1, 1));
    assert!(fixture.has("new.two.example"));
}

#[test]
fn a_file_of_the_same_size_and_time_is_read_again_when_it_was_replaced() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    let metadata = fs::metadata(fixture.path("one.example.zone")).unwrap();
    let text = GOOD.replace("ns A", "xx A").replace("ns h", "xx h");
    fs::write(fixture.path("new"), text).unwrap();
    let new = fs::File::options()
        .write(true)
        .open(fixture.path("new"))
        .unwrap();
    new.set_modified(metadata.modified().unwrap()).unwrap();
    fs::rename(fixture.path("new"), fixture.path("one.example.zone")).unwrap();
    assert_eq!(fixture.load().summary.loaded, 1);
    assert!(fixture.has("xx.one.example"));
}

#[test]
fn a_file_that_was_just_written_is_not_trusted_to_be_unchanged() {
    let mut fixture = Fixture::new();
    let path = fixture.path("one.example.zone");
    fs::write(&path, GOOD).unwrap();
    // As if the clock had stopped: the file is newer than now.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(60))
        .unwrap();
    assert_eq!(fixture.load().summary.loaded, 1);
    assert_eq!(fixture.load().summary.loaded, 1);
}

#[test]
fn a_changed_included_file_makes_the_zone_change() {
    let mut fixture = Fixture::new();
    fixture.write("part/hosts.inc", "first A 192.0.2.1\n");
    fixture.write(
        "one.example.zone",
        &format!("{GOOD}$INCLUDE part/hosts.inc\n"),
    );
    fixture.load();
    assert!(fixture.has("first.one.example"));
    assert_eq!(fixture.load().summary.unchanged, 1);
    fixture.write("part/hosts.inc", "second A 192.0.2.1\n");
    assert_eq!(fixture.load().summary.loaded, 1);
    assert!(fixture.has("second.one.example") && !fixture.has("first.one.example"));
}

#[test]
fn every_zone_is_known_before_the_first_is_loaded() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.write("two.example.zone", GOOD);
    let mut known = Vec::new();
    let table = &fixture.table;
    fixture.backend.load(table, &fixture.sources, &mut |event| {
        if let LoadEvent::Served(..) = event {
            known.push(table.load().len());
        }
    });
    assert_eq!(known, [2, 2]);
    assert_eq!(fixture.served(), ["one.example.", "two.example."]);
}

#[test]
fn a_source_that_moves_keeps_its_zones() {
    let mut fixture = Fixture::new();
    fixture.write("good.example.zone", GOOD);
    fixture.write("bad.example.zone", BROKEN);
    fixture.load();
    fixture.sources[0].rank = 3;
    fixture.load();
    let table = fixture.table.load();
    let ranks: Vec<_> = table.offered().map(|zone| zone.rank()).collect();
    assert_eq!(ranks, [3, 3]);
}

#[test]
fn a_removed_file_removes_its_zone_and_a_new_one_adds_it() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    fs::remove_file(fixture.path("one.example.zone")).unwrap();
    fixture.write("two.example.zone", GOOD);
    let result = fixture.load();
    assert_eq!(result.removed, ["one.example."]);
    assert_eq!(fixture.served(), ["two.example."]);
}

#[test]
fn a_directory_that_cannot_be_read_removes_nothing() {
    let mut fixture = Fixture::new();
    fixture.write("zones/one.example.zone", GOOD);
    fixture.sources[0].directory = Some(fixture.path("zones"));
    fixture.load();
    fs::rename(fixture.path("zones"), fixture.path("away")).unwrap();
    let result = fixture.load();
    assert_eq!(result.problems.len(), 1, "{:?}", result.problems);
    assert_eq!(fixture.served(), ["one.example."]);
}

#[test]
fn a_listed_zone_whose_file_is_missing_is_reported_before_and_by_a_load() {
    let mut fixture = Fixture::new();
    let name = NameBuf::from_text(b"one.example", Name::ROOT).unwrap();
    let path = fixture.path("missing");
    fixture.list(&[(name, "missing")]);
    assert_eq!(
        preflight(&fixture.sources).unwrap_err().to_string(),
        format!("cannot read {}: No such file or directory", path.display())
    );
    let result = fixture.load();
    assert_eq!(result.summary.refused, 1);
    assert!(
        result.refused[1].ends_with("missing: error: cannot be read: No such file or directory")
    );
}

#[test]
fn anything_but_a_regular_file_is_refused_without_waiting() {
    let mut fixture = Fixture::new();
    let status = std::process::Command::new("mkfifo")
        .arg(fixture.path("fifo.example.zone"))
        .status();
    assert!(status.unwrap().success());
    symlink("/dev/zero", fixture.path("zero.example.zone")).unwrap();
    fixture.write("target", GOOD);
    symlink("target", fixture.path("linked.example.zone")).unwrap();
    let result = fixture.load();
    assert_eq!(result.summary.refused, 2, "{:?}", result.refused);
    assert_eq!(fixture.served(), ["linked.example."]);
}

#[test]
fn a_file_in_the_raw_form_of_bind_is_the_same_zone() {
    let mut fixture = Fixture::new();
    let text = format!("{GOOD}raw A 192.0.2.3\n* TXT \"x\" y\nmx MX 5 ns\n");
    fixture.write("text", &text);
    let raw = fixture.path("one.example.zone");
    let output = std::process::Command::new("named-compilezone")
        .args(["-F", "raw", "-o"])
        .args([&raw, Path::new("one.example"), &fixture.path("text")])
        .output()
        .expect("bind9-utils is installed");
    assert!(output.status.success(), "{output:?}");
    let result = fixture.load();
    assert_eq!(result.summary.loaded, 1, "{:?}", result.refused);
    for name in [
        "raw.one.example",
        "*.one.example",
        "mx.one.example",
        "ns.one.example",
    ] {
        assert!(fixture.has(name), "{name}");
    }
    let bytes = fs::read(&raw).unwrap();
    fs::write(&raw, &bytes[..bytes.len() - 1]).unwrap();
    let result = fixture.load();
    assert!(
        result.refused[1].contains("file truncated in the RRset at octet "),
        "{:?}",
        result.refused
    );
}

#[test]
fn a_loop_of_links_ends() {
    let mut fixture = Fixture::new();
    fixture.write("sub/one.example.zone", GOOD);
    symlink(fixture.dir.path(), fixture.path("sub/loop")).unwrap();
    assert_eq!(fixture.load().summary.loaded, 1);
}

#[test]
fn thousands_of_zones_load_in_parallel_and_none_is_lost() {
    let mut fixture = Fixture::new();
    for n in 0..3000 {
        fixture.write(&format!("z{n}.example.zone"), GOOD);
    }
    assert_eq!(fixture.load().summary.loaded, 3000);
    assert_eq!(fixture.served().len(), 3000);
    assert_eq!(fixture.load().summary.unchanged, 3000);
}

#[test]
fn a_file_larger_than_the_buffer_is_read_in_blocks() {
    let mut fixture = Fixture::new();
    let mut text = GOOD.to_string();
    for n in 0..20_000 {
        text.push_str(&format!("h{n} A 192.0.2.1\n"));
    }
    assert!(text.len() > 256 * 1024);
    fixture.write("big.example.zone", &text);
    assert_eq!(fixture.load().summary.loaded, 1);
    assert!(fixture.has("h19999.big.example"));
}

#[test]
fn zones_from_elsewhere_are_left_alone() {
    let mut fixture = Fixture::new();
    let name = NameBuf::from_text(b"other.example", Name::ROOT).unwrap();
    let zone = zone_from_text(name.as_name(), "text", GOOD.as_bytes()).unwrap();
    let mut table = ZoneTable::default();
    table.insert(Arc::new(zone));
    fixture.table.store(Arc::new(table));
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    fs::remove_file(fixture.path("one.example.zone")).unwrap();
    fixture.load();
    assert_eq!(fixture.served(), ["other.example."]);
}

#[test]
fn a_zone_of_an_earlier_source_stays_and_is_not_removed_with_the_file() {
    let mut fixture = Fixture::new();
    fixture.sources[0].rank = 1;
    fixture.write("example.zone", GOOD);
    let name: NameBuf = "example.".parse().unwrap();
    let mut other = zone_from_text(name.as_name(), "other", GOOD.as_bytes()).unwrap();
    other.set_rank(0);
    let mut table = ZoneTable::default();
    table.insert(Arc::new(other));
    fixture.table.store(Arc::new(table));
    let mut contested = Vec::new();
    fixture
        .backend
        .load(&fixture.table, &fixture.sources, &mut |event| {
            if let LoadEvent::Contested(name, served, other) = event {
                contested.push((name.to_string(), served, other));
            }
        });
    assert_eq!(contested, [("example.".to_string(), 0, 1)]);
    fs::remove_file(fixture.path("example.zone")).unwrap();
    fixture.load();
    assert_eq!(fixture.table.load().len(), 1);
}
