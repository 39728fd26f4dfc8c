//! Debian's unbound as a validating resolver in front of zones that are signed here, with `aggressive-nsec`: answers of every
//! way to deny names are secure, and those of a key that is not the trusted one are refused.

use std::{fs, path::Path, process::Command};

use nameward_testkit::peers::{Peer, PeerOptions};
use nameward_testkit::{Setup, TestServer, require};

use super::secure::{dig, done};

/// The ways to deny names, each with a zone `WAY.example`.
const WAYS: [&str; 5] = ["nsec", "nsec3", "nsec3-opt-out", "white-lies", "compact"];
/// The zone that unbound trusts another key for.
const BROKEN: &str = "broken.example";
/// A name that unbound has by itself: it answers when it is ready.
const READY: &str = "ready.validator";

fn zone_text() -> String {
    let long = "z".repeat(63);
    format!(
        "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.2\n\
         alias CNAME www\n*.wild TXT \"any\"\ndeep.er.names A 192.0.2.3\n\\000 TXT \"zero\"\n\\255 TXT \"last\"\n\
         {long} A 192.0.2.4\nbelow.{long} A 192.0.2.5\n\\000.below.www TXT \"zero\"\nchild NS ns.child\n\
         ns.child A 127.0.0.1\nsigned NS ns.elsewhere.\n\
         signed DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000001\n"
    )
}

const CHILD: &str =
    "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.9\n";

/// The expected status of a query in unbound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// There is an answer, and it is secure.
    Secure,
    /// The same, and the proof has the next closer name covered: with Opt-Out it is insecure (RFC 5155 section 9.2).
    Covered,
    /// The name does not exist. Compact denial proves that it has no such type (RFC 9824).
    Absent,
    /// An answer from below a delegation without DS.
    Insecure,
}

/// Questions with labels before the name of the zone. Names that do not exist go first: records that deny them must not deny
/// what is asked for later.
fn questions() -> Vec<(String, &'static str, Verdict)> {
    let long = "z".repeat(63);
    let before = format!("{}y", "z".repeat(62));
    let questions = [
        ("no.", "A", Verdict::Absent),
        ("\\001.", "A", Verdict::Absent),
        ("\\000\\000.", "A", Verdict::Absent),
        ("\\255\\255.", "A", Verdict::Absent),
        ("\\254.", "A", Verdict::Absent),
        ("no.er.names.", "A", Verdict::Absent),
        ("\\255.below.www.", "A", Verdict::Absent),
        ("BEFORE.", "A", Verdict::Absent),
        ("zz.LONG.", "A", Verdict::Absent),
        ("LONG.LONG.LONG.", "A", Verdict::Absent),
        ("", "SOA", Verdict::Secure),
        ("", "DNSKEY", Verdict::Secure),
        ("www.", "A", Verdict::Secure),
        ("WWW.", "AAAA", Verdict::Secure),
        ("alias.", "A", Verdict::Secure),
        ("alias.", "MX", Verdict::Secure),
        ("x.wild.", "TXT", Verdict::Covered),
        ("x.y.wild.", "TXT", Verdict::Covered),
        ("x.wild.", "A", Verdict::Covered),
        ("\\000.wild.", "A", Verdict::Covered),
        ("*.wild.", "TXT", Verdict::Secure),
        ("wild.", "A", Verdict::Secure),
        ("er.names.", "A", Verdict::Secure),
        ("names.", "TXT", Verdict::Secure),
        ("deep.er.names.", "A", Verdict::Secure),
        ("\\000.", "TXT", Verdict::Secure),
        ("\\000.", "A", Verdict::Secure),
        ("\\255.", "TXT", Verdict::Secure),
        ("\\255.", "A", Verdict::Secure),
        ("\\000.below.www.", "TXT", Verdict::Secure),
        ("below.www.", "A", Verdict::Secure),
        ("LONG.", "A", Verdict::Secure),
        ("LONG.", "MX", Verdict::Secure),
        ("below.LONG.", "A", Verdict::Secure),
        ("signed.", "DS", Verdict::Secure),
        ("child.", "DS", Verdict::Covered),
        ("www.child.", "A", Verdict::Insecure),
        ("no.child.", "A", Verdict::Insecure),
    ];
    let spelt = |labels: &str| labels.replace("LONG", &long).replace("BEFORE", &before);
    let spelt = questions.map(|(labels, rtype, verdict)| (spelt(labels), rtype, verdict));
    spelt.into()
}

/// The DS of a zone with SHA-256, as `nameward zone ds` prints it.
fn ds(server: &TestServer, zone: &str) -> String {
    let printed = done(server, &["zone", "ds", zone]);
    let mut lines = printed.lines().filter(|line| line.contains(" IN DS "));
    let found = lines.next().unwrap_or_else(|| panic!("no DS in {printed}"));
    found.to_string()
}

/// Starts unbound with the zones as stubs; `anchors` are lines of DS records.
fn start_unbound(server: &TestServer, zones: &[String], anchors: &[String]) -> Option<Peer> {
    let program = ["/usr/sbin/unbound", "/usr/local/sbin/unbound"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    let program = require(program, "unbound")?;
    let authority = server.address();
    let peer = Peer::launch(&[READY], &PeerOptions::default(), |directory, address| {
        let (ip, port) = (address.ip(), address.port());
        let mut config = format!(
            "server:\n interface: {ip}@{port}\n port: {port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n \
             pidfile: \"\"\n directory: \".\"\n use-syslog: no\n num-threads: 1\n do-ip6: no\n verbosity: 1\n val-log-level: 2\n \
             access-control: 127.0.0.0/8 allow\n do-not-query-localhost: no\n module-config: \"validator iterator\"\n \
             aggressive-nsec: yes\n qname-minimisation: yes\n trust-anchor-signaling: no\n root-key-sentinel: no\n \
             local-zone: \".\" static\n \
             local-zone: \"{READY}.\" static\n local-data: \"{READY}. 60 IN SOA a. b. 1 60 60 60 60\"\n"
        );
        for zone in zones {
            config += &format!(" local-zone: \"{zone}.\" transparent\n");
        }
        for anchor in anchors {
            config += &format!(" trust-anchor: \"{anchor}\"\n");
        }
        config += "remote-control:\n control-enable: no\n";
        for zone in zones {
            let (ip, port) = (authority.ip(), authority.port());
            config += &format!("stub-zone:\n name: \"{zone}.\"\n stub-addr: {ip}@{port}\n");
        }
        fs::write(directory.join("unbound.conf"), config)?;
        let mut command = Command::new(program);
        command.args(["-d", "-c", "unbound.conf"]);
        Ok(command)
    });
    Some(peer.expect("unbound starts"))
}

/// The response code and whether AD is set.
fn judged(unbound: &Peer, name: &str, rtype: &str) -> (String, bool, String) {
    let question = ["+timeout=30", "+tries=2", "+adflag", name, rtype];
    let said = dig(unbound.addr(), &question);
    let status = said.split("status: ").nth(1).unwrap_or_default();
    let status = status.split(',').next().unwrap_or_default().to_string();
    let flags = said.split(";; flags: ").nth(1).unwrap_or_default();
    let flags = flags.split(';').next().unwrap_or_default();
    let is_secure = flags.split(' ').any(|flag| flag == "ad");
    (status, is_secure, said)
}

fn setup() -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    let mut setup = setup.config(&format!("[server]\nstate_directory = {state:?}\n"));
    for way in WAYS {
        setup = setup
            .zone(&format!("{way}.example"), &zone_text())
            .zone(&format!("child.{way}.example"), CHILD);
    }
    setup.zone(BROKEN, &zone_text()).start()
}

#[test]
fn unbound_validates_answers_with_every_denial_method_and_rejects_those_of_another_key() {
    let server = setup();
    let (mut zones, mut anchors) = (vec![BROKEN.to_string()], Vec::new());
    for way in WAYS {
        let zone = format!("{way}.example");
        done(&server, &["zone", "secure", &zone, "--denial", way]);
        anchors.push(ds(&server, &zone));
        zones.extend([format!("child.{zone}"), zone]);
    }
    done(&server, &["zone", "secure", BROKEN]);
    // The digest of an unknown key.
    let mut anchor = ds(&server, BROKEN);
    let last = anchor.pop();
    anchor.push(if last == Some('0') { '1' } else { '0' });
    anchors.push(anchor);
    let Some(unbound) = start_unbound(&server, &zones, &anchors) else {
        return;
    };
    for way in WAYS {
        check_way(&unbound, way);
    }
    for (labels, rtype) in [("www.", "A"), ("www.", "AAAA"), ("no.", "A"), ("", "SOA")] {
        let (status, is_secure, said) = judged(&unbound, &format!("{labels}{BROKEN}"), rtype);
        assert_eq!((&status[..], is_secure), ("SERVFAIL", false), "{said}");
    }
}

/// Twice, so that answers out of unbound's cache count, too.
fn check_way(unbound: &Peer, way: &str) {
    for _ in 0..2 {
        for (labels, rtype, verdict) in questions() {
            let name = format!("{labels}{way}.example");
            let (status, is_secure, said) = judged(unbound, &name, rtype);
            let context = format!("{name} {rtype}: {said}\n{}", unbound.log_tail());
            let is_absent = match verdict {
                Verdict::Absent => way != "compact",
                Verdict::Insecure => labels.starts_with("no."),
                Verdict::Secure | Verdict::Covered => false,
            };
            let expected = if is_absent { "NXDOMAIN" } else { "NOERROR" };
            assert_eq!(status, expected, "{context}");
            let expected = match verdict {
                Verdict::Secure => true,
                Verdict::Covered | Verdict::Absent => way != "nsec3-opt-out",
                Verdict::Insecure => false,
            };
            assert_eq!(is_secure, expected, "{context}");
        }
    }
}
