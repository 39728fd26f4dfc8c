//! One migration: files of the other server, its process, the import, our server, and the queries to both.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nameward_testkit::{
    Setup, TestServer,
    differential::{answers::Server, queries::TestQuery},
    peers::{Peer, PeerKind, PeerOptions},
    server::binary,
    wire::{Client, Name, Question, QuestionEdns, Transport, rcode_text, type_from_text},
};
use tempfile::TempDir;

/// The secret of the key `transfer.example.` in all configurations.
const KEY: &str = "hmac-sha256:transfer.example.:bW92aW5nIGluIHdpdGggYSBrZXkhIQ==";

/// A zone with the shapes that servers differ in: a wildcard, a delegation, an alias, an empty non-terminal.
pub fn zone(name: &str) -> String {
    format!(
        "$ORIGIN {name}.\n$TTL 300\n@ SOA ns1 hostmaster 2026111501 3600 600 86400 300\n@ NS ns1\n@ NS ns2\n\
         @ MX 10 mail\n@ TXT \"of {name}\"\nns1 A 192.0.2.1\nns2 AAAA 2001:db8::2\nmail A 192.0.2.3\n\
         www A 192.0.2.4\nwww A 192.0.2.5\nftp CNAME www\n*.wild TXT \"any\"\na.b.c A 192.0.2.6\n\
         child NS ns.child\nns.child A 192.0.2.7\n_sip._udp SRV 1 2 5060 www\n"
    )
}

/// Returns the files of a configuration, and the zone files below `zones/`.
pub fn with_zones(files: &[(&str, &str)], zones: &[&str], ending: &str) -> Vec<(String, String)> {
    let files = files
        .iter()
        .map(|(name, text)| (name.to_string(), text.to_string()));
    let zones = zones
        .iter()
        .map(|name| (format!("zones/{name}{ending}"), zone(name)));
    files.chain(zones).collect()
}

/// Starts the primary of copy.example, which the other server is a secondary of.
pub fn primary_of_copy(kind: PeerKind) -> Option<Peer> {
    kind.require()?;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("copy.zone");
    fs::write(&file, zone("copy.example")).unwrap();
    let options = PeerOptions {
        allow_transfer: true,
        ..PeerOptions::default()
    };
    Some(Peer::start(kind, &[("copy.example", &file)], &options).unwrap())
}

/// A directory with the files of the other server.
pub struct OldServer {
    pub directory: TempDir,
    pub address: SocketAddr,
    _peer: Peer,
}

impl OldServer {
    /// Writes the files, in which `{DIR}`, `{IP}`, `{PORT}` and `{PRIMARY}` are filled in, and starts the server.
    pub fn start(
        kind: PeerKind,
        files: &[(impl AsRef<str>, impl AsRef<str>)],
        zones: &[&str],
        primary: Option<SocketAddr>,
        arguments: impl Fn(&Path) -> Vec<String>,
    ) -> Option<Self> {
        let program = kind.require()?;
        let directory = tempfile::Builder::new()
            .prefix("moving-")
            .tempdir()
            .unwrap();
        // BIND and NSD may run as other users.
        let dir = directory.path().to_path_buf();
        let peer = Peer::launch(zones, &PeerOptions::default(), |_, address| {
            for (name, text) in files {
                let text = filled(text.as_ref(), &dir, address, primary);
                let path = dir.join(name.as_ref());
                fs::create_dir_all(path.parent().unwrap())?;
                fs::write(path, text)?;
            }
            let mut command = Command::new(&program);
            command.args(arguments(&dir));
            Ok(command)
        });
        let peer = peer.unwrap_or_else(|error| panic!("{kind}: {error}"));
        Some(Self {
            address: peer.addr(),
            directory,
            _peer: peer,
        })
    }

    /// Runs `nameward import`.
    pub fn import(&self, kind: &str, file: &str, more: &[&str]) -> Output {
        Command::new(binary())
            .args(["import", kind])
            .arg(self.directory.path().join(file))
            .args(more)
            .output()
            .unwrap()
    }

    /// Returns the report without the directory, ports and addresses of this run.
    pub fn report(&self, output: &Output, primary: Option<SocketAddr>) -> String {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        let text = String::from_utf8(text).unwrap();
        let text = text.replace(&self.directory.path().display().to_string(), "DIR");
        let text = text.replace(&format!(":{}", self.address.port()), ":PORT");
        // Serials depend on how often the other server has signed, and the labels of Knot on chance.
        let text = masked(&text, "is an unsigned copy, serial ", "SERIAL");
        let text = masked(&text, "catalog_label = \"", "LABEL");
        match primary {
            Some(primary) => text.replace(&format!(":{}", primary.port()), ":PRIMARY"),
            None => text,
        }
    }

    /// Imports and starts our server on the result.
    pub fn move_in(&self, kind: &str, file: &str) -> TestServer {
        let setup = Setup::new().without_web();
        let out = setup.dir().to_path_buf();
        let state = out.join("state");
        let output = self.import(
            kind,
            file,
            &[
                "--out",
                out.to_str().unwrap(),
                "--state-directory",
                state.to_str().unwrap(),
            ],
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let toml = out.join("nameward.toml");
        let text = fs::read_to_string(&toml).unwrap_or_else(|error| panic!("{error}: {said}"));
        let checked = Command::new(binary())
            .args(["check", "--config"])
            .arg(&toml)
            .output()
            .unwrap();
        let said = [checked.stdout, checked.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(checked.status.success(), "{said}\n{text}");
        setup.config(&text).start()
    }
}

/// Replaces the letters and digits that follow some text by a placeholder.
fn masked(text: &str, before: &str, word: &str) -> String {
    let mut parts = text.split(before);
    let mut masked = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        masked.push_str(&format!("{before}{word}{rest}"));
    }
    masked
}

fn filled(text: &str, dir: &Path, address: SocketAddr, primary: Option<SocketAddr>) -> String {
    let text = text
        .replace("{DIR}", &dir.display().to_string())
        .replace("{IP}", &address.ip().to_string())
        .replace("{PORT}", &address.port().to_string());
    match primary {
        Some(primary) => text.replace("{PRIMARY}", &primary.port().to_string()),
        None => text,
    }
}

/// The output of `nameward import KIND --dry-run` for a configuration of one file, `x.conf` in an empty directory.
pub fn dry_run(kind: &str, conf: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.conf");
    fs::write(
        &file,
        conf.replace("{DIR}", &dir.path().display().to_string()),
    )
    .unwrap();
    let output = Command::new(binary())
        .args(["import", kind, "--dry-run"])
        .arg(&file)
        .output()
        .unwrap();
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, 1, "a dry run writes nothing");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Asserts that a report contains each of these lines or fragments.
pub fn assert_lines(report: &str, lines: &[&str]) {
    for line in lines {
        assert!(report.contains(line), "no line {line:?} in\n{report}");
    }
}

/// Compares a report with the stored one; `UPDATE_REPORTS=1` rewrites it.
pub fn assert_report(name: &str, report: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/moving/conf")
        .join(name);
    if std::env::var_os("UPDATE_REPORTS").is_some() {
        fs::write(&path, report).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(report, kept, "{}", path.display());
}

/// Asks both servers everything about the zones; the answers must be the same but for additional data.
pub fn compare(old: SocketAddr, new: SocketAddr, zones: &[&str]) {
    let mut servers = [("old", old), ("new", new)]
        .map(|(name, address)| Server::connect(name, address, zones).unwrap());
    let names = [
        "",
        "www.",
        "ftp.",
        "mail.",
        "ns1.",
        "x.wild.",
        "b.c.",
        "a.b.c.",
        "nothing.",
        "child.",
        "x.child.",
        "_sip._udp.",
        "WwW.",
    ];
    let mut asked = 0;
    for zone in zones {
        for name in names {
            for rtype in ["A", "AAAA", "MX", "TXT", "NS", "SOA", "SRV", "CNAME"] {
                let ask = TestQuery {
                    question: Question {
                        name: Name::parse(&format!("{name}{zone}.")).unwrap(),
                        rtype: type_from_text(rtype).unwrap(),
                        class: 1,
                    },
                    edns: QuestionEdns::Plain,
                    zone: Some((*zone).into()),
                };
                let [before, after] = servers.each_mut().map(|server| server.ask(&ask).unwrap());
                assert!(
                    before.same(&after),
                    "{ask}\nbefore: {before}\nafter: {after}"
                );
                asked += 1;
            }
        }
    }
    println!("{asked} questions, the same answers");
}

/// The response code that a client at `source` gets.
pub fn rcode(server: SocketAddr, source: &str, name: &str, rtype: &str) -> String {
    let reply = Client::new(source, server).ask(Transport::Udp, name, rtype);
    rcode_text(reply.rcode()).to_string()
}

/// Waits until a secondary zone is transferred; a server with a quiet log does not report it.
pub fn wait_for(server: SocketAddr, zone: &str) {
    let start = std::time::Instant::now();
    while rcode(server, "127.0.0.1", zone, "SOA") != "NOERROR" {
        assert!(start.elapsed().as_secs() < 60, "{zone} is never filled");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The records of a transfer, sorted, or none; signed with the key if one is given.
pub fn transfer(server: SocketAddr, zone: &str, is_signed: bool) -> Vec<String> {
    let mut command = Command::new("dig");
    command
        .args(["+noall", "+answer", "+onesoa", "+tries=1", "+time=30"])
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()]);
    if is_signed {
        command.args(["-y", KEY]);
    }
    let output = command.args([zone, "AXFR"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with(';'));
    let mut lines: Vec<String> = lines
        .filter(|line| !line.contains("TSIG"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect();
    lines.sort();
    lines
}

/// Compares the transfers of one.example, which both servers permit with the key only.
pub fn compare_transfers(before: SocketAddr, after: SocketAddr) {
    let signed = transfer(before, "one.example", true);
    assert!(signed.len() > 10, "{signed:?}");
    assert_eq!(transfer(after, "one.example", true), signed);
    for server in [before, after] {
        assert_eq!(transfer(server, "one.example", false), Vec::<String>::new());
    }
}
