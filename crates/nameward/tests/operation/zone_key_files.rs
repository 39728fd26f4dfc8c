//! Keys in a directory in the format of BIND's tools: the zone is signed according to the times in the files,
//! commands change the files, and an invalid key file leaves the keys of the zone unchanged.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use nameward_testkit::{Setup, TestServer};

use super::ask::eventually;
use super::secure::{check_transfer, delv, dig, done, write_anchor};

const ZONE: &str = "$TTL 300\n@ SOA ns1 hostmaster 10 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\nmail A 192.0.2.2\n";

/// Runs a tool of BIND and returns its output.
fn bind_tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/install-deps"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text.into_owned()
}

/// A zone file, a directory of keys and a state directory.
struct KeyPlace {
    home: tempfile::TempDir,
}

impl KeyPlace {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("keys")).unwrap();
        fs::write(home.path().join("one.zone"), ZONE).unwrap();
        KeyPlace { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Makes a key with BIND's tool; returns its path without its end.
    fn keygen(&self, more: &[&str]) -> PathBuf {
        let keys = self.path("keys");
        let arguments = [&["-q", "-K", keys.to_str().unwrap()], more, &["one.test"]].concat();
        keys.join(bind_tool("dnssec-keygen", &arguments).trim())
    }

    fn config(&self) -> String {
        let (state, file) = (self.path("state"), self.path("one.zone"));
        let keys = self.path("keys");
        format!(
            "[server]\nstate_directory = {state:?}\n[zone_defaults]\nkey_directory = {keys:?}\n[[zone]]\n\
             name = \"one.test\"\nfile = {file:?}\nallow_transfer = [\"127.0.0.1\"]\n"
        )
    }

    fn server(&self) -> TestServer {
        let setup = Setup::new().without_web();
        setup.config(&self.config()).start()
    }

    /// Runs `nameward check`; returns whether it succeeded, and its output.
    fn check(&self) -> (bool, String) {
        let config = self.path("nameward.toml");
        fs::write(&config, self.config()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nameward"));
        let output = command.arg("check").arg("--config").arg(config).output();
        let output = output.unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    }

    /// The zone is secure by the DS of its key-signing key.
    fn check_secure(&self, server: &TestServer) {
        let anchor = self.path("anchor");
        for (owner, expected) in [
            ("mail.one.test", "; fully validated"),
            ("no.one.test", "; negative response, fully validated"),
        ] {
            let said = delv(server.address(), ("one.test", &anchor), &[owner, "A"]);
            assert!(said.contains(expected), "{said}\n{}", server.log());
        }
        check_transfer(server.address(), "one.test", self.home.path());
    }
}

fn public_file(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.key", path.display()))
}

fn private_file(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.private", path.display()))
}

/// The key tags of the DNSKEY RRset.
fn tags(server: &TestServer) -> Vec<u16> {
    let text = dig(
        server.address(),
        &["+norec", "+multiline", "one.test", "DNSKEY"],
    );
    let words = text.split("key id = ").skip(1);
    let mut tags: Vec<u16> = words
        .map(|rest| rest.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    tags.sort_unstable();
    tags
}

fn tag_of(path: &Path) -> u16 {
    let name = path.to_str().unwrap();
    name.rsplit('+').next().unwrap().parse().unwrap()
}

fn sorted(paths: &[&PathBuf]) -> Vec<u16> {
    let mut tags: Vec<u16> = paths.iter().map(|path| tag_of(path)).collect();
    tags.sort_unstable();
    tags
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn keys_of_dnssec_keygen_sign_by_their_timing_metadata_and_bind_reads_the_keys_of_commands() {
    let place = KeyPlace::new();
    let ksk = place.keygen(&["-a", "13", "-f", "KSK", "-P", "sync", "now"]);
    let zsk = place.keygen(&["-a", "13"]);
    let later = place.keygen(&["-a", "13", "-G"]);
    let server = place.server();
    // Signed from the first answer on.
    assert_eq!(tags(&server), sorted(&[&ksk, &zsk]), "{}", server.log());
    write_anchor(&server, "one.test", &place.path("anchor"));
    place.check_secure(&server);
    let cds = dig(server.address(), &["+short", "one.test", "CDS"]);
    assert!(cds.starts_with(&format!("{} 13 2 ", tag_of(&ksk))), "{cds}");
    let listed = done(&server, &["key", "list", "one.test"]);
    assert_eq!(listed.lines().count(), 3, "{listed}");

    // A passing time is noticed automatically; changes by other tools, after a reload.
    let soon = place.keygen(&["-a", "13", "-P", "+2", "-A", "none"]);
    done(&server, &["reload"]);
    let wanted = sorted(&[&ksk, &zsk, &soon]);
    assert_eq!(eventually(|| tags(&server), |tags| *tags == wanted), wanted);
    place.check_secure(&server);
    let settime = |path: &Path, more: &[&str]| {
        let private = private_file(path);
        bind_tool(
            "dnssec-settime",
            &[more, &[private.to_str().unwrap()]].concat(),
        )
    };
    settime(&later, &["-P", "now", "-A", "now"]);
    settime(&zsk, &["-I", "now"]);
    settime(&soon, &["-D", "now"]);
    done(&server, &["reload"]);
    let wanted = sorted(&[&ksk, &zsk, &later]);
    assert_eq!(eventually(|| tags(&server), |tags| *tags == wanted), wanted);
    place.check_secure(&server);

    // Commands write files that BIND reads and signs with.
    let added = done(
        &server,
        &["key", "add", "one.test", "--role", "zsk", "--inactive"],
    );
    let words: Vec<&str> = added.split(' ').collect();
    let (number, tag) = (words[1], words[2].parse::<u16>().unwrap());
    let path = place.path("keys").join(format!("Kone.test.+013+{tag:05}"));
    let mode = fs::metadata(private_file(&path)).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let printed = settime(&path, &["-up", "all"]);
    assert!(printed.contains("Activate: UNSET"), "{printed}");
    done(&server, &["key", "activate", "one.test", number]);
    let printed = settime(&path, &["-up", "all"]);
    assert!(!printed.contains("Activate: UNSET"), "{printed}");
    place.check_secure(&server);
    let exported = done(&server, &["key", "export", "one.test", number]);
    let text = fs::read_to_string(private_file(&path)).unwrap();
    assert!(text.starts_with(exported.trim_end()), "{text}");
    let (keys, zone) = (place.path("keys"), place.path("one.zone"));
    let signed = place.path("signed");
    let said = bind_tool(
        "dnssec-signzone",
        &[
            "-S",
            "-K",
            keys.to_str().unwrap(),
            // Where it writes the DS.
            "-d",
            keys.to_str().unwrap(),
            "-o",
            "one.test",
            "-f",
            signed.to_str().unwrap(),
            zone.to_str().unwrap(),
        ],
    );
    assert!(said.contains(&format!("/{tag}")), "{said}");
    done(&server, &["key", "unpublish", "one.test", number]);
    assert!(!tags(&server).contains(&tag));
    done(&server, &["key", "publish", "one.test", number]);
    assert!(tags(&server).contains(&tag));
    done(&server, &["key", "deactivate", "one.test", number]);
    place.check_secure(&server);
    done(&server, &["key", "remove", "one.test", number]);
    assert!(!private_file(&path).exists() && !tags(&server).contains(&tag));
    // After a restart, even with another state store, the zone follows its files.
    let wanted = tags(&server);
    assert!(server.stop().success());
    fs::remove_dir_all(place.path("state")).unwrap();
    let server = place.server();
    assert_eq!(tags(&server), wanted, "{}", server.log());
    place.check_secure(&server);
    // The end of signing removes the files.
    done(&server, &["zone", "unsecure", "one.test", "--force"]);
    assert!(!private_file(&ksk).exists() && tags(&server).is_empty());
}

#[test]
fn an_invalid_key_file_is_reported_and_the_zone_keeps_its_keys_or_fails() {
    let place = KeyPlace::new();
    let key = place.keygen(&["-a", "13", "-f", "KSK"]);
    let server = place.server();
    write_anchor(&server, "one.test", &place.path("anchor"));
    let private = private_file(&key);
    let set_mode = |mode| fs::set_permissions(&private, fs::Permissions::from_mode(mode)).unwrap();
    place.check_secure(&server);
    // BIND asks for CDS by a time, and this key has none.
    let cds = dig(server.address(), &["+short", "one.test", "CDS"]);
    assert!(cds.trim().is_empty(), "{cds}");

    // A running server continues with its current keys, whatever happens to their files.
    set_mode(0o640);
    done(&server, &["reload"]);
    assert!(
        server.wait_for_log("(mode 0640): run chmod 600 "),
        "{}",
        server.log()
    );
    place.check_secure(&server);
    set_mode(0o600);
    let aside = place.path("aside");
    let public = public_file(&key);
    fs::create_dir(&aside).unwrap();
    let move_all = |from: &Path, to: &Path| {
        for file in [&private, &public] {
            let name = file.file_name().unwrap();
            fs::rename(from.join(name), to.join(name)).unwrap();
        }
    };
    let keys = place.path("keys");
    move_all(&keys, &aside);
    done(&server, &["reload"]);
    assert!(server.wait_for_log("is missing, but the zone is signed with it"));
    place.check_secure(&server);
    move_all(&aside, &keys);
    // Another invalid key file is ignored: an unsupported algorithm, a missing private key, a key of another name.
    let unknown = place.keygen(&["-a", "16"]);
    let half = place.keygen(&["-a", "13"]);
    fs::remove_file(public_file(&half)).unwrap();
    let other = keys.join("Kone.test.+013+00001");
    fs::copy(&public, public_file(&other)).unwrap();
    fs::copy(&private, private_file(&other)).unwrap();
    done(&server, &["reload"]);
    for words in [
        "key ignored: ",
        "unsupported algorithm 16",
        ".key is missing: a key consists of a .key and a .private file",
        "file name does not match its contents",
    ] {
        assert!(server.wait_for_log(words), "{words}: {}", server.log());
    }
    assert_eq!(tags(&server), [tag_of(&key)]);
    place.check_secure(&server);
    for path in [&unknown, &half, &other] {
        fs::remove_file(private_file(path)).unwrap();
        let _ = fs::remove_file(public_file(path));
    }
    assert!(server.stop().success());

    // A server that starts has no previous keys: nothing is served unsigned.
    set_mode(0o644);
    let server = place.server();
    let answer = dig(server.address(), &["mail.one.test", "A"]);
    assert!(answer.contains("SERVFAIL"), "{answer}");
    assert!(
        server.wait_for_log("cannot sign, queries with DO are answered SERVFAIL: key file: "),
        "{}",
        server.log()
    );
    set_mode(0o600);
    done(&server, &["reload"]);
    let is_signed = || dig(server.address(), &["mail.one.test", "A"]).contains("RRSIG");
    assert!(
        eventually(is_signed, |is_signed| *is_signed),
        "{}",
        server.log()
    );
    place.check_secure(&server);
}

#[test]
fn check_reads_key_files() {
    let place = KeyPlace::new();
    let (is_good, text) = place.check();
    assert!(
        is_good && text.contains("1 zone good, 0 with errors, 0 warnings"),
        "{text}"
    );
    let key = private_file(&place.keygen(&["-a", "13"]));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let fault = format!(
        "zone one.test.: {}: private key is readable by other users",
        key.display()
    );
    let (is_good, text) = place.check();
    assert!(!is_good && text.contains(&fault), "{text}");
    // With another key the zone is still signed.
    place.keygen(&["-a", "13"]);
    let (is_good, text) = place.check();
    assert!(
        is_good && text.contains(&fault) && text.contains("1 warning"),
        "{text}"
    );
    fs::remove_dir_all(place.path("keys")).unwrap();
    let (is_good, text) = place.check();
    let fault = format!(
        "key_directory {}: No such file",
        place.path("keys").display()
    );
    assert!(!is_good && text.contains(&fault), "{text}");
}
