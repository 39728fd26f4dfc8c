//! Cross-checks with two other implementations: they read our output, and agree where they know the
//! type.

use domain::base::iana::Rtype;
use domain::base::name::ParsedName;
use domain::base::rdata::{ComposeRecordData, ParseAnyRecordData};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use hickory_proto::rr::{RData, RecordType};
use hickory_proto::serialize::binary::{
    BinDecoder, BinEncodable, BinEncoder, NameEncoding, Restrict,
};
use nameward_wire::Type;
use nameward_wire::rdata::{canonicalise, write_text};

type DomainData<'a> = AllRecordData<&'a [u8], ParsedName<&'a [u8]>>;

/// The types whose text Hickory parses.
const HICKORY_TEXT: &str = "A AAAA CAA CERT CNAME CSYNC HINFO HTTPS MX NAPTR NS OPENPGPKEY PTR \
    SMIMEA SOA SRV SSHFP SVCB TLSA TXT";

/// Returns the well-formed vectors: type and wire form.
fn vectors() -> impl Iterator<Item = (Type, Vec<u8>)> {
    include_str!("rdata_vectors.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!', '~']))
        .map(|line| {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let digits: String = parts[2].split_whitespace().collect();
            let wire = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
            let rtype = Type::from_text(parts[0].as_bytes());
            (rtype.expect(line), wire.expect(line))
        })
}

fn print(rtype: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    write_text(rtype, rdata, &mut text).unwrap();
    text
}

/// Runs an oracle over all vectors; it returns `None` for types it does not know.
fn compare(least: usize, oracle: impl Fn(Type, &[u8], &str) -> Option<Result<(), String>>) {
    let (mut agreed, mut wrong) = (0, Vec::new());
    for (rtype, wire) in vectors() {
        let text = print(rtype, &wire);
        match oracle(rtype, &wire, &text) {
            None => {}
            Some(Ok(())) => agreed += 1,
            Some(Err(why)) => wrong.push(format!("{rtype} {text}\n    {why}")),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(agreed >= least, "only {agreed} vectors were compared");
}

fn same(what: &str, ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!(
        "{what}: theirs is {}",
        data_encoding::HEXLOWER.encode(theirs)
    ))
}

#[test]
fn domain_reads_our_wire_form_and_makes_the_same_canonical_form() {
    compare(50, |rtype, wire, _| {
        let parser = &mut Parser::from_ref(wire);
        let data = match DomainData::parse_any_rdata(Rtype::from_int(rtype.0), parser) {
            Ok(AllRecordData::Unknown(_)) => return None,
            Ok(data) => data,
            Err(error) => return Some(Err(error.to_string())),
        };
        let (mut composed, mut canonical) = (Vec::new(), Vec::new());
        data.compose_rdata(&mut composed).unwrap();
        data.compose_canonical_rdata(&mut canonical).unwrap();
        let mut ours = wire.to_vec();
        canonicalise(rtype, &mut ours);
        Some(same("wire", wire, &composed).and_then(|()| same("canonical", &ours, &canonical)))
    });
}

#[test]
fn domain_reads_our_text() {
    compare(50, |rtype, wire, text| {
        let parser = &mut Parser::from_ref(wire);
        let data = DomainData::parse_any_rdata(Rtype::from_int(rtype.0), parser);
        // By its own documentation it does not read escapes in alpn; automatic hints are PowerDNS's.
        let limits = ["alpn=\"f\\", "hint=auto"];
        if matches!(data, Ok(AllRecordData::Unknown(_)))
            || limits.iter().any(|limit| text.contains(limit))
        {
            return None;
        }
        let line = format!("example.org. 0 IN {rtype} {text}\n");
        let mut file = Zonefile::from(line.as_str());
        let record = match file.next_entry() {
            Ok(Some(Entry::Record(record))) => record,
            Ok(other) => return Some(Err(format!("{other:?}"))),
            Err(error) => return Some(Err(error.to_string())),
        };
        let mut composed = Vec::new();
        record.data().compose_rdata(&mut composed).unwrap();
        Some(same("wire", wire, &composed))
    });
}

fn emit(data: &RData) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = BinEncoder::new(&mut out);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    data.emit(&mut encoder).unwrap();
    out
}

#[test]
fn hickory_reads_our_wire_form() {
    compare(50, |rtype, wire, _| {
        let mut decoder = BinDecoder::new(wire);
        let length = Restrict::new(wire.len() as u16);
        match RData::read(&mut decoder, RecordType::from(rtype.0), length) {
            Ok(RData::Unknown { .. }) => None,
            Ok(data) => Some(same("wire", wire, &emit(&data))),
            Err(error) => Some(Err(error.to_string())),
        }
    });
}

#[test]
fn hickory_reads_our_text() {
    compare(30, |rtype, wire, text| {
        let mnemonic = rtype.to_string();
        let mut known = HICKORY_TEXT.split_whitespace();
        // It reads escapes as Unicode, and knows neither newer service parameters nor automatic hints.
        let limits = ["\\", "dohpath", "ohttp", "hint=auto"];
        if !known.any(|known| known == mnemonic) || limits.iter().any(|limit| text.contains(limit))
        {
            return None;
        }
        match RData::try_from_str(RecordType::from(rtype.0), text) {
            Ok(RData::Unknown { .. }) => None,
            // It lower-cases names.
            Ok(data) if rtype == Type::CNAME => {
                Some(same("wire", &wire.to_ascii_lowercase(), &emit(&data)))
            }
            Ok(data) => Some(same("wire", wire, &emit(&data))),
            Err(error) => Some(Err(error.to_string())),
        }
    });
}
