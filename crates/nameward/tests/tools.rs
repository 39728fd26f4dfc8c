//! The tools people use, against the built-in example: `dig`, `kdig`, `drill` and `delv`.

use nameward_testkit::Setup;
use nameward_testkit::server::binary;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

const ZONE: &str = "demo.example";

/// `nameward serve` without a configuration, on free ports.
struct Example {
    child: Child,
    address: SocketAddr,
    _directory: Setup,
}

impl Example {
    fn start() -> Example {
        let directory = Setup::new();
        let mut child = Command::new(binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"])
            .env("RUNTIME_DIRECTORY", directory.dir())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("nameward can be run");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
        let mut address = None;
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix("listening on ") {
                address = rest
                    .split_whitespace()
                    .next()
                    .and_then(|text| text.parse().ok());
            }
            if line.starts_with("ready") {
                break;
            }
        }
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.expect("the server says where it listens");
        Example {
            child,
            address,
            _directory: directory,
        }
    }

    fn run(&self, tool: &str, arguments: &[&str]) -> String {
        let port = self.address.port().to_string();
        let output = Command::new(tool)
            .args(["-p", &port, "@127.0.0.1"])
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("{tool}: {error}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{tool} {arguments:?}: {text}");
        text
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a line of the output has these words in this order, whatever stands between.
fn has_record(output: &str, words: &[&str]) -> bool {
    output.lines().any(|line| {
        let mut found = line.split_whitespace();
        !line.starts_with(';') && words.iter().all(|word| found.any(|other| other == *word))
    })
}

#[test]
fn dig_reads_answers_over_udp_and_tcp() {
    let example = Example::start();
    for transport in ["+notcp", "+tcp"] {
        let output = example.run("dig", &[transport, &format!("www.{ZONE}"), "A"]);
        assert!(output.contains("status: NOERROR"), "{output}");
        assert!(output.contains("flags: qr aa rd;"), "{output}");
        assert!(
            has_record(
                &output,
                &["www.demo.example.", "3600", "IN", "A", "192.0.2.80"]
            ),
            "{output}"
        );
        assert!(
            has_record(
                &output,
                &["www.demo.example.", "3600", "IN", "A", "192.0.2.81"]
            ),
            "{output}"
        );
        assert!(
            output.contains("EDNS: version: 0, flags:; udp: 1232"),
            "{output}"
        );
        assert!(!output.contains("WARNING: Message has"), "{output}");
    }
}

#[test]
fn dig_reads_every_kind_of_answer() {
    let example = Example::start();
    for (name, rtype, status, words) in [
        (
            "old",
            "A",
            "NOERROR",
            &["web.demo.example.", "CNAME", "www.demo.example."][..],
        ),
        ("nope", "A", "NXDOMAIN", &["demo.example.", "300", "SOA"]),
        (
            "backup.mail",
            "A",
            "NXDOMAIN",
            &["demo.example.", "300", "SOA"],
        ),
        ("backup", "A", "NOERROR", &["demo.example.", "300", "SOA"]),
        (
            "x.wild",
            "A",
            "NOERROR",
            &["x.wild.demo.example.", "A", "192.0.2.100"],
        ),
        (
            "www.tree",
            "A",
            "NOERROR",
            &["www.tree.demo.example.", "CNAME", "www.demo.example."],
        ),
        (
            "a.child",
            "A",
            "NOERROR",
            &["ns.child.demo.example.", "A", "203.0.113.53"],
        ),
        (
            "_sip._udp",
            "SRV",
            "NOERROR",
            &["SRV", "10", "60", "5060", "www.demo.example."],
        ),
        ("host", "SSHFP", "NOERROR", &["SSHFP", "4", "2"]),
        (
            "host",
            "LOC",
            "NOERROR",
            &["LOC", "52", "22", "23.000", "N"],
        ),
        (
            "strange",
            "TYPE65280",
            "NOERROR",
            &["TYPE65280", "\\#", "4", "C0000201"],
        ),
        (
            "pool",
            "A",
            "NOERROR",
            &["pool.demo.example.", "A", "203.0.113.3"],
        ),
    ] {
        let output = example.run("dig", &[&format!("{name}.{ZONE}"), rtype]);
        assert!(
            output.contains(&format!("status: {status}")),
            "{name} {rtype}: {output}"
        );
        assert!(has_record(&output, words), "{name} {rtype}: {output}");
    }
}

#[test]
fn dig_gets_refused_for_foreign_names() {
    let example = Example::start();
    let output = example.run("dig", &["www.example.net", "A"]);
    assert!(output.contains("status: REFUSED"), "{output}");
    assert!(output.contains("EDE: 20"), "{output}");
    let output = example.run("dig", &["version.bind", "TXT", "CH"]);
    assert!(output.contains("Nameward"), "{output}");
}

#[test]
fn kdig_reads_answers_over_udp_and_tcp() {
    let example = Example::start();
    for transport in ["+notcp", "+tcp"] {
        let output = example.run("kdig", &[transport, ZONE, "HTTPS"]);
        assert!(output.contains("status: NOERROR"), "{output}");
        assert!(output.contains("Flags: qr aa"), "{output}");
        assert!(
            has_record(&output, &["demo.example.", "3600", "IN", "HTTPS", "1", "."]),
            "{output}"
        );
    }
    let output = example.run("kdig", &[&format!("nope.{ZONE}"), "A"]);
    assert!(output.contains("status: NXDOMAIN"), "{output}");
}

#[test]
fn drill_reads_answers_over_udp_and_tcp() {
    let example = Example::start();
    for transport in ["-u", "-t"] {
        let output = example.run("drill", &[transport, ZONE, "MX"]);
        assert!(output.contains("rcode: NOERROR"), "{output}");
        assert!(output.contains("flags: qr aa"), "{output}");
        assert!(
            has_record(
                &output,
                &[
                    "demo.example.",
                    "3600",
                    "IN",
                    "MX",
                    "10",
                    "mail.demo.example."
                ]
            ),
            "{output}"
        );
        assert!(
            has_record(
                &output,
                &["mail.demo.example.", "3600", "IN", "A", "192.0.2.25"]
            ),
            "{output}"
        );
    }
    let output = example.run("drill", &[&format!("nope.{ZONE}"), "A"]);
    assert!(output.contains("rcode: NXDOMAIN"), "{output}");
}

#[test]
fn delv_reads_an_unsigned_answer() {
    let example = Example::start();
    let output = example.run("delv", &["+noroot", &format!("www.{ZONE}"), "A"]);
    assert!(
        output.contains("; authoritative") || output.contains("; unsigned answer"),
        "{output}"
    );
    assert!(
        has_record(
            &output,
            &["www.demo.example.", "3600", "IN", "A", "192.0.2.80"]
        ),
        "{output}"
    );
}
