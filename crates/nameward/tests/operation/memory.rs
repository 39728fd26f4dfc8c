//! Memory that the system refuses (ENOMEM): a zone file, a transfer or a request that is too large fails with its reason, the
//! previous version is served, and the process lives.
//!
//! The limit is that of the address space, set while the server runs. The allocator reserves a gigabyte by default, which would
//! hide it.

use std::{fmt::Write as _, fs, process::Command};

use nameward_testkit::{Setup, TestServer, require};
use serde_json::json;

use super::ask::{answered_address, zone};
use super::privileges::is_root;
use super::secure::done;

/// Records of the large versions: above the size from which memory is requested before a commit.
const HOSTS: u32 = 300_000;
/// Address space that a server is left, in MiB: too little to build the zone, or for what follows. Where the allocator has room of
/// its own, a version may be accepted.
const LEFT: [u64; 3] = [20, 36, 52];

fn large(version: u8) -> String {
    let soa = format!("SOA ns h {version} 3600 600 86400 ");
    let mut text = zone("www").replace("SOA ns h 1 2 3 4 ", &soa);
    text = text.replace("192.0.2.2", &format!("192.0.2.{version}"));
    for host in 0..HOSTS {
        writeln!(text, "a-host-with-a-number-{host} A 10.{version}.0.1").unwrap();
    }
    text
}

fn setup() -> Setup {
    Setup::new().environment("MIMALLOC_ARENA_RESERVE", "16384")
}

/// Limits the address space of a server to its current size and this many MiB; `None` lifts the limit.
fn limit(server: &TestServer, left: Option<u64>) {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.and_then(|size| size.trim().split(' ').next()?.parse::<u64>().ok());
    let limit = left.map(|left| (kib.unwrap() + left * 1024) * 1024);
    let limit = limit.map_or("unlimited".into(), |octets| octets.to_string());
    let set = Command::new("prlimit")
        .args([
            "--pid",
            &server.pid().to_string(),
            &format!("--as={limit}:"),
        ])
        .status();
    let set = set.expect("prlimit is installed: run scripts/install-deps");
    assert!(set.success());
}

fn www(server: &TestServer) -> Option<u8> {
    answered_address(server.address(), "www.one.example").map(|address| address[3])
}

#[test]
fn a_zone_file_for_which_there_is_no_memory_is_a_fault_and_the_previous_version_is_served() {
    let state = tempfile::tempdir().unwrap();
    let config = format!("[server]\nstate_directory = {:?}\n", state.path());
    let server = setup().config(&config).zone("one.example", &large(2));
    let server = server.start();
    let (mut served, mut refused) = (2, 0);
    for (left, version) in LEFT.into_iter().zip(3..) {
        server.write_zone("one.example", &large(version));
        limit(&server, Some(left));
        let output = server.command(&["reload"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            served = version;
        } else {
            refused += 1;
            let log = server.log();
            assert!(text.contains("out of memory"), "{left} MiB: {text}\n{log}");
            let status = done(&server, &["status"]);
            assert!(status.contains("zone_errors"), "{left} MiB: {status}");
        }
        assert_eq!(www(&server), Some(served), "{left} MiB");
    }
    assert!(refused > 0, "{}", server.log());
    limit(&server, None);
    server.write_zone("one.example", &large(99));
    done(&server, &["reload"]);
    assert_eq!(www(&server), Some(99));
    assert!(done(&server, &["status"]).contains("faults: none"));
}

#[test]
fn a_transfer_for_which_there_is_no_memory_leaves_the_previous_version_served() {
    let allowed =
        "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\nnotify_name_servers = false\n";
    let primary = Setup::new().config(allowed).zone("one.example", &large(2));
    let primary = primary.start();
    let state = tempfile::tempdir().unwrap();
    let secondary = setup().config(&format!(
        "[server]\nstate_directory = {:?}\n[[zone]]\nname = \"one.example\"\nkind = \"secondary\"\nprimaries = [{{ \
         address = \"{}\" }}]\n",
        state.path(),
        primary.address()
    ));
    let secondary = secondary.start();
    secondary.wait_until("the zone", || www(&secondary) == Some(2));
    primary.write_zone("one.example", &large(3));
    done(&primary, &["reload"]);
    limit(&secondary, Some(LEFT[0]));
    done(&secondary, &["zone", "retrieve", "one.example"]);
    secondary.wait_until("the transfer fails", || {
        secondary.log().contains("out of memory")
    });
    assert_eq!(www(&secondary), Some(2));
    let status = done(&secondary, &["status"]);
    assert!(status.contains("out_of_memory"), "{status}");
    assert!(status.contains("a transfer of one.example"), "{status}");
    limit(&secondary, None);
    done(&secondary, &["zone", "retrieve", "one.example"]);
    secondary.wait_until("the new version", || www(&secondary) == Some(3));
}

/// KiB of a server in huge pages.
fn huge_kib(server: &TestServer) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", server.pid());
    let text = fs::read_to_string(path).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap()
}

/// Checks whether the kernel can move memory into huge pages.
fn can_collapse() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(1))
}

#[test]
fn only_memory_in_use_is_in_huge_pages() {
    // Its own user cannot read it: the server is not dumpable.
    if require(is_root().then_some(()), "root (to read memory maps)").is_none() {
        return;
    }
    let server = Setup::new().zone("one.example", &zone("www")).start();
    // Before the first statement of the program the kernel may have used one.
    let small = huge_kib(&server);
    assert!(small <= 4 << 10, "{small} KiB");
    assert_eq!(www(&server), Some(2));
    drop(server);
    // As the server's own user, in its sandbox: its large contents move within seconds, if the kernel can (Linux 6.1).
    let server = Setup::new().zone("one.example", &large(2)).start();
    if require(can_collapse().then_some(()), "Linux 6.1").is_some() {
        server.wait_until("contents in huge pages", || huge_kib(&server) > 4 << 10);
    }
    assert_eq!(www(&server), Some(2));
}

/// Sends a change of one.example with as many records; returns the status code.
fn patch(server: &TestServer, records: u32) -> String {
    let rrsets: Vec<_> = (0..records)
        .map(|number| {
            let name = format!("a-new-host-with-a-number-{number}.one.example.");
            let record = json!({ "content": "192.0.2.7", "disabled": false });
            json!({ "name": name, "type": "A", "ttl": 60, "changetype": "REPLACE", "records": [record] })
        })
        .collect();
    let body = server.dir().join("body");
    fs::write(&body, json!({ "rrsets": rrsets }).to_string()).unwrap();
    let url = format!(
        "http://{}/api/v1/servers/localhost/zones/one.example.",
        server.api()
    );
    let output = Command::new("curl")
        .args([
            "--silent",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
        ])
        .args([
            "--request",
            "PATCH",
            "--header",
            "X-API-Key: key",
            "--data-binary",
        ])
        .arg(format!("@{}", body.display()))
        .arg(url)
        .output()
        .expect("curl is installed: run scripts/install-deps");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_request_for_which_there_is_no_memory_is_refused_and_small_ones_are_served() {
    let state = tempfile::tempdir().unwrap();
    let server = setup().zone("one.example", &zone("www")).config(&format!(
        "[server]\nstate_directory = {:?}\n[api]\nlisten = \"127.0.0.1:0\"\nkey = \"key\"\n",
        state.path()
    ));
    let server = server.start();
    limit(&server, Some(LEFT[1]));
    assert_eq!(patch(&server, 30_000), "503", "{}", server.log());
    assert!(server.log().contains("out of memory"), "{}", server.log());
    let status = done(&server, &["status"]);
    assert!(status.contains("for an API request of"), "{status}");
    assert_eq!(patch(&server, 1), "204", "{}", server.log());
    assert_eq!(www(&server), Some(2));
    limit(&server, None);
    assert_eq!(patch(&server, 30_000), "204", "{}", server.log());
}
