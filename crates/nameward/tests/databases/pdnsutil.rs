//! A script of pdnsutil commands, run by PowerDNS on one SQLite file and by this server on another: the tables are equal.

use super::rows::Sqlite;
use nameward_testkit::{Setup, TestServer, server::binary};
use std::path::Path;
use std::process::Command;

const ZONE: &str = "$TTL 3600\n@ SOA ns1 host 5 7200 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n\
                    sub NS ns.sub\nns.sub A 192.0.2.9\n";

/// PowerDNS on a separate database.
struct PowerDns<'d> {
    directory: &'d Path,
}

impl PowerDns<'_> {
    /// Runs pdnsutil; returns whether it succeeded, and its output.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new("pdnsutil")
            .arg(format!("--config-dir={}", self.directory.display()))
            .args(arguments)
            .output()
            .expect("pdnsutil is installed: run scripts/install-deps");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), said)
    }
}

/// Runs one of our commands under the name of a PowerDNS tool.
fn ours(server: &TestServer, name: &str, arguments: &[&str]) -> (bool, String, String) {
    let output = server.command(&[&[name], arguments].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), said, error)
}

/// All rows of the tables, without what is a matter of time or order. Not `auth`: of an unsigned zone PowerDNS leaves it as it
/// was, whatever is delegated.
fn tables(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut rows = Vec::new();
    for sql in [
        "SELECT 'domain', name, type, coalesce(master, ''), coalesce(account, '') FROM domains",
        "SELECT 'record', name, coalesce(type, ''), coalesce(content, ''), coalesce(ttl, 0), coalesce(prio, 0), disabled, \
         coalesce(ordername, '') FROM records",
        "SELECT 'metadata', name, kind, content FROM domainmetadata JOIN domains ON domains.id = domain_id",
    ] {
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let cell = |at| match row.get_ref(at).unwrap() {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                other => other.as_str().unwrap_or_default().to_owned(),
            };
            let cells: Vec<String> = (0..columns).map(cell).collect();
            // Each raises serials differently.
            let mut text = cells.join("|");
            if cells[2] == "SOA" {
                let fields: Vec<&str> = cells[3].split(' ').collect();
                text = text.replace(&format!(" {} ", fields[2]), " SERIAL ");
            }
            rows.push(text);
        }
    }
    rows.sort();
    rows
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn a_script_of_pdnsutil_leaves_the_same_tables_as_pdnsutil() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup.config(&database.backend("live")).start();
    let directory = server.dir().join("powerdns");
    std::fs::create_dir(&directory).unwrap();
    let theirs = directory.join("theirs.db");
    let schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
    let schema =
        std::fs::read_to_string(schema).expect("PowerDNS is installed: run scripts/install-deps");
    rusqlite::Connection::open(&theirs)
        .unwrap()
        .execute_batch(&schema)
        .unwrap();
    let settings = format!("launch=gsqlite3\ngsqlite3-database={}\n", theirs.display());
    std::fs::write(directory.join("pdns.conf"), settings).unwrap();
    let powerdns = PowerDns {
        directory: &directory,
    };
    let file = server.dir().join("a.zone");
    std::fs::write(&file, ZONE).unwrap();
    let file = file.display().to_string();
    // The spellings of 5.x are tested with ours only: this pdnsutil has the verbs.
    let script: &[(&[&str], Option<&[&str]>)] = &[
        (&["load-zone", "a.test", &file], None),
        (
            &["add-record", "a.test", "www", "A", "300", "192.0.2.1"],
            None,
        ),
        (
            &["add-record", "a.test", "www", "A", "300", "192.0.2.2"],
            Some(&["rrset", "add", "a.test", "www", "A", "300", "192.0.2.2"]),
        ),
        (&["add-record", "a.test", "@", "MX", "10 mail.a.test"], None),
        (
            &["add-record", "a.test", "txt", "TXT", "\"hello world\""],
            None,
        ),
        (&["add-record", "a.test", "spf", "TXT", "\"-all\""], None),
        (
            &[
                "add-record",
                "a.test",
                "deep.down.below",
                "AAAA",
                "2001:db8::1",
            ],
            None,
        ),
        (
            &[
                "add-record",
                "a.test",
                "_sip._tcp",
                "SRV",
                "60",
                "0 5 5060 sip.a.test",
            ],
            None,
        ),
        (
            &[
                "replace-rrset",
                "a.test",
                "mail",
                "A",
                "60",
                "192.0.2.3",
                "192.0.2.4",
            ],
            Some(&[
                "rrset",
                "replace",
                "a.test",
                "mail",
                "A",
                "60",
                "192.0.2.3",
                "192.0.2.4",
            ]),
        ),
        (&["delete-rrset", "a.test", "txt", "TXT"], None),
        (
            &["set-kind", "a.test", "primary"],
            Some(&["zone", "set-kind", "a.test", "primary"]),
        ),
        (&["set-account", "a.test", "joe"], None),
        (
            &[
                "set-meta",
                "a.test",
                "ALLOW-AXFR-FROM",
                "192.0.2.0/24",
                "2001:db8::/32",
            ],
            None,
        ),
        (
            &["add-meta", "a.test", "X-OURS", "one"],
            Some(&["metadata", "add", "a.test", "X-OURS", "one"]),
        ),
        (&["set-meta", "a.test", "X-GONE", "one"], None),
        (&["set-meta", "a.test", "X-GONE"], None),
        (&["create-secondary-zone", "sec.test", "192.0.2.53"], None),
        (&["increase-serial", "a.test"], None),
        (&["create-zone", "gone.test", "ns.a.test"], None),
        (
            &["delete-zone", "gone.test"],
            Some(&["zone", "delete", "gone.test"]),
        ),
        (&["rectify-zone", "a.test"], None),
    ];
    for (words, spelled) in script {
        let (is_good, said) = powerdns.run(words);
        assert!(is_good, "{words:?}: {said}");
        let words = spelled.unwrap_or(words);
        let (is_good, said, error) = ours(&server, "pdnsutil", words);
        assert!(is_good, "{words:?}: {said}{error}\n{}", server.log());
    }
    assert_eq!(tables(&database.path), tables(&theirs));
    // Output that scripts read.
    for words in [
        &["-v", "list-all-zones"][..],
        &["list-all-zones", "primary"],
        &["get-meta", "a.test"],
        &["get-meta", "a.test", "X-OURS"],
    ] {
        let mut both = [powerdns.run(words).1, ours(&server, "pdnsutil", words).1].map(|text| {
            let lines = text
                .lines()
                .filter(|line| !line.starts_with("All zonecount"));
            let mut lines: Vec<String> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        });
        assert_eq!(std::mem::take(&mut both[0]), both[1], "{words:?}");
    }
    let records = |text: String| {
        let lines = text.lines().filter(|line| !line.contains("\tSOA\t"));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let list = ["list-zone", "a.test"];
    assert_eq!(
        records(powerdns.run(&list).1),
        records(ours(&server, "pdnsutil", &list).1)
    );
    // Commands that fail there fail here.
    for words in [
        &["list-zone", "none.test"][..],
        &["delete-zone", "none.test"],
        &["create-zone", "a.test", "ns.a.test"],
        &["explode"],
    ] {
        assert!(!powerdns.run(words).0, "{words:?}");
        assert!(!ours(&server, "pdnsutil", words).0, "{words:?}");
    }
    // pdnsutil prints its usage and succeeds.
    assert!(!ours(&server, "pdnsutil", &["add-record", "a.test"]).0);
    let (is_good, _, error) = ours(&server, "pdnsutil", &["hsm", "assign", "a.test"]);
    assert!(!is_good && error.contains("not supported"), "{error}");
}

/// PowerDNS and this server, each with an empty database.
fn both(zone: &str) -> (TestServer, Sqlite, std::path::PathBuf) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let state = "[server]\nstate_directory = \"state\"\n";
    let server = setup
        .config(state)
        .config(&database.backend("live"))
        .start();
    let directory = server.dir().join("powerdns");
    std::fs::create_dir(&directory).unwrap();
    let theirs = directory.join("theirs.db");
    let schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
    let schema =
        std::fs::read_to_string(schema).expect("PowerDNS is installed: run scripts/install-deps");
    let connection = rusqlite::Connection::open(&theirs).unwrap();
    connection.execute_batch(&schema).unwrap();
    let settings = format!(
        "launch=gsqlite3\ngsqlite3-dnssec=yes\ngsqlite3-database={}\n",
        theirs.display()
    );
    std::fs::write(directory.join("pdns.conf"), settings).unwrap();
    let powerdns = PowerDns {
        directory: &directory,
    };
    let create = ["create-zone", zone, "ns.other.test"];
    assert!(powerdns.run(&create).0);
    assert!(ours(&server, "pdnsutil", &create).0);
    (server, database, directory)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn tsig_keys_tools_and_options_print_and_store_the_same_as_pdnsutil() {
    const SECRET: &str = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    let (server, database, directory) = both("a.test");
    let powerdns = PowerDns {
        directory: &directory,
    };
    let file = server.dir().join("a.zone");
    std::fs::write(&file, ZONE).unwrap();
    let file = file.display().to_string();
    for words in [
        &["import-tsig-key", "k.test", "hmac-sha256", SECRET][..],
        &["list-tsig-keys"],
        &["activate-tsig-key", "a.test", "k.test", "primary"],
        &["get-meta", "a.test", "TSIG-ALLOW-AXFR"],
        &["deactivate-tsig-key", "a.test", "k.test", "primary"],
        &["delete-tsig-key", "k.test"],
        &["list-tsig-keys"],
        &["raw-lua-from-content", "MX", "10 mx.example.org"],
        &["raw-lua-from-content", "TXT", "\"a-b.c d_9\""],
        &["hash-zone-record", "a.test", "www.a.test"],
        &["set-meta", "a.test", "NSEC3PARAM", "1 0 1 ab"],
        &["hash-zone-record", "a.test", "www.a.test"],
        &["create-slave-zone", "s.test", "192.0.2.1"],
        &["change-slave-zone-master", "s.test", "192.0.2.9"],
        &["add-supermaster", "192.0.2.1", "ns.x.test", "joe"],
        &["list-autoprimaries"],
        &["set-option", "a.test", "producer", "group", "g1", "g2"],
        &["set-option", "a.test", "producer", "unique", "u1"],
        &["set-option", "a.test", "producer", "group", ""],
        &[
            "set-options-json",
            "s.test",
            "{\"producer\": {\"coo\": \"x.test.\"}}",
        ],
        &["zonemd-verify-file", "a.test", &file],
    ] {
        let theirs = powerdns.run(words);
        let (is_good, said, error) = ours(&server, "pdnsutil", words);
        assert_eq!(is_good, theirs.0, "{words:?}: {said}{error}");
        // Where the output of ours differs, it reports success.
        let is_compared = words[0].contains("tsig")
            || words[0].starts_with("raw")
            || words[0].starts_with("hash")
            || words[0].starts_with("list")
            || words[0].starts_with("get");
        if is_compared {
            assert_eq!(said, theirs.1, "{words:?}: {error}");
        }
    }
    let options = |path: &Path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        let mut statement = connection
            .prepare("SELECT name, master, options FROM domains ORDER BY name")
            .unwrap();
        let rows = statement.query_map([], |row| {
            let options: Option<String> = row.get(2)?;
            let options =
                options.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, Option<String>>(1)?,
                options,
            ))
        });
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let theirs = options(&directory.join("theirs.db"));
    let own = options(&database.path);
    let empty = |list: &[(String, Option<String>, Option<serde_json::Value>)]| {
        let filled = list.iter().map(|(name, master, options)| {
            (
                name.clone(),
                master.clone().unwrap_or_default(),
                options.clone(),
            )
        });
        filled.collect::<Vec<_>>()
    };
    assert_eq!(empty(&own), empty(&theirs));
    // The secret is random; everything else is equal.
    let generate = ["generate-tsig-key", "new.test", "hmac-sha512"];
    let (theirs, own) = (
        powerdns.run(&generate).1,
        ours(&server, "pdnsutil", &generate).1,
    );
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&own)[..6], words(&theirs)[..6], "{own}");
    let key = ["generate-zone-key", "ksk", "ecdsa256"];
    let lines = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("PrivateKey") && !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (theirs, own) = (powerdns.run(&key).1, ours(&server, "pdnsutil", &key).1);
    // The version of the format and times may differ.
    let common = |text: &str| {
        let known = |line: &String| line.starts_with("Flags") || line.starts_with("Algorithm");
        lines(text).into_iter().filter(known).collect::<Vec<_>>()
    };
    assert_eq!(common(&own), common(&theirs));
    let (is_good, said, _) = ours(&server, "pdnsutil", &["list-algorithms"]);
    assert!(is_good && said.contains("13 - ECDSAP256SHA256\n"), "{said}");
    // Zones without name servers, and zones that become empty.
    assert!(ours(&server, "pdnsutil", &["create-zone", "bare.test"]).0);
    let list = |zone: &str| ours(&server, "pdnsutil", &["list-zone", zone]).1;
    assert!(list("bare.test").contains("a.misconfigured.dns.server.invalid"));
    assert!(
        ours(
            &server,
            "pdnsutil",
            &["add-record", "a.test", "www", "A", "192.0.2.1"]
        )
        .0
    );
    assert!(ours(&server, "pdnsutil", &["clear-zone", "a.test"]).0);
    let left = list("a.test");
    assert!(
        left.contains("SOA") && left.contains("NS") && !left.contains("www"),
        "{left}"
    );
}

#[test]
fn secure_all_zones_signs_database_and_file_zones_and_reports_each() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let state = "[server]\nstate_directory = \"state\"\n";
    let setup = setup.config(state).config(&database.backend("live"));
    let server = setup.zone("file.test", ZONE).start();
    let run = |words: &[&str]| ours(&server, "pdnsutil", words);
    for zone in ["a.test", "b.test", "c.test"] {
        assert!(run(&["create-zone", zone, "ns.other.test"]).0);
    }
    let (is_good, _, said) = run(&["create-secondary-zone", "secondary.test", "192.0.2.1"]);
    assert!(is_good, "{said}");
    assert!(run(&["secure-zone", "b.test"]).0);
    let (is_good, said, error) = run(&["secure-all-zones", "increase-serial"]);
    assert!(is_good, "{said}{error}");
    let lines: Vec<&str> = said.lines().collect();
    for (line, zone) in lines.iter().zip(["[1/3] a", "[2/3] c", "[3/3] file"]) {
        let start = format!("{zone}.test: secured, key tag ");
        assert!(line.starts_with(&start), "{said}");
    }
    let raised = lines.iter().filter(|line| line.contains("serial"));
    assert_eq!(raised.count(), 3, "{said}");
    assert_eq!(lines.last(), Some(&"Secured: 3 zones. Errors: 0"), "{said}");
    let (_, said, _) = run(&["zone", "secure-all"]);
    assert_eq!(said, "Secured: 0 zones. Errors: 0\n");
    let keys = server.command(&["key", "list"]).stdout;
    let keys = String::from_utf8_lossy(&keys);
    assert_eq!(keys.lines().count(), 4, "{keys}");
    assert!(!keys.contains("secondary.test"), "{keys}");
    // A zone that cannot be signed does not affect others.
    assert!(run(&["create-zone", "d.test", "ns.other.test"]).0);
    assert!(run(&["create-zone", "e.test", "ns.other.test"]).0);
    database.run(
        "INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'PRESIGNED', '1' FROM domains \
         WHERE name = 'd.test'",
    );
    let (is_good, said, error) = run(&["secure-all-zones"]);
    assert!(!is_good && error.contains("d.test"), "{error}");
    assert!(said.contains("[2/2] e.test: secured"), "{said}");
}

#[test]
fn pdns_control_is_understood_also_by_its_own_name() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup.config(&database.backend("live")).start();
    let ask = |words: &[&str]| ours(&server, "pdns_control", words);
    assert_eq!(ask(&["rping"]).1, "PONG\n");
    assert_eq!(
        ask(&["version"]).1,
        format!("{}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(ask(&["uptime"]).1.ends_with(" seconds\n"));
    assert!(
        ask(&["show", "udp-queries"])
            .1
            .trim()
            .parse::<u64>()
            .is_ok()
    );
    let all = ask(&["show", "*"]).1;
    assert!(
        all.contains("udp-queries=") && all.ends_with(",\n"),
        "{all}"
    );
    assert!(!ask(&["show", "no-such-counter"]).0);
    assert_eq!(ask(&["list-zones"]).1, "All zonecount: 0\n");
    assert_eq!(ask(&["purge"]).1, "0\n");
    assert_eq!(ask(&["purge", "a.test$", "b.test"]).1, "0\n");
    let (is_good, said, error) = ask(&["rediscover"]);
    assert!(is_good && said.starts_with("reloaded"), "{said}{error}");
    assert!(ask(&["help"]).1.contains("notify ZONE"));
    assert_eq!(ask(&["ccounts"]).1, "queries: 0, packets: 0\n");
    assert_eq!(ask(&["bind-list-rejects"]).1, "");
    let file = server.dir().join("added.zone");
    std::fs::write(&file, ZONE).unwrap();
    let file = file.display().to_string();
    assert!(ask(&["bind-add-zone", "added.test", &file]).0);
    assert_eq!(ask(&["notify", "*"]).1, "Added 1 zones to queue\n");
    for (value, state) in [("yes", "on"), ("no", "off")] {
        assert!(ask(&["set", "query-logging", value]).0);
        let status = server.command(&["query-log", "status"]).stdout;
        let status = String::from_utf8_lossy(&status).into_owned();
        assert!(
            status.contains(&format!("query log      {state}")),
            "{status}"
        );
    }
    for impossible in [
        &["cycle"][..],
        &["token-login", "x"],
        &["notify", "none.test"],
        &["explode"],
    ] {
        assert!(!ask(impossible).0, "{impossible:?}");
    }
    for (name, words, expected) in [
        ("pdns_control", &["rping"][..], "PONG\n"),
        ("pdnsutil", &["list-all-zones"], "added.test\n"),
    ] {
        let link = server.dir().join(name);
        std::os::unix::fs::symlink(binary(), &link).unwrap();
        let output = Command::new(&link)
            .args(words)
            .env("RUNTIME_DIRECTORY", server.dir())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
