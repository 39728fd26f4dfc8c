//! The commands of pdnsutil.

use std::path::Path;

use nameward_control::operations::{
    KeyTemplate, OperationError, OperationRequest, Outcome, SecretText, ZoneSettings,
};
use nameward_wire::rdata::{parse_text, write_text};
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type};

use super::keys::{self, template};
use super::secure_all::SerialRaise;
use super::verbs::{IMPOSSIBLE, NATIVE, NOUNS, OLD};
use super::{
    PdnsStep, ZoneCount, answer, impossible, increase_serial, list_autoprimaries, list_members,
    list_metadata, list_zone, list_zones, native, tools, tsig, views, wrong,
};
use crate::remote;

/// Default TTL: `default-ttl` of PowerDNS.
const DEFAULT_TTL: &str = "3600";

/// Returns the verb of 4.x and its arguments.
fn spelled<'w>(words: &'w [&'w str]) -> Option<(&'w str, &'w [&'w str])> {
    let (first, rest) = words.split_first()?;
    let is_it = |(noun, verb, _): &&(&str, &str, &str)| noun == first && rest.first() == Some(verb);
    let old = OLD.iter().find(|(old, _)| old == first);
    match (NOUNS.iter().find(is_it), old) {
        (Some((_, _, verb)), _) => Some((verb, &rest[1..])),
        (None, Some((_, verb))) => Some((verb, rest)),
        (None, None) => Some((first, rest)),
    }
}

/// Returns the steps of a command.
pub(super) fn plan<'w>(words: &'w [&'w str]) -> Outcome<Vec<PdnsStep<'w>>> {
    let Some((verb, list)) = spelled(words) else {
        return Err(wrong(
            "pdnsutil COMMAND [ARGUMENT ...], see docs/moving-in.md",
        ));
    };
    if let Some((_, instead)) = IMPOSSIBLE.iter().find(|(known, _)| *known == verb) {
        return Err(impossible(verb, instead));
    }
    let steps = native_steps(verb, list)
        .or_else(|| zone_steps(verb, list))
        .or_else(|| record_steps(verb, list))
        .or_else(|| key_steps(verb, list))
        .or_else(|| tool_steps(verb, list));
    match steps {
        Some(steps) => Ok(steps),
        None if is_known(verb) => Err(OperationError::invalid(format!(
            "{verb}: invalid arguments ({}), see pdnsutil(1)",
            list.len()
        ))),
        None => Err(OperationError::invalid(format!(
            "unknown pdnsutil command {verb:?}"
        ))),
    }
}

fn is_known(verb: &str) -> bool {
    let is_tool = ["list-algorithms", "raw-lua-from-content"].contains(&verb);
    is_tool || NOUNS.iter().any(|(_, _, known)| *known == verb)
}

/// Maps commands that the table has with this number of arguments.
fn native_steps<'w>(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep<'w>>> {
    let is_it = |(known, template): &&(&str, &str)| {
        *known == verb && template.matches('$').count() == arguments.len()
    };
    let (_, template) = NATIVE.iter().find(is_it)?;
    let word = |word| match word {
        "$1" => arguments[0],
        "$2" => arguments[1],
        "$3" => arguments[2],
        word => word,
    };
    let words: Vec<&str> = template.split(' ').map(word).collect();
    Some(vec![native(&words)])
}

/// Returns one of our commands with further arguments.
fn native_with<'w>(words: &[&str], more: &[&str]) -> Vec<PdnsStep<'w>> {
    vec![native(&[words, more].concat())]
}

/// Returns one of our commands with a flag before each further argument.
fn native_flagged<'w>(words: &[&str], flag: &str, values: &[&str]) -> Vec<PdnsStep<'w>> {
    let flagged = values.iter().flat_map(|value| [flag, value]);
    native_with(words, &flagged.collect::<Vec<_>>())
}

/// Maps commands for whole zones; `None` if it is not one of them, or the arguments are wrong.
fn zone_steps<'w>(verb: &'w str, arguments: &'w [&'w str]) -> Option<Vec<PdnsStep<'w>>> {
    Some(match (verb, arguments) {
        ("list-zone", [zone]) => answer(move |overrides| list_zone(zone, overrides)),
        ("list-all-zones", [] | [_]) => {
            let kind = arguments.first().copied();
            answer(move |overrides| list_zones(kind, ZoneCount::Silent, overrides))
        }
        ("create-secondary-zone", [zone, addresses @ ..]) if !addresses.is_empty() => {
            let words = ["zone", "create", zone, "--kind", "secondary"];
            native_flagged(&words, "--primary", addresses)
        }
        ("change-secondary-zone-primary", [zone, addresses @ ..]) if !addresses.is_empty() => {
            native_flagged(&["zone", "set", zone], "--primary", addresses)
        }
        ("hash-password", _) => native_with(&["hash-password"], &[]),
        ("check-all-zones", _) => native_with(&["check"], &[]),
        ("load-zone", pairs) if !pairs.is_empty() && pairs.len() % 2 == 0 => {
            let pairs = pairs.chunks(2);
            pairs
                .map(|pair| native(&[&["zone", "import"], pair].concat()))
                .collect()
        }
        ("show-zone", [zone]) => answer(move |overrides| keys::show(zone, overrides)),
        ("increase-serial", [zone]) => answer(move |overrides| increase_serial(zone, overrides)),
        ("list-member-zones", [catalog]) => {
            answer(move |overrides| list_members(catalog, overrides))
        }
        ("list-autoprimaries", []) => answer(list_autoprimaries),
        ("rectify-zone", zones) if !zones.is_empty() => {
            let steps = zones.iter().map(|zone| native(&["zone", "rectify", zone]));
            steps.collect()
        }
        ("secure-all-zones", []) => vec![PdnsStep::SecureAll(SerialRaise::Preserved)],
        ("secure-all-zones", ["increase-serial"]) => vec![PdnsStep::SecureAll(SerialRaise::Raised)],
        ("rectify-all-zones", _) => answer(|_| {
            eprintln!(
                "nothing to rectify: this server maintains auth, ordername and empty non-terminals with every change, \
                 and its answers do not depend on them"
            );
            Ok(String::new())
        }),
        ("view-list-all", []) => answer(views::list_all),
        ("view-list", [view]) => answer(move |overrides| views::list(view, overrides)),
        ("network-list", []) => answer(views::list_networks),
        _ => return metadata_steps(verb, arguments),
    })
}

/// Maps commands for the metadata of a zone; `None` as for [`zone_steps`].
fn metadata_steps<'w>(verb: &'w str, arguments: &'w [&'w str]) -> Option<Vec<PdnsStep<'w>>> {
    Some(match (verb, arguments) {
        ("get-meta", [zone, kinds @ ..]) => {
            answer(move |overrides| list_metadata(zone, kinds, overrides))
        }
        ("add-meta", [zone, kind, values @ ..]) if !values.is_empty() => {
            native_with(&["metadata", "add", zone, kind], values)
        }
        ("set-meta", [zone, kind, values @ ..]) => {
            native_with(&["metadata", "set", zone, kind], values)
        }
        ("set-publish-cdnskey", [zone, "delete"]) => {
            native_with(&["metadata", "set", zone, "PUBLISH-CDNSKEY"], &["0"])
        }
        _ => return None,
    })
}

/// Maps record commands.
fn record_steps<'w>(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep<'w>>> {
    let change = match verb {
        "add-record" => "add",
        "replace-rrset" => "set",
        _ => return None,
    };
    let [zone, name, rtype, rest @ ..] = arguments else {
        return None;
    };
    // A number is a TTL if data follows it.
    let (ttl, contents) = match rest {
        [ttl, more, ..] if ttl.bytes().all(|c| c.is_ascii_digit()) && !more.is_empty() => {
            (*ttl, &rest[1..])
        }
        _ => (DEFAULT_TTL, rest),
    };
    if contents.is_empty() {
        return None;
    }
    let contents: Vec<String> = contents.iter().map(|text| absolute(rtype, text)).collect();
    let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
    // Data may start with a minus.
    let words = ["record", change, "--", zone, name, rtype, ttl];
    Some(native_with(&words, &contents))
}

/// Returns data with absolute names: PowerDNS accepts them without a final dot.
fn absolute(rtype: &str, text: &str) -> String {
    let Some(rtype) = Type::from_text(rtype.as_bytes()) else {
        return text.into();
    };
    let (mut rdata, mut written) = (Vec::new(), String::new());
    let mut fields = Fields::new(text.as_bytes());
    let read = parse_text(rtype, &mut fields, Name::ROOT, &mut rdata);
    if read.is_ok() && write_text(rtype, &rdata, &mut written).is_ok() {
        written
    } else {
        // The server reports the error later.
        text.into()
    }
}

/// Maps commands for DNSSEC keys and TSIG keys.
fn key_steps<'w>(verb: &'w str, arguments: &'w [&'w str]) -> Option<Vec<PdnsStep<'w>>> {
    Some(match (verb, arguments) {
        ("secure-zone", zones) if !zones.is_empty() => zones
            .iter()
            .map(|zone| native(&["zone", "secure", zone]))
            .collect(),
        ("list-keys", [] | [_]) => {
            let zone = arguments.first().copied();
            answer(move |overrides| keys::list(zone, overrides))
        }
        ("export-zone-ds", [zone]) => answer(move |overrides| keys::ds(zone, overrides)),
        ("export-zone-dnskey", [zone, key]) => {
            let key = key.parse().ok()?;
            answer(move |overrides| keys::dnskey(zone, key, overrides))
        }
        ("set-nsec3", [zone, rest @ ..]) if rest.len() < 3 => set_nsec3(zone, rest)?,
        // In this order: NSEC3NARROW alone has no effect.
        ("unset-nsec3", [zone]) => vec![
            native(&["metadata", "remove", zone, "NSEC3PARAM"]),
            native(&["metadata", "remove", zone, "NSEC3NARROW"]),
        ],
        ("add-zone-key", [zone, options @ ..]) if !options.is_empty() => {
            let key = added_key(zone, options);
            answer(move |overrides| keys::add(key, overrides))
        }
        ("import-zone-key" | "import-zone-key-pem", [zone, file, options @ ..]) => {
            let key = template(key_template(zone, "ksk"), options);
            answer(move |overrides| keys::import(Path::new(file), key, overrides))
        }
        ("generate-tsig-key", [name, algorithm]) => {
            answer(move |overrides| tsig::generate(name, algorithm, overrides))
        }
        ("import-tsig-key", [name, algorithm, secret]) => answer(move |overrides| {
            let secret = SecretText::from((*secret).to_owned());
            tsig::import(name, algorithm, secret, overrides)
        }),
        ("list-tsig-keys", []) => answer(tsig::list),
        ("delete-tsig-key", [name]) => answer(move |overrides| tsig::delete(name, overrides)),
        ("activate-tsig-key" | "deactivate-tsig-key", [zone, name, role]) => {
            let (kind, is_enabled) = (tsig_kind(role)?, verb == "activate-tsig-key");
            answer(move |overrides| tsig::set_active((zone, name), kind, is_enabled, overrides))
        }
        _ => return None,
    })
}

/// Returns the key of `add-zone-key`: pdnsutil creates one that does not sign yet.
fn added_key(zone: &str, options: &[&str]) -> KeyTemplate {
    let zsk = KeyTemplate {
        inactive: true,
        force: true,
        ..key_template(zone, "zsk")
    };
    template(zsk, options)
}

/// Maps commands for single keys, hashes, records and catalog options.
fn tool_steps<'w>(verb: &'w str, arguments: &'w [&'w str]) -> Option<Vec<PdnsStep<'w>>> {
    Some(match (verb, arguments) {
        ("generate-zone-key", [role, words @ ..]) => {
            let flags = match *role {
                "ksk" => 257,
                "zsk" => 256,
                _ => return None,
            };
            answer(move |_| Ok(tools::generate_key(flags, words)?))
        }
        ("hash-zone-record", [zone, name]) => {
            answer(move |overrides| tools::hash_record(zone, name, overrides))
        }
        ("list-algorithms", [] | ["with-backend"]) => answer(|_| Ok(tools::list_algorithms())),
        ("raw-lua-from-content", [rtype, content]) => {
            answer(move |_| Ok(tools::lua_string(rtype, content)?))
        }
        ("zonemd-verify-file", [zone, file]) => {
            answer(move |_| Ok(tools::verify_zonemd(zone, Path::new(file))?))
        }
        ("clear-zone", [zone]) => answer(move |overrides| tools::clear_zone(zone, overrides)),
        ("set-options-json", [zone, json]) => set_options(ZoneSettings {
            zone: (*zone).into(),
            options: Some((*json).into()),
            ..ZoneSettings::default()
        }),
        ("set-option", [zone, role, name, values @ ..]) if !values.is_empty() => {
            set_options(ZoneSettings {
                zone: (*zone).into(),
                options_patch: Some(options_patch(role, name, values)?),
                ..ZoneSettings::default()
            })
        }
        _ => return None,
    })
}

/// Changes the catalog options of a zone.
fn set_options<'w>(settings: ZoneSettings) -> Vec<PdnsStep<'w>> {
    answer(|overrides| {
        remote::send(OperationRequest::ZoneSet(settings), overrides, &mut drop)?;
        Ok(String::new())
    })
}

/// Returns the change of one option as a JSON merge patch (RFC 7396); an empty value removes it.
fn options_patch(role: &str, name: &str, values: &[&str]) -> Option<String> {
    if !matches!(role, "producer" | "consumer") {
        return None;
    }
    let absolute = |text: &str| format!("{}.", text.trim_end_matches('.'));
    let value = match (name, values) {
        ("coo" | "unique" | "group", [""]) => serde_json::Value::Null,
        ("coo" | "unique", [value]) => absolute(value).into(),
        ("group", values) => values.iter().copied().collect(),
        _ => return None,
    };
    Some(serde_json::json!({ role: { name: value } }).to_string())
}

/// Returns the metadata kind that binds a TSIG key to a zone.
fn tsig_kind(role: &str) -> Option<&'static str> {
    match role {
        "primary" | "master" | "producer" => Some("TSIG-ALLOW-AXFR"),
        "secondary" | "slave" | "consumer" => Some("AXFR-MASTER-TSIG"),
        _ => None,
    }
}

fn key_template(zone: &str, role: &str) -> KeyTemplate {
    KeyTemplate {
        zone: zone.into(),
        role: Some(role.into()),
        ..KeyTemplate::default()
    }
}

/// Returns the NSEC3 metadata changes, in an order that keeps the zone consistent between two
/// steps.
fn set_nsec3<'w>(zone: &str, rest: &[&str]) -> Option<Vec<PdnsStep<'w>>> {
    let param = rest.first().unwrap_or(&"1 0 0 -");
    let param = native(&["metadata", "set", zone, "NSEC3PARAM", param]);
    match rest.get(1) {
        None => Some(vec![
            native(&["metadata", "remove", zone, "NSEC3NARROW"]),
            param,
        ]),
        Some(&"narrow") => Some(vec![
            param,
            native(&["metadata", "set", zone, "NSEC3NARROW", "1"]),
        ]),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        text.split('|').collect()
    }

    #[test]
    fn both_spellings_become_our_commands() {
        for (theirs, ours) in [
            (
                "add-record|a.test|www|A|192.0.2.1",
                "record|add|--|a.test|www|A|3600|192.0.2.1",
            ),
            (
                "rrset|add|a.test|www|A|60|192.0.2.1",
                "record|add|--|a.test|www|A|60|192.0.2.1",
            ),
            (
                "add-record|a.test|@|MX|10 m.a.test",
                "record|add|--|a.test|@|MX|3600|10 m.a.test.",
            ),
            (
                "replace-rrset|a.test|t|TXT|60|\"x\"",
                "record|set|--|a.test|t|TXT|60|\"x\"",
            ),
            ("rrset|delete|a.test|www|A", "record|delete|a.test|www|A"),
            (
                "zone|create|a.test|ns.b.test",
                "zone|create|a.test|--ns|ns.b.test",
            ),
            ("set-meta|a.test|X-A", "metadata|remove|a.test|X-A"),
            ("metadata|set|a.test|X-A|b|c", "metadata|set|a.test|X-A|b|c"),
            (
                "zone|set-kind|a.test|primary",
                "zone|set|a.test|--kind|primary",
            ),
            (
                "create-slave-zone|a.test|192.0.2.1",
                "zone|create|a.test|--kind|secondary|--primary|192.0.2.1",
            ),
            (
                "change-slave-zone-master|a.test|192.0.2.1",
                "zone|set|a.test|--primary|192.0.2.1",
            ),
            (
                "add-supermaster|192.0.2.1|ns.test|joe",
                "autoprimary|add|192.0.2.1|ns.test|joe",
            ),
            ("create-zone|a.test", "zone|create|a.test"),
        ] {
            let theirs = words(theirs);
            match &plan(&theirs).unwrap()[..] {
                [PdnsStep::Run(command)] => assert_eq!(*command, words(ours), "{theirs:?}"),
                _ => panic!("{theirs:?} is not a command of ours"),
            }
        }
        let key = KeyTemplate {
            algorithm: Some("rsasha256".into()),
            bits: Some(2048),
            inactive: true,
            force: true,
            ..key_template("a.test", "zsk")
        };
        let arguments = ["a.test", "2048", "inactive", "rsasha256"];
        assert_eq!(added_key(arguments[0], &arguments[1..]), key);
        assert_eq!(added_key("a.test", &["zsk", "2048", "rsasha256"]), key);
        for theirs in ["secure-all-zones", "zone|secure-all"] {
            let theirs = format!("{theirs}|increase-serial");
            let [PdnsStep::SecureAll(raise)] = plan(&words(&theirs)).unwrap()[..] else {
                panic!("{theirs} signs no zones");
            };
            assert_eq!(raise, SerialRaise::Raised);
        }
        for (new, old) in [
            ("zone|add-key|a.test|zsk", "add-zone-key|a.test|zsk"),
            ("zone|list|a.test", "list-zone|a.test"),
        ] {
            let (new, old) = (words(new), words(old));
            assert_eq!(spelled(&new), spelled(&old));
            let steps = plan(&new).unwrap();
            assert!(matches!(steps[..], [PdnsStep::Answer(_)]), "{new:?}");
        }
    }

    #[test]
    fn every_known_verb_is_planned_refused_or_needs_other_arguments() {
        for (noun, second, verb) in NOUNS {
            for arguments in [0, 1, 2, 3, 4] {
                let mut text = vec![*noun, *second];
                text.extend((0..arguments).map(|_| "x"));
                if let Err(error) = plan(&text) {
                    assert!(
                        !error.message.contains("unknown pdnsutil command"),
                        "{verb}: {error}"
                    );
                }
            }
        }
        assert!(
            plan(&["explode"])
                .err()
                .unwrap()
                .message
                .contains("unknown pdnsutil command")
        );
    }
}
