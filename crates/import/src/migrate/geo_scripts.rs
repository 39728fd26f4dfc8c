//! LUA records for the geographic answers of other servers: which data a client gets, as scripts in the text of a zone.

use std::fmt::Write;

use nameward_wire::text::Fields;
use nameward_wire::{Name, Type, rdata};

/// Octets of a character string.
const STRING_MAX: usize = 255;
/// Octets of the longest script: a record has at most 65,535 octets of data.
const SCRIPT_MAX: usize = 64_000;

/// A value of a script: text, and Lua expressions for what depends on the client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ScriptText(pub(super) Vec<TextPiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextPiece {
    Fixed(String),
    /// A Lua expression whose value is text.
    Computed(&'static str),
}

impl ScriptText {
    pub(super) fn fixed(text: impl Into<String>) -> Self {
        ScriptText(vec![TextPiece::Fixed(text.into())])
    }

    /// Returns the text if no part of it is computed.
    pub(super) fn as_fixed(&self) -> Option<String> {
        let pieces = self.0.iter().map(|piece| match piece {
            TextPiece::Fixed(text) => Some(text.as_str()),
            TextPiece::Computed(_) => None,
        });
        pieces.collect()
    }

    /// Returns a Lua expression for the text.
    pub(super) fn expression(&self) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            TextPiece::Fixed(text) => quoted(text),
            TextPiece::Computed(code) => (*code).to_owned(),
        });
        let pieces: Vec<String> = pieces.collect();
        if pieces.is_empty() {
            "''".to_owned()
        } else {
            pieces.join("..")
        }
    }

    /// Checks whether the text can be this one, for some client.
    pub(super) fn can_be(&self, text: &str) -> bool {
        let mut rest = text;
        let mut is_open = false;
        for (at, piece) in self.0.iter().enumerate() {
            match piece {
                TextPiece::Computed(_) => is_open = true,
                TextPiece::Fixed(fixed) if is_open => {
                    let is_last = at + 1 == self.0.len();
                    let found = if is_last {
                        rest.ends_with(fixed.as_str())
                            .then(|| rest.len() - fixed.len())
                    } else {
                        rest.find(fixed.as_str())
                    };
                    let Some(found) = found else {
                        return false;
                    };
                    rest = &rest[found + fixed.len()..];
                    is_open = false;
                }
                TextPiece::Fixed(fixed) => match rest.strip_prefix(fixed.as_str()) {
                    Some(after) => rest = after,
                    None => return false,
                },
            }
        }
        is_open || rest.is_empty()
    }
}

/// Records of one type, as a script returns them.
#[derive(Debug, Clone, Default)]
pub(super) struct ScriptRecords {
    /// The data, each with the weight by which one of them is chosen.
    pub(super) data: Vec<(ScriptText, Option<u32>)>,
    pub(super) ttl: u32,
}

/// The weight of data without one, among others that have one.
const WEIGHT: u32 = 100;

impl ScriptRecords {
    /// Returns a Lua expression for the records.
    pub(super) fn expression(&self, rtype: Type) -> String {
        if self.data.iter().any(|(_, weight)| weight.is_some()) {
            let pairs = self.data.iter().map(|(text, weight)| {
                format!("{{{},{}}}", weight.unwrap_or(WEIGHT), text.expression())
            });
            return format!("pickwrandom({{{}}})", pairs.collect::<Vec<_>>().join(","));
        }
        let values = self.data.iter().map(|(text, _)| text.expression());
        let list = format!("{{{}}}", values.collect::<Vec<_>>().join(","));
        let may_be_empty = self.data.iter().any(|(text, _)| text.as_fixed().is_none());
        if may_be_empty && rtype != Type::TXT {
            // Data that is empty for a client is left out.
            return format!(
                "(function() local r={{}} for _,v in ipairs({list}) do if v~='' then r[#r+1]=v end end return r end)()"
            );
        }
        list
    }

    /// Returns the data if it is the same for all clients.
    pub(super) fn as_fixed(&self) -> Option<Vec<String>> {
        let data = self.data.iter().map(|(text, weight)| {
            let is_chosen = weight.is_some();
            text.as_fixed().filter(|_| !is_chosen)
        });
        data.collect()
    }
}

/// Formats a Lua string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for byte in text.bytes() {
        match byte {
            b'\'' | b'\\' => out.extend(['\\', char::from(byte)]),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => _ = write!(out, "\\{byte:03}"),
        }
    }
    out.push('\'');
    out
}

/// Why a record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum GeoRecordFault {
    #[error("invalid {0} record data {1:?}")]
    Data(Type, String),
    #[error("the script for {0} records is too long for a LUA record")]
    Long(Type),
}

/// Appends a record whose data is given as in a zone file; names in it are absolute, with or without the final dot.
pub(super) fn write_record(
    out: &mut String,
    (owner, ttl): (&str, u32),
    rtype: Type,
    text: &str,
) -> Result<(), GeoRecordFault> {
    let text = match rtype {
        Type::TXT if !text.starts_with('"') => character_strings(text.as_bytes()),
        _ => text.to_owned(),
    };
    let Some(shown) = full_data(rtype, &text, Name::ROOT) else {
        return Err(GeoRecordFault::Data(rtype, text));
    };
    let _ = writeln!(out, "{owner} {ttl} IN {rtype} {shown}");
    Ok(())
}

/// Returns record data with absolute names.
pub(super) fn full_data(rtype: Type, text: &str, origin: Name<'_>) -> Option<String> {
    let mut data = Vec::new();
    let fields = &mut Fields::new(text.as_bytes());
    rdata::parse_text(rtype, fields, origin, &mut data).ok()?;
    let mut out = String::new();
    rdata::write_text(rtype, &data, &mut out).ok()?;
    Some(out)
}

/// Appends a LUA record with this script.
pub(super) fn write_script(
    out: &mut String,
    (owner, ttl): (&str, u32),
    rtype: Type,
    code: &str,
) -> Result<(), GeoRecordFault> {
    if code.len() > SCRIPT_MAX {
        return Err(GeoRecordFault::Long(rtype));
    }
    let strings = character_strings(code.as_bytes());
    let _ = writeln!(out, "{owner} {ttl} IN LUA {rtype} {strings}");
    Ok(())
}

/// Formats octets as character strings of a zone file.
fn character_strings(octets: &[u8]) -> String {
    let mut out = String::new();
    for chunk in octets.chunks(STRING_MAX) {
        out.push_str(if out.is_empty() { "\"" } else { " \"" });
        for &byte in chunk {
            match byte {
                b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
                0x20..=0x7e => out.push(char::from(byte)),
                _ => _ = write!(out, "\\{byte:03}"),
            }
        }
        out.push('"');
    }
    if out.is_empty() {
        out.push_str("\"\"");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_matches_what_it_can_become() {
        let country = || TextPiece::Computed("countryCode()");
        let fixed = |text: &str| TextPiece::Fixed(text.into());
        let one = ScriptText(vec![country(), fixed("."), country(), fixed(".svc.test")]);
        assert!(one.can_be("nl.eu.svc.test"));
        assert!(!one.can_be("nl.svc.test") && !one.can_be("nl.eu.svc.test.x"));
        assert_eq!(
            one.expression(),
            "countryCode()..'.'..countryCode()..'.svc.test'"
        );
        assert!(ScriptText::fixed("a").can_be("a") && !ScriptText::fixed("a").can_be("ab"));
        assert!(ScriptText(vec![fixed("a"), country()]).can_be("abc"));
    }

    #[test]
    fn scripts_and_data_are_quoted_for_the_zone_file() {
        let mut out = String::new();
        write_script(&mut out, ("www.test.", 60), Type::TXT, "'it\\'s \"x\"'").unwrap();
        assert_eq!(out, "www.test. 60 IN LUA TXT \"'it\\\\'s \\\"x\\\"'\"\n");
        out.clear();
        write_record(&mut out, ("test.", 60), Type::MX, "10 mx.test").unwrap();
        write_record(&mut out, ("test.", 60), Type::TXT, "hello world").unwrap();
        assert_eq!(
            out,
            "test. 60 IN MX 10 mx.test.\ntest. 60 IN TXT \"hello world\"\n"
        );
        assert!(write_record(&mut out, ("test.", 60), Type::A, "x").is_err());
    }
}
