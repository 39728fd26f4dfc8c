//! Conversion of TOML values to typed settings, with errors that say what was expected and what was
//! found.

use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use ipnet::IpNet;
use nameward_base::secret::Secret;
use nameward_control::operations::FaultKind;
use nameward_sql::join_urls;
use toml::{Spanned, de::DeValue};

/// An invalid value, and its position in the text.
#[derive(Debug)]
pub struct Wrong {
    /// Byte range in the file.
    pub span: Range<usize>,
    /// The problem, in one line.
    pub message: String,
}

impl Wrong {
    /// Creates an error at a value, or at a key.
    pub fn new<T>(place: &Spanned<T>, message: impl Into<String>) -> Self {
        Self {
            span: place.span(),
            message: message.into(),
        }
    }

    /// Creates the error "expected X, found Y".
    pub fn expected(expected: &str, value: &Spanned<DeValue<'_>>) -> Self {
        let found = describe(value.get_ref());
        Self::new(value, format!("expected {expected}, found {found}"))
    }
}

/// Describes a value of the file, with its text where that helps.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.chars().count() <= 60 => format!("{text:?}"),
        DeValue::String(_) => "a long string".into(),
        DeValue::Integer(number) => format!("the integer {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => format!("{value}"),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// A type that settings can have.
pub trait Read: Sized {
    /// Describes a list of values, to follow the word "expected"; for types that lists have.
    const LIST: &'static str = "a list";

    /// Describes a value, to follow the word "expected".
    fn expected() -> String;

    /// Reads a value; paths are relative to `base`.
    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong>;
}

impl Read for String {
    const LIST: &'static str = "a list of strings";

    fn expected() -> String {
        "a string".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        read_text(value, "a string", |text| Some(text.to_owned()))
    }
}

/// Boxed: few of a hundred thousand tables set such a value, and the others save the space.
impl<T: Read> Read for Box<T> {
    fn expected() -> String {
        T::expected()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        T::read(value, base).map(Box::new)
    }
}

impl Read for bool {
    fn expected() -> String {
        "true or false".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let found = value.get_ref().as_bool();
        found.ok_or_else(|| Wrong::expected("true or false", value))
    }
}

/// A whole number whose limits are part of the setting's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// Returns the number, if it is within the limits.
    pub fn new(number: u64) -> Option<Self> {
        (MIN..=MAX).contains(&number).then_some(Self(number))
    }

    /// Returns the number, for sizes.
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Returns the number as seconds.
    pub fn seconds(self) -> Duration {
        Duration::from_secs(self.0)
    }

    /// Returns the number as milliseconds, for settings whose names end in `_ms`.
    pub fn millis(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> Read for Count<MIN, MAX> {
    fn expected() -> String {
        format!("an integer from {MIN} to {MAX}")
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let wrong = || Wrong::expected(&Self::expected(), value);
        let integer = value.get_ref().as_integer().ok_or_else(wrong)?;
        let digits = integer.as_str().replace('_', "");
        let number = u64::from_str_radix(digits.trim_start_matches('+'), integer.radix());
        number.ok().and_then(Self::new).ok_or_else(wrong)
    }
}

/// Reads a string with a function that has no value for invalid ones.
pub fn read_text<T>(
    value: &Spanned<DeValue<'_>>,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Wrong> {
    let text = value.get_ref().as_str();
    text.and_then(parse)
        .ok_or_else(|| Wrong::expected(expected, value))
}

/// Reads a string with the parser of its type.
pub fn parse<T: FromStr>(value: &Spanned<DeValue<'_>>, expected: &str) -> Result<T, Wrong> {
    read_text(value, expected, |text| text.parse().ok())
}

/// Formats the keywords that a setting may have.
pub fn one_of(words: &[&str]) -> String {
    let (last, first) = words.split_last().expect("there are words");
    format!("\"{}\" or \"{last}\"", first.join("\", \""))
}

const ADDRESS: &str = "an address with a port such as \"127.0.0.1:53\" or \"[::1]:53\"";
const NETWORK: &str = "an address or network such as \"192.0.2.1\" or \"2001:db8::/32\"";

impl Read for SocketAddr {
    const LIST: &'static str = "a list of addresses";

    fn expected() -> String {
        ADDRESS.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        parse(value, ADDRESS)
    }
}

impl Read for Option<SocketAddr> {
    fn expected() -> String {
        format!("{ADDRESS}, or \"\" for none")
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        match value.get_ref().as_str() {
            Some("") => Ok(None),
            _ => parse(value, &Self::expected()).map(Some),
        }
    }
}

/// Addresses of servers: one, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(pub Vec<SocketAddr>);

impl Read for Addresses {
    fn expected() -> String {
        format!("{ADDRESS}, a list of such, or \"\" for none")
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        match value.get_ref() {
            DeValue::Array(_) => Vec::read(value, base).map(Self),
            DeValue::String(text) if text.is_empty() => Ok(Self(Vec::new())),
            _ => parse(value, &Self::expected()).map(|address| Self(vec![address])),
        }
    }
}

impl Read for IpNet {
    const LIST: &'static str = "a list of addresses or networks";

    fn expected() -> String {
        NETWORK.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        parse::<IpAddr>(value, NETWORK)
            .map(Into::into)
            .or_else(|_| parse(value, NETWORK))
    }
}

impl Read for FaultKind {
    const LIST: &'static str = "a list of fault kinds";

    fn expected() -> String {
        let words = FaultKind::ALL
            .iter()
            .map(|kind| format!("{:?}", kind.word()));
        words.collect::<Vec<_>>().join(" or ")
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        read_text(value, &Self::expected(), FaultKind::from_word)
    }
}

impl<T: Read> Read for Vec<T> {
    fn expected() -> String {
        T::LIST.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let list = value.get_ref().as_array();
        let list = list.ok_or_else(|| Wrong::expected(T::LIST, value))?;
        list.iter().map(|entry| T::read(entry, base)).collect()
    }
}

/// Reads a path; relative ones start at the directory of the configuration file.
impl Read for Option<PathBuf> {
    fn expected() -> String {
        "a path, or \"\" for none".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let text = String::read(value, base)?;
        if text.contains('\0') {
            return Err(Wrong::expected("a path without NUL", value));
        }
        Ok((!text.is_empty()).then(|| base.join(text)))
    }
}

/// Files: one, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths(pub Vec<PathBuf>);

impl Read for Paths {
    fn expected() -> String {
        "a path, a list of such, or \"\" for none".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let DeValue::Array(list) = value.get_ref() else {
            return Option::read(value, base).map(|path| Self(path.into_iter().collect()));
        };
        let path = |entry: &Spanned<DeValue<'_>>| {
            Option::<PathBuf>::read(entry, base)?.ok_or_else(|| Wrong::expected("a path", entry))
        };
        list.iter().map(path).collect::<Result<_, _>>().map(Self)
    }
}

impl Read for Secret<String> {
    fn expected() -> String {
        String::expected()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        // A secret of the wrong type must not be printed either.
        match value.get_ref() {
            DeValue::String(_) => String::read(value, base).map(Self::new),
            _ => Err(Wrong::new(value, "expected a string")),
        }
    }
}

/// The address of a database: one, or a list of addresses that differ in the server. It may contain a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseUrl(Secret<String>);

impl DatabaseUrl {
    /// Returns the address, with all servers in it.
    pub fn reveal(&self) -> &String {
        self.0.reveal()
    }
}

impl Read for DatabaseUrl {
    fn expected() -> String {
        "a string, or a list of strings".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let DeValue::Array(list) = value.get_ref() else {
            return Secret::read(value, base).map(Self);
        };
        let urls = list.iter().map(|url| Secret::<String>::read(url, base));
        let urls = urls.collect::<Result<Vec<_>, _>>()?;
        let urls: Vec<&str> = urls.iter().map(|url| url.reveal().as_str()).collect();
        let joined = join_urls(&urls).map_err(|error| Wrong::new(value, error.to_string()))?;
        Ok(Self(Secret::new(joined)))
    }
}

/// Declares the keywords in the file for the values of a type.
macro_rules! keywords {
    ($type:ty { $( $word:literal => $value:expr, )+ }) => {
        impl $crate::config::read::Read for $type {
            fn expected() -> String {
                $crate::config::read::one_of(&[$($word),+])
            }

            fn read(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                _: &std::path::Path,
            ) -> Result<Self, $crate::config::read::Wrong> {
                let expected = <Self as $crate::config::read::Read>::expected();
                $crate::config::read::read_text(value, &expected, |word| match word {
                    $( $word => Some($value), )+
                    _ => None,
                })
            }
        }
    };
}
pub(crate) use keywords;

/// Declares an enum whose values are keywords in the file.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, )+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $doc])+ $variant, )+ }

        $crate::config::read::keywords! { $name { $( $word => $name::$variant, )+ } }
    };
}
pub(crate) use words;
