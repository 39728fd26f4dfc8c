//! Encrypted DNS as its clients see it: real clients, equal answers on every transport, hostile peers, certificates that change.

mod clients;
mod https;
mod init;
mod listeners;
mod load;
mod quic;
mod tls;

use crate::api::tls::make_certificate;
use nameward_testkit::certificates::{Authority, IssuedCertificate, Validity};
use nameward_testkit::{Setup, TestServer};
use std::path::Path;
use std::process::Command;

/// The zone of the tests.
const ZONE: &str = "$TTL 300
@ SOA ns.example.org. hostmaster.example.org. 1 3600 900 604800 60
@ NS ns.example.org.
ns A 192.0.2.53
www A 192.0.2.1
www AAAA 2001:db8::1
alias CNAME www
mail MX 10 www
*.wild TXT \"any\"
child NS ns.child
ns.child A 192.0.2.99
";

/// A server with a certificate for 127.0.0.1, and these further settings.
fn setup(settings: &str) -> Setup {
    let setup = Setup::new();
    make_certificate(setup.dir(), 300);
    let tls = "[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n";
    setup
        .zone("example.org", ZONE)
        .config(&format!("{settings}{tls}"))
}

/// Makes two client certificates: one for known.example of an authority that the server trusts, and one of another
/// authority, which only its pin can identify.
fn client_identity(
    directory: &Path,
    clients: &Authority,
) -> (IssuedCertificate, IssuedCertificate) {
    let known = clients.issue("known", &["known.example"], Validity::Current);
    let elsewhere = Authority::new(directory, "elsewhere").unwrap();
    let pinned = elsewhere.issue("pinned", &["known.example"], Validity::Current);
    (known.unwrap(), pinned.unwrap())
}

/// Runs a tool in the directory of the server; returns whether it succeeded, and its output.
fn run_tool(server: &TestServer, command: &str) -> (bool, String) {
    let output = Command::new("sh")
        .current_dir(server.dir())
        .args(["-c", command])
        .output()
        .expect("sh is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// Returns the value of a variable, from `nameward stats`.
pub fn counted(server: &TestServer, name: &str) -> u64 {
    let (code, output) = crate::api::client::run(server, &["stats", name]);
    assert_eq!(code, Some(0), "{output}");
    let value = output
        .split_whitespace()
        .last()
        .and_then(|it| it.parse().ok());
    value.unwrap_or_else(|| panic!("{name}: {output}"))
}
