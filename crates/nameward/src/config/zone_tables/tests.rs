//! Tests of zones, templates and keys as an operator writes them, and of the reported mistakes.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use nameward_maintain::policy::{PolicySource, PolicyTable, UpdateScope, ZoneKind};
use nameward_wire::{NameBuf, Type};
use nameward_zone::AccessClient;

use super::*;
use crate::config::error::ConfigError;

fn mistakes(text: &str) -> String {
    match Config::parse(text, Path::new("/etc/nameward")) {
        Ok(_) => String::from("no mistake"),
        Err(problems) => ConfigError::Wrong("test.toml".into(), problems).to_string(),
    }
}

/// Returns the policies of a text, as the server has them.
fn policies_of(text: &str) -> PolicyTable {
    let config = Config::parse(text, Path::new("/etc/nameward"));
    let config = config.expect("the text is a configuration");
    let table = PolicyTable::default();
    table.set(PolicySource::Configured, crate::policies::set(&config));
    table
}

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

const KEY: &str = "[[key]]\nname = \"transfer.example.\"\nsecret = \"c2VjcmV0\"\n";

#[test]
fn a_zone_is_read_with_all_its_settings() {
    let table = policies_of(&format!(
        "{KEY}[[key]]\nname = \"ddns.example\"\nalgorithm = \"hmac-sha512\"\nsecret = \"AAAA\"\n\
         [[zone]]\nname = \"Example.org\"\nkind = \"secondary\"\nfile = \"copy.zone\"\n\
         primaries = [{{ address = \"192.0.2.1\", key = \"transfer.example.\" }}, \
         {{ address = \"[2001:db8::1]:5300\", source = \"2001:db8::2\" }}]\n\
         also_notify = [{{ address = \"192.0.2.2:53\" }}]\n\
         allow_transfer = [\"192.0.2.0/24\", \"key:transfer.example.\"]\n\
         allow_notify = [\"192.0.2.7 key:transfer.example.\"]\n\
         update_policy = [{{ key = \"ddns.example.\", subtree = \"dyn.example.org\", types = [\"A\", \"DHCID\"] }}]\n\
         transfer_size_max_mb = 2\n"
    ));
    let policies = table.load();
    let policy = policies.get(name("example.org.").as_name());
    assert_eq!(policy.kind, ZoneKind::Secondary);
    let servers: Vec<_> = policy
        .primaries
        .iter()
        .map(|server| server.address.to_string())
        .collect();
    assert_eq!(servers, ["192.0.2.1:53", "[2001:db8::1]:5300"]);
    assert_eq!(policy.primaries[0].key, Some(name("transfer.example.")));
    assert_eq!(
        policy.primaries[1].source,
        Some("2001:db8::2".parse().unwrap())
    );
    assert_eq!(policy.also_notify.len(), 1);
    assert_eq!(
        policy.copy_file.as_deref(),
        Some(Path::new("/etc/nameward/copy.zone"))
    );
    assert_eq!(policy.transfer_octets_max, 2 << 20);
    let key = name("transfer.example.");
    let [peer, other] = ["192.0.2.7", "198.51.100.1"].map(|text| text.parse().unwrap());
    assert!(
        policy
            .allow_transfer
            .allows(&AccessClient::in_plain_text(peer, None))
    );
    assert!(
        policy
            .allow_transfer
            .allows(&AccessClient::in_plain_text(other, Some(key.as_name())))
    );
    assert!(
        !policy
            .allow_transfer
            .allows(&AccessClient::in_plain_text(other, None))
    );
    assert!(
        policy
            .allow_notify
            .allows(&AccessClient::in_plain_text(peer, Some(key.as_name())))
    );
    assert!(
        !policy
            .allow_notify
            .allows(&AccessClient::in_plain_text(peer, None))
    );
    assert!(
        !policy
            .allow_notify
            .allows(&AccessClient::in_plain_text(other, Some(key.as_name())))
    );
    let rule = &policy.update_rules[0];
    assert_eq!(rule.scope, UpdateScope::Subtree(name("dyn.example.org.")));
    assert_eq!(rule.types, [Type::A, Type::from_text(b"DHCID").unwrap()]);
    assert_eq!(policies.keys().len(), 2);
}

#[test]
fn a_zone_overrides_its_template_which_overrides_the_defaults() {
    let table = policies_of(
        "[zone_defaults]\nallow_transfer = [\"192.0.2.1\"]\nallow_notify = [\"192.0.2.1\"]\n\
         [[template]]\nname = \"pool\"\nkind = \"secondary\"\nallow_notify = [\"192.0.2.2\"]\n\
         primaries = [{ address = \"192.0.2.53\" }]\ntransfer_size_max_mb = 5\n\
         [[zone]]\nname = \"a\"\ntemplate = \"pool\"\nprimaries = [{ address = \"192.0.2.54\" }]\n\
         [[zone]]\nname = \"b\"\nallow_transfer = []\n",
    );
    let policies = table.load();
    let a = policies.get(name("a.").as_name());
    assert_eq!(a.kind, ZoneKind::Secondary);
    assert_eq!(a.primaries[0].address, "192.0.2.54:53".parse().unwrap());
    assert_eq!(a.transfer_octets_max, 5 << 20);
    let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
    assert!(a.allow_transfer.contains(one) && !a.allow_notify.contains(one));
    assert!(a.allow_notify.contains(two));
    let b = policies.get(name("b.").as_name());
    assert!(b.allow_transfer.is_none() && b.allow_notify.contains(one));
    assert_eq!(b.transfer_octets_max, 4096 << 20);
}

#[test]
fn errors_are_reported_with_their_positions() {
    for (text, expected) in [
        (
            "[[zone]]\nname = \"a\"\nkind = \"secondary\"\n",
            "test.toml:3:8: a secondary zone needs primaries",
        ),
        (
            "[[zone]]\nname = \"a\"\nkind = \"slave\"\n",
            "test.toml:3:8: kind: expected \"native\", \"primary\", \"secondary\", \"producer\" or \"consumer\", found \"slave\"",
        ),
        (
            "[[zone]]\nname = \"a\"\nfile = \"x\"\nprimaries = [{ address = \"192.0.2.1\" }]\n",
            "test.toml:4:13: a native zone is not transferred from primaries",
        ),
        (
            "[[zone]]\nname = \"a\"\ntemplate = \"pol\"\n[[template]]\nname = \"pool\"\n",
            "test.toml:3:12: unknown [[template]] \"pol\"; did you mean \"pool\"?",
        ),
        (
            "[[template]]\nname = \"t\"\n[[template]]\nname = \"t\"\n",
            "test.toml:3:1: duplicate template \"t\"",
        ),
        (
            "[[zone]]\nname = \"a\"\nkind = \"secondary\"\nprimaries = [{ adress = \"192.0.2.1\" }]\n",
            "test.toml:4:16: primaries: unknown key \"adress\"; did you mean \"address\"?",
        ),
        (
            "[[zone]]\nname = \"a\"\nalso_notify = [{ address = \"ns1.example\" }]\n",
            "test.toml:3:28: also_notify: expected an address such as",
        ),
        (
            "[[zone]]\nname = \"a\"\nallow_transfer = [\"key:k.\"]\n",
            "test.toml:3:19: unknown [[key]] k.",
        ),
        (
            "[[key]]\nname = \"k.\"\nsecret = \"AAAA\"\n[[zone]]\nname = \"a\"\nkind = \"secondary\"\n\
             primaries = [{ address = \"::1\", key = \"kk.\" }]\n",
            "test.toml:7:39: unknown [[key]] kk.; did you mean \"k.\"?",
        ),
        (
            "[[zone]]\nname = \"a\"\nupdate_policy = [{ key = \"k.\", subtree = \"b\" }]\n",
            "test.toml:3:17: update_policy: b. is not in the zone",
        ),
        (
            "[[zone]]\nname = \"a\"\nupdate_policy = [{ name = \"a\", self = true }]\n",
            "test.toml:3:18: update_policy: a rule has one of subtree, name and self",
        ),
        (
            "[[zone]]\nname = \"c\"\nkind = \"producer\"\nfile = \"c.zone\"\n",
            "test.toml:4:8: a producer zone is generated by this server",
        ),
        (
            "[[key]]\nname = \"k.\"\nsecret = \"AAAA\"\n[[key]]\nname = \"K\"\nsecret = \"AAAA\"\n",
            "test.toml:4:1: duplicate key K.",
        ),
        (
            "[[key]]\nname = \"k.\"\n",
            "test.toml:1:1: a key needs a secret or a secret_file",
        ),
        (
            "[[key]]\nsecret = \"AAAA\"\n",
            "test.toml:1:1: a key needs a name",
        ),
    ] {
        let reported = mistakes(text);
        assert!(reported.contains(expected), "{text}: {reported}");
    }
}

#[test]
fn keys_that_may_be_stored_elsewhere_are_not_reported_as_missing() {
    let zone = "[[zone]]\nname = \"a\"\nallow_transfer = [\"key:k.\"]\n";
    assert!(mistakes(zone).contains("unknown [[key]]"));
    let state = "[server]\nstate_directory = \"/var/lib/nameward\"\n";
    assert_eq!(mistakes(&format!("{state}{zone}")), "no mistake");
}

#[test]
fn secrets_are_not_part_of_any_message() {
    let reported = mistakes("[[key]]\nname = \"k.\"\nsecret = \"hunter2*\"\n");
    assert_eq!(reported, "test.toml:3:10: secret: expected base64");
    let config = Config::parse(KEY, Path::new("")).unwrap();
    let shown = format!("{config:?} {:?}", crate::policies::set(&config));
    assert!(
        !shown.contains("c2VjcmV0") && !shown.contains("secret\""),
        "{shown}"
    );
    assert!(!shown.contains("[115, 101"), "{shown}");
}

#[test]
fn a_file_with_a_secret_must_be_readable_by_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("k.secret");
    fs::write(&file, "c2Vj\ncmV0\n").unwrap();
    let text = format!("[[key]]\nname = \"k.\"\nsecret_file = {:?}\n", file);
    for mode in [0o644, 0o640, 0o604] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let reported = mistakes(&text);
        let expected =
            format!("has mode {mode:04o}: it must be readable by its owner only (chmod 0600)");
        assert!(reported.contains(&expected), "{reported}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let config = Config::parse(&text, Path::new("")).unwrap();
    assert_eq!(config.keys[0].secret.reveal(), b"secret");
    fs::write(&file, "no base64!").unwrap();
    assert!(
        mistakes(&text).ends_with("k.secret: expected base64"),
        "{}",
        mistakes(&text)
    );
    fs::remove_file(&file).unwrap();
    assert!(mistakes(&text).contains("No such file or directory"));
}
