//! Measures a change of one zone file among many: `watch_cost DIRECTORY ZONES` makes the files, then prints
//! how long the first load, a look at all of them, and a look at the one that changed take.

use std::{env, fs, path::PathBuf, time::Instant};

use arc_swap::ArcSwap;
use nameward_files::{FileBackend, FileSource, ScanScope, Watcher};
use nameward_zone::ZoneTable;

const ZONE: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";

fn main() {
    let mut arguments = env::args().skip(1);
    let (Some(directory), Some(zones)) = (arguments.next(), arguments.next()) else {
        eprintln!("watch_cost DIRECTORY ZONES");
        return;
    };
    let directory = PathBuf::from(directory);
    let zones: usize = zones.parse().expect("a number of zones");
    for n in 0..zones {
        let group = directory.join(format!("{:02}", n % 100));
        fs::create_dir_all(&group).expect("a directory can be made");
        fs::write(group.join(format!("z{n}.example.zone")), ZONE).expect("a file can be written");
    }
    let source = FileSource {
        directory: Some(directory.clone()),
        watch: true,
        ..FileSource::default()
    };
    let (sources, table) = ([source], ArcSwap::from_pointee(ZoneTable::default()));
    let watcher = Watcher::start(|_| true).expect("a thread can be started");
    let mut backend = FileBackend::new().watched_by(watcher);
    let mut look = |what: &str, look: Option<ScanScope>| {
        let begun = Instant::now();
        let summary = match &look {
            None => backend.load(&table, &sources, &mut |_| ()),
            Some(look) => backend.check(&table, &sources, look, &mut |_| ()),
        };
        println!("{what}: {:?} {summary:?}", begun.elapsed());
    };
    look("first load", None);
    look("all, unchanged", Some(ScanScope::All));
    let one = directory.join("00/z0.example.zone");
    for _ in 0..3 {
        fs::write(&one, format!("{ZONE}new A 192.0.2.3\n")).expect("a file can be written");
        look(
            "the one that changed",
            Some(ScanScope::Files(vec![one.clone()])),
        );
    }
    let new = directory.join("00/new.example.zone");
    fs::write(&new, ZONE).expect("a file can be written");
    look("a new one", Some(ScanScope::Files(vec![new.clone()])));
    fs::remove_file(&new).expect("a file can be removed");
    look("one that is gone", Some(ScanScope::Files(vec![new])));
}
