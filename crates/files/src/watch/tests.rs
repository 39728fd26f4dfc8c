//! Tests with events of real directories.

use std::{fs, sync::mpsc};

use super::*;
use crate::FileList;

const TIMEOUT: Duration = Duration::from_secs(60);

fn watcher(room: impl Fn() -> bool + Send + 'static) -> (Watcher, mpsc::Receiver<ScanScope>) {
    let (sender, scopes) = mpsc::channel();
    let watcher = Watcher::start(move |scope| {
        let has_room = room();
        if has_room {
            let _ = sender.send(scope.clone());
        }
        has_room
    });
    (watcher.unwrap(), scopes)
}

#[test]
fn a_file_of_a_watched_directory_is_noticed_and_others_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let (watcher, scopes) = watcher(|| true);
    watcher.begin();
    watcher.directory(directory.path(), WatchedFiles::Zones);
    fs::write(directory.path().join("notes.txt"), "x").unwrap();
    fs::write(directory.path().join(".a.example.zone"), "x").unwrap();
    let path = directory.path().join("a.example.zone");
    fs::write(&path, "x").unwrap();
    assert_eq!(
        scopes.recv_timeout(TIMEOUT).unwrap(),
        ScanScope::Files(vec![path])
    );
    // A directory may contain anything.
    fs::create_dir(directory.path().join("sub")).unwrap();
    assert_eq!(scopes.recv_timeout(TIMEOUT).unwrap(), ScanScope::All);
}

#[test]
fn a_named_file_is_noticed_however_its_path_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (watcher, scopes) = watcher(|| true);
    watcher.begin();
    let path = directory.path().join("db");
    let written = directory.path().join(".//db");
    assert!(watcher.file(&written, Interest::Zone));
    assert!(!watcher.file(&written, Interest::Zone));
    fs::write(directory.path().join("other"), "x").unwrap();
    fs::write(&path, "x").unwrap();
    assert_eq!(
        scopes.recv_timeout(TIMEOUT).unwrap(),
        ScanScope::Files(vec![path])
    );
}

#[test]
fn files_of_a_long_list_are_noticed_and_so_is_the_target_of_a_link_among_them() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("target");
    fs::write(&target, "x").unwrap();
    std::os::unix::fs::symlink(&target, directory.path().join("link")).unwrap();
    let mut list = FileList::default();
    let paths = (0..100).map(|n| directory.path().join(n.to_string()));
    for path in paths.chain([directory.path().join("link")]) {
        if !path.exists() {
            fs::write(&path, "x").unwrap();
        }
        list.push(nameward_wire::Name::ROOT, &path);
    }
    let (watcher, scopes) = watcher(|| true);
    watcher.begin();
    watcher.listed(&list);
    watcher.end(Duration::ZERO);
    let path = directory.path().join("77");
    fs::write(directory.path().join("other"), "x").unwrap();
    fs::write(&path, "y").unwrap();
    assert_eq!(
        scopes.recv_timeout(TIMEOUT).unwrap(),
        ScanScope::Files(vec![path])
    );
    fs::write(&target, "y").unwrap();
    assert_eq!(scopes.recv_timeout(TIMEOUT).unwrap(), ScanScope::All);
}

#[test]
fn a_scan_that_was_not_taken_is_offered_again() {
    let directory = tempfile::tempdir().unwrap();
    let tries = Mutex::new(0);
    let (watcher, scopes) = watcher(move || {
        let mut tries = tries.lock();
        *tries += 1;
        *tries > 3
    });
    watcher.begin();
    watcher.directory(directory.path(), WatchedFiles::Zones);
    let path = directory.path().join("a.example.zone");
    fs::write(&path, "x").unwrap();
    assert_eq!(
        scopes.recv_timeout(TIMEOUT).unwrap(),
        ScanScope::Files(vec![path])
    );
}

#[test]
fn files_that_a_load_does_not_name_are_no_longer_watched() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (watcher, scopes) = watcher(|| true);
    watcher.begin();
    watcher.directory(one.path(), WatchedFiles::Zones);
    watcher.file(&two.path().join("db"), Interest::All);
    watcher.end(Duration::ZERO);
    watcher.begin();
    watcher.directory(two.path(), WatchedFiles::Zones);
    watcher.end(Duration::ZERO);
    assert_eq!(watcher.0.state.lock().directories.len(), 1);
    assert!(watcher.0.state.lock().files.is_empty() && watcher.0.state.lock().parents.is_empty());
    fs::write(one.path().join("a.zone"), "x").unwrap();
    fs::write(two.path().join("db"), "x").unwrap();
    let path = two.path().join("b.zone");
    fs::write(&path, "x").unwrap();
    assert_eq!(
        scopes.recv_timeout(TIMEOUT).unwrap(),
        ScanScope::Files(vec![path])
    );
}

#[test]
fn without_watches_everything_is_scanned_periodically() {
    let (watcher, scopes) = watcher(|| true);
    watcher.0.fall_back("a test");
    watcher.0.state.lock().poll = Some(Duration::from_millis(400));
    for _ in 0..2 {
        assert_eq!(scopes.recv_timeout(TIMEOUT).unwrap(), ScanScope::All);
    }
    // A check that takes long makes them rarer.
    watcher.begin();
    watcher.end(Duration::from_secs(10));
    assert_eq!(watcher.0.state.lock().poll, Some(Duration::from_secs(500)));
}

#[test]
fn the_thread_ends_with_its_watcher() {
    let (watcher, scopes) = watcher(|| true);
    drop(watcher);
    assert_eq!(
        scopes.recv_timeout(TIMEOUT),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
}
