//! Moves back: zones of our server, exported, loaded by the real BIND, NSD, Knot and PowerDNS with the commands of
//! docs/moving-in.md; answers, keys and transfers are compared.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use nameward_testkit::{
    Setup, TestServer,
    peers::{Peer, PeerConfig, PeerKind, PeerOptions},
    wait_until,
};
use tempfile::TempDir;

use super::{
    moved::{compare, transfer, zone},
    signed::{compare_signed, serial, wait_for_signatures},
};

const ZONES: [&str; 2] = ["one.example", "two.example"];

/// Our server with two zones, of which one took an update, and two that are signed here.
struct Export {
    server: TestServer,
    home: TempDir,
}

impl Export {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut config = format!(
            "[server]\nstate_directory = {:?}\n[[key]]\nname = \"transfer.example\"\nsecret = \"bW92aW5nIGluIHdpdGggYSBrZXkhIQ==\"\n\
             [[dnssec_policy]]\nname = \"split\"\nkeys = \"ksk+zsk\"\ndenial = \"nsec3\"\n",
            home.path().join("state")
        );
        let kinds = [
            (
                "one.example",
                "allow_transfer = [\"127.0.0.0/8 key:transfer.example.\"]\n",
            ),
            ("two.example", "allow_update = [\"127.0.0.1\"]\n"),
            ("signed.example", "dnssec_policy = \"split\"\n"),
            ("combined.example", ""),
        ];
        for (name, more) in kinds {
            let file = home.path().join(format!("{name}.zone"));
            fs::write(&file, zone(name)).unwrap();
            config.push_str(&format!(
                "[[zone]]\nname = {name:?}\nfile = {file:?}\n{more}"
            ));
        }
        let server = Setup::new().without_web().config(&config).start();
        let export = Export { server, home };
        export.run(&["zone", "secure", "combined.example"]);
        export.run(&[
            "record",
            "set",
            "two.example",
            "new",
            "A",
            "300",
            "192.0.2.77",
        ]);
        wait_for_signatures(export.address(), "signed.example");
        export
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Runs a command of ours on the running server.
    fn run(&self, arguments: &[&str]) -> String {
        let (is_good, text) = self.try_run(arguments);
        assert!(is_good, "{arguments:?}: {text}");
        text
    }

    fn try_run(&self, arguments: &[&str]) -> (bool, String) {
        let config = self.server.dir().join("nameward.toml");
        let config = ["--config", config.to_str().unwrap()];
        let output = self.server.command(&[arguments, &config].concat());
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.success(), text)
    }

    /// Exports for another server; returns the directory and what was printed.
    fn export(&self, kind: &str) -> (PathBuf, String) {
        let out = self.home.path().join(format!("export-{kind}"));
        let (_, text) = self.try_run(&["export", kind, "--out", out.to_str().unwrap()]);
        assert!(text.contains("exported 4 zones to"), "{text}");
        (out, text)
    }
}

/// Starts another server on the export; it may be started again on another port.
fn start(kind: PeerKind, command: impl Fn(&Path, SocketAddr) -> std::io::Result<Command>) -> Peer {
    let peer = Peer::launch(&ZONES, &PeerOptions::default(), |dir, address| {
        command(dir, address)
    });
    peer.unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// Runs a script of the export.
fn script(path: &Path, arguments: &[&str]) {
    let output = Command::new("sh")
        .arg(path)
        .args(arguments)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{}: {text}", path.display());
}

/// Compares everything: contents, the update, keys and signatures; serials do not go back.
fn compare_all(ours: SocketAddr, theirs: SocketAddr) {
    compare(ours, theirs, &ZONES);
    for name in ["signed.example", "combined.example"] {
        compare_signed(ours, theirs, name);
    }
    let updated = |server| transfer_line(server, "new.two.example");
    assert_eq!(updated(theirs), "192.0.2.77");
    assert_eq!(serial(ours, "two.example"), serial(theirs, "two.example"));
}

fn transfer_line(server: SocketAddr, name: &str) -> String {
    let output = Command::new("dig")
        .args([
            "+short",
            "+tries=1",
            "+time=30",
            &format!("@{}", server.ip()),
        ])
        .args(["-p", &server.port().to_string(), name, "A"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

#[test]
fn bind_takes_the_zones_over_with_their_keys() {
    let Some(program) = PeerKind::Bind.require() else {
        return;
    };
    let ours = Export::new();
    let (out, text) = ours.export("bind");
    assert!(!text.contains("warning"), "{text}");
    let bind = start(PeerKind::Bind, |dir, address| {
        let config = PeerConfig {
            main: "recursion no; dnssec-validation no; notify no; minimal-responses no; zero-no-soa-ttl no;\n\
                   rrset-order { order none; };\n",
            rest: &format!("include \"{}/named.conf.nameward\";\n", out.display()),
            ..PeerConfig::default()
        };
        let command = PeerKind::Bind.prepare(&program, dir, address, &config)?;
        let file = PeerKind::Bind.config_file(dir);
        let checked = Command::new("named-checkconf").arg(&file).output()?;
        assert!(checked.status.success(), "{checked:?}");
        Ok(command)
    });
    compare_all(ours.address(), bind.addr());
    let signed = transfer(ours.address(), "one.example", true);
    assert!(signed.len() > 10, "{signed:?}");
    assert_eq!(transfer(bind.addr(), "one.example", true), signed);
    assert!(transfer(bind.addr(), "one.example", false).is_empty());
}

#[test]
fn knot_takes_the_zones_over_with_their_keys() {
    let Some(program) = PeerKind::Knot.require() else {
        return;
    };
    let ours = Export::new();
    let (out, text) = ours.export("knot");
    assert!(!text.contains("warning"), "{text}");
    let knot = start(PeerKind::Knot, |dir, address| {
        let config = PeerConfig {
            rest: &format!("include: {}/knot.conf.nameward\n", out.display()),
            ..PeerConfig::default()
        };
        let command = PeerKind::Knot.prepare(&program, dir, address, &config)?;
        let file = PeerKind::Knot.config_file(dir);
        script(&out.join("import-keys"), &[file.to_str().unwrap()]);
        Ok(command)
    });
    compare_all(ours.address(), knot.addr());
    let signed = transfer(ours.address(), "one.example", true);
    assert_eq!(transfer(knot.addr(), "one.example", true), signed);
    assert!(transfer(knot.addr(), "one.example", false).is_empty());
}

#[test]
fn nsd_serves_the_zones_that_the_script_signs() {
    let Some(program) = PeerKind::Nsd.require() else {
        return;
    };
    let ours = Export::new();
    let (out, text) = ours.export("nsd");
    assert!(
        text.contains("zone signed.example.: NSD does not sign: run sign-zones regularly"),
        "{text}"
    );
    assert!(
        text.contains("zone two.example.: NSD does not support dynamic updates"),
        "{text}"
    );
    script(&out.join("sign-zones"), &[]);
    let nsd = start(PeerKind::Nsd, |dir, address| {
        let config = PeerConfig {
            main: "    minimal-responses: no\n",
            rest: &format!("include: \"{}/nsd.conf.nameward\"\n", out.display()),
            ..PeerConfig::default()
        };
        PeerKind::Nsd.prepare(&program, dir, address, &config)
    });
    compare_all(ours.address(), nsd.addr());
    let signed = transfer(ours.address(), "one.example", true);
    assert_eq!(transfer(nsd.addr(), "one.example", true), signed);
    assert!(transfer(nsd.addr(), "one.example", false).is_empty());
}

#[test]
fn powerdns_takes_the_zones_over_with_their_keys() {
    let Some(program) = PeerKind::PowerDns.require() else {
        return;
    };
    let ours = Export::new();
    let (out, text) = ours.export("pdns");
    // A network and a key together cannot be expressed.
    assert!(
        text.contains("zone one.example.: access list with exclusions"),
        "{text}"
    );
    let pdns = start(PeerKind::PowerDns, |dir, address| {
        let database = dir.join("pdns.sqlite3");
        let config = PeerConfig {
            main: &format!(
                "launch=gsqlite3\ngsqlite3-database={}\ngsqlite3-dnssec\nsetuid=0\ndistributor-threads=1\n",
                database.display()
            ),
            ..PeerConfig::default()
        };
        let command = PeerKind::PowerDns.prepare(&program, dir, address, &config)?;
        if !database.exists() {
            let schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
            let schema = fs::read_to_string(schema).expect("pdns-backend-sqlite3 is installed");
            let connection = rusqlite::Connection::open(&database).unwrap();
            connection.execute_batch(&schema).unwrap();
            drop(connection);
            let argument = format!("--config-dir={}", dir.display());
            script(&out.join("load-into-pdns"), &[&argument]);
        }
        Ok(command)
    });
    compare_all(ours.address(), pdns.addr());
}

#[test]
fn an_export_leaves_files_that_are_there_alone_and_names_zones_that_are_missing() {
    let ours = Export::new();
    let (out, _) = ours.export("bind");
    let file = out.join("zones/one.example.zone");
    let before = fs::read(&file).unwrap();
    let (is_good, text) = ours.try_run(&["export", "bind", "--out", out.to_str().unwrap()]);
    assert!(!is_good && text.contains("the file exists"), "{text}");
    assert_eq!(fs::read(&file).unwrap(), before);
    let (is_good, text) = ours.try_run(&["export", "bind", "none.example", "--out", "x"]);
    assert!(
        !is_good && text.contains("no such zone none.example."),
        "{text}"
    );
    let private = fs::read_dir(out.join("keys"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let private: Vec<PathBuf> = private
        .filter(|path| path.extension().is_some_and(|end| end == "private"))
        .collect();
    assert_eq!(private.len(), 3, "{private:?}");
    wait_until("the private keys are readable for their owner only", || {
        use std::os::unix::fs::PermissionsExt;
        let mut modes = private
            .iter()
            .map(|path| fs::metadata(path).unwrap().permissions().mode());
        modes.all(|mode| mode & 0o077 == 0)
    });
}
