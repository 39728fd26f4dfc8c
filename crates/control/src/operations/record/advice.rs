//! Warnings about changes that are allowed but usually not intended.

use nameward_wire::{NameBuf, Type};
use nameward_zone::ScriptCheck;
use nameward_zone::change::{Difference, Edit};

/// Last labels of names that were meant to be absolute, besides that of the zone itself.
const TOP_LEVEL: [&[u8]; 3] = [b"com", b"net", b"org"];
/// Maximum number of warnings per kind.
const WARNINGS_MAX: usize = 5;

/// Warns of steps whose records would not have the intended effect. `is_zone` checks whether a name is a separate
/// zone here, `is_server` whether the delegation at the first name has the second as name server.
pub(crate) fn edit_warnings(
    apex: &NameBuf,
    edits: &[Edit],
    checker: &ScriptCheck,
    is_zone: impl Fn(&NameBuf) -> bool,
    is_server: impl Fn(&NameBuf, &NameBuf) -> bool,
) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    // A version of a zone has the names of the zone.
    let apex = &NameBuf::from(apex.as_name().zone());
    for edit in edits {
        let (Edit::Replace(rrset) | Edit::Add(rrset)) = edit else {
            continue;
        };
        let name = &rrset.name;
        let mut warn = |warning: String| {
            if !warnings.contains(&warning) && warnings.len() < WARNINGS_MAX {
                warnings.push(warning);
            }
        };
        if let Some(meant) = repeated(name, apex) {
            warn(format!(
                "{name} repeats the zone name: if {meant}. was meant, it is not in this zone"
            ));
        }
        if rrset.rtype == Type::LUA {
            let scripts = rrset.records.iter();
            for problem in scripts.flat_map(|record| checker.problems(&record.rdata)) {
                warn(format!("{name} LUA: {problem}"));
            }
            warn(format!(
                "{name} LUA is a script: it is run only where lua.records or the zone's lua_records is on"
            ));
        }
        if let Some(child) = child_above(name, rrset.rtype, apex, &is_zone)
            && !(matches!(rrset.rtype, Type::A | Type::AAAA) && is_server(&child, name))
        {
            warn(format!(
                "{name} {} is hidden: {child} is a separate zone on this server",
                rrset.rtype
            ));
        }
    }
    warnings
}

/// Warns of a serial that goes back: secondaries would not accept the new version.
pub(crate) fn serial_warning(difference: &Difference) -> Option<String> {
    let (from, to) = difference.serials()?;
    (!to.is_after(from)).then(|| {
        format!(
            "serial {to} is not greater than {from} (RFC 1982): secondaries will not transfer the change"
        )
    })
}

/// Returns the part of an owner before the zone's own name if it looks like an absolute name.
fn repeated(name: &NameBuf, apex: &NameBuf) -> Option<String> {
    let labels: Vec<&[u8]> = name.as_name().labels().collect();
    let zone: Vec<&[u8]> = apex.as_name().labels().collect();
    let own = labels.get(..labels.len().checked_sub(zone.len())?)?;
    let last = own.last().filter(|_| own.len() >= 2)?;
    let is = |other: &[u8]| last.eq_ignore_ascii_case(other);
    let is_repeated = TOP_LEVEL.into_iter().any(is) || zone.last().is_some_and(|top| is(top));
    let shown = own.iter().map(|label| String::from_utf8_lossy(label));
    is_repeated.then(|| shown.collect::<Vec<_>>().join("."))
}

/// Returns the zone between a name and the apex that answers for the name. NS and DS at its apex belong to the parent
/// (RFC 4035 section 2.4).
fn child_above(
    name: &NameBuf,
    rtype: Type,
    apex: &NameBuf,
    is_zone: &impl Fn(&NameBuf) -> bool,
) -> Option<NameBuf> {
    let mut next = Some(name.as_name());
    while let Some(current) = next.filter(|current| *current != apex.as_name()) {
        let of_parent = current == name.as_name() && matches!(rtype, Type::NS | Type::DS);
        let current_buf = NameBuf::from(current);
        if !of_parent && is_zone(&current_buf) {
            return Some(current_buf);
        }
        next = current.parent();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_zone::change::RrsetData;

    fn warnings(name: &str, rtype: Type) -> Vec<String> {
        warnings_in("example.org.", name, rtype)
    }

    fn warnings_in(zone: &str, name: &str, rtype: Type) -> Vec<String> {
        let edit = Edit::Add(RrsetData {
            name: name.parse().unwrap(),
            rtype,
            ttl: 60,
            records: Vec::new(),
        });
        let child: NameBuf = "sub.example.org.".parse().unwrap();
        let common: NameBuf = "example.org.".parse().unwrap();
        let apex = NameBuf::zone_from_text(zone).unwrap();
        let server: NameBuf = "ns.sub.example.org.".parse().unwrap();
        edit_warnings(
            &apex,
            &[edit],
            &ScriptCheck::default(),
            |name| *name == child || *name == common,
            |cut, name| *cut == child && *name == server,
        )
    }

    #[test]
    fn names_that_repeat_a_domain_get_a_warning() {
        for meant in ["www.example.com", "example.com", "www.example.org"] {
            let found = warnings(&format!("{meant}.example.org."), Type::A);
            assert_eq!(found.len(), 1, "{meant}");
            assert!(
                found[0].contains(&format!("if {meant}. was meant")),
                "{found:?}"
            );
        }
        for plain in [
            "www.example.org.",
            "example.org.",
            "com.example.org.",
            "a.b.example.org.",
        ] {
            assert_eq!(warnings(plain, Type::A), Vec::<String>::new());
        }
    }

    #[test]
    fn records_of_a_version_are_not_hidden_by_the_common_version() {
        let found = warnings_in("example.org..inside", "www.example.org.", Type::A);
        assert_eq!(found, Vec::<String>::new());
        let found = warnings_in("example.org..inside", "www.sub.example.org.", Type::A);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("sub.example.org. is a separate zone"));
    }

    #[test]
    fn records_below_a_child_zone_are_hidden_unless_they_belong_to_the_parent() {
        for (name, rtype, is_warned_of) in [
            ("www.sub.example.org.", Type::TXT, true),
            ("sub.example.org.", Type::MX, true),
            ("sub.example.org.", Type::NS, false),
            ("sub.example.org.", Type::DS, false),
            ("ns.sub.example.org.", Type::A, false),
            ("www.sub.example.org.", Type::A, true),
            ("sub.example.org.", Type::AAAA, true),
            ("other.example.org.", Type::TXT, false),
        ] {
            let found = warnings(name, rtype);
            assert_eq!(!found.is_empty(), is_warned_of, "{name} {rtype}: {found:?}");
        }
        assert!(warnings("a.example.org.", Type::LUA)[0].contains("is a script"));
    }
}
