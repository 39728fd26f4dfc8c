//! Owns the requests about zones and records that come over the control socket.

use super::record::RecordWords;
use super::zone::ZoneWords;
use super::{Operations, decode};

/// Does what a line asks that starts with `zone` or `record`.
pub fn run(operations: &Operations, line: &str) -> Result<String, String> {
    let words = decode(line).ok_or("the request cannot be read")?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["zone", "list"] => operations.list_zones(),
        ["zone", "show", name] => operations.show_zone(name),
        ["zone", "create", name, ref rest @ ..] => operations.create_zone(&zone_words(name, rest)?),
        ["zone", "delete", name] => operations.delete_zone(name),
        ["record", "list", zone] => operations.list_records(zone, None, None),
        ["record", "list", zone, name] => operations.list_records(zone, Some(name), None),
        ["record", "list", zone, name, rtype] => {
            operations.list_records(zone, Some(name), Some(rtype))
        }
        [
            "record",
            how @ ("set" | "add"),
            zone,
            name,
            rtype,
            ttl,
            ref contents @ ..,
        ] if !contents.is_empty() => {
            let record = RecordWords {
                name,
                rtype,
                ttl,
                contents: contents.to_vec(),
            };
            match how {
                "set" => operations.set_records(zone, &record),
                _ => operations.add_records(zone, &record),
            }
        }
        ["record", "delete", zone, name] => operations.delete_records(zone, name, None, &[]),
        ["record", "delete", zone, name, rtype, ref contents @ ..] => {
            operations.delete_records(zone, name, Some(rtype), contents)
        }
        ["zone", ..] => Err("expected: zone list|show|create|delete".into()),
        _ => Err("expected: record list|set|add|delete ZONE ...".into()),
    }
}

/// The options of a new zone, as `key=value`.
fn zone_words<'w>(name: &'w str, rest: &[&'w str]) -> Result<ZoneWords<'w>, String> {
    let mut words = ZoneWords {
        name,
        ..ZoneWords::default()
    };
    for option in rest {
        match option.split_once('=') {
            Some(("kind", value)) => words.kind = Some(value),
            Some(("ns", value)) => words.name_servers.push(value),
            Some(("hostmaster", value)) => words.hostmaster = Some(value),
            Some(("primary", value)) => words.primaries.push(value),
            Some(("ttl", value)) => words.ttl = Some(value),
            Some(("backend", value)) => words.backend = Some(value),
            _ => return Err(format!("unknown option {option:?} of a new zone")),
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A server with one zone from a file.
    fn operations(runtime: &tokio::runtime::Runtime) -> Operations {
        Operations {
            databases: Vec::new(),
            rank_of: Box::new(|name| (name.to_string() == "file.test.").then_some(0)),
            each_zone: Box::new(|each| {
                let name: nameward_wire::NameBuf = "file.test.".parse().unwrap();
                each(name.as_name(), 0);
            }),
            runtime: runtime.handle().clone(),
        }
    }

    #[test]
    fn requests_without_a_database_are_answered_with_a_reason() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let operations = operations(&runtime);
        assert_eq!(
            run(&operations, "zone list"),
            Ok("file.test. file 1\n".into())
        );
        for (line, reason) in [
            ("zone show file.test", "comes from a file (backend 1)"),
            ("zone show a.test", "there is no zone a.test."),
            ("zone create a.test ns=b.test", "there is no database"),
            ("zone create a.test color=red", "unknown option"),
            ("zone", "expected: zone"),
            ("record", "expected: record"),
            ("record set a.test www A 60", "expected: record"),
            ("zone show %zz", "cannot be read"),
        ] {
            let error = run(&operations, line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_request_panics(
            start in "(zone|record) (list|show|create|delete|set|add)",
            rest in "( [!-~]{0,12}){0,6}",
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = run(&operations(&runtime), &(start + &rest));
        }
    }
}
