//! Properties that hold for the data of every type, well formed or not.
//!
//! Data is generated from a type's own description, field by field, then modified: truncated,
//! extended, with octets changed. Whatever results, nothing panics, and valid data survives
//! conversion to text and back.

use nameward_testkit::property_cases;
use nameward_wire::rdata::{
    Field, TypeInfo, canonicalise, describe, from_message, names, parse_text, types, validate,
    write_text,
};
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type};
use proptest::prelude::*;

/// A bounded source of choices.
struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.at += 1;
        self.bytes[(self.at * 7 + self.at / 31) % self.bytes.len()].wrapping_add(self.at as u8 / 5)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.byte() as usize % limit
    }

    fn octets(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    fn name(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        for _ in 0..self.below(4) {
            let len = 1 + self.below(12);
            wire.push(len as u8);
            wire.extend(self.octets(len));
        }
        wire.push(0);
        wire
    }

    fn counted(&mut self, min: usize) -> Vec<u8> {
        let len = (min + self.below(20)).max(min);
        let mut wire = vec![len as u8];
        wire.extend(self.octets(len));
        wire
    }

    /// Returns octets that do not end in zero.
    fn trimmed(&mut self, count: usize) -> Vec<u8> {
        let mut octets = self.octets(count);
        if let Some(last) = octets.last_mut() {
            *last |= 1;
        }
        octets
    }
}

/// Appends well-formed octets of one field.
fn append(field: &Field, choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Name(_) => out.extend(choices.name()),
        Field::Names(_) => {
            for _ in 0..choices.below(3) {
                out.extend(choices.name());
            }
        }
        Field::U8 | Field::Code8(_) => {
            // Small numbers announce known digests and gateways.
            let small = choices.below(4) as u8;
            out.push(if choices.below(4) > 0 {
                small
            } else {
                choices.byte()
            });
        }
        Field::U16 | Field::Code16(_) | Field::RrType => out.extend(choices.octets(2)),
        Field::U32 | Field::Period | Field::Time | Field::Ipv4 => out.extend(choices.octets(4)),
        Field::U64 | Field::Locator64 => out.extend(choices.octets(8)),
        Field::Ipv6 => out.extend(choices.octets(16)),
        Field::Eui(len) => out.extend(choices.octets(*len)),
        Field::String | Field::Salt => out.extend(choices.counted(0)),
        Field::HashedName => out.extend(choices.counted(1)),
        Field::OptionalString => {
            if choices.below(2) == 0 {
                out.extend(choices.counted(0));
            }
        }
        Field::Strings => {
            for _ in 0..=choices.below(3) {
                out.extend(choices.counted(0));
            }
        }
        Field::Tag => {
            let len = 1 + choices.below(9);
            out.push(len as u8);
            out.extend((0..len).map(|_| b"aZ09issuewild"[choices.below(13)]));
        }
        Field::Text { min } | Field::Hex { min } | Field::Base64 { min } => {
            let len = min + choices.below(30);
            out.extend(choices.octets(len));
        }
        Field::Base64OrDash | Field::Opaque => {
            let len = choices.below(9);
            out.extend(choices.octets(len));
        }
        Field::Digest { lengths, min } => {
            let kind = *out.last().unwrap();
            let known = lengths.iter().find(|(known, _)| *known == kind);
            let len = known.map_or(min + choices.below(9), |(_, len)| *len);
            out.extend(choices.octets(len));
        }
        Field::Nsap => {
            let len = 1 + choices.below(20);
            out.extend(choices.octets(len));
        }
        _ => append_structured(field, choices, out),
    }
}

fn append_structured(field: &Field, choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Bitmap { empty } => {
            let mut window = choices.below(3);
            for _ in 0..choices.below(3) + usize::from(!empty) {
                let len = 1 + choices.below(32);
                out.extend([window as u8, len as u8]);
                out.extend(choices.trimmed(len));
                window += 1 + choices.below(60);
            }
        }
        Field::NxtBitmap => {
            let len = 1 + choices.below(16);
            let mut bits = choices.trimmed(len);
            bits[0] &= 0x7f;
            out.extend(bits);
        }
        Field::Loc => {
            out.push(0);
            for _ in 0..3 {
                let (mantissa, exponent) = (1 + choices.below(9) as u8, choices.below(10) as u8);
                out.push(if choices.below(5) == 0 {
                    0
                } else {
                    mantissa << 4 | exponent
                });
            }
            for max in [90u32, 180] {
                let octets = choices.octets(4);
                let angle =
                    u32::from_be_bytes(octets.try_into().unwrap()) % (2 * max * 3_600_000 + 1);
                out.extend(((1u32 << 31) - max * 3_600_000 + angle).to_be_bytes());
            }
            out.extend(choices.octets(4));
        }
        Field::Apl => {
            for _ in 0..choices.below(4) {
                let (family, octets) = [(1, 4), (2, 16)][choices.below(2)];
                let len = choices.below(octets + 1);
                let flags = choices.byte() & 0x80 | len as u8;
                out.extend([0, family, choices.below(octets * 8 + 1) as u8, flags]);
                out.extend(choices.trimmed(len));
            }
        }
        Field::Wks => {
            out.push(choices.byte());
            let len = choices.below(20);
            out.extend(choices.trimmed(len));
        }
        Field::RelayType => out.push(choices.byte() & 0x80 | choices.below(4) as u8),
        Field::Gateway { mask } => {
            // Types above 3 are not valid.
            out[1] &= 3 | !mask;
            match out[1] & mask {
                0 => {}
                1 => out.extend(choices.octets(4)),
                2 => out.extend(choices.octets(16)),
                _ => out.extend(choices.name()),
            }
        }
        Field::HipKey => {
            let (tag, key) = (1 + choices.below(30), 1 + choices.below(60));
            out.extend([tag as u8, choices.byte(), 0, key as u8]);
            out.extend(choices.octets(tag + key));
        }
        Field::SvcParams => append_params(choices, out),
        other => panic!("no generator for {other:?}"),
    }
}

fn append_params(choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    let mut params: Vec<(u16, Vec<u8>)> = Vec::new();
    let with_alpn = choices.below(2) == 0;
    for key in 1..=9 {
        if choices.below(2) == 0 && !(key == 1 && with_alpn) {
            continue;
        }
        let count = 1 + choices.below(3);
        let value = match key {
            1 => (0..count).flat_map(|_| choices.counted(1)).collect(),
            2 if !with_alpn => continue,
            2 | 8 => Vec::new(),
            3 => choices.octets(2),
            4 => choices.octets(4 * count),
            6 => choices.octets(16 * count),
            9 => choices.octets(2 * count),
            _ => choices.octets(1 + count * 3),
        };
        params.push((key, value));
    }
    for extra in 0..choices.below(3) as u16 {
        let len = choices.below(9);
        params.push((
            1000 * extra + 10 + choices.below(200) as u16,
            choices.octets(len),
        ));
    }
    if choices.below(2) == 0 && !params.is_empty() {
        let keys = params
            .iter()
            .step_by(2)
            .flat_map(|(key, _)| key.to_be_bytes());
        params.insert(0, (0, keys.collect()));
    }
    for (key, value) in params {
        out.extend(key.to_be_bytes());
        out.extend((value.len() as u16).to_be_bytes());
        out.extend(value);
    }
}

fn generate(info: &TypeInfo, bytes: &[u8]) -> Vec<u8> {
    let mut choices = Choices {
        bytes,
        at: info.rtype.0 as usize,
    };
    let mut out = Vec::new();
    for field in info.fields {
        append(field, &mut choices, &mut out);
    }
    out
}

fn print(rtype: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    write_text(rtype, rdata, &mut text).unwrap();
    text
}

fn parse(rtype: Type, text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match parse_text(rtype, &mut Fields::new(text), Name::ROOT, &mut out) {
        Ok(_) => Ok(out),
        Err(error) => {
            assert!(out.is_empty());
            Err(error.to_string())
        }
    }
}

/// Checks the properties that hold for any octets of any type.
fn examine(rtype: Type, rdata: &[u8]) {
    let text = print(rtype, rdata);
    assert!(
        text.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
        "{text}"
    );
    let valid = validate(rtype, rdata).is_ok();
    if valid {
        assert_eq!(
            parse(rtype, text.as_bytes()).as_deref(),
            Ok(rdata),
            "{rtype} {text}"
        );
    } else {
        assert!(text.starts_with("\\# "), "{rtype} {text}");
        assert!(parse(rtype, text.as_bytes()).is_err(), "{rtype} {text}");
        assert_eq!(parse(Type(65_280), text.as_bytes()).as_deref(), Ok(rdata));
    }
    let mut end = 0;
    for (at, name, name_use) in names(rtype, rdata) {
        assert!(at >= end);
        end = at + name.as_wire().len();
        assert_eq!(&rdata[at..end], name.as_wire());
        assert!(name_use.decompress || !name_use.compress);
    }
    let mut canonical = rdata.to_vec();
    canonicalise(rtype, &mut canonical);
    assert!(canonical.eq_ignore_ascii_case(rdata));
    assert_eq!(validate(rtype, &canonical).is_ok(), valid);
    // In a message without pointers, the data is unchanged.
    let mut message = vec![0; 12];
    message.extend_from_slice(rdata);
    message.push(0xff);
    let mut out = vec![1];
    if from_message(rtype, &message, 12, rdata.len(), &mut out).is_ok() {
        assert!(validate(rtype, &out[1..]).is_ok());
        if valid {
            assert_eq!(&out[1..], rdata);
        }
    } else {
        assert_eq!(out, [1]);
        assert!(!valid);
    }
}

proptest! {
    #![proptest_config(property_cases(128))]

    #[test]
    fn data_of_every_type_survives_text_and_back(bytes in proptest::collection::vec(any::<u8>(), 8..200)) {
        for info in types() {
            let rdata = generate(info, &bytes);
            prop_assert_eq!(validate(info.rtype, &rdata), Ok(()), "{} {:02x?}", info.mnemonic, rdata);
            let opaque = matches!(info.fields, [Field::Opaque]);
            prop_assert_eq!(print(info.rtype, &rdata).starts_with("\\# "), opaque);
            examine(info.rtype, &rdata);
        }
    }

    #[test]
    fn mutated_data_of_every_type_never_panics(
        bytes in proptest::collection::vec(any::<u8>(), 8..200),
        at in any::<usize>(), value: u8, kind in 0..5,
    ) {
        for info in types() {
            let mut rdata = generate(info, &bytes);
            let at = at % (rdata.len() + 1);
            match kind {
                0 => rdata.truncate(at),
                1 => rdata.insert(at, value),
                2 if at < rdata.len() => { rdata.remove(at); }
                3 if at < rdata.len() => rdata[at] = value,
                4 if at < rdata.len() => rdata[at] ^= 1 << (value % 8),
                _ => rdata.push(value),
            }
            examine(info.rtype, &rdata);
        }
    }

    #[test]
    fn arbitrary_octets_never_panic(rdata in proptest::collection::vec(any::<u8>(), 0..80), unknown: u16) {
        for info in types() {
            examine(info.rtype, &rdata);
        }
        examine(Type(unknown), &rdata);
    }

    #[test]
    fn arbitrary_messages_never_panic(
        message in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..4, 0xc0u8..0xc1], 0..80),
        at in 0usize..90, len in 0usize..90,
    ) {
        for info in types() {
            let mut out = Vec::new();
            if from_message(info.rtype, &message, at, len, &mut out).is_ok() {
                prop_assert!(at + len <= message.len());
                prop_assert_eq!(validate(info.rtype, &out), Ok(()), "{}", info.mnemonic);
                prop_assert!(out.len() <= len + 510);
            }
        }
    }

    #[test]
    fn mutated_text_of_every_type_never_panics(
        bytes in proptest::collection::vec(any::<u8>(), 8..200),
        at in any::<usize>(), insert in "[ -~]{0,3}", remove in 0usize..4,
    ) {
        for info in types() {
            let mut text = print(info.rtype, &generate(info, &bytes)).into_bytes();
            let at = at % (text.len() + 1);
            let end = (at + remove).min(text.len());
            text.splice(at..end, insert.bytes());
            if let Ok(rdata) = parse(info.rtype, &text) {
                prop_assert_eq!(validate(info.rtype, &rdata), Ok(()), "{} {:?}", info.mnemonic, String::from_utf8_lossy(&text));
                examine(info.rtype, &rdata);
            }
        }
    }
}

#[test]
fn names_are_decompressed_only_where_rfc_3597_allows_it() {
    // At offset 12 "a.", then a pointer to it.
    let message = b"\0\0\0\0\0\0\0\0\0\0\0\0\x01a\0\xc0\x0c";
    for info in types() {
        let [Field::Name(name_use)] = info.fields else {
            continue;
        };
        let mut out = Vec::new();
        let result = from_message(info.rtype, message, 15, 2, &mut out);
        assert_eq!(result.is_ok(), name_use.decompress, "{}", info.mnemonic);
        if result.is_ok() {
            assert_eq!(out, b"\x01a\0");
        }
    }
}

#[test]
fn a_name_never_reaches_past_the_end_of_its_record() {
    // RDLENGTH says two octets, the name has three.
    let message = b"\0\0\0\0\0\0\0\0\0\0\0\0\x01a\0";
    let mut out = Vec::new();
    assert!(from_message(Type::NS, message, 12, 2, &mut out).is_err());
    assert!(from_message(Type::NS, message, 12, 3, &mut out).is_ok());
    // A pointer whose second octet is after the record.
    let message = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\xc0\x0c";
    assert!(from_message(Type::NS, message, 13, 1, &mut out).is_err());
    assert!(from_message(Type::NS, message, usize::MAX, 2, &mut out).is_err());
}

#[test]
fn long_text_is_split_with_a_warning() {
    let long = "x".repeat(600);
    let mut out = Vec::new();
    let text = format!("\"{long}\" short");
    let mut fields = Fields::new(text.as_bytes());
    let notes = parse_text(Type::TXT, &mut fields, Name::ROOT, &mut out).unwrap();
    assert!(notes.txt_split);
    let lengths = [out[0], out[256], out[512], out[512 + 91]];
    assert_eq!(lengths, [255, 255, 90, 5]);
    out.clear();
    let text = format!("\"{}\"", "x".repeat(255));
    let mut fields = Fields::new(text.as_bytes());
    let notes = parse_text(Type::TXT, &mut fields, Name::ROOT, &mut out).unwrap();
    assert!(!notes.txt_split);
    assert_eq!(out.len(), 256);
    // Other types have no room for the rest.
    assert!(parse(Type::HINFO, format!("{long} x").as_bytes()).is_err());
}

#[test]
fn record_data_has_a_limit_in_text() {
    let many = "\"\" ".repeat(65_535);
    assert!(parse(Type::TXT, many.as_bytes()).is_ok());
    let more = "\"\" ".repeat(65_536);
    assert!(parse(Type::TXT, more.as_bytes()).is_err());
    assert!(parse(Type::TXT, "x".repeat(70_000).as_bytes()).is_err());
    let hex = "00".repeat(65_536);
    assert!(parse(Type(65_280), format!("\\# 65536 {hex}").as_bytes()).is_err());
    assert!(
        parse(
            Type::SVCB,
            format!("1 . key1000={}", "x".repeat(66_000)).as_bytes()
        )
        .is_err()
    );
}

#[test]
fn every_type_of_the_list_is_described() {
    let list = "A NS MD MF CNAME SOA MB MG MR WKS PTR HINFO MINFO MX TXT RP AFSDB X25 ISDN RT NSAP SIG KEY PX GPOS AAAA \
        LOC SRV NAPTR KX CERT DNAME APL DS SSHFP IPSECKEY RRSIG NSEC DNSKEY DHCID NSEC3 NSEC3PARAM TLSA SMIMEA HIP \
        NINFO RKEY TALINK CDS CDNSKEY OPENPGPKEY CSYNC ZONEMD SVCB HTTPS DSYNC SPF NID L32 L64 LP EUI48 EUI64 URI CAA \
        AVC DOA AMTRELAY RESINFO WALLET CLA IPN HHIT BRID TA DLV ALIAS LUA";
    for mnemonic in list.split_whitespace() {
        let info = Type::from_text(mnemonic.as_bytes()).and_then(describe);
        assert!(
            info.is_some_and(|info| !matches!(info.fields, [Field::Opaque])),
            "{mnemonic}"
        );
    }
}
