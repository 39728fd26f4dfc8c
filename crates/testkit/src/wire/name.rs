//! Names of the test client: uncompressed wire form, with `\DDD` text both ways.

use crate::TestFailure;
use std::fmt;

/// A name in uncompressed wire form, case kept.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name(pub Vec<u8>);

impl Name {
    /// Returns the root.
    pub fn root() -> Name {
        Name(vec![0])
    }

    /// Parses presentation format; a name without a final dot is taken as absolute too.
    pub fn parse(text: &str) -> Result<Name, TestFailure> {
        if text == "." {
            return Ok(Name::root());
        }
        let mut wire = Vec::new();
        let mut label = Vec::new();
        let mut octets = text.bytes();
        let mut ended = false;
        while let Some(octet) = octets.next() {
            ended = false;
            match octet {
                b'.' => {
                    push_label(&mut wire, &label).map_err(|e| format!("{e} in `{text}`"))?;
                    label.clear();
                    ended = true;
                }
                b'\\' => label.push(escape(&mut octets).ok_or(format!("bad escape in `{text}`"))?),
                _ => label.push(octet),
            }
        }
        if !ended {
            push_label(&mut wire, &label).map_err(|e| format!("{e} in `{text}`"))?;
        }
        wire.push(0);
        if wire.len() > 255 {
            return Err(format!("name of {} octets: `{text}`", wire.len()).into());
        }
        Ok(Name(wire))
    }

    /// Returns the labels from the left, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let length = *rest.first()? as usize;
            if length == 0 {
                return None;
            }
            let (label, tail) = rest[1..].split_at(length);
            rest = tail;
            Some(label)
        })
    }

    /// Returns the name in lower case, for comparison.
    pub fn lowercase(&self) -> Name {
        // A length octet is at most 63, below `A`, so it does not change.
        Name(self.0.to_ascii_lowercase())
    }

    /// Checks whether this name is `other` or below it.
    pub fn is_within(&self, other: &Name) -> bool {
        let (own, above) = (self.lowercase(), other.lowercase());
        let own: Vec<&[u8]> = own.labels().collect();
        let above: Vec<&[u8]> = above.labels().collect();
        own.ends_with(&above)
    }
}

fn push_label(wire: &mut Vec<u8>, label: &[u8]) -> Result<(), TestFailure> {
    if label.is_empty() || label.len() > 63 {
        return Err(format!("label of {} octets", label.len()).into());
    }
    wire.push(label.len() as u8);
    wire.extend_from_slice(label);
    Ok(())
}

/// Returns the octet after a backslash: `\DDD` or `\X`.
pub(super) fn escape(octets: &mut std::str::Bytes<'_>) -> Option<u8> {
    let first = octets.next()?;
    if !first.is_ascii_digit() {
        return Some(first);
    }
    let (second, third) = (octets.next()?, octets.next()?);
    let digits = [first, second, third];
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == [0] {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &octet in label {
                match octet {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", octet as char)?
                    }
                    0x21..=0x7e => write!(f, "{}", octet as char)?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_read_and_print_with_escapes() {
        let name = Name::parse("a\\.b.\\000\\255.Example").expect("a good name");
        assert_eq!(name.to_string(), "a\\.b.\\000\\255.Example.");
        assert_eq!(Name::parse(&name.to_string()), Ok(name));
    }

    #[test]
    fn labels_and_names_have_limits() {
        assert!(Name::parse(&"a".repeat(64)).is_err());
        assert!(Name::parse("a..b").is_err());
        assert!(Name::parse(&"a.".repeat(128)).is_err());
        assert!(Name::parse(&"a.".repeat(127)).is_ok());
    }

    #[test]
    fn within_compares_labels_and_not_octets() {
        let zone = Name::parse("Example.org").unwrap();
        assert!(Name::parse("a.example.ORG").unwrap().is_within(&zone));
        assert!(zone.is_within(&zone));
        assert!(!Name::parse("badexample.org").unwrap().is_within(&zone));
    }
}
