//! Commands where no server runs: they work on the stores themselves, and the next server has what they did.

use std::{
    fs,
    net::UdpSocket,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use nameward_testkit::{Setup, TestServer, require, server::binary};

use super::ask::rcode;
use super::privileges::{id_of, is_root};
use super::secure::dig;

const NOTE: &str = "nameward: no server is running: using the stores directly\n";
const ZONE: &str = "$TTL 300\n@ SOA ns h 1 7200 3600 1209600 300\n@ NS ns\nns A 192.0.2.1\n";

/// A configuration with a file zone and a state directory, which outlives its servers.
struct Home {
    dir: tempfile::TempDir,
    text: String,
}

impl Home {
    /// Makes it, with more for its configuration.
    fn new(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("one.test.zone"), ZONE).unwrap();
        let text = format!(
            "{more}\n[server]\nstate_directory = {:?}\n[[zone]]\nname = \"one.test\"\nfile = {:?}\n",
            path("state"),
            path("one.test.zone")
        );
        fs::write(path("nameward.toml"), &text).unwrap();
        Home { dir, text }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().into()
    }

    fn serve(&self) -> TestServer {
        Setup::new().without_web().config(&self.text).start()
    }

    fn begin(&self, arguments: &[&str]) -> Child {
        Command::new(binary())
            .args(arguments)
            .args(["--config", &self.path("nameward.toml")])
            .env("RUNTIME_DIRECTORY", self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.begin(arguments).wait_with_output().unwrap()
    }

    /// Runs a command that must succeed and report that it worked on the stores; returns its output.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert_eq!(text(&output.stderr), NOTE, "{arguments:?}");
        text(&output.stdout)
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn a_file_zone_is_changed_signed_and_shown_and_the_server_serves_that() {
    let home = Home::new("");
    assert_eq!(
        home.done(&["zone", "list"]),
        "one.test. file 0 - not-loaded unknown\n"
    );
    let set = ["record", "set", "one.test", "www", "A", "60", "192.0.2.7"];
    let said = home.done(&set);
    assert!(said.starts_with("zone one.test: changed"), "{said}");
    assert_eq!(
        home.done(&["record", "list", "one.test", "www"]),
        "www.one.test. 60 IN A 192.0.2.7\n"
    );
    home.done(&["zone", "secure", "one.test"]);
    home.done(&["tsig", "generate", "key.one.test"]);
    let keys = home.done(&["key", "list", "one.test"]);
    assert_eq!(keys.lines().count(), 1, "{keys}");
    let history = home.done(&["zone", "history", "one.test"]);
    assert_eq!(history.lines().count(), 2, "{history}");
    let exported = home.done(&["zone", "export", "one.test"]);
    assert!(exported.contains("www.one.test."), "{exported}");
    // The file itself is not written.
    assert_eq!(
        fs::read_to_string(home.path("one.test.zone")).unwrap(),
        ZONE
    );
    let server = home.serve();
    assert_eq!(rcode(server.address(), "www.one.test"), 0);
    let answer = dig(server.address(), &["www.one.test", "A"]);
    assert!(answer.contains("RRSIG"), "{answer}");
    let listed = text(&server.command(&["tsig", "list"]).stdout);
    assert!(listed.contains("key.one.test."), "{listed}");
    assert_eq!(
        text(&server.command(&["key", "list", "one.test"]).stdout),
        keys
    );
}

#[test]
fn errors_and_json_are_those_of_a_server() {
    let home = Home::new("");
    let output = home.run(&["zone", "show", "none.test", "--json"]);
    assert_eq!(output.status.code(), Some(4));
    let said = text(&output.stderr);
    let mut lines = said.lines().map(|line| -> serde_json::Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"))
    });
    assert!(lines.next().unwrap()["note"].is_string(), "{said}");
    assert_eq!(lines.next().unwrap()["error"]["kind"], "not_found");
    assert!(output.stdout.is_empty());
    let set = ["record", "set", "one.test", "www", "A", "60", "192.0.2.7"];
    let output = home.run(&[&set[..], &["--json"]].concat());
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["result"], "zone_changed");
    for command in [
        &["status"][..],
        &["stop"],
        &["reload"],
        &["stats"],
        &["cache", "flush"],
        &["log-level"],
        &["zone", "retrieve", "one.test"],
        &["zone", "notify", "one.test"],
    ] {
        let output = home.run(command);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("cannot connect to the control socket"),
            "{said}"
        );
    }
    // An invalid zone file is reported with its position.
    fs::write(
        home.path("one.test.zone"),
        format!("{ZONE}www A 192.0.2.1000\n"),
    )
    .unwrap();
    let output = home.run(&["zone", "show", "one.test"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(shown.contains("\nstate not-ready\n"), "{shown}");
    assert!(said.contains("one.test.zone:5:7"), "{said}");
}

#[test]
fn a_running_server_gets_the_request_and_an_unresponsive_one_keeps_its_stores() {
    let home = Home::new("");
    let server = home.serve();
    let own = server.dir().join("nameward.toml");
    let set = ["record", "set", "one.test", "www", "A", "60", "192.0.2.7"];
    let output = server.command(&[&set[..], &["--config", own.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(rcode(server.address(), "www.one.test"), 0);
    // The control socket that this configuration names is not there, and the lock is.
    let output = home.run(&set);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("another server is using"), "{said}");
    assert!(!said.contains("using the stores directly"), "{said}");
}

#[test]
fn commands_at_the_same_time_follow_each_other_and_a_server_waits_for_them() {
    let home = Home::new("");
    let add = |i: u8| {
        let address = format!("192.0.2.{i}");
        home.begin(&["record", "add", "one.test", "all", "A", "60", &address])
    };
    let first: Vec<Child> = (1..=4).map(add).collect();
    // The server may find the store in use; later commands may find the server.
    let server = home.serve();
    let own = server.dir().join("nameward.toml");
    let later = ["record", "add", "one.test", "all", "A", "60", "192.0.2.5"];
    let later = server.command(&[&later[..], &["--config", own.to_str().unwrap()]].concat());
    assert!(later.status.success(), "{later:?}");
    let mut made = vec![5];
    for (i, child) in (1..=4).zip(first) {
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => made.push(i),
            // Its own control socket is another one than that of the server, which has the lock.
            code => assert_eq!(code, Some(3), "{output:?}"),
        }
    }
    let listed = text(
        &server
            .command(&["record", "list", "one.test", "all"])
            .stdout,
    );
    for i in made {
        assert!(listed.contains(&format!("192.0.2.{i}\n")), "{i}: {listed}");
    }
    assert!(server.stop().success());
    let second: Vec<Child> = (11..=16).map(add).collect();
    for child in second {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let listed = home.done(&["record", "list", "one.test", "all"]);
    for i in 11..=16 {
        assert!(listed.contains(&format!("192.0.2.{i}\n")), "{i}: {listed}");
    }
}

#[test]
fn a_command_that_is_killed_loses_nothing_that_was_acknowledged() {
    let home = Home::new("");
    home.done(&["zone", "list"]);
    let mut acknowledged = Vec::new();
    for i in 0..10u64 {
        let address = format!("192.0.2.{}", i + 1);
        let mut child = home.begin(&["record", "add", "one.test", "all", "A", "60", &address]);
        std::thread::sleep(Duration::from_millis(15 * i));
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        if text(&output.stdout).contains("changed") {
            acknowledged.push(address);
        }
    }
    let checked = home.run(&["state", "check"]);
    assert!(checked.status.success(), "{checked:?}");
    home.done(&["record", "add", "one.test", "all", "A", "60", "192.0.2.99"]);
    let listed = home.done(&["record", "list", "one.test", "all"]);
    for address in acknowledged {
        assert!(listed.contains(&format!("{address}\n")), "{listed}");
    }
}

#[test]
fn the_next_start_notifies_of_a_change_made_without_a_server() {
    let secondary = UdpSocket::bind("127.0.0.1:0").unwrap();
    let time_limit = Some(Duration::from_secs(60));
    secondary.set_read_timeout(time_limit).unwrap();
    let address = secondary.local_addr().unwrap();
    let terms = format!("[zone_defaults]\nalso_notify = [{{ address = \"{address}\" }}]\n");
    let home = Home::new(&terms);
    let mut packet = [0; 1500];
    let mut hear = || {
        let (size, from) = secondary.recv_from(&mut packet).expect("a NOTIFY comes");
        // A response ends the tries.
        packet[2] |= 0x80;
        secondary.send_to(&packet[..size], from).unwrap();
        packet[..size].to_vec()
    };
    let server = home.serve();
    hear();
    assert!(server.stop().success());
    secondary.set_nonblocking(true).unwrap();
    while secondary.recv(&mut [0; 1500]).is_ok() {}
    secondary.set_nonblocking(false).unwrap();
    home.done(&["record", "set", "one.test", "www", "A", "60", "192.0.2.7"]);
    let _server = home.serve();
    let heard = hear();
    assert!(
        heard.windows(9).any(|part| part == b"\x03one\x04test"),
        "{heard:?}"
    );
}

/// The user of a file.
fn owner(path: &str) -> String {
    Path::new(path).metadata().unwrap().uid().to_string()
}

#[test]
fn files_created_by_a_command_of_root_belong_to_the_user_of_the_server() {
    if require(is_root().then_some(()), "root (to become somebody else)").is_none() {
        return;
    }
    let nobody = id_of("-u", "nobody");
    for (more, is_named) in [("[server]\nuser = \"nobody\"\n", true), ("", false)] {
        let home = Home::new("");
        let text = home
            .text
            .replacen("[server]\n", more, usize::from(is_named));
        fs::write(home.path("nameward.toml"), text).unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(home.dir.path(), open).unwrap();
        fs::create_dir(home.path("state")).unwrap();
        std::os::unix::fs::chown(home.path("state"), Some(nobody.parse().unwrap()), None).unwrap();
        home.done(&["record", "set", "one.test", "www", "A", "60", "192.0.2.7"]);
        for file in ["state/state.db", "state/state.lock"] {
            assert_eq!(owner(&home.path(file)), nobody, "{file}");
        }
        let server = Setup::new().without_web().config(&home.text);
        let server = server.config("").start();
        assert_eq!(rcode(server.address(), "www.one.test"), 0);
    }
}
