//! Zone settings about transfers, NOTIFY and updates: read for a migration, resolved when all lists are known.

use nameward_zone::AccessList;

use super::{
    Spot, UnservableReason,
    acl::{self, AclResolver, MatchList, Unusable},
    keywords::is_on,
    lex::TextLocation,
    syntax::{ConfItem, ConfStatement, Word},
};
use crate::migrate::{ImportedScope, ImportedUpdateRule};

/// The statements read here.
const TERMS: [&str; 10] = [
    "allow-transfer",
    "allow-notify",
    "allow-update",
    "allow-update-forwarding",
    "update-policy",
    "notify",
    "also-notify",
    "primaries",
    "key-directory",
    "request-ixfr",
];

/// Checks whether a migration converts a statement.
pub(super) fn is_term(keyword: &str) -> bool {
    TERMS.contains(&keyword) || keyword == "masters"
}

/// A list, or why it cannot be used; `None` if it is not set.
pub(super) type ListSetting<L> = Option<Result<L, UnservableReason>>;

/// The statements of one level.
pub(super) type SettingStatements = BindSettings<MatchList>;

/// The settings of a zone: `None` if no level sets them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct BindSettings<L = AccessList> {
    pub allow_transfer: ListSetting<L>,
    pub allow_notify: ListSetting<L>,
    pub allow_update: ListSetting<L>,
    pub forwarding: ListSetting<L>,
    pub update_policy: Option<Result<Vec<ImportedUpdateRule>, UnservableReason>>,
    /// The keyword after `notify`.
    pub notify: Option<String>,
    /// The name of the policy by which BIND signs it.
    pub dnssec_policy: Option<String>,
    /// The key directory, relative to the server directory.
    pub key_directory: Option<String>,
    pub request_ixfr: Option<bool>,
}

/// Reads a statement, if it is one of these.
pub(super) fn see(
    to: &mut Option<Box<SettingStatements>>,
    keyword: &Word<'_>,
    statement: &ConfStatement<'_>,
    file: usize,
) {
    let word = keyword.string().to_ascii_lowercase();
    let list = || {
        acl::read(statement, file).map_err(|wrong| UnservableReason {
            spot: (file, wrong.location),
            reason: format!("{word}: {}", wrong.message),
        })
    };
    match word.as_str() {
        "allow-transfer" => to.get_or_insert_default().allow_transfer = Some(list()),
        "allow-notify" => to.get_or_insert_default().allow_notify = Some(list()),
        "allow-update" => to.get_or_insert_default().allow_update = Some(list()),
        "allow-update-forwarding" => to.get_or_insert_default().forwarding = Some(list()),
        "update-policy" => {
            to.get_or_insert_default().update_policy = Some(update_policy(statement, file));
        }
        "notify" => {
            let word = statement.value("yes, no, explicit or primary-only").ok();
            to.get_or_insert_default().notify = word.map(|word| word.string().to_ascii_lowercase());
        }
        "dnssec-policy" => {
            let word = statement.value("a policy name").ok();
            to.get_or_insert_default().dnssec_policy = word.map(Word::string);
        }
        "key-directory" => {
            let word = statement.value("a directory").ok();
            to.get_or_insert_default().key_directory = word.map(Word::string);
        }
        "request-ixfr" => to.get_or_insert_default().request_ixfr = Some(is_on(statement)),
        _ => {}
    }
}

/// Resolves the settings of a zone; for each, the first level that sets it wins.
pub(super) fn resolve_settings(
    levels: &[&SettingStatements],
    lists: &mut AclResolver<'_>,
) -> BindSettings {
    let levels = || levels.iter().copied();
    let mut list = |pick: fn(&SettingStatements) -> &ListSetting<MatchList>| {
        let written = levels().find_map(|terms| pick(terms).as_ref())?;
        Some(match written {
            Ok(list) => resolve(list, lists),
            Err(refusal) => Err(refusal.clone()),
        })
    };
    BindSettings {
        allow_transfer: list(|terms| &terms.allow_transfer),
        allow_notify: list(|terms| &terms.allow_notify),
        allow_update: list(|terms| &terms.allow_update),
        forwarding: list(|terms| &terms.forwarding),
        update_policy: levels().find_map(|terms| terms.update_policy.clone()),
        notify: levels().find_map(|terms| terms.notify.clone()),
        dnssec_policy: levels().find_map(|terms| terms.dnssec_policy.clone()),
        key_directory: levels().find_map(|terms| terms.key_directory.clone()),
        request_ixfr: levels().find_map(|terms| terms.request_ixfr),
    }
}

fn resolve(list: &MatchList, lists: &mut AclResolver<'_>) -> Result<AccessList, UnservableReason> {
    match lists.resolve(list) {
        Ok(resolved) => Ok(AccessList::clone(&resolved.list)),
        Err(Unusable::Wrong(file, wrong) | Unusable::Undecided(file, wrong)) => {
            Err(UnservableReason::new(file, wrong))
        }
    }
}

/// Reads `update-policy { grant KEY RULE [NAME] [TYPE...]; ... };`.
fn update_policy(
    statement: &ConfStatement<'_>,
    file: usize,
) -> Result<Vec<ImportedUpdateRule>, UnservableReason> {
    let refuse = |location: TextLocation, reason: String| {
        let spot: Spot = (file, location);
        Err(UnservableReason { spot, reason })
    };
    let Ok((_, block)) = statement.words_and_block() else {
        let reason = "update-policy local: BIND's session key is not available".into();
        return refuse(statement.location(), reason);
    };
    let mut rules = Vec::new();
    for statement in block {
        let words: Vec<String> = statement
            .items()
            .iter()
            .filter_map(|item| match item {
                ConfItem::Word(word) => Some(word.string()),
                ConfItem::Block(..) => None,
            })
            .collect();
        match rule(&words) {
            Some(rule) => rules.push(rule),
            None => {
                let reason = format!("update-policy: {:?} is not supported", words.join(" "));
                return refuse(statement.location(), reason);
            }
        }
    }
    Ok(rules)
}

/// Returns the rule if it has an equivalent here; `None` for others.
fn rule(words: &[String]) -> Option<ImportedUpdateRule> {
    let [verb, key, kind, rest @ ..] = words else {
        return None;
    };
    if !verb.eq_ignore_ascii_case("grant") || key.contains('*') {
        return None;
    }
    let name = |rest: &[String]| {
        rest.first()
            .and_then(|name| crate::migrate::full_name(name))
    };
    let (scope, types) = match (kind.to_ascii_lowercase().as_str(), rest) {
        ("zonesub", types) => (ImportedScope::WholeZone, types),
        ("subdomain", [_, types @ ..]) => (ImportedScope::Subtree(name(rest)?), types),
        ("name", [_, types @ ..]) => (ImportedScope::OneName(name(rest)?), types),
        ("self", [_, types @ ..]) => (ImportedScope::KeyItself, types),
        _ => return None,
    };
    let is_any = types.iter().any(|word| word.eq_ignore_ascii_case("any"));
    Some(ImportedUpdateRule {
        key: crate::migrate::full_name(key)?,
        scope,
        types: if is_any {
            Vec::new()
        } else {
            types.iter().map(|word| word.to_ascii_uppercase()).collect()
        },
    })
}
