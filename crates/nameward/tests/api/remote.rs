//! Commands on a remote server through its API print the same as over the control socket.

use super::client::{KEY, create_key, create_zones, start};
use super::tls::{make_certificate, settings};
use nameward_testkit::{Setup, TestServer};
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command with these arguments through the API.
fn remote(server: &TestServer, url: &str, key: &str, arguments: &[&str]) -> Output {
    Command::new(nameward_testkit::server::binary())
        .args(["--server", url])
        .args(arguments)
        .env("NAMEWARD_API_KEY", key)
        .env("NAMEWARD_CA_FILE", server.dir().join("authority.pem"))
        .output()
        .unwrap()
}

fn check_equal(server: &TestServer, url: &str, arguments: &[&str]) {
    let here = server.command(arguments);
    let there = remote(server, url, KEY, arguments);
    assert_eq!(
        (here.status.code(), &here.stdout, &here.stderr),
        (there.status.code(), &there.stdout, &there.stderr),
        "{arguments:?}: {} {}",
        String::from_utf8_lossy(&there.stdout),
        String::from_utf8_lossy(&there.stderr)
    );
}

/// Makes a self-signed certificate for 127.0.0.1.
fn make_self_signed(directory: &Path, extension: &[&str]) {
    let output = Command::new("openssl")
        .current_dir(directory)
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30".split(' '))
        .args("-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1".split(' '))
        .args("-keyout server.key -out server.pem".split(' '))
        .args(extension)
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "{output:?}");
    std::fs::copy(
        directory.join("server.pem"),
        directory.join("authority.pem"),
    )
    .unwrap();
}

#[test]
fn a_self_signed_certificate_works_unless_it_is_that_of_an_authority() {
    for (extension, expected) in [
        (
            &["-addext", "basicConstraints=critical,CA:FALSE"][..],
            Some(0),
        ),
        (&[], None),
    ] {
        let setup = Setup::new().without_web();
        make_self_signed(setup.dir(), extension);
        let server = setup.config(&settings()).start();
        let url = format!("https://{}", server.api());
        let output = remote(&server, &url, KEY, &["zone", "list"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if expected.is_some() {
            assert_eq!(output.status.code(), expected, "{text}");
        } else {
            assert_ne!(output.status.code(), Some(0));
            let advice = "certificate is that of an authority (CA:TRUE): make one for the server with `openssl req -x509";
            assert!(text.contains(advice), "{text}");
        }
    }
}

#[test]
fn commands_over_https_print_the_same_as_over_the_socket() {
    let setup = Setup::new().without_web();
    make_certificate(setup.dir(), 300);
    let text =
        "@ 3600 SOA ns1 hostmaster 1 3600 600 86400 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";
    let state = setup.dir().join("state");
    let server = setup
        .zone("a.test", text)
        .config(&format!(
            "[server]\nstate_directory = \"{}\"\n",
            state.display()
        ))
        .config(&settings())
        .start();
    let url = format!("https://{}", server.api());
    let set = [
        "record",
        "set",
        "a.test",
        "www",
        "A",
        "60",
        "192.0.2.7",
        "--message",
        "a reason",
    ];
    let made = remote(&server, &url, KEY, &set);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    for arguments in [
        &["zone", "list"][..],
        &["zone", "list", "--json"],
        &["zone", "show", "a.test"],
        &["record", "list", "a.test"],
        &["zone", "history", "a.test"],
        &["zone", "export", "a.test"],
        &["audit-log"],
        &["tsig", "list"],
        &["log-level"],
        // Errors and their exit codes.
        &["zone", "show", "missing.test"],
        &["record", "set", "a.test", "www", "A", "60", "bogus"],
        &["zone", "rollback", "a.test", "77", "--json"],
        &["api-key", "delete", "nosuch"],
    ] {
        check_equal(&server, &url, arguments);
    }
    let history = server.command(&["zone", "history", "a.test"]);
    let history = String::from_utf8(history.stdout).unwrap();
    assert!(
        history.contains("api 127.0.0.1") && history.contains("a reason"),
        "{history}"
    );
    let wrong = remote(&server, &url, "wrong", &["zone", "list"]);
    assert_eq!(wrong.status.code(), Some(9), "{wrong:?}");
    // The certificate is verified.
    let foreign = Command::new(nameward_testkit::server::binary())
        .args([
            "--server",
            &url,
            "--ca-file",
            "/etc/ssl/certs/ca-certificates.crt",
            "zone",
            "list",
        ])
        .env("NAMEWARD_API_KEY", KEY)
        .output()
        .unwrap();
    assert_eq!(foreign.status.code(), Some(3), "{foreign:?}");
}

#[test]
fn the_rights_of_a_key_limit_remote_commands() {
    let (server, admin) = start("");
    create_zones(&admin, &["a.test.", "b.test."]);
    let url = format!("http://{}", server.api());
    let (_, key) = create_key(&server, &["--zone", "a.test", "--read-only"]);
    let run = |arguments: &[&str]| {
        let output = remote(&server, &url, &key, arguments);
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, zones) = run(&["zone", "list"]);
    assert!(
        code == Some(0) && zones.contains("a.test.") && !zones.contains("b.test."),
        "{zones}"
    );
    for (arguments, expected) in [
        (&["zone", "show", "b.test"][..], 4),
        (&["record", "set", "a.test", "x", "A", "60", "192.0.2.1"], 9),
        (&["stop"], 9),
        (&["api-key", "create"], 9),
        (&["api-key", "list"], 9),
        (&["status"], 9),
    ] {
        assert_eq!(run(arguments).0, Some(expected), "{arguments:?}");
    }
    let plain = Command::new(nameward_testkit::server::binary())
        .args(["--server", "http://192.0.2.1", "zone", "list"])
        .env("NAMEWARD_API_KEY", &key)
        .output()
        .unwrap();
    assert_eq!(plain.status.code(), Some(6), "{plain:?}");
}
