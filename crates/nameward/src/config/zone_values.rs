//! Value types of zone settings: kinds, other servers, update rules.

use std::path::{Path, PathBuf};

use nameward_dnssec::{DenialSettings, SoaEdit, tsig::TsigAlgorithm};
use nameward_maintain::policy::{UpdateRule, UpdateScope, ZoneKind, ZonemdRule};
use nameward_wire::{Name, NameBuf, Type};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use tracing::level_filters::LevelFilter;

use super::{
    error::nearest,
    read::{Read, Wrong, one_of, read_text},
    zone_files::read_name,
};
use crate::logging::{LEVELS, read_level};

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneName(pub NameBuf);

impl Read for ZoneName {
    const LIST: &'static str = "a list of zone names";

    fn expected() -> String {
        r#"the name of a zone such as "example.org""#.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        read_name(value, base).map(Self)
    }
}

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

/// Declares how types are read that know their own keywords.
macro_rules! own_keywords {
    ($( $type:ty: $words:expr, $parse:expr; )+) => {$(
        impl Read for $type {
            fn expected() -> String {
                one_of(&$words)
            }

            fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
                read_text(value, &<Self as Read>::expected(), $parse)
            }
        }
    )+};
}

own_keywords! {
    ZonemdRule: ZonemdRule::ALL.map(ZonemdRule::word), ZonemdRule::from_word;
    ZoneKind: ZoneKind::ALL.map(ZoneKind::word), ZoneKind::from_word;
    TsigAlgorithm: TsigAlgorithm::ALL.map(TsigAlgorithm::word), TsigAlgorithm::from_word;
    LevelFilter: LEVELS, read_level;
    DenialSettings: DenialSettings::WORDS, DenialSettings::read;
    SoaEdit: SoaEdit::ALL.map(SoaEdit::word), |word| {
        Some(word).filter(|word| !word.is_empty()).and_then(SoaEdit::read)
    };
}

impl Read for UpdateRule {
    const LIST: &'static str =
        "a list of rules such as { key = \"ddns.example.\", subtree = \"dyn.example\" }";

    fn expected() -> String {
        r#"a rule such as { key = "ddns.example.", subtree = "dyn.example", types = ["A"] }"#.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let keys = ["key", "subtree", "name", "self", "types"];
        let table = inline_table(value, &Self::expected(), &keys)?;
        let wrong = |message: &str| Wrong::new(value, message);
        let named = |key| table.get(key).map(|found| name(found, base)).transpose();
        let key = named("key")?;
        let own = setting(table, "self", base)?;
        let scope = match (named("subtree")?, named("name")?, own) {
            (None, None, None | Some(false)) => UpdateScope::Zone,
            (Some(top), None, None | Some(false)) => UpdateScope::Subtree(top),
            (None, Some(name), None | Some(false)) => UpdateScope::Name(name),
            (None, None, Some(true)) => UpdateScope::KeyName,
            _ => return Err(wrong("a rule has one of subtree, name and self")),
        };
        let types = setting(table, "types", base)?.unwrap_or_default();
        Ok(Self { key, scope, types })
    }
}

impl Read for Type {
    const LIST: &'static str = "a list of types";

    fn expected() -> String {
        "a record type such as \"AAAA\"".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        read_text(value, &Self::expected(), |text| {
            Type::from_text(text.as_bytes())
        })
    }
}

pub fn name(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<NameBuf, Wrong> {
    let text = String::read(value, base)?;
    NameBuf::from_text(text.as_bytes(), Name::ROOT)
        .map_err(|error| Wrong::new(value, format!("invalid name {text:?}: {error}")))
}

/// Reads a setting of an inline table, if it is there.
pub(super) fn setting<T: Read>(
    table: &DeTable<'_>,
    key: &str,
    base: &Path,
) -> Result<Option<T>, Wrong> {
    table.get(key).map(|value| T::read(value, base)).transpose()
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
            return Err(Wrong::new(key, format!("unknown key {word:?}; {hint}")));
        }
    }
    Ok(table)
}
