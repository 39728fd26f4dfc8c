//! `nameward tls init`: a certificate with which a server starts and that clients can verify.

use super::run_tool;
use nameward_testkit::Setup;
use nameward_testkit::server::binary;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn a_generated_certificate_works_with_its_pin_and_is_never_overwritten() {
    let setup = Setup::new();
    let make = |names: &[&str]| {
        Command::new(binary())
            .args(["tls", "init", "--directory"])
            .arg(setup.dir())
            .args(names)
            .output()
            .expect("nameward can be run")
    };
    let made = make(&["dns.example.org", "127.0.0.1"]);
    assert!(made.status.success(), "{made:?}");
    let text = String::from_utf8(made.stdout).unwrap();
    let pin = text.lines().next().and_then(|line| line.rsplit(' ').next());
    let pin = pin.expect("a pin").to_owned();
    let key = std::fs::metadata(setup.dir().join("tls.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let again = make(&[]);
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        !again.status.success() && error.contains("exists already"),
        "{error}"
    );

    let settings = text.replace("\"0.0.0.0:853\", \"[::]:853\"", "\"127.0.0.1:0\"");
    let server = setup
        .zone("example.org", super::ZONE)
        .config(&settings)
        .start();
    let port = server.encrypted("TLS").port();
    for verify in [
        format!("+tls-pin={pin}"),
        "+tls-ca=tls.pem +tls-hostname=dns.example.org".to_owned(),
    ] {
        let command = format!("kdig @127.0.0.1 -p {port} +tls {verify} www.example.org A");
        let (is_ok, text) = run_tool(&server, &command);
        assert!(is_ok && text.contains("192.0.2.1"), "{command}: {text}");
    }
    let wrong = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let command =
        format!("kdig @127.0.0.1 -p {port} +tls +tls-pin={wrong} +retry=0 www.example.org A");
    assert!(!run_tool(&server, &command).0);
}
