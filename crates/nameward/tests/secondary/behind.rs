//! A primary with a lower serial than ours, and the forced transfer that takes its version.

use super::primary::{Primary, Version};
use super::{address, serial, status};
use nameward_testkit::{Setup, TestServer};
use std::path::Path;

fn start(primary: &Primary, state: &Path) -> TestServer {
    Setup::new()
        .without_web()
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"example\"\nkind = \"secondary\"\n\
             primaries = [{{ address = \"{}\" }}]\n",
            primary.address
        ))
        .start()
}

fn run(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_primary_with_a_lower_serial_is_a_fault_and_a_forced_transfer_takes_its_version() {
    let primary = Primary::start(Version {
        serial: 5,
        times: [3600, 3600, 86_400, 60],
    });
    let state = tempfile::tempdir().unwrap();
    let server = start(&primary, state.path());
    let becomes = |server: &TestServer, version: u32| {
        server.wait_until(&format!("serial {version}"), || {
            serial(server.address(), "example") == Some(version)
        });
        assert_eq!(
            address(server.address(), "www.example"),
            Some(version as u8)
        );
    };
    becomes(&server, 5);
    primary.set_serial(3);
    run(&server, &["zone", "retrieve", "example"]);
    server.wait_until("the error", || {
        status(&server, "example").contains("the primary has serial 3, lower than 5 on this server")
    });
    assert_eq!(serial(server.address(), "example"), Some(5));
    server.wait_until("the fault", || {
        let text = run(&server, &["status"]);
        text.contains("primary_behind: Zone example has serial 5 here and 3 at its primary")
            && text.contains("nameward zone retrieve --force ZONE")
    });
    run(&server, &["zone", "retrieve", "--force", "example"]);
    becomes(&server, 3);
    server.wait_until("no fault", || {
        !run(&server, &["status"]).contains("primary_behind")
    });
    // The same serial with other contents is accepted as well, by the command of PowerDNS.
    primary.set_serial(4);
    run(&server, &["pdns_control", "retrieve", "example", "--force"]);
    becomes(&server, 4);
    let transfers = primary.whole.load(std::sync::atomic::Ordering::SeqCst);
    run(&server, &["zone", "retrieve", "example", "--force"]);
    server.wait_until("another whole transfer", || {
        primary.whole.load(std::sync::atomic::Ordering::SeqCst) > transfers
    });
    becomes(&server, 4);
    assert!(server.stop().success());
    // The state store has it.
    let server = start(&primary, state.path());
    becomes(&server, 4);
}
