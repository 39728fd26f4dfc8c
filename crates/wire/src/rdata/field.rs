//! The words in which a type is described.

use crate::rtype::Type;

/// A part of the wire and presentation form of one type.
#[derive(Debug)]
pub struct TypeInfo {
    /// The number.
    pub rtype: Type,
    /// The name in the IANA registry, in capitals.
    pub mnemonic: &'static str,
    /// The fields in their order, the same on the wire and in text.
    pub fields: &'static [Field],
}

/// How a name in record data is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameUse {
    /// May be compressed when a message is written: RFC 1035 types only (RFC 3597 section 4).
    pub compress: bool,
    /// May be compressed in a message that is read (RFC 3597 section 4).
    pub decompress: bool,
    /// Is lower-cased in canonical form (RFC 4034 section 6.2, RFC 6840 section 5.1).
    pub lowercase: bool,
    /// Its addresses belong into the additional section.
    pub additional: bool,
}

/// Mnemonics that stand for numbers in text.
#[derive(Debug)]
pub struct Codes {
    /// Returns the words for what is expected, for errors.
    pub what: &'static str,
    /// Numbers and their names.
    pub names: &'static [(u16, &'static str)],
    /// Whether a known number is printed as its name. Numbers are understood by every reader, so
    /// names are printed only where the RFC's examples do.
    pub printed: bool,
}

/// One field of record data. Kinds whose text and wire form have nothing in common with another
/// type's have a kind of their own.
#[derive(Debug)]
pub enum Field {
    /// A domain name.
    Name(NameUse),
    /// Any number of domain names up to the end.
    Names(NameUse),
    /// A decimal number of one octet.
    U8,
    /// A decimal number of two octets.
    U16,
    /// A decimal number of four octets.
    U32,
    /// A decimal number of eight octets.
    U64,
    /// A period of four octets, in text with or without units (`1h30m`).
    Period,
    /// A moment of four octets, in text as `YYYYMMDDHHmmSS` or seconds (RFC 4034 section 3.2).
    Time,
    /// A record type.
    RrType,
    /// A number of one octet with mnemonics.
    Code8(&'static Codes),
    /// A number of two octets with mnemonics.
    Code16(&'static Codes),
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A character string: a length octet and up to 255 octets.
    String,
    /// A character string that may be left out at the end.
    OptionalString,
    /// One or more character strings up to the end.
    Strings,
    /// A character string of ASCII letters and digits, at least one (RFC 8659 section 4.1).
    Tag,
    /// The rest, in text one quoted string.
    Text {
        /// Octets it has at least.
        min: usize,
    },
    /// The rest, in text hexadecimal words.
    Hex {
        /// Octets it has at least.
        min: usize,
    },
    /// The rest, in text hexadecimal words, of a length that the octet before it determines.
    Digest {
        /// That octet's known values with their lengths.
        lengths: &'static [(u8, usize)],
        /// Octets it has at least with other values.
        min: usize,
    },
    /// The rest, in text base64 words.
    Base64 {
        /// Octets it has at least.
        min: usize,
    },
    /// The rest, in text base64 words, `-` when empty.
    Base64OrDash,
    /// A length octet and octets, in text one hexadecimal word, `-` when empty (RFC 5155).
    Salt,
    /// A length octet and octets, in text one base32hex word without padding (RFC 5155).
    HashedName,
    /// Type bitmap windows (RFC 4034 section 4.1.2) up to the end.
    Bitmap {
        /// Whether no type at all is allowed.
        empty: bool,
    },
    /// The bitmap of NXT (RFC 2535 section 5.2).
    NxtBitmap,
    /// Octets in text as hexadecimal pairs with dashes (RFC 7043).
    Eui(usize),
    /// Eight octets in text as four groups of hexadecimal digits with colons (RFC 6742).
    Locator64,
    /// `0x` and hexadecimal digits, dots allowed between (RFC 1706).
    Nsap,
    /// A place on earth (RFC 1876).
    Loc,
    /// Address prefixes (RFC 3123).
    Apl,
    /// A protocol and a bitmap of ports (RFC 1035 section 3.4.2).
    Wks,
    /// Service parameters (RFC 9460).
    SvcParams,
    /// The discovery flag and the type of a relay in one octet (RFC 8777).
    RelayType,
    /// Nothing, an address or a name as the low seven or eight bits of the record's second octet say
    /// (RFC 4025, RFC 8777).
    Gateway {
        /// Which bits of the second octet.
        mask: u8,
    },
    /// Lengths, algorithm, identity tag and key of HIP (RFC 8005).
    HipKey,
    /// The rest, only as `\#` in text.
    Opaque,
}
