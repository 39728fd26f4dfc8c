//! DNS UPDATE (RFC 2136) of zones from files, by the clients that people use.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
};

use nameward_testkit::{Setup, TestServer};

use super::ask::{answered_address, rcode};
use super::not_ready::counter;

const SECRET: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";
const NXDOMAIN: u16 = 3;

/// A zone with comments and its own layout.
pub const ZONE: &str = "; our zone\n$TTL 300\n@ IN SOA ns1 host (\n\t10 ; serial\n\t3600 600 86400 300 )\n  NS ns1\n\
                        ns1 A 192.0.2.1\nwww A 192.0.2.10 ; the web\n    A 192.0.2.11\n";

/// A server with a zone that the key may update, and a state directory next to its zones.
pub fn setup(terms: &str) -> Setup {
    let setup = Setup::new();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n\
         [[key]]\nname = \"ddns.example.\"\nalgorithm = \"hmac-sha256\"\nsecret = \"{SECRET}\"\n\
         [[key]]\nname = \"other.example.\"\nalgorithm = \"hmac-sha256\"\nsecret = \"{SECRET}\"\n\
         [[zone]]\nname = \"dyn.example\"\n{terms}\n"
    );
    setup.config(&config).zone("dyn.example", ZONE)
}

/// Runs an update tool; returns whether it succeeded, and its output.
pub fn run(tool: &str, arguments: &[&str], server: SocketAddr, lines: &str) -> (bool, String) {
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{tool}: {error}: run scripts/install-deps"));
    let (address, port) = (server.ip(), server.port());
    let text = format!("server {address} {port}\nzone dyn.example.\n{lines}\nsend\n");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), words.into_owned())
}

pub fn nsupdate(server: &TestServer, lines: &str) -> (bool, String) {
    let key = format!("hmac-sha256:ddns.example.:{SECRET}");
    run(
        "nsupdate",
        &["-t", "30", "-y", &key],
        server.address(),
        lines,
    )
}

#[test]
fn nsupdate_changes_a_zone_over_udp_and_tcp_and_the_next_query_sees_it() {
    let server = setup("allow_update = [\"key:ddns.example.\"]").start();
    let at = server.address();
    let key = format!("hmac-sha256:ddns.example.:{SECRET}");
    for (number, transport) in [&["-t", "30"][..], &["-v", "-t", "30"]]
        .into_iter()
        .enumerate()
    {
        let arguments = [transport, &["-y", &key]].concat();
        let name = format!("host{number}.dyn.example");
        let add = format!("prereq nxdomain {name}.\nupdate add {name}. 60 A 192.0.2.77");
        assert_eq!(run("nsupdate", &arguments, at, &add), (true, String::new()));
        assert_eq!(answered_address(at, &name), Some([192, 0, 2, 77]));
        let (is_good, words) = run("nsupdate", &arguments, at, &add);
        assert!(!is_good && words.contains("YXDOMAIN"), "{words}");
        let delete = format!("prereq yxrrset {name}. A 192.0.2.77\nupdate delete {name}.");
        assert_eq!(
            run("nsupdate", &arguments, at, &delete),
            (true, String::new())
        );
        assert_eq!(rcode(at, &name), NXDOMAIN);
    }
    let count = |name: &str| counter(&server, name);
    assert_eq!(count("dnsupdate-queries"), 6);
    assert_eq!(count("dnsupdate-answers"), 4);
    assert_eq!(count("dnsupdate-refused"), 2);
    assert_eq!(count("dnsupdate-changes"), 4);
}

#[test]
fn knsupdate_changes_a_zone() {
    let server = setup("allow_update = [\"key:ddns.example.\"]").start();
    let at = server.address();
    let key = format!("hmac-sha256:ddns.example.:{SECRET}");
    let arguments = ["-t", "30", "-y", &key];
    let lines = "origin dyn.example.\nttl 60\nprereq yxdomain www\nupdate add new A 192.0.2.78";
    let (is_good, words) = run("knsupdate", &arguments, at, lines);
    assert!(is_good, "{words}");
    assert_eq!(
        answered_address(at, "new.dyn.example"),
        Some([192, 0, 2, 78])
    );
    let lines = "origin dyn.example.\nprereq nxrrset new A\nupdate del new A";
    let (_, words) = run("knsupdate", &arguments, at, lines);
    assert!(words.contains("YXRRSET"), "{words}");
}

#[test]
fn dhcp_servers_distinguish_names_by_dhcid() {
    // RFC 4703 section 5.3: a client takes a name that is free, or that it has itself.
    const OWN: &str = "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=";
    const OTHER: &str = "AAEBOSD+XR3Os/0LozeXVqcNc7FwCfQdWL3b/NaiUDlW2No=";
    let server = setup("allow_update = [\"key:ddns.example.\"]").start();
    let lease = "lease.dyn.example.";
    let take = |dhcid: &str, address: &str| {
        let lines = format!(
            "prereq nxdomain {lease}\nupdate add {lease} 600 A {address}\nupdate add {lease} 600 DHCID {dhcid}"
        );
        nsupdate(&server, &lines)
    };
    let renew = |dhcid: &str, address: &str| {
        let lines = format!(
            "prereq yxdomain {lease}\nprereq yxrrset {lease} DHCID {dhcid}\nupdate delete {lease} A\nupdate add {lease} 600 A {address}"
        );
        nsupdate(&server, &lines)
    };
    assert_eq!(take(OWN, "192.0.2.50"), (true, String::new()));
    assert!(take(OTHER, "192.0.2.51").1.contains("YXDOMAIN"));
    assert!(renew(OTHER, "192.0.2.51").1.contains("NXRRSET"));
    assert_eq!(renew(OWN, "192.0.2.52"), (true, String::new()));
    let at = server.address();
    assert_eq!(
        answered_address(at, "lease.dyn.example"),
        Some([192, 0, 2, 52])
    );
    // The lease ends: only the client that has the name removes it.
    let lines = format!("prereq yxrrset {lease} DHCID {OWN}\nupdate delete {lease}");
    assert_eq!(nsupdate(&server, &lines), (true, String::new()));
    assert_eq!(rcode(at, "lease.dyn.example"), NXDOMAIN);
}

#[test]
fn a_zone_accepts_no_updates_unless_configured_and_refusals_give_the_reason() {
    let server = setup("").start();
    let (_, words) = nsupdate(&server, "update add a.dyn.example. 60 A 192.0.2.1");
    assert!(words.contains("REFUSED"), "{words}");
    assert!(server.wait_for_log("allow_update is not set"));
    assert_eq!(counter(&server, "dnsupdate-refused"), 1);
    assert_eq!(rcode(server.address(), "a.dyn.example"), NXDOMAIN);
}

#[test]
fn a_rule_lets_its_key_change_its_names_and_types_and_nothing_else() {
    let rules = "update_policy = [{ key = \"ddns.example.\", subtree = \"sub.dyn.example\", types = [\"A\", \"TXT\"] }]";
    let server = setup(rules).start();
    let at = server.address();
    let good = (true, String::new());
    assert_eq!(
        nsupdate(&server, "update add a.sub.dyn.example. 60 A 192.0.2.1"),
        good
    );
    for refused in [
        "update add a.dyn.example. 60 A 192.0.2.1",
        "update add b.sub.dyn.example. 60 AAAA 2001:db8::1",
        "update delete www.dyn.example.",
        "update add b.sub.dyn.example. 60 A 192.0.2.1\nupdate add c.dyn.example. 60 A 192.0.2.1",
    ] {
        assert!(
            nsupdate(&server, refused).1.contains("REFUSED"),
            "{refused}"
        );
    }
    assert!(server.wait_for_log("not permitted by the update policy"));
    // Another key, and none.
    let other = format!("hmac-sha256:other.example.:{SECRET}");
    let add = "update add d.sub.dyn.example. 60 A 192.0.2.1";
    for arguments in [&["-t", "30", "-y", &other][..], &["-t", "30"]] {
        assert!(run("nsupdate", arguments, at, add).1.contains("REFUSED"));
    }
    assert_eq!(rcode(at, "b.sub.dyn.example"), NXDOMAIN);
}

#[test]
fn an_update_without_durable_storage_fails_and_names_the_missing_setting() {
    let terms = "[[zone]]\nname = \"dyn.example\"\nallow_update = [\"127.0.0.1\"]\n";
    let server = Setup::new().config(terms).zone("dyn.example", ZONE).start();
    let lines = "update add a.dyn.example. 60 A 192.0.2.1";
    let (_, words) = run("nsupdate", &["-t", "30"], server.address(), lines);
    assert!(words.contains("SERVFAIL"), "{words}");
    assert!(server.wait_for_log("set state_directory"));
    assert_eq!(rcode(server.address(), "a.dyn.example"), NXDOMAIN);
}
