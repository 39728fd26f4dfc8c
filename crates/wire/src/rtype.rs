//! The small numbers of the protocol: record types, classes, opcodes, response codes.
//!
//! Type mnemonics come from the one table of [`crate::rdata`].

use core::fmt;

/// A record type or question type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u16);

/// A class.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class(pub u16);

#[allow(missing_docs, reason = "the names are those of the IANA registry")]
impl Type {
    pub const A: Type = Type(1);
    pub const NS: Type = Type(2);
    pub const CNAME: Type = Type(5);
    pub const SOA: Type = Type(6);
    pub const PTR: Type = Type(12);
    pub const MX: Type = Type(15);
    pub const TXT: Type = Type(16);
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
    pub const SVCB: Type = Type(64);
    pub const HTTPS: Type = Type(65);
    pub const TKEY: Type = Type(249);
    pub const TSIG: Type = Type(250);
    pub const IXFR: Type = Type(251);
    pub const AXFR: Type = Type(252);
    pub const MAILB: Type = Type(253);
    pub const MAILA: Type = Type(254);
    pub const ANY: Type = Type(255);

    /// RFC 6895 section 3.1: types that stand only in questions or carry no zone data.
    pub fn is_meta(self) -> bool {
        matches!(self.0, 0 | 41 | 128..=255)
    }
}

#[allow(missing_docs, reason = "the names are those of the IANA registry")]
impl Class {
    pub const IN: Class = Class(1);
    pub const CH: Class = Class(3);
    pub const NONE: Class = Class(254);
    pub const ANY: Class = Class(255);
}

/// Response codes, the extended ones of RFC 6891 included.
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
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the IANA registry")]
pub struct Opcode(pub u8);

#[allow(missing_docs, reason = "the names are those of the IANA registry")]
impl Opcode {
    pub const QUERY: Opcode = Opcode(0);
    pub const NOTIFY: Opcode = Opcode(4);
    pub const UPDATE: Opcode = Opcode(5);
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TYPE{}", self.0)
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CLASS{}", self.0)
    }
}
