//! The commands of pdnsutil.

use nameward_control::operations::{KeyTemplate, OperationError, SecretText, ZoneSettings};
use nameward_wire::rdata::{parse_text, write_text};
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type};

use super::keys::{PdnsKeyStep, template};
use super::secure_all::SerialRaise;
use super::tools::ToolStep;
use super::tsig::TsigStep;
use super::verbs::{IMPOSSIBLE, NATIVE, NOUNS, OLD};
use super::{PdnsStep, ZoneCount, impossible, views, wrong};

/// Default TTL: `default-ttl` of PowerDNS.
const DEFAULT_TTL: &str = "3600";

/// Returns the verb of 4.x and its arguments.
fn spelled(words: &[String]) -> Option<(&str, &[String])> {
    let (first, rest) = words.split_first()?;
    let is_it = |(noun, verb, _): &&(&str, &str, &str)| {
        *noun == first && rest.first().is_some_and(|second| second == verb)
    };
    let old = OLD.iter().find(|(old, _)| old == first);
    match (NOUNS.iter().find(is_it), old) {
        (Some((_, _, verb)), _) => Some((verb, &rest[1..])),
        (None, Some((_, verb))) => Some((verb, rest)),
        (None, None) => Some((first, rest)),
    }
}

/// Returns the steps of a command.
pub(super) fn plan(words: &[String]) -> Result<Vec<PdnsStep>, OperationError> {
    let Some((verb, arguments)) = spelled(words) else {
        return Err(wrong(
            "pdnsutil COMMAND [ARGUMENT ...], see docs/moving-in.md",
        ));
    };
    if let Some((_, instead)) = IMPOSSIBLE.iter().find(|(known, _)| *known == verb) {
        return Err(impossible(verb, instead));
    }
    let list: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let steps = native_steps(verb, &list)
        .or_else(|| zone_steps(verb, &list))
        .or_else(|| record_steps(verb, &list))
        .or_else(|| key_steps(verb, &list))
        .or_else(|| views::plan(verb, &list))
        .or_else(|| tool_steps(verb, &list));
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

fn native(words: &[&str]) -> PdnsStep {
    PdnsStep::Run(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Maps commands that the table has with this number of arguments.
fn native_steps(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep>> {
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
fn native_with(words: &[&str], more: &[&str]) -> Vec<PdnsStep> {
    vec![native(&[words, more].concat())]
}

/// Returns one of our commands with a flag before each further argument.
fn native_flagged(words: &[&str], flag: &str, values: &[&str]) -> Vec<PdnsStep> {
    let flagged = values.iter().flat_map(|value| [flag, value]);
    native_with(words, &flagged.collect::<Vec<_>>())
}

/// Maps commands for whole zones; `None` if it is not one of them, or the arguments are wrong.
fn zone_steps(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep>> {
    Some(match (verb, arguments) {
        ("list-zone", [zone]) => vec![PdnsStep::ListZone((*zone).into())],
        ("list-all-zones", []) => vec![PdnsStep::ListZones(None, ZoneCount::Silent)],
        ("list-all-zones", [kind]) => {
            vec![PdnsStep::ListZones(Some((*kind).into()), ZoneCount::Silent)]
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
        ("show-zone", [zone]) => key_step(PdnsKeyStep::Show((*zone).into())),
        ("increase-serial", [zone]) => vec![PdnsStep::IncreaseSerial((*zone).into())],
        ("list-member-zones", [catalog]) => vec![PdnsStep::ListMembers((*catalog).into())],
        ("list-autoprimaries", []) => vec![PdnsStep::ListAutoprimaries],
        ("rectify-zone", zones) if !zones.is_empty() => {
            let steps = zones.iter().map(|zone| native(&["zone", "rectify", zone]));
            steps.collect()
        }
        ("secure-all-zones", []) => vec![PdnsStep::SecureAll(SerialRaise::Preserved)],
        ("secure-all-zones", ["increase-serial"]) => vec![PdnsStep::SecureAll(SerialRaise::Raised)],
        ("rectify-all-zones", _) => vec![PdnsStep::Say(
            "nothing to rectify: this server maintains auth, ordername and empty non-terminals with every change, and \
             its answers do not depend on them",
        )],
        _ => return metadata_steps(verb, arguments),
    })
}

/// Maps commands for the metadata of a zone; `None` as for [`zone_steps`].
fn metadata_steps(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep>> {
    Some(match (verb, arguments) {
        ("get-meta", [zone, kinds @ ..]) => {
            let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            vec![PdnsStep::ListMetadata((*zone).into(), kinds)]
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
fn record_steps(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep>> {
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
fn key_steps(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep>> {
    Some(match (verb, arguments) {
        ("secure-zone", zones) if !zones.is_empty() => zones
            .iter()
            .map(|zone| native(&["zone", "secure", zone]))
            .collect(),
        ("list-keys", []) => key_step(PdnsKeyStep::List(None)),
        ("list-keys", [zone]) => key_step(PdnsKeyStep::List(Some((*zone).into()))),
        ("export-zone-ds", [zone]) => key_step(PdnsKeyStep::Ds((*zone).into())),
        ("export-zone-dnskey", [zone, key]) => {
            key_step(PdnsKeyStep::Dnskey((*zone).into(), key.parse().ok()?))
        }
        ("set-nsec3", [zone, rest @ ..]) if rest.len() < 3 => set_nsec3(zone, rest)?,
        // In this order: NSEC3NARROW alone has no effect.
        ("unset-nsec3", [zone]) => vec![
            native(&["metadata", "remove", zone, "NSEC3PARAM"]),
            native(&["metadata", "remove", zone, "NSEC3NARROW"]),
        ],
        ("add-zone-key", [zone, options @ ..]) if !options.is_empty() => {
            // pdnsutil creates a key that does not sign yet.
            let zsk = KeyTemplate {
                inactive: true,
                force: true,
                ..key_template(zone, "zsk")
            };
            key_step(PdnsKeyStep::Add(template(zsk, options)))
        }
        ("import-zone-key" | "import-zone-key-pem", [zone, file, options @ ..]) => {
            let template = template(key_template(zone, "ksk"), options);
            key_step(PdnsKeyStep::Import(file.into(), template))
        }
        ("generate-tsig-key", [name, algorithm]) => {
            tsig_step(TsigStep::Generate((*name).into(), (*algorithm).into()))
        }
        ("import-tsig-key", [name, algorithm, secret]) => {
            let secret = SecretText::from((*secret).to_owned());
            tsig_step(TsigStep::Import(
                (*name).into(),
                (*algorithm).into(),
                secret,
            ))
        }
        ("list-tsig-keys", []) => tsig_step(TsigStep::List),
        ("delete-tsig-key", [name]) => tsig_step(TsigStep::Delete((*name).into())),
        ("activate-tsig-key" | "deactivate-tsig-key", [zone, name, role]) => {
            tsig_step(TsigStep::Use {
                zone: (*zone).into(),
                key: (*name).into(),
                kind: tsig_kind(role)?,
                is_enabled: verb == "activate-tsig-key",
            })
        }
        _ => return None,
    })
}

fn tsig_step(step: TsigStep) -> Vec<PdnsStep> {
    vec![PdnsStep::Tsig(step)]
}

/// Maps commands for single keys, hashes, records and catalog options.
fn tool_steps(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep>> {
    let step = match (verb, arguments) {
        ("generate-zone-key", [role, words @ ..]) => {
            let flags = match *role {
                "ksk" => 257,
                "zsk" => 256,
                _ => return None,
            };
            let words = words.iter().map(|word| (*word).to_owned());
            ToolStep::GenerateKey(flags, words.collect())
        }
        ("hash-zone-record", [zone, name]) => ToolStep::HashRecord((*zone).into(), (*name).into()),
        ("list-algorithms", [] | ["with-backend"]) => ToolStep::ListAlgorithms,
        ("raw-lua-from-content", [rtype, content]) => {
            ToolStep::LuaString((*rtype).into(), (*content).into())
        }
        ("zonemd-verify-file", [zone, file]) => ToolStep::VerifyZonemd((*zone).into(), file.into()),
        ("clear-zone", [zone]) => ToolStep::ClearZone((*zone).into()),
        ("set-options-json", [zone, json]) => {
            return Some(vec![PdnsStep::SetOptions(ZoneSettings {
                zone: (*zone).into(),
                options: Some((*json).into()),
                ..ZoneSettings::default()
            })]);
        }
        ("set-option", [zone, role, name, values @ ..]) if !values.is_empty() => {
            return Some(vec![PdnsStep::SetOptions(ZoneSettings {
                zone: (*zone).into(),
                options_patch: Some(options_patch(role, name, values)?),
                ..ZoneSettings::default()
            })]);
        }
        _ => return None,
    };
    Some(vec![PdnsStep::Tool(step)])
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

/// Returns the template of a key with a role.
fn key_template(zone: &str, role: &str) -> KeyTemplate {
    KeyTemplate {
        zone: zone.into(),
        role: Some(role.into()),
        ..KeyTemplate::default()
    }
}

fn key_step(step: PdnsKeyStep) -> Vec<PdnsStep> {
    vec![PdnsStep::Key(step)]
}

/// Returns the NSEC3 metadata changes, in an order that keeps the zone consistent between two
/// steps.
fn set_nsec3(zone: &str, rest: &[&str]) -> Option<Vec<PdnsStep>> {
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

    fn words(text: &str) -> Vec<String> {
        text.split('|').map(Into::into).collect()
    }

    fn plan_of(text: &str) -> Result<Vec<PdnsStep>, OperationError> {
        plan(&words(text))
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
            let expected = PdnsStep::Run(words(ours));
            assert_eq!(plan_of(theirs), Ok(vec![expected]), "{theirs}");
        }
        let key = KeyTemplate {
            algorithm: Some("rsasha256".into()),
            bits: Some(2048),
            inactive: true,
            force: true,
            ..key_template("a.test", "zsk")
        };
        let added = PdnsStep::Key(PdnsKeyStep::Add(key));
        for theirs in ["add-zone-key|a.test", "zone|add-key|a.test|zsk"] {
            let theirs = format!("{theirs}|2048|inactive|rsasha256");
            assert_eq!(plan_of(&theirs), Ok(vec![added.clone()]));
        }
        let all = PdnsStep::SecureAll(SerialRaise::Raised);
        for theirs in ["secure-all-zones", "zone|secure-all"] {
            let theirs = format!("{theirs}|increase-serial");
            assert_eq!(plan_of(&theirs), Ok(vec![all.clone()]));
        }
        let listed = PdnsStep::ListZone("a.test".into());
        assert_eq!(plan_of("zone|list|a.test"), Ok(vec![listed.clone()]));
        assert_eq!(plan_of("list-zone|a.test"), Ok(vec![listed]));
    }

    #[test]
    fn every_known_verb_is_planned_refused_or_needs_other_arguments() {
        for (noun, second, verb) in NOUNS {
            for arguments in [0, 1, 2, 3, 4] {
                let mut text = vec![(*noun).to_owned(), (*second).to_owned()];
                text.extend((0..arguments).map(|_| "x".to_owned()));
                if let Err(error) = plan(&text) {
                    assert!(
                        !error.message.contains("unknown pdnsutil command"),
                        "{verb}: {error}"
                    );
                }
            }
        }
        assert!(
            plan_of("explode")
                .unwrap_err()
                .message
                .contains("unknown pdnsutil command")
        );
    }
}
