//! The page in a real browser.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use nameward_stats::{Gauge, Outcome};
use nameward_testkit::require;

use super::client::{Server, ask_now};

#[test]
fn the_page_works_in_a_browser() {
    let server = Server::start();
    for n in 0..200u8 {
        let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, n));
        ask_now(
            &server.stats,
            b"\x03www\x07example\0",
            Outcome::NxDomain,
            client,
        );
    }
    server.stats.set_gauge(Gauge::SecurityStatus, 3);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser.py");
    let pictures = tempfile::tempdir().expect("a directory");
    let url = format!("http://{}/", server.address);
    let run = Command::new("python3")
        .args([script, &url])
        .arg(pictures.path())
        .output();
    let Some(output) = require(run.ok(), "python3") else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let has_browser = output.status.code() != Some(77);
    if require(
        has_browser.then_some(()),
        "a browser (chromium, chromium-driver)",
    )
    .is_none()
    {
        return;
    }
    assert!(output.status.success(), "{said}");
}
