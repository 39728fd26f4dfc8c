//! Tests of the configuration from the operator's view: defaults, values, and every kind of
//! mistake.

use super::setting::Listed;
use super::*;

/// Returns the messages about a text, as lines of `test.toml`.
fn mistakes(text: &str) -> String {
    match Config::parse(text, Path::new("/etc/nameward")) {
        Ok(_) => String::from("no mistake"),
        Err(problems) => ConfigError::Wrong("test.toml".into(), problems).to_string(),
    }
}

fn parse(text: &str) -> Config {
    Config::parse(text, Path::new("/etc/nameward")).expect("the text is a configuration")
}

#[test]
fn an_empty_file_gives_the_defaults() {
    assert_eq!(parse(""), Config::defaults());
}

#[test]
fn the_printed_file_is_a_configuration_with_the_defaults() {
    assert_eq!(parse(&as_toml()), Config::defaults());
}

#[test]
fn every_printed_default_can_be_written_into_a_file() {
    for setting in all_settings() {
        let Listed {
            section,
            key,
            default,
            ..
        } = setting;
        let text = if section == Backend::NAME {
            format!("[[backend]]\ndirectory = \"zones\"\n{key} = {default}\n").replace(
                "directory = \"zones\"\ndirectory = \"\"",
                "directory = \"zones\"",
            )
        } else if section == KeySettings::NAME {
            let rest = match key {
                "name" => "secret = \"AAAA\"",
                "secret" => continue,
                _ => "name = \"k.\"\nsecret = \"AAAA\"",
            };
            format!("[[key]]\n{rest}\n{key} = {default}\n")
        } else if section == AutoprimarySettings::NAME {
            let all = [
                ("address", "\"192.0.2.1\""),
                ("name_server", "\"ns.example\""),
            ];
            let rest = all.iter().filter(|(other, _)| *other != key);
            let rest: String = rest
                .map(|(key, value)| format!("{key} = {value}\n"))
                .collect();
            format!("[[autoprimary]]\n{rest}{key} = {default}\n")
        } else if [TemplateSettings::NAME, DnssecPolicySettings::NAME].contains(&section)
            && key == "name"
        {
            continue;
        } else if [
            ZoneSettings::NAME,
            TemplateSettings::NAME,
            DnssecPolicySettings::NAME,
        ]
        .contains(&section)
            && key != "name"
        {
            format!("[[{section}]]\nname = \"example\"\n{key} = {default}\n")
        } else if section == ViewSettings::NAME && key == "name" {
            // A view needs one.
            continue;
        } else if section == ViewSettings::NAME {
            // Two rules, one of which may be the setting itself.
            let (one, other) = ("networks = [\"::/0\"]\n", "match_clients = [\"any\"]\n");
            let rule = if key == "networks" { other } else { one };
            format!("[[view]]\nname = \"v\"\n{rule}{key} = {default}\n")
        } else if [PoolSettings::NAME, MapSettings::NAME].contains(&section) && key == "name" {
            continue;
        } else if section == PoolSettings::NAME && key == "members" {
            // A pool needs some.
            continue;
        } else if section == PoolSettings::NAME {
            format!("[[pool]]\nname = \"p\"\nmembers = [\"192.0.2.1\"]\n{key} = {default}\n")
        } else if section == MapSettings::NAME {
            format!("[[map]]\nname = \"m\"\n{key} = {default}\n")
        } else if section == ZoneSettings::NAME {
            format!("[[zone]]\n{key} = {default}\n")
        } else {
            format!("[{section}]\n{key} = {default}\n")
        };
        assert_eq!(mistakes(&text), "no mistake", "{text}");
    }
}

#[test]
fn the_configuration_page_matches_the_tables() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(page, as_markdown()).unwrap();
    }
    let written = fs::read_to_string(page).unwrap();
    assert!(
        written == as_markdown(),
        "docs/configuration.md is old: run this test with UPDATE_DOCS=1"
    );
}

#[test]
fn the_default_version_is_this_version() {
    let version = concat!("Nameward ", env!("CARGO_PKG_VERSION"));
    assert_eq!(Server::defaults().version, version);
}

#[test]
fn relative_paths_start_at_the_file() {
    let config = parse(
        "[[backend]]\ntype = \"file\"\ndirectory = \"zones\"\n\
         zones = [{ name = \"example.org\", file = \"/srv/example.org.zone\" }]\n",
    );
    let backend = &config.backends[0];
    assert_eq!(
        backend.directory.as_deref(),
        Some(Path::new("/etc/nameward/zones"))
    );
    let listed = backend.zones.iter().next().unwrap();
    assert_eq!(listed.path(), Path::new("/srv/example.org.zone"));
}

#[test]
fn several_backends_keep_their_order() {
    let config = parse("[[backend]]\ndirectory = \"a\"\n[[backend]]\ndirectory = \"b\"\n");
    let directories: Vec<_> = config
        .backends
        .iter()
        .map(|b| b.directory.clone().unwrap())
        .collect();
    assert_eq!(
        directories,
        ["/etc/nameward/a", "/etc/nameward/b"].map(PathBuf::from)
    );
}

#[test]
fn an_unknown_key_is_reported_with_its_position_and_the_most_similar_known_key() {
    assert_eq!(
        mistakes("[server]\nworkers = 1\n  lisen = []\n"),
        "test.toml:3:3: unknown key \"lisen\" in [server]; did you mean \"listen\"?"
    );
}

#[test]
fn an_unknown_table_is_named_with_the_nearest_known_one() {
    assert_eq!(
        mistakes("[sever]\nworkers = 1\n"),
        "test.toml:1:2: unknown key \"sever\"; did you mean [server]?"
    );
}

#[test]
fn the_error_of_a_key_outside_its_table_names_the_table() {
    assert_eq!(
        mistakes("listen = []\n"),
        "test.toml:1:1: unknown key \"listen\"; it belongs in [server] or [web] or [api] or [view]"
    );
    assert_eq!(
        mistakes("[web]\nworkers = 1\n"),
        "test.toml:2:1: unknown key \"workers\" in [web]; it belongs in [server]"
    );
}

#[test]
fn a_wrong_type_is_reported_with_the_expected_and_the_actual_one() {
    assert_eq!(
        mistakes("[server]\nlisten = 53\n"),
        "test.toml:2:10: listen: expected a list of addresses, or of tables with an address and its settings, found the \
         integer 53"
    );
    assert_eq!(
        mistakes("[server]\nworkers = \"two\"\n"),
        "test.toml:2:11: workers: expected an integer from 0 to 1024, found \"two\""
    );
    assert_eq!(
        mistakes("[server]\nany = \"some\"\n"),
        "test.toml:2:7: any: expected \"one\", \"truncate\" or \"all\", found \"some\""
    );
    assert_eq!(
        mistakes("server = 1\n"),
        "test.toml:1:10: expected a table [server], found a value"
    );
}

#[test]
fn an_invalid_list_entry_is_reported_with_its_position() {
    assert_eq!(
        mistakes("[server]\nlisten = [\"127.0.0.1:53\", \"localhost\"]\n"),
        "test.toml:2:27: listen: expected an address with a port such as \"127.0.0.1:53\" or \
         \"[::1]:53\", found \"localhost\""
    );
}

#[test]
fn numbers_outside_their_bounds_are_refused() {
    for number in ["-1", "1025", "99999999999999999999"] {
        let reported = mistakes(&format!("[server]\nworkers = {number}\n"));
        assert!(
            reported.contains("expected an integer from 0 to 1024"),
            "{reported}"
        );
    }
}

#[test]
fn a_secret_is_never_part_of_a_message() {
    let reported = mistakes("[web]\npassword = 31337\n");
    assert_eq!(reported, "test.toml:2:12: password: expected a string");
    let config = parse("[web]\npassword = \"hunter2\"\napi_key = \"hunter3\"\n");
    assert!(!format!("{config:?}").contains("hunter"));
}

#[test]
fn a_syntax_error_is_one_line_with_its_position() {
    let reported = mistakes("[server]\nlisten = [\n");
    assert!(reported.starts_with("test.toml:"), "{reported}");
    assert_eq!(reported.lines().count(), 1, "{reported}");
}

#[test]
fn all_mistakes_are_listed_in_the_order_of_the_file() {
    let reported = mistakes("[web]\nport = 1\n[server]\nlisten = 1\n");
    let places: Vec<_> = reported
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(places, ["test.toml:2:1:", "test.toml:4:10:"]);
}

#[test]
fn a_file_of_thousands_of_mistakes_lists_twenty() {
    let text: String = (0..5000).map(|n| format!("key{n} = 1\n")).collect();
    assert_eq!(mistakes(&text).lines().count(), error::PROBLEMS_MAX);
}

#[test]
fn a_backend_without_any_source_is_a_mistake() {
    assert!(
        mistakes("[[backend]]\ntype = \"file\"\n").contains("needs a directory, a list of zones")
    );
    assert!(mistakes("[backend]\ntype = \"file\"\n").contains("write [[backend]]"));
    assert!(
        mistakes("[[backend]]\ntype = \"file\"\nzones = [{ name = \"a\" }]\n")
            .contains("expected a zone such as")
    );
}

#[test]
fn the_command_line_wins_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nameward.toml");
    fs::write(
        &file,
        "[server]\nlisten = [\"192.0.2.1:53\"]\nworkers = 7\n\
         [[backend]]\nzones = [{ name = \"example.org\", file = \"old\" }, { name = \"example.net\", file = \"kept\" }]\n",
    )
    .unwrap();
    let overrides = Overrides {
        file: Some(file),
        listen: vec!["127.0.0.1:5353".parse().unwrap()],
        zones: vec![ZoneFile {
            name: "Example.ORG.".into(),
            file: "new".into(),
        }],
        workers: Some(2),
        ..Overrides::default()
    };
    let config = Config::load(&overrides).unwrap();
    assert_eq!(config.listen_addresses(), overrides.listen);
    assert_eq!(config.server.workers.get(), 2);
    let files: Vec<_> = config
        .backends
        .iter()
        .flat_map(|b| b.zones.iter())
        .map(|listed| listed.file)
        .collect();
    assert_eq!(files, ["kept", "new"]);
    assert!(!config.example);
}

#[test]
fn without_file_and_zones_the_example_runs() {
    assert!(Config::load(&Overrides::default()).unwrap().example);
    let zones = vec![ZoneFile {
        name: "a".into(),
        file: "b".into(),
    }];
    assert!(
        !Config::load(&Overrides {
            zones,
            ..Overrides::default()
        })
        .unwrap()
        .example
    );
}

#[test]
fn a_missing_file_is_one_line_that_names_it() {
    let overrides = Overrides {
        file: Some("/nonexistent/n.toml".into()),
        ..Overrides::default()
    };
    let reported = Config::load(&overrides).unwrap_err().to_string();
    assert_eq!(
        reported,
        "cannot read /nonexistent/n.toml: No such file or directory"
    );
}

#[test]
fn lists_of_clients_are_read_and_mistakes_in_them_are_reported() {
    let config = parse(
        "[[zone]]\nname = \"Example.org\"\nallow_query = [\"!192.0.2.1\", \"192.0.2.0/24\", \"::1\"]\n\
         [[zone]]\nname = \"open.example.\"\nallow_query = [\"any\"]\n[[zone]]\nname = \"plain.example\"\n",
    );
    let list = config.zones[0].allow_query.0.clone().unwrap().0;
    let contains = |client: &str| list.contains(client.parse().unwrap());
    assert!(!contains("192.0.2.1") && contains("192.0.2.2") && contains("::1"));
    assert!(config.zones[1].allow_query.0.as_ref().unwrap().0.is_any());
    assert_eq!(config.zones[2].allow_query.0, None);
    for (text, expected) in [
        (
            "[[zone]]\nallow_query = []\n",
            "test.toml:1:1: a zone needs a name",
        ),
        (
            "[[zone]]\nname = \"a\"\n[[zone]]\nname = \"A.\"\n",
            "test.toml:3:1: duplicate [[zone]] A.",
        ),
        (
            "[zone]\nname = \"a\"\n",
            "zone is a list of tables: write [[zone]]",
        ),
        (
            "[[zone]]\nname = \"a..b\"\n",
            "test.toml:2:8: name: invalid zone name \"a..b\"",
        ),
        (
            "[server]\nblackhole = [\"key:k.\"]\n",
            "test.toml:2:14: blackhole: \"key:k.\": keys are not supported in this list",
        ),
        (
            "[server]\nblackhole = [\"everybody\"]\n",
            "test.toml:2:14: blackhole: expected an address or network such as",
        ),
    ] {
        assert!(
            mistakes(text).contains(expected),
            "{text}: {}",
            mistakes(text)
        );
    }
}
