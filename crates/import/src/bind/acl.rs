//! Address match lists: `acl`, `allow-query`, `match-clients` and similar statements, as BIND 9 interprets them.
//!
//! The first entry that matches an address decides; `!` negates; `none` is `!any`; a nested list, by name or in braces,
//! matches the addresses that it allows. List names may be used before they are defined. Entries that a client address
//! alone cannot decide (`geoip`) make the list unusable; a key matches no client, because TSIG signatures of queries
//! are not evaluated yet.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessEntry, AccessList, AccessWord};

use super::{
    lex::{ConfMistake, TextLocation, quoted},
    syntax::{ConfItem, ConfStatement, Word},
};

/// Maximum nesting depth of lists.
const DEPTH_MAX: usize = 16;
/// Maximum number of list entries evaluated per configuration.
const ENTRIES_MAX: usize = 4_000_000;
/// Built-in list names of BIND.
const BUILT_IN: &[&str] = &["any", "none", "localhost", "localnets"];

/// A list as written.
#[derive(Debug, Clone, Default)]
pub(super) struct MatchList {
    /// The file that contains it, for messages.
    pub file: usize,
    /// Start of the statement.
    pub location: TextLocation,
    entries: Vec<MatchEntry>,
}

impl MatchList {
    /// Returns why the list cannot be used although it is valid.
    pub fn undecided(&self, reason: &str) -> Unusable {
        Unusable::Undecided(self.file, self.location.wrong(reason))
    }
}

#[derive(Debug, Clone)]
struct MatchEntry {
    location: TextLocation,
    is_negated: bool,
    element: Element,
}

#[derive(Debug, Clone)]
enum Element {
    Network(IpAddr, u8),
    /// A list name, possibly built in.
    Named(String),
    List(MatchList),
    Key(String),
    /// An element that cannot be decided from an address.
    Undecided(String),
}

/// Reads `KEYWORD { ... };`.
pub(super) fn read(statement: &ConfStatement<'_>, file: usize) -> Result<MatchList, ConfMistake> {
    let (words, block) = statement.words_and_block()?;
    match words.first() {
        Some(word) => Err(word.instead_of("'{'")),
        None => match_list(statement.location(), block, file),
    }
}

/// Reads `acl NAME { ... };`.
pub(super) fn read_named(
    statement: &ConfStatement<'_>,
    file: usize,
) -> Result<(String, MatchList), ConfMistake> {
    let (words, block) = statement.words_and_block()?;
    let [name] = words[..] else {
        let message = "expected a list name and '{'";
        return Err(statement.location().wrong(message));
    };
    if name.is_one_of(BUILT_IN) {
        let found = quoted(&name.text);
        return Err(name.location.wrong(format!("{found} is built in")));
    }
    let list = match_list(statement.location(), block, file)?;
    Ok((name.string().to_ascii_lowercase(), list))
}

pub(super) fn match_list(
    location: TextLocation,
    block: &[ConfStatement<'_>],
    file: usize,
) -> Result<MatchList, ConfMistake> {
    let entries = block.iter().map(|statement| entry(statement, file));
    Ok(MatchList {
        file,
        location,
        entries: entries.collect::<Result<_, _>>()?,
    })
}

fn entry(statement: &ConfStatement<'_>, file: usize) -> Result<MatchEntry, ConfMistake> {
    let mut items = statement.items();
    let location = statement.location();
    let mut is_negated = false;
    if let [ConfItem::Word(word), rest @ ..] = items
        && word.is("!")
    {
        (is_negated, items) = (true, rest);
    }
    let element = match items {
        [ConfItem::Block(location, block)] => Element::List(match_list(*location, block, file)?),
        [ConfItem::Word(first), rest @ ..] => element(first, rest)?,
        _ => return Err(location.wrong("expected an address or a list")),
    };
    Ok(MatchEntry {
        location,
        is_negated,
        element,
    })
}

fn element(first: &Word<'_>, rest: &[ConfItem<'_>]) -> Result<Element, ConfMistake> {
    if let ("key", [ConfItem::Word(name)]) = (first.string().to_ascii_lowercase().as_str(), rest) {
        return Ok(Element::Key(name.string()));
    }
    if first.is_one_of(&["geoip", "ecs"]) {
        return Ok(Element::Undecided(first.string()));
    }
    // Blanks are allowed around the slash.
    let mut text = first.string();
    for item in rest {
        match item {
            ConfItem::Word(word) if text.ends_with('/') || word.text.starts_with(b"/") => {
                text.push_str(&word.string());
            }
            ConfItem::Word(word) => return Err(word.instead_of("';'")),
            ConfItem::Block(location, _) => {
                return Err(location.wrong("expected ';', found '{'"));
            }
        }
    }
    match text.split_once('/') {
        Some((address, bits)) => network(address, bits)
            .map(|(address, bits)| Element::Network(address, bits))
            .map_err(|message| {
                first
                    .location
                    .wrong(format!("{}: {message}", quoted(text.as_bytes())))
            }),
        // A zone index (`fe80::1%eth0`) refers to the interfaces of this host.
        None => Ok(match text.split('%').next().unwrap_or_default().parse() {
            Ok(address @ IpAddr::V4(_)) => Element::Network(address, 32),
            Ok(address @ IpAddr::V6(_)) => Element::Network(address, 128),
            Err(_) => Element::Named(text.to_ascii_lowercase()),
        }),
    }
}

/// Parses an address, which may be a partial IPv4 address (`10/8`), and its prefix length. Nonzero bits after the
/// prefix are an error, as in BIND.
fn network(address: &str, bits: &str) -> Result<(IpAddr, u8), &'static str> {
    let mut text = address.to_string();
    let mut parsed = text.parse::<IpAddr>();
    for _ in 0..3 {
        if parsed.is_ok() || text.contains(':') {
            break;
        }
        text.push_str(".0");
        parsed = text.parse();
    }
    let address = parsed.map_err(|_| "expected an address before '/'")?;
    let bits: u8 = bits.parse().map_err(|_| "expected a number after '/'")?;
    let (number, width) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let Some(free) = u32::checked_sub(width, bits.into()) else {
        return Err("prefix too long");
    };
    match number & 1_u128.checked_shl(free).map_or(u128::MAX, |next| next - 1) {
        0 => Ok((address, bits)),
        _ => Err("the address has bits set after the prefix"),
    }
}

/// Returns the addresses in a listen list that are given individually; `any` is the wildcard address. `None` if the
/// list contains anything else.
pub(super) fn plain_addresses(list: &MatchList, any: IpAddr) -> Option<Vec<IpAddr>> {
    let mut all = Vec::new();
    for entry in list.entries.iter().filter(|entry| !entry.is_negated) {
        match &entry.element {
            Element::Network(address, 32 | 128) => all.push(*address),
            Element::Named(name) if name == "any" => all.push(any),
            Element::Named(name) if name == "none" => {}
            _ => return None,
        }
    }
    let is_plain = !list.entries.iter().any(|entry| entry.is_negated);
    is_plain.then_some(all)
}

/// A list that cannot be used.
pub(super) enum Unusable {
    /// The list is invalid: the file, and the error in it.
    Wrong(usize, ConfMistake),
    /// The list is valid, but cannot be evaluated here.
    Undecided(usize, ConfMistake),
}

#[derive(Debug, Clone)]
pub(super) struct Resolved {
    pub list: Arc<AccessList>,
    /// Location of a key, which matches no client here.
    pub key: Option<(usize, TextLocation)>,
}

/// Resolves the names in lists.
pub(super) struct AclResolver<'n> {
    named: &'n HashMap<String, MatchList>,
    /// Named lists already resolved; `None` while one is being resolved.
    known: HashMap<String, Option<Resolved>>,
    /// Addresses of this host with the prefix lengths of their networks.
    interfaces: &'n [(IpAddr, u8)],
    entries: usize,
    keys: KeyMatching,
}

/// Whether a key in a list matches requests signed with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyMatching {
    /// The key matches no client.
    Never,
    /// The key matches requests signed with it.
    Signed,
}

impl<'n> AclResolver<'n> {
    pub(super) fn new(
        named: &'n HashMap<String, MatchList>,
        interfaces: &'n [(IpAddr, u8)],
        keys: KeyMatching,
    ) -> Self {
        Self {
            named,
            known: HashMap::new(),
            interfaces,
            entries: 0,
            keys,
        }
    }

    fn key_term(&self, name: &str) -> Option<AccessWord> {
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).ok()?;
        (self.keys == KeyMatching::Signed).then_some(AccessWord::Key(name))
    }

    pub(super) fn resolve(&mut self, list: &MatchList) -> Result<Resolved, Unusable> {
        self.resolve_within(list, DEPTH_MAX)
    }

    fn resolve_within(&mut self, list: &MatchList, depth: usize) -> Result<Resolved, Unusable> {
        let mut entries = Vec::with_capacity(list.entries.len());
        let mut key = None;
        for entry in &list.entries {
            self.entries += 1;
            if self.entries > ENTRIES_MAX || depth == 0 {
                let message = match depth {
                    0 => format!("lists nested more than {DEPTH_MAX} levels deep"),
                    _ => format!("more than {ENTRIES_MAX} list entries"),
                };
                return Err(Unusable::Wrong(list.file, entry.location.wrong(message)));
            }
            let mut is_negated = entry.is_negated;
            let term = match &entry.element {
                Element::Key(name) => {
                    key = key.or(Some((list.file, entry.location)));
                    match self.key_term(name) {
                        Some(term) => term,
                        None => continue,
                    }
                }
                Element::Undecided(word) => {
                    let message = format!("{word} is not supported");
                    let wrong = entry.location.wrong(message);
                    return Err(Unusable::Undecided(list.file, wrong));
                }
                Element::Network(address, bits) => AccessWord::Network(*address, *bits),
                Element::Named(name) if name == "any" => AccessWord::Any,
                Element::Named(name) if name == "none" => {
                    is_negated = !is_negated;
                    AccessWord::Any
                }
                Element::Named(name) if name == "localhost" => self.local(false),
                Element::Named(name) if name == "localnets" => self.local(true),
                Element::Named(name) => {
                    let inner = self.named(name, (list.file, entry.location), depth)?;
                    key = key.or(inner.key);
                    AccessWord::List(AccessList::clone(&inner.list))
                }
                Element::List(inner) => {
                    let inner = self.resolve_within(inner, depth - 1)?;
                    key = key.or(inner.key);
                    AccessWord::List(AccessList::clone(&inner.list))
                }
            };
            entries.push(AccessEntry { is_negated, term });
        }
        Ok(Resolved {
            list: Arc::new(AccessList::new(&entries)),
            key,
        })
    }

    fn named(
        &mut self,
        name: &str,
        (file, location): (usize, TextLocation),
        depth: usize,
    ) -> Result<Resolved, Unusable> {
        let wrong = |what: String| Err(Unusable::Wrong(file, location.wrong(what)));
        let shown = quoted(name.as_bytes());
        match self.known.get(name) {
            Some(Some(known)) => return Ok(known.clone()),
            Some(None) => return wrong(format!("list {shown} contains itself")),
            None => {}
        }
        let Some(list) = self.named.get(name) else {
            return wrong(format!("expected an address or list name, found {shown}"));
        };
        self.known.insert(name.to_string(), None);
        let resolved = self.resolve_within(list, depth - 1);
        match &resolved {
            Ok(resolved) => self.known.insert(name.to_string(), Some(resolved.clone())),
            Err(_) => self.known.remove(name),
        };
        resolved
    }

    /// Returns the addresses of this host, or its networks.
    fn local(&self, is_networks: bool) -> AccessWord {
        let entries = self.interfaces.iter().map(|(address, bits)| {
            let whole = if address.is_ipv4() { 32 } else { 128 };
            let bits = if is_networks { *bits } else { whole };
            AccessEntry::positive(AccessWord::Network(*address, bits))
        });
        AccessWord::List(AccessList::new(&entries.collect::<Vec<_>>()))
    }
}
