//! Character strings in quotes.

use core::fmt;

/// Writes octets in quotes.
pub(super) fn quoted(data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    for &byte in data {
        quoted_byte(byte, out)?;
    }
    out.write_char('"')
}

/// Writes one octet inside quotes.
pub(super) fn quoted_byte(byte: u8, out: &mut dyn fmt::Write) -> fmt::Result {
    match byte {
        b'"' => out.write_str("\\\""),
        b'\\' => out.write_str("\\\\"),
        b' '..=b'~' => out.write_char(byte.into()),
        _ => write!(out, "\\{byte:03}"),
    }
}
