//! Secrets in the memory of a running server: current ones are there, past ones are not.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::Command;

use data_encoding::{BASE64, HEXLOWER};
use nameward_testkit::{Setup, TestServer};

use super::ask::zone;

/// Returns whether the memory of a process has these octets.
fn has(pid: u32, octets: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let is_written = |line: &&str| line.contains(" rw");
    maps.lines().filter(is_written).any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        let mut chunk = vec![0; 1 << 20];
        // Chunks overlap, so that a secret at their border is found.
        (start..end).step_by(chunk.len() / 2).any(|at| {
            let len = chunk.len().min((end - at) as usize);
            // Guard pages cannot be read.
            let read = memory.read_at(&mut chunk[..len], at).unwrap_or(0);
            memchr::memmem::find(&chunk[..read], octets).is_some()
        })
    })
}

/// The secrets of one configuration.
struct Secrets {
    tsig: Vec<u8>,
    cookie: Vec<u8>,
}

impl Secrets {
    fn random() -> Self {
        let source = File::open("/dev/urandom").unwrap();
        let random = |len: usize| {
            let mut octets = vec![0; len];
            (&source).read_exact(&mut octets).unwrap();
            octets
        };
        Secrets {
            tsig: random(32),
            cookie: random(16),
        }
    }

    fn config(&self) -> String {
        format!(
            "[cookies]\nsecrets = [\"{}\"]\n[[key]]\nname = \"k.example.\"\nsecret = \"{}\"\n",
            HEXLOWER.encode(&self.cookie),
            BASE64.encode(&self.tsig)
        )
    }

    /// Returns the forms of the secrets that are in memory, by name.
    fn found(&self, pid: u32) -> Vec<&'static str> {
        let forms: [(&str, Vec<u8>); 4] = [
            ("TSIG octets", self.tsig.clone()),
            ("TSIG base64", BASE64.encode(&self.tsig).into_bytes()),
            ("cookie octets", self.cookie.clone()),
            ("cookie digits", HEXLOWER.encode(&self.cookie).into_bytes()),
        ];
        let found = forms.iter().filter(|(_, form)| has(pid, form));
        found.map(|(name, _)| *name).collect()
    }

    /// Uses both secrets.
    fn ask(&self, server: &TestServer) {
        let port = server.address().port().to_string();
        let key = format!("hmac-sha256:k.example.:{}", BASE64.encode(&self.tsig));
        let output = Command::new("dig")
            .args(["@127.0.0.1", "-p", &port, "+tries=1", "-y", &key])
            .args(["www.example.org", "A"])
            .output()
            .expect("dig runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            printed.contains("192.0.2.2") && printed.contains("(good)"),
            "{printed}"
        );
        assert!(!printed.contains("could not be verified"), "{printed}");
    }
}

#[test]
fn secrets_that_were_replaced_are_not_in_memory() {
    let (old, new) = (Secrets::random(), Secrets::random());
    let setup = Setup::new().config(&old.config());
    let server = setup.zone("example.org", &zone("www")).start();
    old.ask(&server);
    let found = old.found(server.pid());
    assert_eq!(found, ["TSIG octets", "cookie octets"], "in use");
    let file = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(&old.config(), &new.config())).unwrap();
    let output = server.command(&["reload"]);
    assert!(output.status.success(), "{output:?}");
    new.ask(&server);
    let mut left = old.found(server.pid());
    // A thread that has nothing to do has the old cookie secret until its next query.
    left.retain(|form| *form != "cookie octets");
    assert_eq!(left, [""; 0], "replaced");
    assert_eq!(new.found(server.pid()), ["TSIG octets", "cookie octets"]);
}
