//! The change of user. These tests require root and report when they are skipped.

use std::{fs, os::unix::fs::PermissionsExt};

use nameward_testkit::{Setup, require};

use super::ask::{rcode, zone};

/// A line of /proc/PID/status, without its name.
fn status(pid: u32, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.split_whitespace().skip(1).map(Into::into).collect()
}

pub fn is_root() -> bool {
    status(std::process::id(), "Uid")[0] == "0"
}

pub fn id_of(kind: &str, name: &str) -> String {
    let output = std::process::Command::new("id")
        .args([kind, name])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

/// A server that runs as the user `nobody`, in a directory that this user cannot read.
fn server_of_nobody() -> Setup {
    let setup = Setup::new()
        .zone("one.example", &zone("www"))
        .config("[server]\nuser = \"nobody\"\n");
    fs::set_permissions(setup.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    setup
}

#[test]
fn root_privileges_are_dropped_for_good_after_binding() {
    if require(is_root().then_some(()), "root (to become another user)").is_none() {
        return;
    }
    let server = server_of_nobody().start();
    let (uid, gid) = (id_of("-u", "nobody"), id_of("-g", "nobody"));
    let skip = |values: Vec<String>| values.into_iter().take(4).collect::<Vec<_>>();
    assert_eq!(
        skip(status(server.pid(), "Uid:"))
            .iter()
            .filter(|id| **id != uid)
            .count(),
        0
    );
    assert_eq!(
        skip(status(server.pid(), "Gid:"))
            .iter()
            .filter(|id| **id != gid)
            .count(),
        0
    );
    let groups = status(server.pid(), "Groups");
    assert!(groups.iter().all(|group| *group == gid), "{groups:?}");
    for task in fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        let thread: u32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        assert_eq!(status(thread, "Uid")[0], uid, "every thread changed");
    }
    let capabilities = status(server.pid(), "CapEff");
    assert_eq!(u64::from_str_radix(&capabilities[0], 16), Ok(0));
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
}

#[test]
fn a_reload_works_after_the_change_of_user() {
    if require(is_root().then_some(()), "root (to become another user)").is_none() {
        return;
    }
    let server = server_of_nobody().start();
    server.write_zone("one.example", &zone("new"));
    let output = server.command(&["reload"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(rcode(server.address(), "new.one.example"), 0);
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn an_unprivileged_user_cannot_become_another_user_and_gets_an_error() {
    if require(is_root().then_some(()), "root (to become another user)").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let config = dir.path().join("nameward.toml");
    fs::write(
        &config,
        "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"root\"\n",
    )
    .unwrap();
    let binary = dir.path().join("nameward");
    fs::copy(nameward_testkit::server::binary(), &binary).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"])
        .arg(&binary)
        .args(["serve", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("cannot switch to user \"root\""),
        "{stderr}"
    );
}
