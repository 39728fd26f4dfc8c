//! Small forms that several statements share: a name with its class, a switch, a list that may be empty.

use super::{
    lex::ConfMistake,
    syntax::{ConfItem, ConfStatement, Word},
};

/// Statements that are allowed outside all blocks.
pub(super) const TOP: &[&str] = &[
    "acl",
    "controls",
    "dlz",
    "dnssec-policy",
    "dyndb",
    "http",
    "include",
    "key",
    "key-store",
    "logging",
    "lwres",
    "managed-keys",
    "masters",
    "options",
    "parental-agents",
    "plugin",
    "primaries",
    "remote-servers",
    "server",
    "statistics-channels",
    "template",
    "tls",
    "trust-anchors",
    "trusted-keys",
    "view",
    "zone",
];
/// Keywords for a list of other servers.
pub(super) const LISTS: &[&str] = &["primaries", "masters", "remote-servers", "parental-agents"];

/// Reads `NAME [CLASS]`; returns whether the class is IN.
pub(super) fn name_and_class<'w, 't>(
    statement: &ConfStatement<'_>,
    words: &[&'w Word<'t>],
    what: &str,
) -> Result<(&'w Word<'t>, bool), ConfMistake> {
    let Some((name, rest)) = words.split_first() else {
        return Err(statement
            .location()
            .wrong(format!("expected a {what} name, found '{{'")));
    };
    let Some((class, rest)) = rest.split_first() else {
        return Ok((name, true));
    };
    if let Some(more) = rest.first() {
        return Err(more.instead_of("'{'"));
    }
    if class.is("in") {
        return Ok((name, true));
    }
    if class.is_one_of(&["ch", "chaos", "hs", "hesiod", "any", "none"]) {
        return Ok((name, false));
    }
    Err(class.instead_of("a class or '{'"))
}

/// Checks whether a switch is on: `yes`, or anything that is not a negation. The policy `insecure` signs nothing.
pub(super) fn is_on(statement: &ConfStatement<'_>) -> bool {
    match statement.items().get(1) {
        Some(ConfItem::Word(word)) => {
            !word.is_one_of(&["no", "false", "0", "off", "none", "insecure"])
        }
        _ => false,
    }
}

/// Checks whether a permission list allows any client.
pub(super) fn allows_some_client(statement: &ConfStatement<'_>) -> bool {
    match statement.items().get(1) {
        Some(ConfItem::Block(_, list)) => list
            .iter()
            .any(|entry| entry.keyword().is_none_or(|word| !word.is("none"))),
        // `update-policy local;`
        _ => true,
    }
}
