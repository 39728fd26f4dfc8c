//! The OPT record of a request (RFC 6891), and the options that the server adds to that of the reply.

use super::ClientSubnet;
use std::ops::Range;

/// The OPT record of a request.
#[derive(Debug, Clone, Copy)]
pub struct Edns {
    /// The client's UDP payload size, as sent.
    pub payload: u16,
    /// The EDNS version.
    pub version: u8,
    /// The DO bit (RFC 3225).
    pub dnssec_ok: bool,
    /// The CO bit: the client supports compact denial, whatever the response code (RFC 9824 section 5.1).
    pub compact_ok: bool,
    /// Whether the NSID option was requested (RFC 5001).
    pub nsid: bool,
    /// Whether the EXPIRE option was requested (RFC 7314).
    pub expire: bool,
    /// Whether the request is padded (RFC 7830).
    pub padding: bool,
    /// The edns-tcp-keepalive option (RFC 7828).
    pub keepalive: KeepaliveOption,
    pub(super) cookie: OptionSpan,
    pub(super) subnet: OptionSpan,
}

/// The location of an option's value in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionSpan {
    /// 0 if there is no such option.
    start: u16,
    len: u16,
}

impl OptionSpan {
    pub(super) const ABSENT: OptionSpan = OptionSpan { start: 0, len: 0 };

    pub(super) fn value_in(self, packet: &[u8]) -> Option<&[u8]> {
        let start = usize::from(self.start);
        let value = || packet.get(start..start + usize::from(self.len));
        if start > 0 { value() } else { None }
    }
}

/// Options that the server adds to the OPT record of a reply while it decides the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyOptions {
    /// The COOKIE option (RFC 7873).
    pub cookie: Option<ReplyCookie>,
    /// The edns-tcp-keepalive option (RFC 7828), in units of 100 milliseconds.
    pub keepalive: Option<u16>,
    /// The client subnet (RFC 7871) of a sender that is believed.
    pub subnet: Option<ClientSubnet>,
}

impl ReplyOptions {
    /// No options.
    pub const NONE: ReplyOptions = ReplyOptions {
        cookie: None,
        keepalive: None,
        subnet: None,
    };
}

/// The edns-tcp-keepalive option of a request (RFC 7828). Over UDP it has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepaliveOption {
    /// The option is not there.
    Absent,
    /// The option is there, without a value as clients must send it.
    Empty,
    /// The option is there with a value, which only servers send.
    WithValue,
}

/// The COOKIE option of a reply (RFC 7873, RFC 9018).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyCookie {
    /// The client cookie and the server cookie.
    pub octets: [u8; 24],
    /// The request had a valid server cookie.
    pub is_verified: bool,
}

impl Edns {
    /// Reads type, class, TTL and length of the record.
    #[inline]
    pub(super) fn new(fixed: &[u8; 10]) -> Self {
        Edns {
            payload: u16::from_be_bytes([fixed[2], fixed[3]]),
            version: fixed[5],
            dnssec_ok: fixed[6] & 0x80 != 0,
            compact_ok: fixed[6] & 0x40 != 0,
            nsid: false,
            expire: false,
            padding: false,
            keepalive: KeepaliveOption::Absent,
            cookie: OptionSpan::ABSENT,
            subnet: OptionSpan::ABSENT,
        }
    }

    pub(super) fn read_options(&mut self, packet: &[u8], range: Range<usize>) -> Option<()> {
        let mut at = range.start;
        while at < range.end {
            let head: &[u8; 4] = packet.get(at..range.end)?.first_chunk()?;
            let (code, len) = (head[1], u16::from_be_bytes([head[2], head[3]]));
            let start = at + head.len();
            at = start + usize::from(len);
            if at > range.end {
                return None;
            }
            let value = OptionSpan {
                start: start as u16,
                len,
            };
            // RFC 6891 section 6.1.2: unknown options are ignored.
            match code {
                _ if head[0] != 0 => {}
                3 => self.nsid = true,
                8 if self.subnet == OptionSpan::ABSENT => self.subnet = value,
                9 => self.expire = true,
                12 => self.padding = true,
                // RFC 7873 section 5.2.2: other lengths are malformed.
                10 if !matches!(len, 8 | 16..=40) => return None,
                10 if self.cookie == OptionSpan::ABSENT => self.cookie = value,
                11 if len > 0 => self.keepalive = KeepaliveOption::WithValue,
                11 if self.keepalive == KeepaliveOption::Absent => {
                    self.keepalive = KeepaliveOption::Empty;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Checks whether no option needs more than the plain path of a query.
    pub(super) fn is_plain(&self) -> bool {
        !self.expire
            && !self.padding
            && self.cookie == OptionSpan::ABSENT
            && self.keepalive == KeepaliveOption::Absent
            && self.subnet == OptionSpan::ABSENT
    }
}
