//! Scripts of pdnsutil about keys, run by PowerDNS on one SQLite file and by this server on another: the rows and the
//! output are equal. Unreadable keys, and keys that are incompatible with a denial method.

use super::powerdns::ZONE;
use super::zone_keys::{NAME, code, is_signed, listed, run};
use nameward_testkit::TestServer;
use std::process::Command;

/// A separate database for each, and the same commands for both.
struct Both {
    server: TestServer,
    ours: rusqlite::Connection,
    theirs: rusqlite::Connection,
    directory: std::path::PathBuf,
}

impl Both {
    fn new(zone: &str) -> Self {
        let setup = nameward_testkit::Setup::new().without_web();
        let directory = setup.dir().join("powerdns");
        std::fs::create_dir(&directory).unwrap();
        let open = |name: &str| {
            let schema = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";
            let schema = std::fs::read_to_string(schema);
            let schema = schema.expect("PowerDNS is installed: run scripts/install-deps");
            let connection = rusqlite::Connection::open(directory.join(name)).unwrap();
            connection.execute_batch(&schema).unwrap();
            let time_limit = std::time::Duration::from_secs(60);
            connection.busy_timeout(time_limit).unwrap();
            connection
        };
        let (ours, theirs) = (open("ours.db"), open("theirs.db"));
        let database = |name: &str| directory.join(name).display().to_string();
        let settings = format!(
            "launch=gsqlite3\ngsqlite3-dnssec=yes\ngsqlite3-database={}\n",
            database("theirs.db")
        );
        std::fs::write(directory.join("pdns.conf"), settings).unwrap();
        let config = format!(
            "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\n",
            database("ours.db")
        );
        let file = directory.join("zone");
        std::fs::write(&file, format!("$ORIGIN {zone}.\n{ZONE}")).unwrap();
        let server = setup.config(&config).start();
        let both = Both {
            server,
            ours,
            theirs,
            directory,
        };
        both.done(&["load-zone", zone, file.to_str().unwrap()]);
        both.done(&["rectify-zone", zone]);
        both
    }

    /// Runs a command of both; returns what both print to their standard output, ours first.
    fn done(&self, words: &[&str]) -> [String; 2] {
        let ours = self.server.command(&[&["pdnsutil"], words].concat());
        let theirs = Command::new("pdnsutil")
            .arg(format!("--config-dir={}", self.directory.display()))
            .args(words)
            .output()
            .expect("pdnsutil is installed: run scripts/install-deps");
        [ours, theirs].map(|output| {
            assert!(output.status.success(), "{words:?}: {output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    }

    /// Returns what both have stored of keys, metadata and the order of names.
    fn rows(&self) -> [Vec<String>; 2] {
        [&self.ours, &self.theirs].map(|connection| {
            let mut rows = Vec::new();
            for sql in [
                "SELECT 'key ' || id || ' ' || flags || ' ' || active || ' ' || published || ' ' || content FROM cryptokeys",
                "SELECT kind || ' ' || content FROM domainmetadata",
                "SELECT name || ' ' || coalesce(type, '-') || ' ' || auth || ' ' || coalesce(ordername, '-') FROM records",
            ] {
                let mut statement = connection.prepare(sql).unwrap();
                let texts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
                rows.extend(texts.map(Result::unwrap));
            }
            rows.sort();
            rows
        })
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn a_script_of_pdnsutil_about_keys_leaves_the_same_rows_and_prints_the_same() {
    let both = Both::new(NAME);
    let names = [
        "ED25519",
        "ECDSAP256SHA256",
        "ECDSAP384SHA384",
        "RSASHA256",
        "RSASHA512",
    ];
    let files = names.map(|algorithm| {
        // Rows of different keys cannot be compared.
        let made = both
            .server
            .command(&["pdnsutil", "add-zone-key", NAME, algorithm]);
        let number = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        let text = run(&both.server, &["key", "export", NAME, &number]);
        let file = both.directory.join(algorithm);
        std::fs::write(&file, text).unwrap();
        run(
            &both.server,
            &["pdnsutil", "remove-zone-key", NAME, &number],
        );
        file.display().to_string()
    });
    let [ed, p256, p384, rsa, rsa512] = &files;
    let script: &[&[&str]] = &[
        &["import-zone-key", NAME, ed],
        &["rectify-zone", NAME],
        &["import-zone-key", NAME, p256, "inactive", "zsk"],
        &["import-zone-key", NAME, p384, "active", "zsk"],
        &[
            "import-zone-key",
            NAME,
            rsa,
            "ksk",
            "inactive",
            "unpublished",
        ],
        &["import-zone-key", NAME, rsa512, "zsk", "inactive"],
        &["activate-zone-key", NAME, "2"],
        &["deactivate-zone-key", NAME, "3"],
        &["unpublish-zone-key", NAME, "3"],
        &["publish-zone-key", NAME, "4"],
        &["remove-zone-key", NAME, "5"],
        &["set-nsec3", NAME],
        &["rectify-zone", NAME],
        &["set-nsec3", NAME, "1 1 3 ab"],
        &["rectify-zone", NAME],
        &["set-nsec3", NAME, "1 0 0 -", "narrow"],
        &["rectify-zone", NAME],
        &["unset-nsec3", NAME],
        &["rectify-zone", NAME],
        &["set-publish-cds", NAME, "2,4"],
    ];
    for words in script {
        let printed = both.done(words);
        if words[0] == "import-zone-key" {
            assert_eq!(printed[0], printed[1], "{words:?}");
        }
        let [ours, theirs] = both.rows();
        if !words[0].ends_with("set-nsec3") && words[0] != "import-zone-key" {
            assert_eq!(ours, theirs, "{words:?}");
        }
    }
    for words in [
        &["list-keys", NAME][..],
        &["list-keys"],
        &["show-zone", NAME],
        &["export-zone-dnskey", NAME, "1"],
        &["export-zone-ds", NAME],
    ] {
        let [ours, theirs] = both.done(words);
        assert_eq!(ours, theirs, "{words:?}");
    }
    let export = both.done(&["export-zone-key", NAME, "4"]);
    let lines = export.map(|text| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(lines[0].join(""), lines[1].join("").trim());
    both.done(&["disable-dnssec", NAME]);
    both.done(&["rectify-zone", NAME]);
    let [ours, theirs] = both.rows();
    assert_eq!(ours, theirs);
    let [ours, theirs] = both.done(&["show-zone", NAME]);
    assert_eq!(ours, theirs);
    // The nouns of 5.x, and failing commands.
    run(&both.server, &["pdnsutil", "zone", "secure", NAME]);
    let added = run(
        &both.server,
        &["pdnsutil", "zone", "add-key", NAME, "ksk", "active"],
    );
    let number = added.trim().to_owned();
    let shown = run(&both.server, &["pdnsutil", "zone", "show", NAME]);
    assert!(shown.contains(&format!("ID = {number} (CSK)")), "{shown}");
    run(
        &both.server,
        &["pdnsutil", "zone", "remove-key", NAME, &number],
    );
    run(&both.server, &["pdnsutil", "zone", "set-nsec3", NAME]);
    let shown = run(&both.server, &["pdnsutil", "show-zone", NAME]);
    assert!(
        shown.contains("hashed NSEC3 semantics, configuration: 1 0 0 -"),
        "{shown}"
    );
    run(&both.server, &["pdnsutil", "zone", "dnssec-disable", NAME]);
    for words in [
        &["secure-zone", "none.test"][..],
        &["export-zone-dnskey", NAME, "1"],
        &["activate-zone-key", NAME, "1"],
        &["disable-dnssec", NAME],
        &["list-keys", "none.test"],
    ] {
        assert_ne!(
            code(&both.server, &[&["pdnsutil"], words].concat()),
            Some(0),
            "{words:?}"
        );
    }
}

#[test]
fn a_key_that_cannot_be_read_is_listed_with_its_reason_and_can_be_removed() {
    let both = Both::new(NAME);
    run(&both.server, &["zone", "secure", NAME]);
    let at = both.server.address();
    let add = "INSERT INTO cryptokeys (domain_id, flags, active, published, content) SELECT id, 257, 0, 1, \
               'Private-key-format: v1.2\nAlgorithm: 16 (ED448)\nPrivateKey: AAAA\n' FROM domains";
    both.ours.execute(add, []).unwrap();
    let keys = listed(&both.server);
    assert!(keys[1].2.contains("unsupported algorithm 16"), "{keys:?}");
    // It does not sign, so nothing depends on it.
    run(&both.server, &["zone", "secure", NAME, "--denial", "nsec3"]);
    assert!(is_signed(at));
    run(&both.server, &["key", "remove", NAME, &keys[1].0]);
    assert_eq!(listed(&both.server).len(), 1);
    // RFC 5155 section 2: RSASHA1 is for NSEC alone.
    let file = both.directory.join("old.private");
    let rsa = nameward_dnssec::PrivateKey::generate(8, 2048).unwrap();
    let text = rsa
        .to_text()
        .reveal()
        .replace("Algorithm: 8 (RSASHA256)", "Algorithm: 5 (RSASHA1)");
    std::fs::write(&file, text).unwrap();
    let import = ["key", "import", file.to_str().unwrap(), NAME];
    assert_eq!(code(&both.server, &import), Some(7));
    run(&both.server, &["zone", "secure", NAME, "--denial", "nsec"]);
    run(&both.server, &import);
    let again = ["zone", "secure", NAME, "--denial", "nsec3"];
    assert_eq!(code(&both.server, &again), Some(7));
    let set = ["metadata", "set", NAME, "NSEC3PARAM", "1 0 0 -"];
    assert_eq!(code(&both.server, &set), Some(7));
    assert_eq!(code(&both.server, &import), Some(5));
}
