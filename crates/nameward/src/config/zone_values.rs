//! Value types of zone settings: kinds, other servers, update rules.

use std::path::{Path, PathBuf};

use nameward_dnssec::SoaEdit;
use nameward_maintain::policy::{UpdateRule, UpdateScope, ZoneKind, ZonemdRule};
use nameward_wire::{Name, NameBuf, Type};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    error::nearest,
    read::{Plural, Read, Wrong},
    zone_files::read_name,
};

/// A setting that may be left to the template or the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedSetting<T>(pub Option<T>);

impl<T: Read> Read for InheritedSetting<T> {
    fn expected() -> String {
        format!("{}, or \"\" to inherit", T::expected())
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        match value.get_ref().as_str() {
            Some("") => Ok(Self(None)),
            _ => T::read(value, base).map(|term| Self(Some(term))),
        }
    }
}

/// The name of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneName(pub NameBuf);

impl Read for ZoneName {
    fn expected() -> String {
        r#"the name of a zone such as "example.org""#.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        read_name(value, base).map(Self)
    }
}

/// The path of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPath(pub PathBuf);

impl Read for DirectoryPath {
    fn expected() -> String {
        "the path of a directory".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let path = Option::<PathBuf>::read(value, base)?;
        path.map(Self)
            .ok_or_else(|| Wrong::expected(&Self::expected(), value))
    }
}

/// Formats the keywords that a setting may have.
pub fn one_of<const N: usize>(words: [&str; N]) -> String {
    let words = words.map(|word| format!("{word:?}"));
    let (last, first) = words.split_last().expect("there are words");
    format!("{} or {last}", first.join(", "))
}

impl Read for ZonemdRule {
    fn expected() -> String {
        one_of(Self::ALL.map(Self::word))
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let found = value.get_ref().as_str().and_then(Self::from_word);
        found.ok_or_else(|| Wrong::expected(&Self::expected(), value))
    }
}

impl Read for SoaEdit {
    fn expected() -> String {
        one_of(Self::ALL.map(Self::word))
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let word = value.get_ref().as_str().filter(|word| !word.is_empty());
        let found = word.and_then(Self::read);
        found.ok_or_else(|| Wrong::expected(&<Self as Read>::expected(), value))
    }
}

impl Read for ZoneKind {
    fn expected() -> String {
        one_of(Self::ALL.map(Self::word))
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let found = value.get_ref().as_str().and_then(Self::from_word);
        found.ok_or_else(|| Wrong::expected(&Self::expected(), value))
    }
}

impl Plural for UpdateRule {
    const LIST: &'static str =
        "a list of rules such as { key = \"ddns.example.\", subtree = \"dyn.example\" }";
}

impl Read for UpdateRule {
    fn expected() -> String {
        r#"a rule such as { key = "ddns.example.", subtree = "dyn.example", types = ["A"] }"#.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let keys = ["key", "subtree", "name", "self", "types"];
        let table = inline_table(value, &Self::expected(), &keys)?;
        let wrong = |message: &str| Wrong {
            span: value.span(),
            message: message.into(),
        };
        let named = |key| table.get(key).map(|found| name(found, base)).transpose();
        let key = named("key")?;
        let own = table.get("self").map(|word| bool::read(word, base));
        let scope = match (named("subtree")?, named("name")?, own.transpose()?) {
            (None, None, None | Some(false)) => UpdateScope::Zone,
            (Some(top), None, None | Some(false)) => UpdateScope::Subtree(top),
            (None, Some(name), None | Some(false)) => UpdateScope::Name(name),
            (None, None, Some(true)) => UpdateScope::KeyName,
            _ => return Err(wrong("a rule has one of subtree, name and self")),
        };
        let types = table
            .get("types")
            .map(|types| Vec::<Type>::read(types, base));
        Ok(Self {
            key,
            scope,
            types: types.transpose()?.unwrap_or_default(),
        })
    }
}

impl Plural for Type {
    const LIST: &'static str = "a list of types";
}

impl Read for Type {
    fn expected() -> String {
        "a record type such as \"AAAA\"".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let text = value.get_ref().as_str();
        let found = text.and_then(|text| Type::from_text(text.as_bytes()));
        found.ok_or_else(|| Wrong::expected(&Self::expected(), value))
    }
}

/// Reads a domain name.
pub fn name(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<NameBuf, Wrong> {
    let text = String::read(value, base)?;
    NameBuf::from_text(text.as_bytes(), Name::ROOT).map_err(|error| Wrong {
        span: value.span(),
        message: format!("invalid name {text:?}: {error}"),
    })
}

/// Reads an inline table of a list, with no other keys than these.
pub(super) fn inline_table<'v, 'i>(
    value: &'v Spanned<DeValue<'i>>,
    expected: &str,
    keys: &[&str],
) -> Result<&'v DeTable<'i>, Wrong> {
    let table = value.get_ref().as_table();
    let table = table.ok_or_else(|| Wrong::expected(expected, value))?;
    for (key, _) in table {
        let word = key.get_ref().as_ref();
        if !keys.contains(&word) {
            let hint = match nearest(word, keys.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("expected {}", keys.join(", ")),
            };
            return Err(Wrong {
                span: key.span(),
                message: format!("unknown key {word:?}; {hint}"),
            });
        }
    }
    Ok(table)
}
