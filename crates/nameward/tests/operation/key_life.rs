//! Keys that live by a policy: a server with a real parent, whose DS follows CDS, through a rollover of all keys, kill -9
//! in the middle of it, and the way to insecure. BIND's validator says secure throughout.

mod long;

use std::{fs, net::SocketAddr, path::Path, process::Command, thread, time::Duration};

use nameward_testkit::{
    Setup, TestServer,
    peers::{Peer, PeerKind, PeerOptions},
};

use super::ask::eventually;

const ZONE: &str = "$TTL 1\n@ SOA ns1 hostmaster 10 3600 600 86400 1\n@ NS ns1\nns1 A 192.0.2.1\nmail A 192.0.2.2\n";
/// All delays are as short as they can be.
const POLICY: &str = "[[dnssec_policy]]\nname = \"quick\"\nkeys = \"ksk+zsk\"\nzsk_lifetime = 0\ndnskey_ttl = 1\n\
    zone_ttl_max = 1\npropagation_delay = 0\nparent_ds_ttl = 1\nparent_propagation_delay = 0\n\
    parent_registration_delay = 0\nsafety_margin = 0\npurge_after = 0\nparent_interval = 1\n";

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output
        .unwrap_or_else(|error| panic!("{program}: {error}; install bind9-dnsutils, bind9-utils"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    text.into_owned()
}

fn done(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {text}\n{}",
        server.log()
    );
    text.into_owned()
}

/// The records of a type, in order; fails if the server does not answer.
fn records(at: SocketAddr, name: &str, rtype: &str) -> Vec<String> {
    let (ip, port) = (format!("@{}", at.ip()), at.port().to_string());
    let arguments = [&ip, "-p", &port, "+short", "+norec", name, rtype];
    let text = run("dig", &arguments);
    assert!(!text.contains(";;"), "{name} {rtype}: {text}");
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

/// A parent zone at BIND, with a DS RRset that follows CDS.
struct Parent {
    peer: Peer,
    file: std::path::PathBuf,
    serial: u32,
}

impl Parent {
    fn start(home: &Path) -> Self {
        let file = home.join("test.zone");
        fs::write(&file, Self::text(1, &[])).unwrap();
        let options = PeerOptions::default();
        let peer = Peer::start(PeerKind::Bind, &[("test", &file)], &options).unwrap();
        Parent {
            peer,
            file,
            serial: 1,
        }
    }

    fn text(serial: u32, ds: &[String]) -> String {
        let mut text = format!(
            "$TTL 1\n@ SOA ns1 hostmaster {serial} 3600 600 86400 1\n@ NS ns1\nns1 A 192.0.2.9\n\
             one NS ns1.one\nns1.one A 192.0.2.1\n"
        );
        ds.iter()
            .for_each(|ds| text.push_str(&format!("one DS {ds}\n")));
        text
    }

    fn ds(&self) -> Vec<String> {
        records(self.peer.addr(), "one.test", "DS")
    }

    /// Applies CDS at the parent (RFC 7344 section 6.2, RFC 8078 section 4).
    fn follow(&mut self, server: SocketAddr) {
        let wanted = match records(server, "one.test", "CDS") {
            cds if cds.is_empty() => return,
            cds if cds[0].starts_with("0 0 0 ") => Vec::new(),
            cds => cds,
        };
        if self.ds() == wanted {
            return;
        }
        self.serial += 1;
        fs::write(&self.file, Self::text(self.serial, &wanted)).unwrap();
        self.peer.signal("HUP").unwrap();
        let there = eventually(|| self.ds(), |there| *there == wanted);
        assert_eq!(there, wanted, "{}", self.peer.log_tail());
    }
}

struct Chain {
    home: tempfile::TempDir,
    parent: Parent,
    /// Further lines of the policy.
    policy: &'static str,
}

impl Chain {
    fn server(&self, policy: &str) -> TestServer {
        let (state, file) = (
            self.home.path().join("state"),
            self.home.path().join("one.zone"),
        );
        fs::write(&file, ZONE).unwrap();
        let config = format!(
            "[server]\nstate_directory = {state:?}\n{POLICY}{}parent_servers = \"{}\"\n[[zone]]\nname = \"one.test\"\n\
             file = {file:?}\nallow_transfer = [\"127.0.0.1\"]\n{policy}",
            self.policy,
            self.parent.peer.addr()
        );
        Setup::new().without_web().config(&config).start()
    }

    /// One check of everything: the parent acts, and the zone validates.
    fn look(&mut self, server: &TestServer) {
        self.parent.follow(server.address());
        self.validate(server);
    }

    /// The zone validates by the DS that the parent has; false if keys changed during the check, which then shows nothing: the
    /// commands may be slower than the TTLs of this test.
    fn validate(&mut self, server: &TestServer) -> bool {
        let at = server.address();
        let state = |chain: &Self| (chain.parent.ds(), records(at, "one.test", "DNSKEY"));
        let before = state(self);
        if before.0.is_empty() {
            return false;
        }
        let said = self.delv(at, &before.0);
        let is_same = state(self) == before;
        if is_same {
            assert!(
                said.contains("; fully validated"),
                "{said}\n{before:?}\n{}",
                server.log()
            );
        }
        is_same
    }

    /// Has the zone validated while nothing moves: no key waits for anything but the parent.
    fn validate_at_rest(&mut self, server: &TestServer) {
        assert!(eventually(|| self.validate(server), |is_known| *is_known));
    }

    fn delv(&self, at: SocketAddr, ds: &[String]) -> String {
        let anchor = self.home.path().join("anchor");
        let mut text = String::from("trust-anchors {\n");
        for ds in ds {
            let words: Vec<&str> = ds.split(' ').collect();
            let (head, digest) = (words[..3].join(" "), words[3..].concat());
            text.push_str(&format!("\"one.test\" static-ds {head} \"{digest}\";\n"));
        }
        fs::write(&anchor, text + "};\n").unwrap();
        let (ip, port) = (format!("@{}", at.ip()), at.port().to_string());
        let anchor = anchor.to_str().unwrap();
        let question = ["-a", anchor, "+root=one.test", "mail.one.test", "A"];
        run(
            "delv",
            &[&[ip.as_str(), "-p", &port], &question[..]].concat(),
        )
    }

    /// Checks until the keys are as wanted.
    fn look_until(&mut self, server: &TestServer, wanted: impl Fn(&[String], &[String]) -> bool) {
        for _ in 0..600 {
            self.look(server);
            let (ds, keys) = (
                self.parent.ds(),
                records(server.address(), "one.test", "DNSKEY"),
            );
            if wanted(&ds, &keys) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let status = done(server, &["zone", "status", "one.test"]);
        panic!("the keys never came so far: {status}\n{}", server.log());
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn all_keys_roll_with_a_real_parent_through_kill_9_and_the_zone_goes_insecure_in_order() {
    let home = tempfile::tempdir().unwrap();
    let parent = Parent::start(home.path());
    let mut chain = Chain {
        home,
        parent,
        policy: "",
    };
    let with_policy = "dnssec_policy = \"quick\"\n";
    let server = chain.server(with_policy);
    chain.look_until(&server, |ds, keys| ds.len() == 1 && keys.len() == 2);
    // Established: no step is waited for.
    let is_settled = |server: &TestServer| {
        let status = done(server, &["zone", "status", "one.test"]);
        (!status.contains("next: "), status)
    };
    let (settled, status) = eventually(|| is_settled(&server), |(settled, _)| *settled);
    assert!(
        settled && status.contains("signed by policy quick"),
        "{status}"
    );
    chain.validate_at_rest(&server);
    let first_ds = chain.parent.ds();
    let first_keys = records(server.address(), "one.test", "DNSKEY");
    let refused = server.command(&["key", "add", "one.test"]);
    assert_eq!(
        refused.status.code(),
        Some(7),
        "a policy looks after the keys"
    );
    let printed = done(&server, &["key", "rollover", "one.test"]);
    assert!(
        printed.contains("published") && printed.contains("next: "),
        "{printed}"
    );
    // The parent does nothing: the new zone-signing key takes over, the key-signing keys are both there and wait.
    let at_rest = |at| {
        let keys = records(at, "one.test", "DNSKEY");
        let kept = keys.iter().filter(|key| first_keys.contains(key)).count();
        let cds = records(at, "one.test", "CDS");
        keys.len() == 3 && kept == 1 && cds.len() == 1 && cds != first_ds
    };
    let at = server.address();
    assert!(
        eventually(|| at_rest(at), |is_at_rest| *is_at_rest),
        "{}",
        server.log()
    );
    chain.validate_at_rest(&server);
    let listed = done(&server, &["key", "list", "one.test"]);
    assert!(
        listed.contains(" ksk ECDSAP256SHA256 active, ready"),
        "{listed}"
    );
    server.signal("KILL");
    assert!(!server.wait().success());

    let server = chain.server(with_policy);
    assert!(at_rest(server.address()), "{}", server.log());
    let listed = done(&server, &["key", "list", "one.test"]);
    assert!(
        listed.contains(" ksk ECDSAP256SHA256 active, ready"),
        "{listed}"
    );
    chain.validate_at_rest(&server);
    let is_new = |ds: &[String], keys: &[String]| {
        ds.len() == 1
            && ds != first_ds
            && keys.len() == 2
            && !keys.iter().any(|key| first_keys.contains(key))
    };
    chain.look_until(&server, is_new);
    chain.validate_at_rest(&server);
    assert!(server.stop().success());

    // Without its policy it stays signed as long as the parent has the DS.
    let server = chain.server("");
    let at = server.address();
    let cds = eventually(
        || records(at, "one.test", "CDS"),
        |cds| cds.first().is_some_and(|cds| cds.starts_with("0 0 0 ")),
    );
    assert_eq!(cds, ["0 0 0 00"], "{}", server.log());
    chain.validate_at_rest(&server);
    chain.look_until(&server, |ds, keys| ds.is_empty() && keys.is_empty());
    assert!(server.wait_for_log("no longer signed"), "{}", server.log());
    assert!(records(at, "one.test", "CDS").is_empty());
}

#[test]
fn an_invalid_policy_is_an_error_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("nameward.toml");
    let check = |text: &str| {
        fs::write(&config, text).unwrap();
        let arguments = ["check", "--config", config.to_str().unwrap()];
        let output = Command::new(nameward_testkit::server::binary())
            .args(arguments)
            .output();
        let output = output.unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), said.into_owned())
    };
    for (text, expected) in [
        (
            "[zone_defaults]\ndnssec_policy = \"strict\"\n",
            "unknown [[dnssec_policy]] \"strict\"",
        ),
        (
            "[[dnssec_policy]]\nname = \"strong\"\n[zone_defaults]\ndnssec_policy = \"strnog\"\n",
            "did you mean \"strong\"?",
        ),
        (
            "[[dnssec_policy]]\nname = \"a\"\n[[dnssec_policy]]\nname = \"a\"\n",
            "duplicate dnssec_policy \"a\"",
        ),
        ("[[dnssec_policy]]\nname = \"none\"\n", "a name other than"),
        (
            "[[dnssec_policy]]\nname = \"a\"\nalgorithm = 5\n",
            "algorithm: expected an algorithm",
        ),
        (
            "[[dnssec_policy]]\nname = \"a\"\nrsa_bits = 1024\n",
            "expected 2048, 3072 or 4096",
        ),
        (
            "[[dnssec_policy]]\nname = \"a\"\nsignature_refresh = 1300000\n",
            "shorter than",
        ),
        (
            "[[dnssec_policy]]\nname = \"a\"\nsignature_jitter = 604000\n",
            "would expire",
        ),
        (
            "[[dnssec_policy]]\nname = \"a\"\n\nksk_rollover = \"double-ds\"\n",
            "nameward.toml:4:16: ksk_rollover = \"double-ds\" needs keys",
        ),
        (
            "[[dnssec_policy]]\nname = \"a\"\nksk_rollover = \"double-rrset\"\n",
            "expected \"double-signature\" or \"double-ds\"",
        ),
    ] {
        let (is_good, said) = check(text);
        assert!(!is_good && said.contains(expected), "{text}: {said}");
    }
    let (is_good, said) = check(
        "[[dnssec_policy]]\nname = \"a\"\nalgorithm = 15\n[[dnssec_policy]]\nname = \"b\"\nalgorithm = \"RSASHA256\"\n\
         keys = \"ksk+zsk\"\n[zone_defaults]\ndnssec_policy = \"a\"\n[[template]]\nname = \"t\"\ndnssec_policy = \"none\"\n",
    );
    assert!(is_good, "{said}");
}
