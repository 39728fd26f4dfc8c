//! Lists of other servers: `primaries`, `masters`, `also-notify`, and named lists that others refer to.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

use super::{
    lex::{ConfMistake, TextLocation, quoted},
    syntax::{ConfItem, ConfStatement, Word},
};

/// Maximum nesting depth of lists.
const DEPTH_MAX: usize = 8;
/// Maximum number of entries for one zone: more means that a list multiplies itself.
const ENTRIES_MAX: usize = 1000;
/// The default DNS port.
const PORT: u16 = 53;
/// The default port of DNS over TLS.
const TLS_PORT: u16 = 853;

/// Another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its address and port.
    pub address: SocketAddr,
    /// The TSIG key to use with it.
    pub key: Option<Box<str>>,
    /// The TLS configuration to use with it.
    pub tls: Option<Box<str>>,
}

/// The server or servers that an entry refers to.
#[derive(Debug, Clone)]
enum RemoteTarget {
    Address(IpAddr),
    List(String),
}

/// One entry of a list as written.
#[derive(Debug, Clone)]
struct RemoteEntry {
    location: TextLocation,
    target: RemoteTarget,
    options: RemoteOptions,
}

/// A list as written. The names in it are resolved when all lists are known.
#[derive(Debug, Clone, Default)]
pub(super) struct RemoteList {
    /// The file that contains it, for messages.
    pub file: usize,
    entries: Vec<RemoteEntry>,
}

pub(super) type NamedLists = HashMap<String, RemoteList>;

/// Reads `KEYWORD [NAME] [port N] { ... };`, including the name if one is allowed.
pub(super) fn read(
    statement: &ConfStatement<'_>,
    file: usize,
    has_name: bool,
) -> Result<(Option<String>, RemoteList), ConfMistake> {
    let (words, block) = statement.words_and_block()?;
    let mut words = words.into_iter();
    let name = if has_name {
        match words.next() {
            Some(word) => Some(word.string()),
            None => {
                let message = "expected a list name, found '{'";
                return Err(statement.location().wrong(message));
            }
        }
    } else {
        None
    };
    let options = options(words)?;
    let mut list = RemoteList {
        file,
        entries: Vec::new(),
    };
    for statement in block {
        let mut entry = entry(statement)?;
        entry.options.port = entry.options.port.or(options.port);
        list.entries.push(entry);
    }
    Ok((name, list))
}

#[derive(Debug, Clone, Default)]
struct RemoteOptions {
    port: Option<u16>,
    key: Option<Box<str>>,
    tls: Option<Box<str>>,
}

/// Reads pairs of a keyword and its value; irrelevant ones are skipped.
fn options<'w, 't: 'w>(
    mut words: impl Iterator<Item = &'w Word<'t>>,
) -> Result<RemoteOptions, ConfMistake> {
    let mut options = RemoteOptions::default();
    while let Some(keyword) = words.next() {
        let Some(value) = words.next() else {
            let message = format!("expected a value after {}", quoted(&keyword.text));
            return Err(keyword.location.wrong(message));
        };
        if keyword.is("port") {
            // `*` is any port, which is meaningless for a destination.
            options.port = if value.is("*") {
                None
            } else {
                Some(port(value)?)
            };
        } else if keyword.is("key") {
            options.key = Some(value.string().into());
        } else if keyword.is("tls") {
            options.tls = Some(value.string().into());
        } else if !keyword.is_one_of(&["dscp", "source", "source-v6"]) {
            return Err(keyword.instead_of("port, key, tls or ';'"));
        }
    }
    Ok(options)
}

fn port(word: &Word<'_>) -> Result<u16, ConfMistake> {
    let number = std::str::from_utf8(&word.text).ok();
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| word.instead_of("a port"))
}

fn entry(statement: &ConfStatement<'_>) -> Result<RemoteEntry, ConfMistake> {
    let words = statement.items().iter().map(|item| match item {
        ConfItem::Word(word) => Ok(word),
        ConfItem::Block(location, _) => Err(location.wrong("expected an address, found '{'")),
    });
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let Some((first, rest)) = words.split_first() else {
        return Err(statement.location().wrong("expected an address"));
    };
    let options = options(rest.iter().copied())?;
    let text = first.string();
    // A zone index (`fe80::1%eth0`) refers to the interfaces of this host; only the address is kept.
    let address = text.split('%').next().unwrap_or_default().parse();
    Ok(RemoteEntry {
        location: first.location,
        target: address.map_or(RemoteTarget::List(text), RemoteTarget::Address),
        options,
    })
}

/// Returns the servers of a list, including those of the lists it names.
pub(super) fn resolve(
    list: &RemoteList,
    named: &NamedLists,
) -> Result<Vec<Remote>, (usize, ConfMistake)> {
    let mut resolver = RemoteResolver {
        named,
        remotes: Vec::new(),
        entries: 0,
    };
    resolver.add(list, None, DEPTH_MAX)?;
    Ok(resolver.remotes)
}

struct RemoteResolver<'n> {
    named: &'n NamedLists,
    remotes: Vec<Remote>,
    /// Entries visited so far: lists of empty lists yield no servers but cost time.
    entries: usize,
}

impl RemoteResolver<'_> {
    /// Adds the servers of a list; the settings of `by`, the entry that names it, apply where the list has none.
    fn add(
        &mut self,
        list: &RemoteList,
        by: Option<&RemoteEntry>,
        depth: usize,
    ) -> Result<(), (usize, ConfMistake)> {
        for entry in &list.entries {
            let wrong = |message: String| (list.file, entry.location.wrong(message));
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(wrong(format!("more than {ENTRIES_MAX} servers")));
            }
            let name = match &entry.target {
                RemoteTarget::Address(ip) => {
                    self.remotes.push(remote(*ip, entry, by));
                    continue;
                }
                RemoteTarget::List(name) => name,
            };
            let shown = quoted(name.as_bytes());
            match self.named.get(name) {
                None => {
                    let expected = "expected an address or list name";
                    return Err(wrong(format!("{expected}, found {shown}")));
                }
                Some(_) if depth == 0 => {
                    let deep = format!("lists nested more than {DEPTH_MAX} levels deep");
                    return Err(wrong(format!("{deep}: does {shown} contain itself?")));
                }
                Some(inner) => self.add(inner, Some(entry), depth - 1)?,
            }
        }
        Ok(())
    }
}

fn remote(ip: IpAddr, entry: &RemoteEntry, by: Option<&RemoteEntry>) -> Remote {
    let own = entry.options.clone();
    let inherited = by.map(|by| by.options.clone()).unwrap_or_default();
    // `tls none` is plain text, also where the list has another setting.
    let tls = own.tls.or(inherited.tls).filter(|name| &**name != "none");
    let default = if tls.is_some() { TLS_PORT } else { PORT };
    let port = own.port.or(inherited.port);
    Remote {
        address: SocketAddr::new(ip, port.unwrap_or(default)),
        key: own.key.or(inherited.key),
        tls,
    }
}
