//! DNS cookie secrets that are rolled by command: in a database for all its servers, in the state store for one.

use super::operation::zone;
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use std::process::Command;

fn command(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text
}

/// Queries with dig; returns what it prints.
fn dig(server: &TestServer, cookie: &str) -> String {
    let port = server.address().port().to_string();
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "+tries=1", "+nobadcookie"])
        .args([cookie, "www.one.test", "A"])
        .output()
        .expect("dig is installed: run scripts/install-deps");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Gets a cookie.
fn cookie(server: &TestServer) -> String {
    let printed = dig(server, "+cookie");
    let line = printed.lines().find_map(|line| line.split_once("COOKIE: "));
    let (_, cookie) = line.unwrap_or_else(|| panic!("{printed}"));
    cookie.split(' ').next().unwrap_or_default().to_owned()
}

/// Checks whether a server, which requires cookies, accepts this one.
fn accepts(server: &TestServer, cookie: &str) -> bool {
    dig(server, &format!("+cookie={cookie}")).contains("status: NOERROR")
}

/// Generates a new secret; returns its ID.
fn roll(server: &TestServer, arguments: &[&str]) -> String {
    let text = command(server, &[&["cookie", "roll"], arguments].concat());
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn is_active(server: &TestServer, id: &str) -> bool {
    let listed = command(server, &["cookie", "list"]);
    listed.contains(&format!("{id} active"))
}

const REQUIRED: &str = "[cookies]\nrequire = true\n";

#[test]
fn servers_on_one_database_accept_each_others_cookies_through_a_roll() {
    let kind = DatabaseKind::Postgres;
    let Some(database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let start = || {
        let config = format!("{REQUIRED}{}", backend(kind, &database.url(), "resident"));
        Setup::new().without_web().config(&config).start()
    };
    let servers = [start(), start()];
    for server in &servers {
        server.wait_until("the zone is served", || {
            accepts(server, &cookie(server)) && dig(server, "+tcp").contains("192.0.2.10")
        });
    }
    let [one, other] = &servers;
    // So far, each has its own secret.
    assert!(accepts(one, &cookie(one)) && !accepts(other, &cookie(one)));
    let listed = command(one, &["cookie", "list"]);
    assert!(listed.ends_with(" active (memory)\n"), "{listed}");
    let first = roll(one, &["--delay", "0"]);
    for server in &servers {
        server.wait_until("the secret is used", || is_active(server, &first));
    }
    let (old, of_other) = (cookie(one), cookie(other));
    assert!(accepts(other, &old) && accepts(one, &of_other));
    // A server that is started later has it, too.
    let late = start();
    late.wait_until("the secret is read", || is_active(&late, &first));
    assert!(accepts(&late, &old));
    // All servers know the next secret before one of them uses it.
    let second = roll(other, &["--delay", "15"]);
    assert!(command(other, &["cookie", "list"]).contains(&format!("{second} next from ")));
    one.wait_until("the next secret is used by both", || {
        let cookies = [cookie(one), cookie(other)];
        assert!(accepts(other, &cookies[0]) && accepts(one, &cookies[1]));
        servers.iter().all(|server| is_active(server, &second))
    });
    assert!(accepts(one, &old) && accepts(other, &old));
    let listed = command(one, &["cookie", "list"]);
    assert!(listed.contains(&format!("{first} old from ")), "{listed}");
    // A compromised secret is replaced at once.
    let third = roll(one, &["--revoke"]);
    assert!(!accepts(one, &old));
    other.wait_until("the old secrets are dropped", || {
        is_active(other, &third) && !accepts(other, &old)
    });
    assert!(accepts(other, &cookie(one)) && accepts(one, &cookie(other)));
    // Such rows are not TSIG keys.
    assert_eq!(command(one, &["tsig", "list"]), "");
    assert!(!one.log().contains("unknown algorithm"), "{}", one.log());
}

#[test]
fn a_secret_in_the_state_store_outlives_a_restart_and_a_configured_one_is_not_rolled() {
    let state = tempfile::tempdir().unwrap();
    let text = "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nwww 60 A 192.0.2.10\n";
    let start = |secrets: &str| {
        let directory = state.path().display();
        let config = format!("[server]\nstate_directory = \"{directory}\"\n{REQUIRED}{secrets}");
        Setup::new().config(&config).zone("one.test", text).start()
    };
    let server = start("");
    let own = cookie(&server);
    let id = roll(&server, &[]);
    assert!(is_active(&server, &id));
    // The secret generated at start is accepted for as long as its cookies are valid.
    assert!(accepts(&server, &own));
    let rolled = cookie(&server);
    assert!(server.stop().success());
    let server = start("");
    assert!(accepts(&server, &rolled) && !accepts(&server, &own));
    assert!(server.stop().success());
    let server = start("secrets = [\"e5e973e5a6b2a43f48e7dc849e37bfcf\"]\n");
    assert!(!accepts(&server, &rolled));
    let refused = server.command(&["cookie", "roll"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(
        message.contains("cookies.secrets is configured"),
        "{message}"
    );
}
