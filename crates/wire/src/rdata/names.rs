//! Names inside record data: finding them, lower-casing them, parsing them from text.

use super::check;
use super::field::{Field, NameUse, TypeInfo};
use super::short_name::ShortName;
use super::{describe, name_at};
use crate::name::{Name, NameBuf, NameError};
use crate::rtype::Type;

/// Iterates over the names in well-formed uncompressed data: offset, name, and how it is treated.
/// Ends early at malformed data.
pub fn names(rtype: Type, rdata: &[u8]) -> Names<'_> {
    Names {
        rdata,
        walk: Walk::new(describe(rtype)),
    }
}

/// Lower-cases in place the names that canonical form requires in lower case.
pub fn canonicalise(rtype: Type, rdata: &mut [u8]) {
    let mut walk = Walk::new(describe(rtype));
    while let Some((at, len, name_use)) = walk.next(rdata) {
        if name_use.lowercase {
            rdata[at..at + len].make_ascii_lowercase();
        }
    }
}

/// Iterates over the names in record data.
#[derive(Clone)]
pub struct Names<'a> {
    rdata: &'a [u8],
    walk: Walk,
}

impl<'a> Iterator for Names<'a> {
    type Item = (usize, Name<'a>, NameUse);

    fn next(&mut self) -> Option<Self::Item> {
        let (at, len, name_use) = self.walk.next(self.rdata)?;
        let name = Name::from_valid_wire(&self.rdata[at..at + len]);
        Some((at, name, name_use))
    }
}

/// The state of the search for names.
#[derive(Clone)]
struct Walk {
    fields: &'static [Field],
    at: usize,
}

impl Walk {
    fn new(info: Option<&'static TypeInfo>) -> Self {
        let fields = info.map_or(&[][..], |info| info.fields);
        // Fields after the last name need not be visited.
        let last = fields.iter().rposition(Field::holds_name);
        Walk {
            fields: &fields[..last.map_or(0, |last| last + 1)],
            at: 0,
        }
    }

    /// Returns offset, length and use of the next name.
    fn next(&mut self, rdata: &[u8]) -> Option<(usize, usize, NameUse)> {
        while let Some((field, rest)) = self.fields.split_first() {
            let at = self.at;
            let name_use = match *field {
                Field::Name(name_use) => {
                    self.fields = rest;
                    Some(name_use)
                }
                Field::Names(name_use) if at < rdata.len() => Some(name_use),
                Field::Gateway { mask } => {
                    self.fields = rest;
                    (check::gateway_type(rdata, mask) == Some(3)).then_some(NameUse::PLAIN)
                }
                _ => {
                    self.fields = rest;
                    None
                }
            };
            if let Some(name_use) = name_use {
                let len = name_at(rdata, at).ok()?.as_wire().len();
                self.at += len;
                return Some((at, len, name_use));
            }
            self.at = check::field_end(field, rdata, at).ok()?;
            if matches!(field, Field::Names(_)) {
                return None;
            }
        }
        None
    }
}

impl Field {
    fn holds_name(&self) -> bool {
        matches!(
            self,
            Field::Name(_) | Field::Names(_) | Field::Gateway { .. }
        )
    }
}

/// Appends the name in `text` in wire form; relative names are completed with `origin`. On error
/// `out` is unchanged.
#[inline]
pub fn append_name(text: &[u8], origin: Name<'_>, out: &mut Vec<u8>) -> Result<(), NameError> {
    if memchr::memchr(b'\\', text).is_some() {
        return append_escaped(text, origin, out);
    }
    let mut name = ShortName::default();
    name.set_plain(text, origin)?;
    out.extend_from_slice(name.as_wire());
    Ok(())
}

#[cold]
fn append_escaped(text: &[u8], origin: Name<'_>, out: &mut Vec<u8>) -> Result<(), NameError> {
    let name = NameBuf::from_text(text, origin)?;
    out.extend_from_slice(name.as_name().as_wire());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_read_as_a_name_buffer_reads_it(text in r"([a-c*@.]|\\\.|\\065){0,9}", long in "([a-z]{1,70}\\.?){0,6}") {
            let origin: NameBuf = "example.org.".parse().unwrap();
            for text in [text, long] {
                let mut wire = vec![1, 2];
                let ours = append_name(text.as_bytes(), origin.as_name(), &mut wire);
                match NameBuf::from_text(text.as_bytes(), origin.as_name()) {
                    Ok(name) => {
                        prop_assert!(ours.is_ok(), "{}", text);
                        prop_assert_eq!(&wire[2..], name.as_name().as_wire());
                    }
                    Err(_) => prop_assert!(ours.is_err(), "{}", text),
                }
            }
        }
    }

    #[test]
    fn names_show_their_use() {
        let rdata = b"\0\x0a\x04Mail\0";
        let found: Vec<_> = names(Type::MX, rdata).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 2);
        assert!(found[0].2.compress && found[0].2.lowercase && found[0].2.additional);
        let soa = b"\x01A\0\x01B\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
        let offsets: Vec<_> = names(Type::SOA, soa).map(|found| found.0).collect();
        assert_eq!(offsets, [0, 3]);
        assert_eq!(names(Type::A, b"\x01a\0\0").count(), 0);
        assert_eq!(names(Type(65_280), b"\x01a\0\0").count(), 0);
    }

    #[test]
    fn canonical_form_lower_cases_what_rfc_6840_says() {
        let mut rdata = *b"\x01A\0";
        canonicalise(Type::NS, &mut rdata);
        assert_eq!(&rdata, b"\x01a\0");
        // NSEC: the next name keeps its case (RFC 6840 section 5.1).
        let mut rdata = *b"\x01A\0\0\x01\x40";
        canonicalise(Type::NSEC, &mut rdata);
        assert_eq!(&rdata, b"\x01A\0\0\x01\x40");
        let mut rdata = *b"\0\0\0\x01\x01A\0";
        canonicalise(Type::SVCB, &mut rdata);
        assert_eq!(&rdata, b"\0\0\0\x01\x01A\0");
    }
}
