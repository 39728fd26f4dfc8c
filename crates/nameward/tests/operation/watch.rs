//! Zone files that are watched: what changes is served without anybody asking for it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nameward_testkit::{Setup, TestServer};

use super::ask::{ConstantClient, eventually, rcode, zone};

const SERVFAIL: u16 = 2;
const NXDOMAIN: u16 = 3;
const REFUSED: u16 = 5;

#[track_caller]
fn becomes(server: &TestServer, name: &str, wanted: u16) {
    let found = eventually(|| rcode(server.address(), name), |code| *code == wanted);
    assert_eq!(found, wanted, "{name}: {}", server.log());
}

/// A server that watches its files and withdraws the zone of a vanished one at once.
fn without_grace() -> Setup {
    Setup::new()
        .watched()
        .config("[server]\nzone_file_grace = 0\n")
}

fn with(host: &str) -> String {
    format!("{}{host} A 192.0.2.3\n", zone("www"))
}

fn zones(server: &TestServer) -> PathBuf {
    server.dir().join("zones")
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn new_changed_renamed_and_removed_files_are_seen() {
    let server = without_grace().zone("one.example", &zone("www")).start();
    let client = ConstantClient::start(server.address(), "www.one.example");
    server.write_zone("two.example", &zone("www"));
    becomes(&server, "www.two.example", 0);
    server.write_zone("one.example", &with("new"));
    becomes(&server, "new.one.example", 0);
    let (from, to) = ("two.example.zone", "three.example.zone");
    fs::rename(zones(&server).join(from), zones(&server).join(to)).unwrap();
    becomes(&server, "www.three.example", 0);
    becomes(&server, "www.two.example", REFUSED);
    server.remove_zone("three.example");
    becomes(&server, "www.three.example", REFUSED);
    // Like editors: a new file replaces the old one.
    let new = zones(&server).join(".one.example.zone.swp");
    fs::write(&new, with("newer")).unwrap();
    fs::rename(new, zones(&server).join("one.example.zone")).unwrap();
    becomes(&server, "newer.one.example", 0);
    client.stop().unwrap();
    assert!(!server.log().contains("reload"), "{}", server.log());
}

#[test]
fn a_broken_version_is_not_served_and_a_fixed_one_is() {
    let server = Setup::new()
        .watched()
        .zone("one.example", &zone("www"))
        .start();
    let client = ConstantClient::start(server.address(), "www.one.example");
    let broken = zone("www").replace("www A 192.0.2.2", "www A nowhere");
    server.write_zone("one.example", &broken);
    assert!(server.wait_for_log("one.example.zone:5:7: error: "));
    assert!(server.wait_for_log("the previous version is still being served"));
    server.write_zone("bad.example", &broken);
    becomes(&server, "www.bad.example", SERVFAIL);
    server.write_zone("one.example", &with("mended"));
    becomes(&server, "mended.one.example", 0);
    client.stop().unwrap();
}

#[test]
fn directories_that_appear_and_disappear_are_detected_with_their_contents() {
    let server = without_grace().zone("one.example", &zone("www")).start();
    let deep = zones(&server).join("a/b");
    write(&deep.join("deep.example.zone"), &zone("www"));
    becomes(&server, "www.deep.example", 0);
    // The new directory is watched by now.
    write(&deep.join("deep.example.zone"), &with("new"));
    becomes(&server, "new.deep.example", 0);
    // A tree that was created elsewhere is detected at once.
    let made = server.dir().join("made");
    write(&made.join("c/moved.example.zone"), &zone("www"));
    fs::rename(&made, zones(&server).join("moved")).unwrap();
    becomes(&server, "www.moved.example", 0);
    fs::remove_dir_all(zones(&server).join("a")).unwrap();
    becomes(&server, "www.deep.example", REFUSED);
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
}

#[test]
fn included_files_and_targets_of_links_are_seen() {
    let setup = Setup::new().watched();
    let (part, target) = (
        setup.dir().join("parts/hosts"),
        setup.dir().join("parts/target"),
    );
    write(&part, "first A 192.0.2.1\n");
    write(&target, &zone("www"));
    symlink(&target, setup.dir().join("zones/linked.example.zone")).unwrap();
    let text = format!("{}$INCLUDE {}\n", zone("www"), part.display());
    let server = setup.zone("one.example", &text).start();
    becomes(&server, "first.one.example", 0);
    write(&part, "second A 192.0.2.1\n");
    becomes(&server, "second.one.example", 0);
    becomes(&server, "first.one.example", NXDOMAIN);
    write(&target, &with("new"));
    becomes(&server, "new.linked.example", 0);
}

#[test]
fn a_bind_configuration_and_its_zones_are_seen() {
    let setup = Setup::new()
        .zone("one.example", &zone("www"))
        .config("[[backend]]\nnamed_conf = \"bind/named.conf\"\n");
    let bind = setup.dir().join("bind");
    write(&bind.join("named.conf"), "include \"conf.d/*.conf\";\n");
    let a = "zone \"a.example\" { type master; file \"a.db\"; };";
    write(&bind.join("conf.d/a.conf"), a);
    write(&bind.join("a.db"), &zone("www"));
    let server = setup.start();
    becomes(&server, "www.a.example", 0);
    write(&bind.join("a.db"), &with("new"));
    becomes(&server, "new.a.example", 0);
    // A new file that the pattern takes.
    write(&bind.join("b.db"), &zone("www"));
    let b = "zone \"b.example\" { type master; file \"b.db\"; };";
    write(&bind.join("conf.d/b.conf"), b);
    becomes(&server, "www.b.example", 0);
    // A mistake changes nothing; without it the zone is gone.
    write(&bind.join("conf.d/a.conf"), "zone \"a.example\" {");
    assert!(server.wait_for_log("conf.d/a.conf:1:18: error: unclosed '{'"));
    assert_eq!(rcode(server.address(), "www.a.example"), 0);
    fs::remove_file(bind.join("conf.d/a.conf")).unwrap();
    becomes(&server, "www.a.example", REFUSED);
    assert_eq!(rcode(server.address(), "www.b.example"), 0);
}

#[test]
fn directories_that_are_replaced_as_a_whole_are_seen() {
    let setup = Setup::new()
        .watched()
        .zone("one.example", &zone("www"))
        .config("[[backend]]\nzones = [{ name = \"listed.example\", file = \"a/b/listed\" }]\n");
    let listed = setup.dir().join("a/b/listed");
    write(&listed, &zone("www"));
    let server = setup.start();
    // Nothing is removed because nothing can be read.
    fs::remove_dir_all(server.dir().join("a")).unwrap();
    fs::rename(zones(&server), server.dir().join("old")).unwrap();
    assert!(server.wait_for_log("listed: error: cannot be read"));
    assert!(server.wait_for_log("zones: No such file or directory"));
    assert_eq!(rcode(server.address(), "www.listed.example"), 0);
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    write(&listed, &with("new"));
    becomes(&server, "new.listed.example", 0);
    write(&zones(&server).join("one.example.zone"), &with("new"));
    becomes(&server, "new.one.example", 0);
}

#[test]
fn a_backend_that_is_not_watched_is_not_read() {
    let setup = Setup::new()
        .zone("still.example", &zone("www"))
        .config("[[backend]]\ndirectory = \"more\"\n");
    write(&setup.dir().join("more/one.example.zone"), &zone("www"));
    let server = setup.start();
    server.write_zone("still.example", &with("new"));
    server.remove_zone("still.example");
    server.write_zone("other.example", &zone("www"));
    // A new directory makes the watch scan the whole backend.
    write(
        &server.dir().join("more/sub/two.example.zone"),
        &zone("www"),
    );
    becomes(&server, "www.two.example", 0);
    assert_eq!(rcode(server.address(), "www.still.example"), 0);
    assert_eq!(rcode(server.address(), "new.still.example"), NXDOMAIN);
    assert_eq!(rcode(server.address(), "www.other.example"), REFUSED);
    // Until a reload requests it.
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(rcode(server.address(), "www.still.example"), REFUSED);
    assert_eq!(rcode(server.address(), "www.other.example"), 0);
}

#[test]
fn a_file_that_is_rewritten_continuously_is_loaded() {
    let server = Setup::new()
        .watched()
        .zone("one.example", &zone("www"))
        .start();
    let path = zones(&server).join("one.example.zone");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (path, stop) = (path.clone(), Arc::clone(&stop));
        thread::spawn(move || {
            // More often than a file has to be quiet for. Only the pace is by the clock.
            while !stop.load(Ordering::Relaxed) {
                fs::write(&path, with("new")).unwrap();
                thread::sleep(Duration::from_millis(30));
            }
        })
    };
    let found = eventually(
        || rcode(server.address(), "new.one.example"),
        |code| *code == 0,
    );
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(found, 0, "{}", server.log());
}
