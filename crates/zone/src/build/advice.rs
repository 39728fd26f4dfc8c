//! Warnings about data that is legal but probably not intended: a missing final dot, an address in place of a host
//! name, name servers that cannot be reached, scripts that cannot be compiled.
//!
//! A warning never keeps a zone from being served. Database zones are not checked here: their names are absolute, and
//! most are built one fragment at a time.

use super::{PlacedNode, ZoneBuilder};
use crate::draft::{Draft, DraftEntry};
use crate::key::NameKey;
use crate::node::{Node, flags};
use nameward_wire::{Name, NameBuf, Type};
use std::fmt;
use std::sync::Arc;

/// A check of LUA records. The interpreter, and the settings that scripts refer to, are above this crate. The default checks nothing.
#[derive(Clone, Default)]
pub struct ScriptCheck(Option<Arc<FindProblems>>);

/// Finds problems in the data of a LUA record: the texts of warnings about it.
type FindProblems = dyn Fn(&[u8]) -> Vec<String> + Send + Sync;

impl ScriptCheck {
    /// Creates a check.
    pub fn new(problems: impl Fn(&[u8]) -> Vec<String> + Send + Sync + 'static) -> Self {
        ScriptCheck(Some(Arc::new(problems)))
    }

    /// Returns the problems in the data of a LUA record.
    pub fn problems(&self, rdata: &[u8]) -> Vec<String> {
        { self.0.as_ref() }.map_or_else(Vec::new, |problems| problems(rdata))
    }
}

impl fmt::Debug for ScriptCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScriptCheck")
            .field(&self.0.is_some())
            .finish()
    }
}

impl ZoneBuilder {
    /// Checks the scripts of LUA records; by default they are not checked.
    pub fn check_scripts(&mut self, check: &ScriptCheck) {
        self.script_check = check.clone();
    }

    fn advise_on_script(&mut self, draft: &Draft, entry: &DraftEntry) {
        for problem in self.script_check.problems(draft.rdata(entry)) {
            let owner = self.current_name;
            let message = format_args!("{owner} LUA: {problem}");
            self.findings.warning(entry.from, message);
        }
    }

    /// Checks record data whose names are not resolved later: CNAME, DNAME and PTR.
    pub(crate) fn advise_on_aliases(&mut self, draft: &Draft) {
        if self.is_tolerant || self.findings.are_silent() {
            return;
        }
        for entry in &draft.entries {
            if entry.rtype == Type::LUA {
                self.advise_on_script(draft, entry);
            }
            if !matches!(entry.rtype, Type::CNAME | Type::DNAME | Type::PTR) {
                continue;
            }
            let Ok(name) = Name::from_wire(draft.rdata(entry)) else {
                continue;
            };
            let (owner, rtype) = (self.current_name, entry.rtype);
            let apex = self.apex_name;
            let message = if ends_twice(name, apex.as_name()) {
                doubled(owner.as_name(), rtype, name, apex.as_name())
            } else if rtype == Type::PTR
                && is_reverse(apex.as_name())
                && name.is_at_or_below(apex.as_name())
            {
                // RFC 1035 section 3.5: the data is a host name.
                format!(
                    "{owner} PTR points to {name}, which is in the reverse zone: is a trailing dot missing?"
                )
            } else {
                continue;
            };
            self.findings.warning(entry.from, format_args!("{message}"));
        }
    }

    /// Warns about an owner name that ends in the zone name twice.
    pub(crate) fn advise_on_owner(&mut self, key: &NameKey, origin: PlacedNode) {
        let apex_labels = self.apex_key().labels();
        if key.labels() < 2 * apex_labels || self.is_tolerant || origin.from.is_none() {
            return;
        }
        let (owner, apex) = (key.suffix(key.labels()), self.apex_name);
        if ends_twice(owner, apex.as_name()) {
            let message = format_args!("{owner} ends in {apex} twice: is a trailing dot missing?");
            self.findings.warning(origin.from, message);
        }
    }

    /// Returns the warning about a host that a record of this owner names, if any. `found` is the host's node in the
    /// zone.
    pub(crate) fn advice_on_host(
        &self,
        (owner, rtype): (Node<'_>, Type),
        host: &NameKey,
        found: Option<Node<'_>>,
    ) -> Option<String> {
        let (name, apex) = (host.suffix(host.labels()), self.apex_name);
        let apex = apex.as_name();
        if self.is_tolerant || !matches!(rtype, Type::NS | Type::MX | Type::SRV) {
            return None;
        }
        if ends_twice(name, apex) {
            return Some(doubled(owner.name(), rtype, name, apex));
        }
        // Data at a delegation belongs to the child zone, except for glue.
        if owner.has(flags::CUT) || found.is_some_and(has_address) {
            return None;
        }
        let is_address = starts_like_address(name) && !is_reverse(apex);
        match is_address {
            true => Some(address(owner.name(), rtype, name)),
            false if found.is_none() && self.is_covered(host) => None,
            false if self.is_below_cut(host) => None,
            false => Some(format!(
                "{} {rtype} points to {name}, which has no A or AAAA records",
                owner.name()
            )),
        }
    }

    /// Returns the warning about a host outside the zone whose name is an IP address.
    pub(crate) fn advice_on_foreign_host(
        &self,
        (owner, rtype): (Node<'_>, Type),
        name: Name<'_>,
    ) -> Option<String> {
        let is_host = matches!(rtype, Type::NS | Type::MX | Type::SRV);
        // Four numeric labels and nothing else: the length alone rules out most names.
        let is_address = is_host && !self.is_tolerant && name.as_wire().len() <= 17;
        (is_address && starts_like_address(name) && name.label_count() == 4)
            .then(|| address(owner.name(), rtype, name))
    }

    /// Checks whether a name that does not exist is covered by a wildcard with an address (RFC 4592 section 3.3).
    fn is_covered(&self, host: &NameKey) -> bool {
        let apex_labels = self.apex_key().labels();
        let encloser = (apex_labels..host.labels())
            .rev()
            .find(|&labels| self.find(host, labels).is_some());
        let Some(encloser) = encloser else {
            return false;
        };
        let Ok(wildcard) = NameBuf::join(b"\x01*", host.suffix(encloser)) else {
            return false;
        };
        let key = NameKey::new(wildcard.as_name());
        let found = self.find(&key, key.labels());
        found.is_some_and(|place| {
            let node = self.node(place);
            has_address(node) || node.has(flags::CNAME_OR_LUA)
        })
    }

    /// Checks whether a name is at or below a delegation, or below a DNAME.
    fn is_below_cut(&self, host: &NameKey) -> bool {
        let apex_labels = self.apex_key().labels();
        (apex_labels + 1..=host.labels())
            .filter(|&labels| self.cut_depths >> labels & 1 != 0)
            .filter_map(|labels| self.find(host, labels))
            .any(|place| self.node(place).flags() & (flags::CUT | flags::DNAME) != 0)
    }
}

pub(crate) fn has_address(node: Node<'_>) -> bool {
    node.rrset(Type::A).or(node.rrset(Type::AAAA)).is_some()
}

fn doubled(owner: Name<'_>, rtype: Type, name: Name<'_>, apex: Name<'_>) -> String {
    format!(
        "{owner} {rtype} points to {name}, which ends in {apex} twice: is a trailing dot missing?"
    )
}

fn address(owner: Name<'_>, rtype: Type, name: Name<'_>) -> String {
    format!("{owner} {rtype} points to {name}: expected a host name, found an address")
}

/// Checks whether a name ends in the zone name twice. Zones with a single label are exempt: `org.org` is a normal name.
#[inline]
pub(crate) fn ends_twice(name: Name<'_>, apex: Name<'_>) -> bool {
    let (name, apex) = (name.as_wire(), apex.as_wire());
    let once = &apex[..apex.len() - 1];
    let Some(start) = name.len().checked_sub(once.len() + apex.len()) else {
        return false;
    };
    let has_labels = once
        .first()
        .is_some_and(|&len| 1 + usize::from(len) < once.len());
    let (first, second) = name[start..].split_at(once.len());
    has_labels && first.eq_ignore_ascii_case(once) && second.eq_ignore_ascii_case(apex)
}

/// Checks whether the first four labels are numbers, as in an IPv4 address.
pub(crate) fn starts_like_address(name: Name<'_>) -> bool {
    let is_octet = |label: &[u8]| {
        let text = str::from_utf8(label).unwrap_or_default();
        label.iter().all(u8::is_ascii_digit) && text.parse::<u8>().is_ok()
    };
    // Hardly any name starts with a digit, so this test decides almost every case.
    name.as_wire().get(1).is_some_and(u8::is_ascii_digit)
        && name
            .labels()
            .take(4)
            .filter(|label| is_octet(label))
            .count()
            == 4
}

/// Checks whether the zone is in the reverse tree, where numeric labels are normal.
fn is_reverse(apex: Name<'_>) -> bool {
    const TREES: [&[u8]; 2] = [b"\x07in-addr\x04arpa\0", b"\x03ip6\x04arpa\0"];
    TREES
        .iter()
        .any(|tree| apex.is_at_or_below(Name::from_valid_wire(tree)))
}
