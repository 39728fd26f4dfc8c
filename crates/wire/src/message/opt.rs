//! The OPT record of a reply (RFC 6891), which both message writers put at the end.

use super::OPT_FIXED;
use crate::rtype::Rcode;

/// The OPT record of a reply and its options (RFC 6891).
#[derive(Debug, Clone, Copy, Default)]
pub struct OptRecord<'a> {
    /// Largest UDP message accepted here, in octets.
    pub payload: u16,
    /// The DO bit, as in the request (RFC 3225).
    pub dnssec_ok: bool,
    /// The CO bit, as in the request: compact denial is supported here, too (RFC 9824 section 5.1).
    pub compact_ok: bool,
    /// The server identifier (RFC 5001).
    pub nsid: Option<&'a [u8]>,
    /// An extended DNS error code (RFC 8914).
    pub error: Option<u16>,
    /// Seconds until the zone expires here unless it is refreshed (RFC 7314).
    pub expire: Option<u32>,
    /// The COOKIE option (RFC 7873), which is the last one: cached replies are patched there.
    pub cookie: Option<[u8; 24]>,
}

impl OptRecord<'_> {
    /// Returns the octets of the record.
    #[inline]
    pub fn octets(&self) -> usize {
        OPT_FIXED
            + self.nsid.map_or(0, |id| 4 + id.len())
            + self.error.map_or(0, |_| 6)
            + self.expire.map_or(0, |_| 8)
            + self.cookie.map_or(0, |_| 28)
    }

    /// Appends the EXPIRE option (RFC 7314) to a reply of `len` octets that ends with this record; returns the new
    /// length, or `None` if there is no room.
    pub fn append_expire(&self, reply: &mut [u8], len: usize, seconds: u32) -> Option<usize> {
        let option = [&[0, 9, 0, 4][..], &seconds.to_be_bytes()].concat();
        let end = len + option.len();
        let length_at = len.checked_sub(self.octets())? + OPT_FIXED - 2;
        reply.get_mut(len..end)?.copy_from_slice(&option);
        let length = reply.get_mut(length_at..length_at + 2)?;
        let octets = (self.octets() - OPT_FIXED + option.len()) as u16;
        length.copy_from_slice(&octets.to_be_bytes());
        Some(end)
    }

    /// Writes the record at the start of `out`; returns its length, or `None` if there is no room.
    pub fn write(&self, rcode: Rcode, out: &mut [u8]) -> Option<usize> {
        let octets = self.octets();
        self.encode(rcode, out.get_mut(..octets)?);
        Some(octets)
    }

    /// Writes the record into `out`, which must have exactly its length.
    #[inline]
    pub(super) fn encode(&self, rcode: Rcode, out: &mut [u8]) {
        let (fixed, mut rest) = out.split_at_mut(OPT_FIXED);
        let (payload, extended) = (self.payload.to_be_bytes(), (rcode as u16 >> 4) as u8);
        let flags = u8::from(self.dnssec_ok) << 7 | u8::from(self.compact_ok) << 6;
        let len = (rest.len() as u16).to_be_bytes();
        fixed.copy_from_slice(&[
            0, 0, 41, payload[0], payload[1], extended, 0, flags, 0, len[0], len[1],
        ]);
        let mut option = |code: u8, value: &[u8]| {
            let (option, behind) = std::mem::take(&mut rest).split_at_mut(4 + value.len());
            let len = (value.len() as u16).to_be_bytes();
            option[..4].copy_from_slice(&[0, code, len[0], len[1]]);
            option[4..].copy_from_slice(value);
            rest = behind;
        };
        if let Some(id) = self.nsid {
            option(3, id);
        }
        if let Some(code) = self.error {
            option(15, &code.to_be_bytes());
        }
        if let Some(seconds) = self.expire {
            option(9, &seconds.to_be_bytes());
        }
        if let Some(cookie) = &self.cookie {
            option(10, cookie);
        }
    }
}
