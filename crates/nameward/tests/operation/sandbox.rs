//! The sandbox: the privileges that a running server has dropped, and that it still works.

use std::{fs, os::unix::fs::symlink, process::Output};

use nameward_testkit::{Setup, TestServer};

use super::ask::{rcode, zone};

fn error_of(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The value of a line of /proc/PID/status, for every thread.
fn of_threads(server: &TestServer, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let value = |task: fs::DirEntry| {
        // A thread may end in the meantime.
        let text = fs::read_to_string(task.path().join("status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Some(line?.trim_start_matches(':').trim().to_string())
    };
    let values: Vec<_> = tasks.flatten().filter_map(value).collect();
    assert!(values.len() > 3, "{values:?}");
    values
}

fn status_of(server: &TestServer) -> String {
    let output = server.command(&["status"]);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_thread_is_without_privileges_and_restricted() {
    let config = "[server]\nsandbox = \"require\"\nstate_directory = \"state\"\n";
    let server = TestServer::start(config, &[("one.example", &zone("www"))]);
    for (name, expected) in [
        ("CapInh", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        for value in of_threads(&server, name) {
            assert_eq!(value, expected, "{name}");
        }
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let core: Vec<_> = core.unwrap().split_whitespace().skip(4).collect();
    assert_eq!(core, ["0", "0", "bytes"]);
    let line = "sandbox        privileges, files and system calls";
    let text = status_of(&server);
    assert!(text.lines().any(|found| found == line), "{text}");
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn a_file_outside_is_refused_with_the_reason_and_a_restart_can_use_it() {
    let outside = tempfile::tempdir().unwrap();
    let include = outside.path().join("names.inc");
    fs::write(&include, "extra A 192.0.2.9\n").unwrap();
    let server = TestServer::start("", &[("one.example", &zone("www"))]);
    // A file that anyone may read: the sandbox is the only obstacle.
    let with_include = format!("{}$INCLUDE {}\n", zone("new"), include.display());
    server.write_zone("one.example", &with_include);
    let error = error_of(&server.command(&["reload"]));
    assert!(
        error.contains("the path is outside the sandbox: restart the server to use it"),
        "{error}"
    );
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    // A new setting, by which the server would read any file.
    let config = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&config).unwrap();
    let other = outside.path().join("two.example.zone");
    fs::write(&other, zone("www")).unwrap();
    let table = format!(
        "\n[[zone]]\nname = \"two.example\"\nfile = {:?}\n",
        other.display().to_string()
    );
    fs::write(&config, text + &table).unwrap();
    let error = error_of(&server.command(&["reload"]));
    assert!(
        error.contains("not accessible in the sandbox of the running server: restart it"),
        "{error}"
    );
    // Nothing of that configuration is in force.
    assert_eq!(rcode(server.address(), "www.two.example"), 5);
}

#[test]
fn files_included_by_zone_files_at_start_are_readable() {
    let outside = tempfile::tempdir().unwrap();
    let include = outside.path().join("names.inc");
    fs::write(&include, "extra A 192.0.2.9\n").unwrap();
    let linked = outside.path().join("linked");
    fs::create_dir(&linked).unwrap();
    fs::write(linked.join("file"), zone("www")).unwrap();
    let with_include = format!("{}$include {}\n", zone("www"), include.display());
    let setup = Setup::new().zone("one.example", &with_include);
    symlink(
        linked.join("file"),
        setup.dir().join("zones/two.example.zone"),
    )
    .unwrap();
    let server = setup.start();
    assert_eq!(rcode(server.address(), "extra.one.example"), 0);
    assert_eq!(rcode(server.address(), "www.two.example"), 0);
    // Replaced, as an editor does it.
    fs::write(linked.join("new"), zone("new")).unwrap();
    fs::rename(linked.join("new"), linked.join("file")).unwrap();
    let output = server.command(&["reload"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(rcode(server.address(), "new.two.example"), 0);
}

#[test]
fn it_can_be_turned_off() {
    let config = "[server]\nsandbox = \"off\"\ncore_dumps = true\n";
    let server = TestServer::start(config, &[("one.example", &zone("www"))]);
    assert_eq!(of_threads(&server, "Seccomp")[0], "0");
    assert!(status_of(&server).contains("\nsandbox        off\n"));
}
