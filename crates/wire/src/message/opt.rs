//! The OPT record of a reply (RFC 6891), which both message writers put at the end, and its padding (RFC 7830).

use super::{ClientSubnet, HEADER, OPT_FIXED, skip_name};
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
    /// The client subnet of the request with the scope of the answer (RFC 7871). Before the two options that follow, all
    /// of which are patched in cached replies.
    pub subnet: Option<ClientSubnet>,
    /// How long an idle connection stays open, in units of 100 milliseconds (RFC 7828). Before the cookie: cached replies
    /// are patched there, too.
    pub keepalive: Option<u16>,
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
            + self.subnet.map_or(0, |subnet| 4 + subnet.octets())
            + self.keepalive.map_or(0, |_| 6)
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
        let (fixed, rest) = out.split_at_mut(OPT_FIXED);
        let (payload, extended) = (self.payload.to_be_bytes(), (rcode as u16 >> 4) as u8);
        let flags = u8::from(self.dnssec_ok) << 7 | u8::from(self.compact_ok) << 6;
        let len = (rest.len() as u16).to_be_bytes();
        fixed.copy_from_slice(&[
            0, 0, 41, payload[0], payload[1], extended, 0, flags, 0, len[0], len[1],
        ]);
        if !rest.is_empty() {
            self.encode_options(rest);
        }
    }

    fn encode_options(&self, mut rest: &mut [u8]) {
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
        if let Some(subnet) = &self.subnet {
            let (mut value, octets) = ([0; 20], subnet.octets());
            subnet.write(&mut value[..octets]);
            option(8, &value[..octets]);
        }
        if let Some(timeout) = self.keepalive {
            option(11, &timeout.to_be_bytes());
        }
        if let Some(cookie) = &self.cookie {
            option(10, cookie);
        }
    }
}

/// The sizes of padded replies are multiples of this (RFC 8467 section 4.1).
pub const PADDING_BLOCK: usize = 468;

/// Pads a reply of `len` octets, whose last record is an OPT record, to a whole block together with the `reserved` octets that follow it. Returns the new length; the old one if there is no OPT record at its end, or no room.
pub fn pad_reply(reply: &mut [u8], len: usize, reserved: usize) -> usize {
    const OPTION: usize = 4;
    let Some(opt_at) = reply.get(..len).and_then(last_opt) else {
        return len;
    };
    let end = (len + OPTION + reserved).next_multiple_of(PADDING_BLOCK) - reserved;
    let zeros = end - len - OPTION;
    let length_at = opt_at + OPT_FIXED - 2;
    let octets = end - (opt_at + OPT_FIXED);
    let has_room = end + reserved <= reply.len() && octets <= 0xffff;
    let Some(option) = reply.get_mut(len..end).filter(|_| has_room) else {
        return len;
    };
    option.fill(0);
    option[1] = 12;
    option[2..4].copy_from_slice(&(zeros as u16).to_be_bytes());
    reply[length_at..length_at + 2].copy_from_slice(&(octets as u16).to_be_bytes());
    end
}

/// Returns where the OPT record at the end of a message starts.
fn last_opt(message: &[u8]) -> Option<usize> {
    let header: &[u8; HEADER] = message.first_chunk()?;
    let count = |at: usize| u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let mut at = HEADER;
    for _ in 0..count(4) {
        at += skip_name(message, at)? + 4;
    }
    let mut last = None;
    for _ in 0..count(6) + count(8) + count(10) {
        let start = at;
        at += skip_name(message, at)?;
        let fixed: &[u8; 10] = message.get(at..)?.first_chunk()?;
        at += 10 + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let is_opt = message[start] == 0 && fixed[..2] == [0, 41];
        last = is_opt.then_some(start);
    }
    last.filter(|_| at == message.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply to a question for the root, with an OPT record that has these options.
    fn reply(options: &[u8]) -> Vec<u8> {
        let mut reply = vec![0, 1, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 6, 0, 1];
        reply.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8]);
        reply.extend(options);
        reply
    }

    #[test]
    fn a_reply_is_padded_to_a_block_with_what_follows() {
        for (options, reserved) in [(&[][..], 0), (&[0, 3, 0, 1, 7], 90)] {
            let mut padded = reply(options);
            let len = padded.len();
            padded.resize(2000, 9);
            let end = pad_reply(&mut padded, len, reserved);
            assert_eq!((end + reserved) % 468, 0);
            let octets = u16::from_be_bytes([padded[26], padded[27]]);
            assert_eq!(usize::from(octets), end - 28);
            assert_eq!(padded[len..len + 2], [0, 12]);
            assert!(padded[len + 4..end].iter().all(|octet| *octet == 0));
        }
    }

    #[test]
    fn a_reply_without_room_or_record_stays_as_it_is() {
        let mut full = reply(&[]);
        let len = full.len();
        assert_eq!(pad_reply(&mut full, len, 0), len);
        let mut plain = reply(&[]);
        plain[11] = 0;
        plain.truncate(17);
        plain.resize(2000, 0);
        assert_eq!(pad_reply(&mut plain, 17, 0), 17);
        assert_eq!(pad_reply(&mut [0; 600], 5, 0), 5);
    }
}
