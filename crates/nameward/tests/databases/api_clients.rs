//! Real clients of the PowerDNS API, as distributed by PyPI and npm, in complete scenarios on every database. The
//! scenarios are scripts in `tests/clients`; `scripts/install-api-clients` installs the clients below `target`.

use super::rows::Sqlite;
use super::writes::{backend, started};
use crate::api::client::{Client, KEY, settings};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer, require};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the installed clients.
pub fn clients() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let directory = target.join("api-clients");
    let is_installed = directory.join("installed").exists();
    require(
        is_installed.then_some(directory),
        "the list of API clients (scripts/install-api-clients installs them from PyPI and npm)",
    )
}

/// Runs a scenario, which must succeed.
fn run(program: &Path, script: &str, arguments: &[&str], work: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(script);
    let output = Command::new(program)
        .arg(&script)
        .args(arguments)
        .env("HOME", work)
        .env("XDG_CACHE_HOME", work)
        .current_dir(work)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    assert!(
        output.status.success(),
        "{}: {}{}",
        script.display(),
        text(&output.stdout),
        text(&output.stderr)
    );
}

fn check(server: &TestServer) {
    let Some(clients) = clients() else {
        return;
    };
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    let (address, client) = (server.api(), Client::new(server.api()));
    let url = format!("http://{address}");
    let python = clients.join("python/bin/python");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let directory = work.display().to_string();
    run(
        &python,
        "octodns_sync.py",
        &[&directory, &host, &port, KEY],
        work,
    );
    let body = json!({ "name": "lexicon-client.org.", "kind": "Master", "nameservers": ["ns1.lexicon-client.org."] });
    client.expect(201, "POST", "/zones", Some(&body));
    run(
        &python,
        "lexicon_records.py",
        &[&url, KEY, "lexicon-client.org"],
        work,
    );
    run(
        &python,
        "python_powerdns.py",
        &[&url, KEY, &directory],
        work,
    );
    run(&python, "powerdns_cli.py", &[&url, KEY, &directory], work);
    let modules = clients.join("node/node_modules");
    let modules = modules.canonicalize().unwrap().display().to_string();
    run(
        Path::new("node"),
        "npm_client.js",
        &[&modules, &url, KEY],
        work,
    );
}

fn check_on(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let server = Setup::new()
        .without_web()
        .config(&settings())
        .config(&backend(kind, &database, "live"))
        .start();
    check(&server);
}

#[test]
fn real_clients_manage_zones_on_sqlite() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup
        .config(&settings())
        .config(&database.backend("live"))
        .start();
    check(&server);
}

#[test]
fn real_clients_manage_zones_on_postgresql() {
    check_on(DatabaseKind::Postgres);
}

#[test]
fn real_clients_manage_zones_on_mariadb() {
    check_on(DatabaseKind::Mariadb);
}
