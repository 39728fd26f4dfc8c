//! Messages: a strict parser for what a server sent, and the building blocks of a query.

use super::{Name, Reader, class_text, print_rdata, rdata, type_text};
use crate::TestFailure;
use std::fmt;

/// One entry of the question section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The name as sent, case kept.
    pub name: Name,
    /// QTYPE.
    pub rtype: u16,
    /// QCLASS.
    pub class: u16,
}

/// A record with plain (uncompressed) data.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// Owner, case as received.
    pub owner: Name,
    /// TYPE.
    pub rtype: u16,
    /// CLASS.
    pub class: u16,
    /// TTL.
    pub ttl: u32,
    /// Data without compression.
    pub data: Vec<u8>,
}

impl Record {
    /// Returns text for comparison: lower case outside quotes, because names are case-insensitive
    /// and texts are not.
    pub fn comparable(&self) -> String {
        fold(&self.to_string())
    }
}

/// Returns text in lower case outside quotes.
pub fn fold(text: &str) -> String {
    let mut quoted = false;
    let fold = |letter: char| {
        quoted ^= letter == '"';
        if quoted {
            letter
        } else {
            letter.to_ascii_lowercase()
        }
    };
    text.chars().map(fold).collect()
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            1 => String::new(),
            other => format!("{} ", class_text(other)),
        };
        let data = print_rdata(self.rtype, &self.data);
        write!(
            f,
            "{} {} {class}{} {data}",
            self.owner,
            self.ttl,
            type_text(self.rtype)
        )
    }
}

/// The parsed OPT record (RFC 6891 section 6.1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opt {
    /// Payload size its sender accepts.
    pub size: u16,
    /// Upper eight bits of the response code.
    pub extended_rcode: u8,
    /// EDNS version.
    pub version: u8,
    /// All sixteen flags; DO is the highest.
    pub flags: u16,
    /// Options in order.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// How a query uses EDNS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuestionEdns {
    /// Without an OPT record.
    Off,
    /// OPT with a payload size of 1232.
    Plain,
    /// The same with the DO bit.
    Dnssec,
    /// The same with the DO and CO bits (RFC 9824).
    Compact,
}

impl QuestionEdns {
    /// Returns the OPT record of the query.
    pub fn opt(self) -> Option<Opt> {
        let flags = match self {
            QuestionEdns::Off => return None,
            QuestionEdns::Plain => 0,
            QuestionEdns::Dnssec => 0x8000,
            QuestionEdns::Compact => 0xc000,
        };
        Some(Opt {
            size: 1232,
            flags,
            ..Opt::default()
        })
    }
}

impl std::str::FromStr for QuestionEdns {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "off" => Ok(QuestionEdns::Off),
            "plain" => Ok(QuestionEdns::Plain),
            "dnssec" => Ok(QuestionEdns::Dnssec),
            "compact" => Ok(QuestionEdns::Compact),
            _ => Err("it is off, plain, dnssec or compact"),
        }
    }
}

impl Opt {
    /// Returns the DO (DNSSEC OK) bit.
    pub fn dnssec_ok(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// Returns the data of the first option with this code.
    pub fn option(&self, code: u16) -> Option<&[u8]> {
        self.options
            .iter()
            .find(|(own, _)| *own == code)
            .map(|(_, data)| &data[..])
    }
}

/// A whole message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Message ID.
    pub id: u16,
    /// The second 16 bits of the header.
    pub flags: u16,
    /// Question section.
    pub question: Vec<Question>,
    /// Answer section.
    pub answer: Vec<Record>,
    /// Authority section.
    pub authority: Vec<Record>,
    /// Additional section without OPT.
    pub additional: Vec<Record>,
    /// OPT of the additional section.
    pub opt: Option<Opt>,
    /// Octets on the wire.
    pub length: usize,
}

impl Message {
    /// Parses a message; anything a well-behaved sender would not send is an error.
    pub fn read(octets: &[u8]) -> Result<Message, TestFailure> {
        let mut reader = Reader::new(octets);
        let (id, flags) = (reader.u16()?, reader.u16()?);
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        let mut question = Vec::new();
        for _ in 0..counts[0] {
            let name = reader.name()?;
            question.push(Question {
                name,
                rtype: reader.u16()?,
                class: reader.u16()?,
            });
        }
        let mut sections = [Vec::new(), Vec::new(), Vec::new()];
        for (section, count) in sections.iter_mut().zip(&counts[1..]) {
            for _ in 0..*count {
                section.push(read_record(&mut reader)?);
            }
        }
        if reader.position() != octets.len() {
            return Err(format!(
                "{} octets after the last record",
                octets.len() - reader.position()
            )
            .into());
        }
        let [answer, authority, mut additional] = sections;
        let opts: Vec<Record> = additional
            .extract_if(.., |record| record.rtype == 41)
            .collect();
        if opts.len() > 1 {
            return Err("more than one OPT".into());
        }
        let opt = opts.first().map(read_opt).transpose()?;
        Ok(Message {
            id,
            flags,
            question,
            answer,
            authority,
            additional,
            opt,
            length: octets.len(),
        })
    }

    /// Returns the response code, extended by the OPT record.
    pub fn rcode(&self) -> u16 {
        let upper = self
            .opt
            .as_ref()
            .map_or(0, |opt| u16::from(opt.extended_rcode) << 4);
        upper | (self.flags & 15)
    }

    /// Returns the opcode.
    pub fn opcode(&self) -> u16 {
        (self.flags >> 11) & 15
    }

    /// Returns the AA bit.
    pub fn authoritative(&self) -> bool {
        self.flags & 0x0400 != 0
    }

    /// Returns the TC bit.
    pub fn truncated(&self) -> bool {
        self.flags & 0x0200 != 0
    }
}

fn read_opt(record: &Record) -> Result<Opt, TestFailure> {
    if record.owner != Name::root() {
        return Err("OPT is not at the root".into());
    }
    let mut options = Vec::new();
    let mut reader = Reader::new(&record.data);
    while reader.position() < record.data.len() {
        let (code, length) = (reader.u16()?, reader.u16()?);
        options.push((code, reader.octets(length as usize)?.to_vec()));
    }
    let [extended_rcode, version, ..] = record.ttl.to_be_bytes();
    Ok(Opt {
        size: record.class,
        extended_rcode,
        version,
        flags: record.ttl as u16,
        options,
    })
}

/// Appends a question.
pub fn encode_question(message: &mut Vec<u8>, question: &Question) {
    message.extend_from_slice(&question.name.0);
    message.extend_from_slice(&question.rtype.to_be_bytes());
    message.extend_from_slice(&question.class.to_be_bytes());
}

/// Appends an OPT record.
pub fn encode_opt(message: &mut Vec<u8>, opt: &Opt) {
    let mut data = Vec::new();
    for (code, value) in &opt.options {
        data.extend_from_slice(&code.to_be_bytes());
        data.extend_from_slice(&(value.len() as u16).to_be_bytes());
        data.extend_from_slice(value);
    }
    message.extend_from_slice(&[0, 0, 41]);
    message.extend_from_slice(&opt.size.to_be_bytes());
    message.extend_from_slice(&[opt.extended_rcode, opt.version]);
    message.extend_from_slice(&opt.flags.to_be_bytes());
    message.extend_from_slice(&(data.len() as u16).to_be_bytes());
    message.extend_from_slice(&data);
}

/// Reads a record.
fn read_record(reader: &mut Reader<'_>) -> Result<Record, TestFailure> {
    let owner = reader.name()?;
    let (rtype, class, ttl) = (reader.u16()?, reader.u16()?, reader.u32()?);
    let length = usize::from(reader.u16()?);
    if length > reader.left() {
        return Err("record data runs past the message".into());
    }
    let data = rdata::read(reader, rtype, reader.position() + length)?;
    Ok(Record {
        owner,
        rtype,
        class,
        ttl,
        data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compressed_in_srv_data_are_an_error() {
        let mut octets = vec![0, 1, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        octets.extend([
            1, b'a', 0, 0, 33, 0, 1, 0, 0, 0, 9, 0, 8, 0, 1, 0, 1, 0, 1, 0xc0, 12,
        ]);
        assert!(
            Message::read(&octets)
                .unwrap_err()
                .to_string()
                .contains("RFC 3597")
        );
    }

    #[test]
    fn octets_after_the_message_are_an_error() {
        assert!(Message::read(&[0; 12]).is_ok());
        assert!(Message::read(&[0; 13]).is_err());
    }
}
