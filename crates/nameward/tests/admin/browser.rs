//! The web administration in a real browser.

use super::visitor::{KEY, Visitor, start};
use nameward_testkit::require;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/admin/browser.py");

#[test]
fn the_administration_works_in_a_browser() {
    let server = start("live");
    let visitor = Visitor::logged_in(server.api());
    let fields = [
        ("name", "stored.test"),
        ("kind", "primary"),
        ("name_servers", "ns1.stored.test."),
        (
            "zone_file",
            "ns1 A 192.0.2.53\nwww A 192.0.2.1\n_dmarc TXT \"v=DMARC1; p=reject\"\n",
        ),
        ("secure", "1"),
    ];
    let made = visitor.post("/admin/new-zone", &fields);
    assert_eq!(made.status, 303, "{made:?}");
    let pictures = match std::env::var_os("NAMEWARD_PICTURES") {
        Some(directory) => directory.into(),
        None => server.dir().join("pictures"),
    };
    let run = Command::new("python3")
        .args([SCRIPT, &format!("http://{}/admin", server.api()), KEY])
        .arg(pictures)
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
