//! The building blocks for describing record types.

use crate::rtype::Type;

/// The wire and presentation format of one type.
#[derive(Debug)]
pub struct TypeInfo {
    /// The type number.
    pub rtype: Type,
    /// The name in the IANA registry, in capitals.
    pub mnemonic: &'static str,
    /// The fields in order, the same on the wire and in text.
    pub fields: &'static [Field],
}

/// How a name in record data is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameUse {
    /// Can be compressed when a message is written: RFC 1035 types only (RFC 3597 section 4).
    pub compress: bool,
    /// Can be compressed in a message that is read (RFC 3597 section 4).
    pub decompress: bool,
    /// Is lower-cased in canonical form (RFC 4034 section 6.2, RFC 6840 section 5.1).
    pub lowercase: bool,
    /// The addresses of this name belong in the additional section.
    pub additional: bool,
}

/// Mnemonics for numbers in text.
#[derive(Debug)]
pub struct Codes {
    /// Describes the expected value in error messages.
    pub what: &'static str,
    /// Numbers and their names.
    pub names: &'static [(u16, &'static str)],
    /// Whether a known number is printed as its name. Every reader understands numbers, so names
    /// are printed only where the examples in the RFC do so.
    pub printed: bool,
}

/// One field of record data. Formats that no other type shares have a variant of their own.
#[derive(Debug)]
pub enum Field {
    /// A domain name.
    Name(NameUse),
    /// Any number of domain names, up to the end.
    Names(NameUse),
    /// A decimal number of one octet.
    U8,
    /// A decimal number of two octets.
    U16,
    /// A decimal number of four octets.
    U32,
    /// A decimal number of eight octets.
    U64,
    /// A period of four octets; in text, with or without units (`1h30m`).
    Period,
    /// A time of four octets; in text, as `YYYYMMDDHHmmSS` or seconds (RFC 4034 section 3.2).
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
    /// A character string that may be omitted at the end.
    OptionalString,
    /// One or more character strings, up to the end.
    Strings,
    /// A non-empty character string of ASCII letters and digits (RFC 8659 section 4.1).
    Tag,
    /// The remaining data; in text, one quoted string.
    Text {
        /// Minimum number of octets.
        min: usize,
    },
    /// The remaining data; in text, hexadecimal words.
    Hex {
        /// Minimum number of octets.
        min: usize,
    },
    /// The remaining data, in text as hexadecimal words, with a length determined by the preceding
    /// octet.
    Digest {
        /// Known values of that octet, with their lengths.
        lengths: &'static [(u8, usize)],
        /// Minimum number of octets for other values.
        min: usize,
    },
    /// The remaining data; in text, base64 words.
    Base64 {
        /// Minimum number of octets.
        min: usize,
    },
    /// The remaining data; in text, base64 words, or `-` if empty.
    Base64OrDash,
    /// A length octet and octets; in text, one hexadecimal word, or `-` if empty (RFC 5155).
    Salt,
    /// A length octet and octets; in text, one base32hex word without padding (RFC 5155).
    HashedName,
    /// Type bitmap windows (RFC 4034 section 4.1.2), up to the end.
    Bitmap {
        /// Whether an empty bitmap is allowed.
        empty: bool,
    },
    /// The bitmap of NXT (RFC 2535 section 5.2).
    NxtBitmap,
    /// Octets; in text, hexadecimal pairs with dashes (RFC 7043).
    Eui(usize),
    /// Eight octets; in text, four groups of hexadecimal digits with colons (RFC 6742).
    Locator64,
    /// `0x` and hexadecimal digits, optionally with dots in between (RFC 1706).
    Nsap,
    /// A geographical location (RFC 1876).
    Loc,
    /// Address prefixes (RFC 3123).
    Apl,
    /// A protocol and a bitmap of ports (RFC 1035 section 3.4.2).
    Wks,
    /// Service parameters (RFC 9460).
    SvcParams,
    /// The discovery flag and the type of a relay in one octet (RFC 8777).
    RelayType,
    /// Nothing, an address or a name, as given by the low seven or eight bits of the record's
    /// second octet (RFC 4025, RFC 8777).
    Gateway {
        /// The bits of the second octet to use.
        mask: u8,
    },
    /// Lengths, algorithm, identity tag and key of HIP (RFC 8005).
    HipKey,
    /// The remaining data; in text, only as `\#`.
    Opaque,
}
