//! Protocol constants: record types, classes, opcodes, response codes.
//!
//! The mnemonics of types are in the table of `rdata`.

use core::fmt;

/// A record type or query type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u16);

/// A DNS class.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class(pub u16);

#[allow(missing_docs, reason = "the names are those of the IANA registry")]
impl Type {
    /// Checks whether records of the type are instructions for the server and not meant for clients: ALIAS and LUA of
    /// PowerDNS, and our HIDE. They are included in transfers but never in answers, because a LUA record is a script and may contain
    /// internal addresses and passwords.
    #[inline]
    pub const fn is_server_internal(self) -> bool {
        matches!(self, Type::ALIAS | Type::LUA | Type::HIDE)
    }

    pub const A: Type = Type(1);
    pub const NS: Type = Type(2);
    pub const CNAME: Type = Type(5);
    pub const SOA: Type = Type(6);
    pub const NULL: Type = Type(10);
    pub const PTR: Type = Type(12);
    pub const HINFO: Type = Type(13);
    pub const MX: Type = Type(15);
    pub const TXT: Type = Type(16);
    pub const SIG: Type = Type(24);
    pub const KEY: Type = Type(25);
    pub const AAAA: Type = Type(28);
    pub const SRV: Type = Type(33);
    pub const NAPTR: Type = Type(35);
    pub const DNAME: Type = Type(39);
    pub const OPT: Type = Type(41);
    pub const DS: Type = Type(43);
    pub const RRSIG: Type = Type(46);
    pub const NSEC: Type = Type(47);
    pub const DNSKEY: Type = Type(48);
    pub const NSEC3: Type = Type(50);
    pub const NSEC3PARAM: Type = Type(51);
    pub const NXNAME: Type = Type(128);
    pub const CDS: Type = Type(59);
    pub const CDNSKEY: Type = Type(60);
    pub const CSYNC: Type = Type(62);
    pub const ZONEMD: Type = Type(63);
    pub const SVCB: Type = Type(64);
    pub const HTTPS: Type = Type(65);
    pub const TKEY: Type = Type(249);
    pub const TSIG: Type = Type(250);
    pub const IXFR: Type = Type(251);
    pub const AXFR: Type = Type(252);
    pub const MAILB: Type = Type(253);
    pub const MAILA: Type = Type(254);
    pub const ANY: Type = Type(255);
    pub const ALIAS: Type = Type(65401);
    pub const LUA: Type = Type(65402);
    /// In a version of a zone for views: types of the common version that do not exist at the name.
    pub const HIDE: Type = Type(65403);

    /// Checks whether the type only appears in queries or carries no zone data (RFC 6895 section 3.1).
    pub fn is_meta(self) -> bool {
        matches!(self.0, 0 | 41 | 128..=255)
    }
}

#[allow(missing_docs, reason = "the names are those of the IANA registry")]
impl Class {
    pub const IN: Class = Class(1);
    pub const CH: Class = Class(3);
    pub const HS: Class = Class(4);
    pub const NONE: Class = Class(254);
    pub const ANY: Class = Class(255);
}

/// Response codes, including the extended ones of RFC 6891.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the IANA registry")]
pub enum Rcode {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
    YxDomain = 6,
    YxRrset = 7,
    NxRrset = 8,
    NotAuth = 9,
    NotZone = 10,
    BadVers = 16,
    /// The request needs a valid server cookie (RFC 7873).
    BadCookie = 23,
}

/// Returns the name of a response code (IANA "DNS RCODEs").
pub fn rcode_name(rcode: u8) -> &'static str {
    const NAMES: [&str; 24] = [
        "NOERROR",
        "FORMERR",
        "SERVFAIL",
        "NXDOMAIN",
        "NOTIMP",
        "REFUSED",
        "YXDOMAIN",
        "YXRRSET",
        "NXRRSET",
        "NOTAUTH",
        "NOTZONE",
        "DSOTYPENI",
        "12",
        "13",
        "14",
        "15",
        "BADVERS",
        "BADKEY",
        "BADTIME",
        "BADMODE",
        "BADNAME",
        "BADALG",
        "BADTRUNC",
        "other",
    ];
    NAMES[usize::from(rcode).min(NAMES.len() - 1)]
}

/// The operation of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the IANA registry")]
pub struct Opcode(pub u8);

#[allow(missing_docs, reason = "the names are those of the IANA registry")]
impl Opcode {
    pub const QUERY: Opcode = Opcode(0);
    pub const NOTIFY: Opcode = Opcode(4);
    pub const UPDATE: Opcode = Opcode(5);
}

impl Class {
    /// Parses a mnemonic in any case, or `CLASSnnn` (RFC 3597 section 5).
    #[inline]
    pub fn from_text(text: &[u8]) -> Option<Class> {
        match text {
            [b'I' | b'i', b'N' | b'n'] => Some(Class::IN),
            [b'C' | b'c', b'H' | b'h'] => Some(Class::CH),
            [b'H' | b'h', b'S' | b's'] => Some(Class::HS),
            _ => numbered(text, b"CLASS").map(Class),
        }
    }
}

/// Parses a prefix in any case, followed by a number up to 65535.
pub(crate) fn numbered(text: &[u8], prefix: &[u8]) -> Option<u16> {
    let (start, digits) = text.split_at_checked(prefix.len())?;
    if !start.eq_ignore_ascii_case(prefix) || !(1..=5).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0u16, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u16::from(byte - b'0')),
        _ => None,
    })
}

/// The mnemonic, or `CLASSnnn`.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Class::IN => f.pad("IN"),
            Class::CH => f.pad("CH"),
            Class::HS => f.pad("HS"),
            Class(number) => write!(f, "CLASS{number}"),
        }
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_classes_are_read_in_any_case_and_as_numbers() {
        assert_eq!(Type::from_text(b"aaaa"), Some(Type::AAAA));
        assert_eq!(Type::from_text(b"type28"), Some(Type::AAAA));
        assert_eq!(Type::from_text(b"TYPE65535"), Some(Type(65535)));
        for bad in [
            "TYPE65536",
            "TYPE",
            "TYPE-1",
            "TYPE000001",
            "",
            "NOSUCH",
            "TYP",
        ] {
            assert_eq!(Type::from_text(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Class::from_text(b"in"), Some(Class::IN));
        assert_eq!(Class::from_text(b"CLASS4"), Some(Class::HS));
        assert_eq!(Class::from_text(b"I"), None);
        assert_eq!(Type::NSEC3PARAM.to_string(), "NSEC3PARAM");
        assert_eq!(Type(65_280).to_string(), "TYPE65280");
        assert_eq!(Class(32).to_string(), "CLASS32");
    }
}
