//! Ring entries as text. Only produced when a page is rendered, never when an entry is added.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The kind of entries in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A message text.
    Message,
    /// An IP address.
    Address,
    /// An IP prefix: the octets of its address and its length.
    Prefix,
    /// A query name and type.
    Question,
}

/// Returns the mnemonic of a record type, or `None` for a type without one (which is shown as `TYPE<n>`, RFC 3597
/// section 5). `wire` has the mnemonics and is above this crate in the layers, so they are passed in.
pub type Mnemonic<'a> = &'a dyn Fn(u16) -> Option<&'static str>;

/// Writes a wire name (uncompressed, case kept) as text: no final dot, `.` for the root. Octets other than printable
/// ASCII, and a dot or backslash inside a label, are escaped (RFC 1035 section 5.1; RFC 4343 section 2.1).
fn write_name(wire: &[u8], out: &mut String) {
    let mut rest = wire;
    let mut first = true;
    while let Some((length, tail)) = rest.split_first() {
        let Some((label, tail)) = tail.split_at_checked(*length as usize) else {
            break;
        };
        if label.is_empty() {
            break;
        }
        if !first {
            out.push('.');
        }
        first = false;
        for byte in label {
            match byte {
                b'.' | b'\\' => {
                    out.push('\\');
                    out.push(*byte as char);
                }
                0x21..=0x7e => out.push(*byte as char),
                _ => {
                    let _ = write!(out, "\\{byte:03}");
                }
            }
        }
        rest = tail;
    }
    if first {
        out.push('.');
    }
}

/// Writes a record type as text.
fn write_type(qtype: u16, mnemonic: Mnemonic<'_>, out: &mut String) {
    match mnemonic(qtype) {
        Some(name) => out.push_str(name),
        None => {
            let _ = write!(out, "TYPE{qtype}");
        }
    }
}

/// Writes an entry of a ring as text.
pub(crate) fn write_entry(kind: EntryKind, entry: &[u8], mnemonic: Mnemonic<'_>, out: &mut String) {
    match kind {
        EntryKind::Message => write_message(entry, out),
        EntryKind::Address => write_address(entry, out),
        EntryKind::Prefix => {
            if let Some((length, address)) = entry.split_last() {
                write_address(address, out);
                let _ = write!(out, "/{length}");
            }
        }
        EntryKind::Question => {
            if let Some((qtype, name)) = entry.split_first_chunk::<2>() {
                write_name(name, out);
                out.push('/');
                write_type(u16::from_be_bytes(*qtype), mnemonic, out);
            }
        }
    }
}

/// Writes a message on one line: control characters are shown as their octet values.
pub(crate) fn write_message(entry: &[u8], out: &mut String) {
    let is_plain = entry.iter().all(|byte| matches!(byte, 0x20..0x7f));
    if let Some(text) = std::str::from_utf8(entry).ok().filter(|_| is_plain) {
        out.push_str(text);
        return;
    }
    for c in String::from_utf8_lossy(entry).chars() {
        if c.is_control() {
            let _ = write!(out, "\\{:03}", u32::from(c));
        } else {
            out.push(c);
        }
    }
}

fn write_address(entry: &[u8], out: &mut String) {
    if let Ok(v4) = <[u8; 4]>::try_from(entry) {
        let _ = write!(out, "{}", Ipv4Addr::from(v4));
    } else if let Ok(v6) = <[u8; 16]>::try_from(entry) {
        let _ = write!(out, "{}", Ipv6Addr::from(v6));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(wire: &[u8]) -> String {
        let mut out = String::new();
        write_name(wire, &mut out);
        out
    }

    #[test]
    fn names_keep_their_case_and_escape_what_is_not_plain() {
        assert_eq!(name(b"\x03wWw\x07ExAmple\0"), "wWw.ExAmple");
        assert_eq!(name(b"\0"), ".");
        assert_eq!(
            name(b"\x03a.b\x02\\\x07\x02\xff \x08<script>\0"),
            "a\\.b.\\\\\\007.\\255\\032.<script>"
        );
    }

    #[test]
    fn a_cut_name_does_not_panic() {
        assert_eq!(name(b"\x03ww"), ".");
        assert_eq!(name(b"\x03www\x05ab"), "www");
        assert_eq!(name(b""), ".");
    }

    #[test]
    fn a_message_stays_on_one_line() {
        let mut text = String::new();
        let message = "a\nb\tä\u{1b}".as_bytes();
        write_entry(EntryKind::Message, message, &|_| None, &mut text);
        assert_eq!(text, "a\\010b\\009ä\\027");
    }

    #[test]
    fn unknown_types_are_shown_by_number() {
        let entry = [&0xfde8u16.to_be_bytes()[..], b"\x01a\0"].concat();
        let mut text = String::new();
        write_entry(EntryKind::Question, &entry, &|_| None, &mut text);
        assert_eq!(text, "a/TYPE65000");
    }
}
