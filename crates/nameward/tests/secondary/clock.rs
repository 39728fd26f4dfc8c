//! A wall clock that is set while the server runs: back by two years, and forward by four.

use super::primary::{Primary, Version};
use super::{rcode, serial};
use nameward_testkit::{Setup, TestServer};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stands before the C library's `clock_gettime`: the wall clock is off by the seconds in a file.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, time);
    const char *path = getenv("CLOCK_OFFSET_FILE");
    if (result == 0 && id == CLOCK_REALTIME && path) {
        char text[32] = {0};
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) time->tv_sec += atol(text);
            close(file);
        }
    }
    return result;
}
"#;

const TWO_YEARS: i64 = 63_115_187;

/// Builds the shim.
fn shim(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
    std::fs::write(&source, SHIM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]);
    compiler.arg(&library).arg(&source).arg("-ldl");
    assert!(compiler.status().expect("install a C compiler").success());
    library
}

/// Sets the clock of a server, at once and as a whole.
fn set_clock(directory: &Path, seconds: i64) {
    let new = directory.join("offset.new");
    std::fs::write(&new, seconds.to_string()).unwrap();
    std::fs::rename(new, directory.join("offset")).unwrap();
}

fn start(primary: &Primary, clock: &Path) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    set_clock(clock, 0);
    setup
        .environment("LD_PRELOAD", shim(clock))
        .environment("CLOCK_OFFSET_FILE", clock.join("offset"))
        .config(&format!(
            "[server]\nstate_directory = {state:?}\nsandbox_paths = [{clock:?}]\n[[zone]]\nname = \"example\"\nkind = \"secondary\"\n\
             primaries = [{{ address = \"{}\" }}]\n",
            primary.address
        ))
        .start()
}

/// The seconds to the next check and to the expiry, as people are shown them.
fn times(server: &TestServer) -> String {
    let output = server.command(&["zone", "status", "example"]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether all times in a status are shorter than the longest in the SOA.
fn are_plausible(status: &str) -> bool {
    let words: Vec<&str> = status.split([' ', ',']).collect();
    let seconds = words.windows(2).filter(|pair| pair[1] == "s");
    seconds.clone().count() > 0
        && seconds
            .clone()
            .all(|pair| pair[0].parse::<u64>().is_ok_and(|time| time <= 1000))
}

#[test]
fn a_clock_that_is_set_stops_no_refresh_and_expires_no_zone() {
    let clock = tempfile::tempdir().unwrap();
    let primary = Primary::start(Version {
        serial: 1,
        times: [2, 2, 1000, 60],
    });
    let server = start(&primary, clock.path());
    let becomes = |version: u32| {
        server.wait_until(&format!("serial {version}"), || {
            serial(server.address(), "example") == Some(version)
        });
    };
    becomes(1);
    set_clock(clock.path(), -TWO_YEARS);
    assert!(server.wait_for_log("system clock stepped back by 730 d 11 h"));
    primary.set_serial(2);
    becomes(2);
    server.wait_until("plausible times", || are_plausible(&times(&server)));
    set_clock(clock.path(), TWO_YEARS);
    assert!(server.wait_for_log("system clock stepped forward by 1460 d"));
    primary.set_serial(3);
    becomes(3);
    server.wait_until("plausible times", || are_plausible(&times(&server)));
    assert_eq!(rcode(server.address(), "www.example"), Some(0));
    assert!(!server.log().contains("expired"), "{}", server.log());
}

#[test]
fn rollovers_pause_after_the_clock_was_set_forward() {
    const FORTY_DAYS: i64 = 40 * 86_400;
    let home = tempfile::tempdir().unwrap();
    let (clock, state) = (home.path(), home.path().join("state"));
    let start = || {
        let zone = "$TTL 60\n@ SOA ns h 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n";
        Setup::new()
            .without_web()
            .zone("example", zone)
            .environment("LD_PRELOAD", shim(clock))
            .environment("CLOCK_OFFSET_FILE", clock.join("offset"))
            .config(&format!(
                "[server]\nstate_directory = {state:?}\nsandbox_paths = [{clock:?}]\n[[dnssec_policy]]\nname = \"monthly\"\nkeys = \"ksk+zsk\"\n\
                 zsk_lifetime = 2592000\n[[zone]]\nname = \"example\"\ndnssec_policy = \"monthly\"\n"
            ))
            .start()
    };
    let keys = |server: &TestServer| {
        let output = server.command(&["key", "list", "example"]);
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    set_clock(clock, 0);
    let server = start();
    server.wait_until("a KSK and a ZSK", || keys(&server) == 2);
    set_clock(clock, FORTY_DAYS);
    // Policies that are read again wake the thread that rolls keys.
    assert!(server.command(&["reload"]).status.success());
    assert!(
        server.wait_for_log("rollovers are paused for one hour in case the clock is wrong"),
        "{}",
        server.log()
    );
    // All keys were due when that was logged, and none was rolled.
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(keys(&server), 2, "{}", server.log());
    assert!(server.stop().success());
    // A server that starts at that time knows of no step, and rolls the ZSK.
    let server = start();
    server.wait_until("another ZSK", || keys(&server) == 3);
}
