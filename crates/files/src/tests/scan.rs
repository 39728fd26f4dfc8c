//! Tests of checks of single files: their cost, and when they are not enough.

use super::*;

impl Fixture {
    /// Lists zones with their files.
    pub(super) fn list(&mut self, zones: &[(NameBuf, &str)]) {
        let mut list = FileList::default();
        for (zone, file) in zones {
            list.push(zone.as_name(), &self.path(file));
        }
        self.sources[0].zones = Arc::new(list);
    }

    fn scan(&mut self, files: &[&str]) -> LoadSummary {
        self.sources[0].watch = true;
        let paths = files.iter().map(|file| self.path(file)).collect();
        let scan = ScanScope::Files(paths);
        self.backend
            .check(&self.table, &self.sources, &scan, &mut |_| ())
    }
}

fn loaded(loaded: usize) -> LoadSummary {
    LoadSummary {
        loaded,
        ..LoadSummary::default()
    }
}

#[test]
fn one_changed_file_is_scanned_alone() {
    let mut fixture = Fixture::new();
    for n in 0..10 {
        fixture.write(&format!("sub/z{n}.example.zone"), GOOD);
    }
    fixture.load();
    fixture.write("sub/z3.example.zone", &format!("{GOOD}new A 192.0.2.2\n"));
    fixture.write("sub/z4.example.zone", &format!("{GOOD}new A 192.0.2.2\n"));
    assert_eq!(fixture.scan(&["sub/z3.example.zone"]), loaded(1));
    assert!(fixture.has("new.z3.example") && !fixture.has("new.z4.example"));
}

#[test]
fn a_new_file_is_added_and_a_missing_one_removed_without_a_full_scan() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    fixture.write("two.example.zone", GOOD);
    assert_eq!(fixture.scan(&["two.example.zone"]), loaded(1));
    assert_eq!(fixture.served(), ["one.example.", "two.example."]);
    fs::remove_file(fixture.path("one.example.zone")).unwrap();
    let removed = LoadSummary {
        removed: 1,
        ..LoadSummary::default()
    };
    assert_eq!(fixture.scan(&["one.example.zone"]), removed);
    assert_eq!(fixture.served(), ["two.example."]);
    // Nothing is left that a load would remove or read again.
    let summary = fixture.load().summary;
    assert_eq!((summary.unchanged, summary.removed), (1, 0));
}

#[test]
fn hidden_and_unrelated_files_are_not_zones() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    fixture.write(".two.example.zone", GOOD);
    fixture.write(".git/three.example.zone", GOOD);
    fixture.write("four.example.zone~", GOOD);
    let files = [
        ".two.example.zone",
        ".git/three.example.zone",
        "four.example.zone~",
    ];
    assert_eq!(fixture.scan(&files), LoadSummary::default());
}

#[test]
fn a_second_file_for_a_zone_causes_a_full_scan_and_takes_over_when_the_first_is_gone() {
    let mut fixture = Fixture::new();
    fixture.write("a/one.example.zone", GOOD);
    fixture.write("z.example.zone", GOOD);
    fixture.load();
    fixture.write("b/one.example.zone", &format!("{GOOD}b A 192.0.2.2\n"));
    let summary = fixture.scan(&["b/one.example.zone"]);
    assert_eq!(summary.problems, 1, "{summary:?}");
    fs::remove_file(fixture.path("a/one.example.zone")).unwrap();
    fixture.scan(&["a/one.example.zone"]);
    assert!(fixture.has("b.one.example"));
}

#[test]
fn a_file_of_several_zones_is_loaded_for_each() {
    let mut fixture = Fixture::new();
    fixture.sources[0].directory = None;
    fixture.write("empty.db", GOOD);
    let list = ["one.example", "two.example"];
    let path = fixture.path("empty.db");
    fixture.list(&list.map(|name| (name.parse().unwrap(), "empty.db")));
    fixture.load();
    fixture.write("empty.db", &format!("{GOOD}new A 192.0.2.2\n"));
    assert_eq!(fixture.scan(&["empty.db"]), loaded(2));
    // A listed file that does not exist is a mistake, not the end of its zones.
    fs::remove_file(path).unwrap();
    assert_eq!(fixture.scan(&["empty.db"]).refused, 2);
    assert_eq!(fixture.served(), ["one.example.", "two.example."]);
}

#[test]
fn a_broken_file_keeps_the_old_version() {
    let mut fixture = Fixture::new();
    fixture.write("one.example.zone", GOOD);
    fixture.load();
    fixture.write("one.example.zone", BROKEN);
    assert_eq!(fixture.scan(&["one.example.zone"]).refused, 1);
    assert!(fixture.has("ns.one.example"));
}
