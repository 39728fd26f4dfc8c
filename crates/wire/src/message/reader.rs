//! A reader for arbitrary messages with all sections: replies of other servers, NOTIFY, UPDATE, transfers.
//!
//! Nothing is read past the end of the message or of a record, and the cost is linear in the size of the message: the
//! counts in the header are not trusted, and a missing record ends the iteration. Owner names are expanded (pointers
//! only go backwards, at most 255 octets), record data only on request.

use super::{HEADER, MessageSection, QR};
use crate::name::{Name, NameBuf, NameError};
use crate::rdata::{self, RdataError};
use crate::rtype::{Class, Opcode, Type};

/// The reason why a message cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message is truncated.
    #[error("the message is truncated")]
    Short,
    /// A name in the message is invalid.
    #[error("invalid name in the message: {0}")]
    Name(#[from] NameError),
    /// There is more data than the header announces.
    #[error("trailing octets after the last record")]
    Trailing,
}

/// A message whose header has been read.
#[derive(Debug, Clone, Copy)]
pub struct Message<'m> {
    octets: &'m [u8],
    header: [u8; HEADER],
}

/// An entry of the question section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageQuestion {
    /// The queried name.
    pub name: NameBuf,
    /// The queried type.
    pub qtype: Type,
    /// The queried class.
    pub qclass: Class,
}

/// A record inside a message.
#[derive(Debug, Clone)]
pub struct RecordView<'m> {
    octets: &'m [u8],
    data_at: usize,
    /// Start of the record in the message.
    pub start: usize,
    /// The section that contains the record.
    pub section: MessageSection,
    /// The owner.
    pub owner: NameBuf,
    /// The record type.
    pub rtype: Type,
    /// The class; for an OPT record, the payload size.
    pub class: Class,
    /// The TTL; for an OPT record, the extended RCODE and flags.
    pub ttl: u32,
    /// Length of the data as stored in the message.
    pub rdlength: u16,
}

impl<'m> Message<'m> {
    /// Reads the header.
    pub fn parse(octets: &'m [u8]) -> Result<Self, MessageError> {
        let header = *octets.first_chunk().ok_or(MessageError::Short)?;
        Ok(Message { octets, header })
    }

    /// Returns the message as received.
    pub fn octets(&self) -> &'m [u8] {
        self.octets
    }

    /// Returns the message ID.
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// Checks whether the message is a response.
    pub fn is_response(&self) -> bool {
        self.header[2] & QR != 0
    }

    /// Returns the opcode.
    pub fn opcode(&self) -> Opcode {
        Opcode(self.header[2] >> 3 & 0x0f)
    }

    /// Returns the AA (authoritative answer) bit.
    pub fn is_authoritative(&self) -> bool {
        self.header[2] & super::AA != 0
    }

    /// Returns the TC (truncated) bit.
    pub fn is_truncated(&self) -> bool {
        self.header[2] & super::TC != 0
    }

    /// Returns the response code in the header: the low four bits of the full code.
    pub fn rcode(&self) -> u8 {
        self.header[3] & 0x0f
    }

    fn count(&self, section: usize) -> u16 {
        u16::from_be_bytes([self.header[4 + 2 * section], self.header[5 + 2 * section]])
    }

    /// Returns the number of records in a section according to the header.
    pub fn promised(&self, section: MessageSection) -> u16 {
        self.count(section as usize)
    }

    /// Returns the questions in order (in an UPDATE, the zone: RFC 2136 section 2.3).
    pub fn questions(
        &self,
    ) -> impl Iterator<Item = Result<MessageQuestion, MessageError>> + use<'m> {
        let (octets, count) = (self.octets, self.count(0));
        let mut at = Ok(HEADER);
        (0..count).map_while(move |_| match at {
            Err(()) => None,
            Ok(place) => {
                let read = read_question(octets, place);
                at = read.as_ref().map(|(_, behind)| *behind).map_err(|_| ());
                Some(read.map(|(question, _)| question))
            }
        })
    }

    /// Returns the records of all sections in order. Iteration ends at the first unreadable record; trailing octets
    /// after the last record are an error too.
    pub fn records(&self) -> MessageRecords<'m> {
        let mut at = HEADER;
        let mut failed = None;
        for _ in 0..self.count(0) {
            match read_question(self.octets, at) {
                Ok((_, behind)) => at = behind,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        MessageRecords {
            octets: self.octets,
            at,
            left: [self.count(1), self.count(2), self.count(3)],
            failed,
            has_ended: false,
        }
    }
}

fn read_question(octets: &[u8], at: usize) -> Result<(MessageQuestion, usize), MessageError> {
    let (name, at) = NameBuf::from_message(octets, at)?;
    let Some(&[t0, t1, c0, c1]) = octets.get(at..).and_then(<[u8]>::first_chunk) else {
        return Err(MessageError::Short);
    };
    let question = MessageQuestion {
        name,
        qtype: Type(u16::from_be_bytes([t0, t1])),
        qclass: Class(u16::from_be_bytes([c0, c1])),
    };
    Ok((question, at + 4))
}

/// Iterates over the records of a message.
#[derive(Debug, Clone)]
pub struct MessageRecords<'m> {
    octets: &'m [u8],
    at: usize,
    left: [u16; 3],
    failed: Option<MessageError>,
    has_ended: bool,
}

impl<'m> MessageRecords<'m> {
    fn section(&mut self) -> Option<MessageSection> {
        let sections = [
            MessageSection::Answer,
            MessageSection::Authority,
            MessageSection::Additional,
        ];
        let (left, section) = self.left.iter_mut().zip(sections).find(|(n, _)| **n > 0)?;
        *left -= 1;
        Some(section)
    }

    fn read(&mut self, section: MessageSection) -> Result<RecordView<'m>, MessageError> {
        let (owner, at) = NameBuf::from_message(self.octets, self.at)?;
        let fixed: &[u8; 10] = self
            .octets
            .get(at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or(MessageError::Short)?;
        let rdlength = u16::from_be_bytes([fixed[8], fixed[9]]);
        let (start, data_at) = (self.at, at + fixed.len());
        let end = data_at + usize::from(rdlength);
        if end > self.octets.len() {
            return Err(MessageError::Short);
        }
        self.at = end;
        Ok(RecordView {
            octets: self.octets,
            data_at,
            start,
            section,
            owner,
            rtype: Type(u16::from_be_bytes([fixed[0], fixed[1]])),
            class: Class(u16::from_be_bytes([fixed[2], fixed[3]])),
            ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            rdlength,
        })
    }
}

impl<'m> Iterator for MessageRecords<'m> {
    type Item = Result<RecordView<'m>, MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::replace(&mut self.has_ended, self.failed.is_some()) {
            return None;
        }
        if let Some(error) = self.failed {
            return Some(Err(error));
        }
        let Some(section) = self.section() else {
            self.has_ended = true;
            return (self.at < self.octets.len()).then_some(Err(MessageError::Trailing));
        };
        let record = self.read(section);
        self.failed = record.as_ref().err().copied();
        self.has_ended = record.is_err();
        Some(record)
    }
}

impl<'m> RecordView<'m> {
    /// Returns the data as stored in the message, where names may be compressed.
    pub fn raw_data(&self) -> &'m [u8] {
        &self.octets[self.data_at..self.data_at + usize::from(self.rdlength)]
    }

    /// Returns the offset of the record data in the message.
    pub fn data_offset(&self) -> usize {
        self.data_at
    }

    /// Appends the data with its names expanded, checked against its type. On error `out` is unchanged.
    pub fn expand_data(&self, out: &mut Vec<u8>) -> Result<(), RdataError> {
        rdata::from_message(
            self.rtype,
            self.octets,
            self.data_at,
            self.rdlength.into(),
            out,
        )
    }

    /// Returns the owner as a borrowed name.
    pub fn name(&self) -> Name<'_> {
        self.owner.as_name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with a compressed MX, a SOA in the authority section and an OPT record.
    const REPLY: &[u8] = b"\x12\x34\x84\x03\x00\x01\x00\x01\x00\x01\x00\x01\
        \x07example\0\x00\x0f\x00\x01\
        \xc0\x0c\x00\x0f\x00\x01\x00\x00\x00\x3c\x00\x09\x00\x0a\x04mail\xc0\x0c\
        \xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x3c\x00\x18\xc0\x0c\xc0\x0c\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05\
        \0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

    #[test]
    fn every_section_is_read() {
        let message = Message::parse(REPLY).unwrap();
        assert!(message.is_response() && message.is_authoritative() && !message.is_truncated());
        assert_eq!((message.id(), message.rcode()), (0x1234, 3));
        let questions: Vec<_> = message.questions().map(Result::unwrap).collect();
        assert_eq!(questions[0].name, "example.".parse().unwrap());
        assert_eq!(questions[0].qtype, Type::MX);
        let records: Vec<_> = message.records().map(Result::unwrap).collect();
        let sections: Vec<_> = records.iter().map(|record| record.section).collect();
        assert_eq!(
            sections,
            [
                MessageSection::Answer,
                MessageSection::Authority,
                MessageSection::Additional
            ]
        );
        let mut data = Vec::new();
        records[0].expand_data(&mut data).unwrap();
        assert_eq!(data, b"\x00\x0a\x04mail\x07example\0");
        assert_eq!((records[2].class.0, records[2].raw_data().len()), (1232, 0));
    }

    #[test]
    fn a_message_cut_anywhere_ends_with_an_error_and_once() {
        for len in HEADER..REPLY.len() {
            let message = Message::parse(&REPLY[..len]).unwrap();
            let results: Vec<_> = message.records().collect();
            let errors = results.iter().filter(|result| result.is_err()).count();
            assert_eq!(errors, 1, "{len}");
            assert!(results.last().unwrap().is_err(), "{len}");
        }
        assert!(Message::parse(&REPLY[..HEADER - 1]).is_err());
        let longer = [REPLY, b"x"].concat();
        let last = Message::parse(&longer).unwrap().records().last().unwrap();
        assert_eq!(last.unwrap_err(), MessageError::Trailing);
    }

    #[test]
    fn counts_in_the_header_cost_nothing() {
        let mut message = REPLY[..HEADER].to_vec();
        message[4..].fill(0xff);
        let message = Message::parse(&message).unwrap();
        assert_eq!(message.records().count(), 1);
        assert_eq!(message.questions().count(), 1);
        assert_eq!(message.promised(MessageSection::Answer), 0xffff);
    }
}
