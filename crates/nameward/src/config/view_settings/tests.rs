//! Views as they are read, and the messages for those that cannot be.

use super::*;
use crate::config::error::ConfigError;

fn parse(text: &str) -> Result<Config, String> {
    let config = Config::parse(text, Path::new("/etc/nameward"));
    config.map_err(|problems| ConfigError::Wrong("test.toml".into(), problems).to_string())
}

const INSIDE: &str = "[[view]]\nname = \"inside\"\nnetworks = [\"10.0.0.0/8\"]\n";

#[test]
fn a_view_has_versions_of_zones() {
    let text = format!(
        "[[key]]\nname = \"k.\"\nsecret = \"AAAA\"\n[[backend]]\ntype = \"sqlite\"\npath = \"x.db\"\n{INSIDE}keys = [\"k.\"]\n\
         listen = [\"192.0.2.1:53\"]\nzones = [{{ name = \"example.org\", file = \"in.zone\", allow_transfer = [\"any\"] }}, \
         {{ name = \"example.net\", variant = \"shared\" }}]\n[[view]]\nname = \"lab\"\nnetworks = [\"10.1.0.0/16\"]\n\
         zones = [{{ name = \"example.net\", variant = \"shared\" }}, {{ name = \"a.test\" }}]\n"
    );
    let config = parse(&text).unwrap();
    let names: Vec<_> = config
        .zones
        .iter()
        .map(|zone| zone.name.0.to_string())
        .collect();
    assert_eq!(
        names,
        ["example.org..inside", "example.net..shared", "a.test..lab"]
    );
    assert_eq!(
        config.zones[0].file.as_deref(),
        Some(Path::new("/etc/nameward/in.zone"))
    );
    let rules = rules(&config);
    assert_eq!(rules[1].name, "lab");
    let zones: Vec<_> = rules[1].zones.iter().map(ToString::to_string).collect();
    assert_eq!(zones, ["example.net..shared", "a.test..lab"]);
    assert_eq!(rules[0].listen, ["192.0.2.1:53".parse().unwrap()]);
}

#[test]
fn invalid_views_are_reported() {
    let view = |more: &str| format!("[[view]]\nname = \"a\"\n{more}");
    for (text, expected) in [
        (
            view(""),
            "view \"a\" is never selected: set networks, keys or listen",
        ),
        (
            view("networks = [\"::/0\"]\nkeys = [\"k.\"]\n"),
            "unknown [[key]] k.",
        ),
        (
            view("networks = [\"10.0.0.0/8\"]\n") + INSIDE,
            "view \"inside\": network 10.0.0.0/8 is in view \"a\", too",
        ),
        (format!("{INSIDE}{INSIDE}"), "duplicate view \"inside\""),
        (
            INSIDE.replace("inside", "In"),
            "invalid view name \"In\": expected lower-case letters, digits, \"-\" and \"_\"",
        ),
        (
            format!("{INSIDE}zones = [{{ file = \"x\" }}]\n"),
            "a zone of a view needs a name",
        ),
        (
            format!("{INSIDE}zones = [{{ name = \"x\" }}, {{ name = \"x\", variant = \"y\" }}]\n"),
            "view \"inside\" has zone x. twice",
        ),
        (
            format!("{INSIDE}zones = [{{ name = \"x\", variant = \"Y\" }}]\n"),
            "zone x.: invalid variant \"Y\": a variant has 1 to 61 lower-case letters, digits, \"-\" and \"_\"",
        ),
        (
            format!("{INSIDE}zones = [{{ name = \"x\", kind = \"secondary\" }}]\n"),
            "a secondary zone needs primaries",
        ),
        (
            format!(
                "{INSIDE}zones = [{{ name = \"x\", base = true, kind = \"secondary\", \
                 primaries = [{{ address = \"192.0.2.1\" }}] }}]\n"
            ),
            "a secondary zone has all its names: base is not possible",
        ),
        (
            format!("{INSIDE}[[zone]]\nname = \"x\"\nbase = true\n"),
            "zone x.: base is for versions of zones in views, and this is the common version",
        ),
        (
            format!(
                "{INSIDE}zones = [{{ name = \"x\", file = \"a\" }}]\n[[zone]]\nname = \"x\"\nvariant = \"inside\"\nfile = \"b\"\n"
            ),
            "zone x..inside is defined twice",
        ),
    ] {
        let problems = parse(&text).unwrap_err();
        assert!(
            problems.trim_end().ends_with(expected),
            "{problems}\n{text}"
        );
        assert_eq!(problems.trim_end().lines().count(), 1, "{problems}");
    }
}
