//! The table of record types.

use super::field::Field::*;
use super::field::{Codes, Field, NameUse, TypeInfo};
use crate::rtype::{Type, numbered};
use core::fmt;

impl NameUse {
    /// Types after RFC 3597: the name is left as is.
    pub(super) const PLAIN: NameUse = NameUse {
        compress: false,
        decompress: false,
        lowercase: false,
        additional: false,
    };
    /// In the list of RFC 4034 section 6.2, but never compressed.
    const LOWER: NameUse = NameUse {
        lowercase: true,
        ..NameUse::PLAIN
    };
    /// Types before RFC 3597 that some senders are known to compress.
    const MIDDLE: NameUse = NameUse {
        decompress: true,
        ..NameUse::LOWER
    };
    /// The types of RFC 1035.
    const OLD: NameUse = NameUse {
        compress: true,
        ..NameUse::MIDDLE
    };

    const fn with_addresses(self) -> NameUse {
        NameUse {
            additional: true,
            ..self
        }
    }
}

const OLD: Field = Name(NameUse::OLD);
const OLD_HOST: Field = Name(NameUse::OLD.with_addresses());
const MIDDLE: Field = Name(NameUse::MIDDLE);
const MIDDLE_HOST: Field = Name(NameUse::MIDDLE.with_addresses());
const LOWER: Field = Name(NameUse::LOWER);
const LOWER_HOST: Field = Name(NameUse::LOWER.with_addresses());
const PLAIN: Field = Name(NameUse::PLAIN);
const PLAIN_HOST: Field = Name(NameUse::PLAIN.with_addresses());

/// IANA, DNS Security Algorithm Numbers.
static ALGORITHMS: Codes = Codes {
    what: "a DNSSEC algorithm, as a number up to 255 or a mnemonic",
    names: &[
        (0, "DELETE"),
        (1, "RSAMD5"),
        (2, "DH"),
        (3, "DSA"),
        (4, "ECC"),
        (5, "RSASHA1"),
        (6, "DSA-NSEC3-SHA1"),
        (6, "NSEC3DSA"),
        (7, "RSASHA1-NSEC3-SHA1"),
        (7, "NSEC3RSASHA1"),
        (8, "RSASHA256"),
        (10, "RSASHA512"),
        (12, "ECC-GOST"),
        (12, "ECCGOST"),
        (13, "ECDSAP256SHA256"),
        (14, "ECDSAP384SHA384"),
        (15, "ED25519"),
        (16, "ED448"),
        (17, "SM2SM3"),
        (23, "ECC-GOST12"),
        (252, "INDIRECT"),
        (253, "PRIVATEDNS"),
        (254, "PRIVATEOID"),
    ],
    printed: false,
};

/// IANA, Delegation Signer digest algorithms, in the spellings that other servers accept.
static DIGESTS: Codes = Codes {
    what: "a digest type, as a number up to 255 or a mnemonic",
    names: &[
        (1, "SHA-1"),
        (1, "SHA1"),
        (2, "SHA-256"),
        (2, "SHA256"),
        (3, "GOST"),
        (4, "SHA-384"),
        (4, "SHA384"),
    ],
    printed: false,
};

/// RFC 4398 section 2.1.
static CERTIFICATES: Codes = Codes {
    what: "a certificate type, as a number up to 65535 or a mnemonic",
    names: &[
        (1, "PKIX"),
        (2, "SPKI"),
        (3, "PGP"),
        (4, "IPKIX"),
        (5, "ISPKI"),
        (6, "IPGP"),
        (7, "ACPKIX"),
        (8, "IACPKIX"),
        (253, "URI"),
        (254, "OID"),
    ],
    printed: false,
};

/// RFC 9859 section 2.1.
static SCHEMES: Codes = Codes {
    what: "a scheme, as NOTIFY or a number up to 255",
    names: &[(1, "NOTIFY")],
    printed: true,
};

const ALGORITHM: Field = Code8(&ALGORITHMS);

/// SHA-1, SHA-256, GOST R 34.11-94, SHA-384.
const DS_DIGEST: Field = digest(&[(1, 20), (2, 32), (3, 32), (4, 48)], 1);
/// RFC 8078 section 4: type 0 requests removal of the DS records, with one zero octet.
const CDS_DIGEST: Field = digest(&[(0, 1), (1, 20), (2, 32), (3, 32), (4, 48)], 1);
/// SHA-384 and SHA-512; RFC 8976 section 2.2.4 requires at least 12 octets for any other.
const ZONE_DIGEST: Field = digest(&[(1, 48), (2, 64)], 12);
const DS: &[Field] = &[U16, ALGORITHM, Code8(&DIGESTS), DS_DIGEST];
const DNSKEY: &[Field] = &[U16, U8, ALGORITHM, Base64 { min: 1 }];
const SIG: &[Field] = &signature(MIDDLE);
const RRSIG: &[Field] = &signature(LOWER);
const STRINGS: &[Field] = &[Strings];
const SVCB: &[Field] = &[U16, PLAIN_HOST, SvcParams];
/// Types that never appear in a zone, or that have no text form of their own.
const OPAQUE: &[Field] = &[Opaque];

const fn digest(lengths: &'static [(u8, usize)], min: usize) -> Field {
    Digest { lengths, min }
}

const fn signature(signer: Field) -> [Field; 9] {
    [
        RrType,
        ALGORITHM,
        U8,
        Period,
        Time,
        Time,
        U16,
        signer,
        Base64 { min: 1 },
    ]
}

const fn type_info(number: u16, mnemonic: &'static str, fields: &'static [Field]) -> TypeInfo {
    TypeInfo {
        rtype: Type(number),
        mnemonic,
        fields,
    }
}

/// Sorted by type number.
#[rustfmt::skip]
static TYPES: &[TypeInfo] = &[
    type_info(1, "A", &[Ipv4]),
    type_info(2, "NS", &[OLD_HOST]),
    type_info(3, "MD", &[OLD_HOST]),
    type_info(4, "MF", &[OLD_HOST]),
    type_info(5, "CNAME", &[OLD]),
    type_info(6, "SOA", &[OLD, OLD, U32, Period, Period, Period, Period]),
    type_info(7, "MB", &[OLD_HOST]),
    type_info(8, "MG", &[OLD]),
    type_info(9, "MR", &[OLD]),
    type_info(10, "NULL", OPAQUE),
    type_info(11, "WKS", &[Ipv4, Wks]),
    type_info(12, "PTR", &[OLD]),
    type_info(13, "HINFO", &[String, String]),
    type_info(14, "MINFO", &[OLD, OLD]),
    type_info(15, "MX", &[U16, OLD_HOST]),
    type_info(16, "TXT", STRINGS),
    type_info(17, "RP", &[MIDDLE, MIDDLE]),
    type_info(18, "AFSDB", &[U16, MIDDLE_HOST]),
    type_info(19, "X25", &[String]),
    type_info(20, "ISDN", &[String, OptionalString]),
    type_info(21, "RT", &[U16, MIDDLE_HOST]),
    type_info(22, "NSAP", &[Nsap]),
    type_info(23, "NSAP-PTR", &[PLAIN]),
    type_info(24, "SIG", SIG),
    // RFC 2535 section 3.1.2: flags can indicate that there is no key.
    type_info(25, "KEY", &[U16, U8, ALGORITHM, Base64 { min: 0 }]),
    type_info(26, "PX", &[U16, MIDDLE, MIDDLE]),
    type_info(27, "GPOS", &[String, String, String]),
    type_info(28, "AAAA", &[Ipv6]),
    type_info(29, "LOC", &[Loc]),
    type_info(30, "NXT", &[MIDDLE, NxtBitmap]),
    type_info(31, "EID", &[Hex { min: 1 }]),
    type_info(32, "NIMLOC", &[Hex { min: 1 }]),
    type_info(33, "SRV", &[U16, U16, U16, MIDDLE_HOST]),
    type_info(34, "ATMA", OPAQUE),
    type_info(35, "NAPTR", &[U16, U16, String, String, String, MIDDLE]),
    type_info(36, "KX", &[U16, LOWER_HOST]),
    type_info(37, "CERT", &[Code16(&CERTIFICATES), U16, ALGORITHM, Base64 { min: 1 }]),
    type_info(38, "A6", OPAQUE),
    type_info(39, "DNAME", &[LOWER]),
    type_info(40, "SINK", &[U8, U8, U8, Base64 { min: 0 }]),
    type_info(41, "OPT", OPAQUE),
    type_info(42, "APL", &[Apl]),
    type_info(43, "DS", DS),
    type_info(44, "SSHFP", &[U8, U8, digest(&[(1, 20), (2, 32)], 1)]),
    type_info(45, "IPSECKEY", &[U8, U8, U8, Gateway { mask: 0xff }, Base64 { min: 0 }]),
    type_info(46, "RRSIG", RRSIG),
    type_info(47, "NSEC", &[PLAIN, Bitmap { empty: false }]),
    type_info(48, "DNSKEY", DNSKEY),
    type_info(49, "DHCID", &[Base64 { min: 1 }]),
    type_info(50, "NSEC3", &[U8, U8, U16, Salt, HashedName, Bitmap { empty: true }]),
    type_info(51, "NSEC3PARAM", &[U8, U8, U16, Salt]),
    type_info(52, "TLSA", &[U8, U8, U8, Hex { min: 1 }]),
    type_info(53, "SMIMEA", &[U8, U8, U8, Hex { min: 1 }]),
    type_info(55, "HIP", &[HipKey, Names(NameUse::PLAIN)]),
    type_info(56, "NINFO", STRINGS),
    type_info(57, "RKEY", DNSKEY),
    type_info(58, "TALINK", &[PLAIN, PLAIN]),
    type_info(59, "CDS", &[U16, ALGORITHM, Code8(&DIGESTS), CDS_DIGEST]),
    type_info(60, "CDNSKEY", DNSKEY),
    type_info(61, "OPENPGPKEY", &[Base64 { min: 1 }]),
    type_info(62, "CSYNC", &[U32, U16, Bitmap { empty: true }]),
    type_info(63, "ZONEMD", &[U32, U8, U8, ZONE_DIGEST]),
    type_info(64, "SVCB", SVCB),
    type_info(65, "HTTPS", SVCB),
    type_info(66, "DSYNC", &[RrType, Code8(&SCHEMES), U16, PLAIN]),
    type_info(67, "HHIT", &[Base64 { min: 1 }]),
    type_info(68, "BRID", &[Base64 { min: 1 }]),
    type_info(99, "SPF", STRINGS),
    type_info(100, "UINFO", OPAQUE),
    type_info(101, "UID", OPAQUE),
    type_info(102, "GID", OPAQUE),
    type_info(103, "UNSPEC", OPAQUE),
    type_info(104, "NID", &[U16, Locator64]),
    type_info(105, "L32", &[U16, Ipv4]),
    type_info(106, "L64", &[U16, Locator64]),
    type_info(107, "LP", &[U16, PLAIN]),
    type_info(108, "EUI48", &[Eui(6)]),
    type_info(109, "EUI64", &[Eui(8)]),
    type_info(128, "NXNAME", OPAQUE),
    type_info(249, "TKEY", OPAQUE),
    type_info(250, "TSIG", OPAQUE),
    type_info(251, "IXFR", OPAQUE),
    type_info(252, "AXFR", OPAQUE),
    type_info(253, "MAILB", OPAQUE),
    type_info(254, "MAILA", OPAQUE),
    type_info(255, "ANY", OPAQUE),
    type_info(256, "URI", &[U16, U16, Text { min: 1 }]),
    type_info(257, "CAA", &[U8, Tag, Text { min: 0 }]),
    type_info(258, "AVC", STRINGS),
    type_info(259, "DOA", &[U32, U32, U8, String, Base64OrDash]),
    type_info(260, "AMTRELAY", &[U8, RelayType, Gateway { mask: 0x7f }]),
    type_info(261, "RESINFO", STRINGS),
    type_info(262, "WALLET", STRINGS),
    type_info(263, "CLA", STRINGS),
    type_info(264, "IPN", &[U64]),
    type_info(32768, "TA", DS),
    type_info(32769, "DLV", DS),
    type_info(65401, "ALIAS", &[PLAIN]),
    type_info(65402, "LUA", &[RrType, Strings]),
    type_info(65403, "HIDE", &[Bitmap { empty: false }]),
];

/// Types below this number are found by index.
const INDEXED: usize = 272;
const NONE: u8 = u8::MAX;

static INDEX: [u8; INDEXED] = {
    let mut index = [NONE; INDEXED];
    let mut i = 0;
    while i < TYPES.len() {
        let number = TYPES[i].rtype.0 as usize;
        if number < INDEXED {
            index[number] = i as u8;
        }
        i += 1;
    }
    index
};

/// Returns the description of a type; `None` for types that are opaque and have no name.
#[inline]
pub fn describe(rtype: Type) -> Option<&'static TypeInfo> {
    match INDEX.get(rtype.0 as usize) {
        Some(&NONE) => None,
        Some(&i) => Some(&TYPES[i as usize]),
        // The few types with high numbers are at the end.
        None => TYPES
            .iter()
            .rev()
            .take_while(|info| info.rtype.0 as usize >= INDEXED)
            .find(|info| info.rtype == rtype),
    }
}

/// Returns all descriptions, sorted by type number.
pub fn types() -> &'static [TypeInfo] {
    TYPES
}

/// Returns the mnemonic of a type.
fn mnemonic_of(rtype: Type) -> Option<&'static str> {
    describe(rtype).map(|info| info.mnemonic)
}

/// At least twice the number of types, and a power of two.
const SLOTS: usize = 256;

/// An open-addressing hash table from mnemonics to indexes in `TYPES`.
static SLOT: [u8; SLOTS] = {
    let mut slots = [NONE; SLOTS];
    let mut i = 0;
    while i < TYPES.len() {
        let mut at = slot_of(pack(TYPES[i].mnemonic.as_bytes()));
        while slots[at] != NONE {
            at = (at + 1) % SLOTS;
        }
        slots[at] = i as u8;
        i += 1;
    }
    slots
};

/// The packed mnemonics, parallel to `TYPES`, so that a lookup compares a single number.
static PACKED: [u128; TYPES.len()] = {
    let mut packed = [0; TYPES.len()];
    let mut i = 0;
    while i < TYPES.len() {
        packed[i] = pack(TYPES[i].mnemonic.as_bytes());
        i += 1;
    }
    packed
};

/// Packs up to 15 bytes in capitals into one number; the leading 1 distinguishes leading zero
/// bytes.
const fn pack(text: &[u8]) -> u128 {
    let mut packed = 1u128;
    let mut i = 0;
    while i < text.len() {
        packed = packed << 8 | text[i].to_ascii_uppercase() as u128;
        i += 1;
    }
    packed
}

const fn slot_of(packed: u128) -> usize {
    let mixed = (packed as u64 ^ (packed >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as usize % SLOTS
}

/// Returns the type of a mnemonic, case-insensitively.
#[inline]
fn type_of_mnemonic(text: &[u8]) -> Option<Type> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let packed = pack(text);
    let mut at = slot_of(packed);
    // Less than half of the slots are used, so the search ends at an empty one.
    while SLOT[at] != NONE {
        let i = SLOT[at] as usize;
        if PACKED[i] == packed {
            return Some(TYPES[i].rtype);
        }
        at = (at + 1) % SLOTS;
    }
    None
}

impl Type {
    /// Returns the mnemonic, if the type has one.
    pub fn mnemonic(self) -> Option<&'static str> {
        mnemonic_of(self)
    }

    /// Parses a mnemonic in any case, or `TYPEnnn` (RFC 3597 section 5).
    #[inline]
    pub fn from_text(text: &[u8]) -> Option<Type> {
        if let Some(rtype) = type_of_mnemonic(text) {
            return Some(rtype);
        }
        numbered(text, b"TYPE").map(Type)
    }
}

/// The mnemonic, or `TYPEnnn`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match mnemonic_of(*self) {
            Some(mnemonic) => f.pad(mnemonic),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_number_and_by_mnemonic() {
        assert!(TYPES.windows(2).all(|pair| pair[0].rtype < pair[1].rtype));
        assert!(TYPES.len() < SLOTS / 2);
        for info in TYPES {
            assert_eq!(describe(info.rtype).unwrap().mnemonic, info.mnemonic);
            assert_eq!(type_of_mnemonic(info.mnemonic.as_bytes()), Some(info.rtype));
            let lower = info.mnemonic.to_lowercase();
            assert_eq!(type_of_mnemonic(lower.as_bytes()), Some(info.rtype));
        }
        assert!(describe(Type(0)).is_none());
        assert!(describe(Type(65_400)).is_none());
        assert_eq!(type_of_mnemonic(b""), None);
        assert_eq!(type_of_mnemonic(b"AA"), None);
        assert_eq!(type_of_mnemonic(b"\0A"), None);
    }

    #[test]
    fn only_rfc_1035_types_are_compressed() {
        let compressed: Vec<_> = TYPES
            .iter()
            .filter(|info| {
                info.fields
                    .iter()
                    .any(|field| matches!(field, Name(name) if name.compress))
            })
            .map(|info| info.mnemonic)
            .collect();
        let expected = [
            "NS", "MD", "MF", "CNAME", "SOA", "MB", "MG", "MR", "PTR", "MINFO", "MX",
        ];
        assert_eq!(compressed, expected);
    }

    #[test]
    fn the_lower_cased_types_are_those_of_rfc_4034_section_6_2() {
        let lowered: Vec<_> = TYPES
            .iter()
            .filter(|info| {
                info.fields
                    .iter()
                    .any(|field| matches!(field, Name(name) if name.lowercase))
            })
            .map(|info| info.mnemonic)
            .collect();
        let expected = [
            "NS", "MD", "MF", "CNAME", "SOA", "MB", "MG", "MR", "PTR", "MINFO", "MX", "RP",
            "AFSDB", "RT", "SIG", "PX", "NXT", "SRV", "NAPTR", "KX", "DNAME", "RRSIG",
        ];
        assert_eq!(lowered, expected);
    }
}
