//! Names of zone versions: a zone may have a version for some views besides the common one, named by a *variant* as in
//! PowerDNS: `example.org..inside`.
//!
//! An empty label inside a name is impossible in DNS, so that text can mean nothing else. In wire form the variant is a
//! label in front of the zone name that starts with two zero octets. A name of this form is the key of a version wherever
//! zones are kept by name (table, journal, keys, policies, databases, commands); it is never sent, and a name that a
//! client sends is never looked up as one.

use super::{MAX_LABEL, MAX_NAME, Name, NameBuf, NameError, write_label};
use core::fmt;

/// The octets that the label of a variant starts with.
const MARK: [u8; 2] = [0, 0];
/// Octets of the longest variant.
pub const MAX_VARIANT: usize = MAX_LABEL - MARK.len();

impl<'a> Name<'a> {
    /// Returns the variant of a zone version, if the name has one.
    #[inline]
    pub fn variant(self) -> Option<&'a str> {
        let len = usize::from(self.0[0]);
        let label = &self.0[1..1 + len];
        let variant = label.strip_prefix(&MARK)?;
        std::str::from_utf8(variant)
            .ok()
            .filter(|text| is_variant(text))
    }

    /// Prints the name as it is in zone files and messages, even if it looks like that of a zone version.
    pub fn verbatim(self) -> Verbatim<'a> {
        Verbatim(self)
    }

    /// Returns the zone name without the variant.
    #[inline]
    pub fn zone(self) -> Name<'a> {
        match self.variant() {
            Some(_) => self.parent().unwrap_or(self),
            None => self,
        }
    }
}

/// A name in presentation format, whatever its labels are ([`Name::verbatim`]).
pub struct Verbatim<'a>(Name<'a>);

impl fmt::Display for Verbatim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_root() {
            return f.write_str(".");
        }
        for label in self.0.labels() {
            write_label(f, label)?;
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl NameBuf {
    /// Returns the name of the version of a zone with this variant.
    pub fn with_variant(zone: Name<'_>, variant: &str) -> Result<Self, NameError> {
        if !is_variant(variant) {
            return Err(NameError::Variant);
        }
        let octets = MARK.len() + variant.len();
        let mut label = [0; MAX_LABEL + 1];
        label[0] = octets as u8;
        label[1..1 + MARK.len()].copy_from_slice(&MARK);
        label[1 + MARK.len()..1 + octets].copy_from_slice(variant.as_bytes());
        NameBuf::join(&label[..1 + octets], zone)
    }

    /// Parses the name of a zone version: an absolute name, and a variant after two dots if it has one.
    pub fn zone_from_text(text: &str) -> Result<Self, NameError> {
        let (zone, variant) = match text.find("..") {
            // A final dot is accepted, as for other names.
            Some(at) => (&text[..at], text.get(at + 2..).map(without_dot)),
            None => (text, None),
        };
        let zone = match (zone, variant) {
            // The root zone is one dot.
            ("", Some(_)) => NameBuf::root(),
            _ => NameBuf::from_text(zone.as_bytes(), Name::ROOT)?,
        };
        if zone.as_name().variant().is_some() {
            return Err(NameError::Variant);
        }
        match variant {
            Some(variant) => NameBuf::with_variant(zone.as_name(), variant),
            None => Ok(zone),
        }
    }
}

fn without_dot(variant: &str) -> &str {
    variant.strip_suffix('.').unwrap_or(variant)
}

/// Checks whether a text can be a variant, or the name of a view: letters in lower case, digits, `-` and `_`.
pub fn is_variant(text: &str) -> bool {
    let is_allowed = |octet: u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=MAX_VARIANT).contains(&text.len()) && text.bytes().all(is_allowed)
}

const _: () = assert!(MAX_VARIANT < MAX_NAME);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_by_its_variant() {
        for (text, zone, variant) in [
            ("example.org..inside", "example.org.", Some("inside")),
            ("Example.org.", "Example.org.", None),
            ("..trusted", ".", Some("trusted")),
            (r"a\.b.example..x-1_y", r"a\.b.example.", Some("x-1_y")),
        ] {
            let name = NameBuf::zone_from_text(text).unwrap();
            assert_eq!(name.as_name().zone().to_string(), zone);
            assert_eq!(name.as_name().variant(), variant);
            assert_eq!(name.to_string(), text);
            assert_eq!(NameBuf::zone_from_text(&name.to_string()), Ok(name));
        }
    }

    #[test]
    fn texts_that_name_no_version_are_rejected() {
        let long = format!("example..{}", "a".repeat(MAX_VARIANT + 1));
        for text in [
            "example..",
            "a..b.c",
            "a..B",
            "a...b",
            ".",
            "..",
            &long,
            r"\000\000x.example.",
            r"\000\000x.example..y",
        ] {
            let read = NameBuf::zone_from_text(text);
            assert!(read.is_err() || text == ".", "{text}: {read:?}");
        }
        let dotted = NameBuf::zone_from_text("example.org..inside.");
        assert_eq!(dotted, NameBuf::zone_from_text("example.org..inside"));
        let name = NameBuf::from_text(b"example..inside", Name::ROOT);
        assert_eq!(name, Err(NameError::EmptyLabel));
    }

    #[test]
    fn a_record_owner_is_printed_as_it_is() {
        let name: NameBuf = r"\000\000x.example.".parse().unwrap();
        assert_eq!(name.to_string(), "example..x");
        assert_eq!(name.as_name().verbatim().to_string(), r"\000\000x.example.");
        let text = name.as_name().verbatim().to_string();
        assert_eq!(text.parse::<NameBuf>(), Ok(name));
        assert_eq!(NameBuf::root().as_name().verbatim().to_string(), ".");
    }
}
