//! The settings table: one entry defines a setting's field, key, type, default and documentation,
//! so that none of these can disagree with another.

use std::path::Path;

use toml::{Spanned, de::DeValue};

use super::read::{Read, Wrong};

/// One key of a section.
pub struct Setting<S: 'static> {
    /// The key as written in the file.
    pub key: &'static str,
    /// The default, as it would be written in the file.
    pub default: &'static str,
    /// The documentation, line by line.
    pub doc: &'static [&'static str],
    /// Describes a value of this setting, for error messages and the documentation.
    pub expected: fn() -> String,
    /// Compares the setting of two sections.
    pub same: fn(&S, &S) -> bool,
    /// Reads a value into the section.
    pub set: fn(&mut S, &Spanned<DeValue<'_>>, &Path) -> Result<(), Wrong>,
}

/// A table of the configuration file.
pub trait ConfigTable: Clone + 'static {
    /// The table's name.
    const NAME: &'static str;
    /// The table's description, line by line.
    const ABOUT: &'static [&'static str];
    /// Its keys, in documentation order.
    const SETTINGS: &'static [Setting<Self>];

    /// Returns the section with every key at its default.
    fn defaults() -> Self;
}

/// A [`Setting`] without its section type: what documentation and suggestions need.
pub struct Listed {
    /// The table it belongs to.
    pub section: &'static str,
    /// The key as written in the file.
    pub key: &'static str,
    /// The default, as it would be written in the file.
    pub default: &'static str,
    /// Describes a value.
    pub expected: String,
    /// The documentation, line by line.
    pub doc: &'static [&'static str],
}

/// Lists the keys of one section.
pub fn list<S: ConfigTable>() -> impl Iterator<Item = Listed> {
    S::SETTINGS.iter().map(|setting| Listed {
        section: S::NAME,
        key: setting.key,
        default: setting.default,
        expected: (setting.expected)(),
        doc: setting.doc,
    })
}

/// Lists the keys on which two sections differ, as `section.key`.
pub fn differences<S: ConfigTable>(one: &S, other: &S) -> impl Iterator<Item = String> {
    S::SETTINGS
        .iter()
        .filter(|setting| !(setting.same)(one, other))
        .map(|setting| format!("{}.{}", S::NAME, setting.key))
}

/// Reads the text of a default, which is part of this program.
///
/// # Panics
/// If the text is not a value of its type; a test builds every section.
pub fn read_default<T: Read>(text: &'static str) -> T {
    let value = DeValue::parse(text).expect("a default is a TOML value");
    T::read(&value, Path::new("")).expect("a default has its setting's type")
}

/// Declares a section: its struct and its table of settings.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident = $table:literal {
            $( $(#[doc = $doc:literal])+ $field:ident $(as $key:literal)? : $type:ty = $default:literal; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl $crate::config::setting::ConfigTable for $name {
            const NAME: &'static str = $table;
            const ABOUT: &'static [&'static str] = &[$($about),+];
            const SETTINGS: &'static [$crate::config::setting::Setting<Self>] = &[
                $( $crate::config::setting::Setting {
                    key: $crate::config::setting::section!(@key $field $($key)?),
                    default: $default,
                    doc: &[$($doc),+],
                    expected: <$type as $crate::config::read::Read>::expected,
                    same: |one, other| one.$field == other.$field,
                    set: |section, value, base| {
                        section.$field = $crate::config::read::Read::read(value, base)?;
                        Ok(())
                    },
                }, )+
            ];

            fn defaults() -> Self {
                Self { $( $field: $crate::config::setting::read_default($default), )+ }
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}
pub(crate) use section;
