//! A query to a resolver: how it is written, and which responses match it.
//!
//! RFC 5452 section 9: a response is accepted if it comes from the address and port that were queried, to the port
//! that sent the query (both are enforced by the kernel, since each query has its own connected socket), with the ID
//! and the question that were sent. With `randomize_case` the letter case of the question must match, too.

use nameward_wire::message::{
    ClientSubnet, HEADER, Message, MessageError, MessageSection, RecordView,
};
use nameward_wire::rdata::{self, RdataError};
use nameward_wire::{Class, Name, NameBuf, Opcode, Type};

/// The EDNS payload size we advertise to resolvers (RFC 9715).
pub(super) const PAYLOAD: u16 = 1232;

/// Octets between the owner name of a record and its data: type, class, TTL, length.
const FIXED: usize = 10;
const RD: u8 = 0x01;
const AD: u8 = 0x20;
const CD: u8 = 0x10;

/// A query as it is sent to resolvers; equal ones share a response.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamMessage {
    /// The name in lower case.
    name: Box<[u8]>,
    qtype: u16,
    /// RFC 3225: the client requests DNSSEC records.
    dnssec_ok: bool,
    /// RFC 4035 section 3.2.2: the client validates itself.
    checking_disabled: bool,
    /// RFC 7871: the network of the client.
    subnet: Option<ClientSubnet>,
}

impl UpstreamMessage {
    /// Creates a query in class IN.
    pub fn new(name: Name<'_>, qtype: Type) -> Self {
        UpstreamMessage {
            name: name.as_wire().to_ascii_lowercase().into(),
            qtype: qtype.0,
            dnssec_ok: false,
            checking_disabled: false,
            subnet: None,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> Name<'_> {
        Name::from_valid_wire(&self.name)
    }

    /// Returns the type.
    pub fn qtype(&self) -> Type {
        Type(self.qtype)
    }

    /// Sets the DNSSEC flags.
    pub(super) fn with_flags(self, dnssec_ok: bool, checking_disabled: bool) -> Self {
        UpstreamMessage {
            dnssec_ok,
            checking_disabled,
            ..self
        }
    }

    /// Requests the best addresses for a client subnet, as far as it may be forwarded (RFC 7871).
    pub(crate) fn with_subnet(self, subnet: Option<ClientSubnet>) -> Self {
        let subnet = subnet.map(ClientSubnet::to_pass_on);
        UpstreamMessage { subnet, ..self }
    }

    /// Checks whether it has a client subnet.
    pub(crate) fn has_subnet(&self) -> bool {
        self.subnet.is_some()
    }

    /// Returns the same query without its client subnet.
    pub(crate) fn without_subnet(&self) -> Self {
        UpstreamMessage {
            subnet: None,
            ..self.clone()
        }
    }

    /// Writes the message: RD and AD set (RFC 6840 section 5.7), and our own OPT record. The bits of `case` flip the
    /// case of the name's letters.
    pub(super) fn write(&self, id: u16, case: &[u8; 32]) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER + self.name.len() + 15);
        message.extend_from_slice(&id.to_be_bytes());
        let flags = AD | if self.checking_disabled { CD } else { 0 };
        message.extend_from_slice(&[RD, flags, 0, 1, 0, 0, 0, 0, 0, 1]);
        let turned = self.name.iter().enumerate().map(|(i, octet)| {
            // A length octet is at most 63 and not a letter, so only letters in labels are flipped.
            let is_turned = octet.is_ascii_lowercase() && case[i / 8 % 32] >> (i % 8) & 1 == 1;
            if is_turned { octet ^ 0x20 } else { *octet }
        });
        message.extend(turned);
        message.extend_from_slice(&self.qtype.to_be_bytes());
        message.extend_from_slice(&Class::IN.0.to_be_bytes());
        let payload = PAYLOAD.to_be_bytes();
        let dnssec_ok = if self.dnssec_ok { 0x80 } else { 0 };
        let octets = self.subnet.map_or(0, |subnet| subnet.octets());
        let options = if octets > 0 { octets as u8 + 4 } else { 0 };
        message.extend_from_slice(&[0, 0, 41, payload[0], payload[1]]);
        message.extend_from_slice(&[0, 0, dnssec_ok, 0, 0, options]);
        if let Some(subnet) = &self.subnet {
            message.extend_from_slice(&[0, 8, 0, octets as u8]);
            let start = message.len();
            message.resize(start + octets, 0);
            subnet.write(&mut message[start..]);
        }
        message
    }
}

/// A message received while a query waited for its response.
#[derive(Debug)]
pub(super) enum ReceivedMessage {
    /// Does not match the query: forged, late, or for another one.
    NotOurs,
    /// A response that cannot be parsed.
    Garbage,
    /// A truncated response (TC).
    Truncated,
    /// A valid response.
    Reply(UpstreamReply),
}

/// A resolver's response, parsed to its end.
#[derive(Debug)]
pub struct UpstreamReply {
    octets: Vec<u8>,
    /// End of the records that are relayed: before the OPT record.
    end: usize,
    /// Number of additional records before the OPT record.
    additional: u16,
    /// The full response code (RFC 6891 section 6.1.3).
    rcode: u16,
    /// The extended error (RFC 8914).
    error: Option<u16>,
    /// The scope of the client subnet option (RFC 7871).
    scope: Option<u8>,
}

impl UpstreamReply {
    /// Parses a message received for the query `sent`.
    pub(super) fn read(octets: &[u8], sent: &[u8]) -> ReceivedMessage {
        let Ok(message) = Message::parse(octets) else {
            return ReceivedMessage::NotOurs;
        };
        let Some(question) = question_of(sent) else {
            return ReceivedMessage::NotOurs;
        };
        let is_answer = octets[..2] == sent[..2]
            && message.is_response()
            && message.opcode() == Opcode::QUERY
            && octets[4..6] == [0, 1]
            && octets[HEADER..].starts_with(question);
        if !is_answer {
            return ReceivedMessage::NotOurs;
        }
        if message.is_truncated() {
            return ReceivedMessage::Truncated;
        }
        match Self::read_records(&message) {
            Ok(reply) => ReceivedMessage::Reply(reply),
            Err(_) => ReceivedMessage::Garbage,
        }
    }

    fn read_records(message: &Message<'_>) -> Result<Self, MessageError> {
        let octets = message.octets();
        let mut reply = UpstreamReply {
            octets: octets.to_vec(),
            end: octets.len(),
            additional: 0,
            rcode: message.rcode().into(),
            error: None,
            scope: None,
        };
        let mut has_opt = false;
        let bare = without_header(octets);
        for record in message.records() {
            let record = record?;
            check_names(&record, &bare)?;
            if record.section != MessageSection::Additional || has_opt {
                continue;
            }
            has_opt = record.rtype == Type::OPT;
            if has_opt {
                // Records after the OPT record are dropped with it: none of them is needed for an answer.
                reply.end = record.start;
                reply.rcode |= (record.ttl >> 24 << 4) as u16;
                reply.error = extended_error(record.raw_data());
                let subnet = ClientSubnet::find_in_options(record.raw_data());
                reply.scope = subnet.map(|subnet| subnet.scope());
            } else {
                reply.additional += 1;
            }
        }
        Ok(reply)
    }

    /// Returns the message as received.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Returns the full response code.
    pub fn rcode(&self) -> u16 {
        self.rcode
    }

    /// Returns how many leading bits of the client's address the response depends on (RFC 7871); `None` without the
    /// option.
    pub(crate) fn scope(&self) -> Option<u8> {
        self.scope
    }

    /// Returns the message up to its OPT record, and the number of additional records left.
    pub(super) fn body(&self) -> (&[u8], u16) {
        (&self.octets[..self.end], self.additional)
    }

    /// Returns the extended error from the resolver (RFC 8914).
    pub(super) fn extended_error(&self) -> Option<u16> {
        self.error
    }

    /// Checks whether another resolver may do better: SERVFAIL, REFUSED and similar codes concern the server, not the
    /// name.
    pub(super) fn is_about_the_server(&self) -> bool {
        !matches!(self.rcode, 0 | 3)
    }
}

/// Returns the question section of a message that we wrote.
fn question_of(sent: &[u8]) -> Option<&[u8]> {
    let (name, _) = Name::split_from(sent.get(HEADER..)?).ok()?;
    sent.get(HEADER..HEADER + name.as_wire().len() + 4)
}

/// Copies a message and overwrites its header with octets that cannot be part of a name.
fn without_header(octets: &[u8]) -> Vec<u8> {
    let mut bare = octets.to_vec();
    // No label starts with such an octet (RFC 1035 section 4.1.4).
    bare[..HEADER].fill(0x40);
    bare
}

/// Rejects a name that uses octets of the header or of records after it: the relayed message has another header and
/// not the resolver's OPT record, which would change the name.
fn check_names(record: &RecordView<'_>, bare: &[u8]) -> Result<(), MessageError> {
    let (at, len, mut data) = (record.data_offset(), record.raw_data().len(), Vec::new());
    NameBuf::from_message(&bare[..at - FIXED], record.start)?;
    let standalone = rdata::from_message(record.rtype, bare, at, len, &mut data);
    match standalone {
        // Data that is otherwise invalid is left to the client.
        Err(RdataError::Name(error)) if record.expand_data(&mut data).is_ok() => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Finds the first extended error among the options of an OPT record.
fn extended_error(mut options: &[u8]) -> Option<u16> {
    while let Some((head, rest)) = options.split_first_chunk::<4>() {
        let (code, len) = ([head[0], head[1]], u16::from_be_bytes([head[2], head[3]]));
        let (value, behind) = rest.split_at_checked(len.into())?;
        if code == [0, 15] {
            return Some(u16::from_be_bytes(*value.first_chunk()?));
        }
        options = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> UpstreamMessage {
        let name = NameBuf::from_text(b"wWw.example.org.", Name::ROOT).unwrap();
        UpstreamMessage::new(name.as_name(), Type::A)
    }

    /// Builds a response with one address and an OPT record with an extended error.
    fn reply_to(sent: &[u8]) -> Vec<u8> {
        let mut reply = sent[..sent.len() - 11].to_vec();
        reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 1]);
        reply.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01");
        reply.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\0\0\0\x06\0\x0f\0\x02\0\x16");
        reply
    }

    #[test]
    fn a_reply_is_read_up_to_its_opt_record() {
        let sent = query().write(0x1234, &[0; 32]);
        let octets = reply_to(&sent);
        let ReceivedMessage::Reply(reply) = UpstreamReply::read(&octets, &sent) else {
            panic!("a reply");
        };
        assert_eq!(reply.rcode(), 0);
        assert_eq!(reply.extended_error(), Some(22));
        assert_eq!(reply.body(), (&octets[..octets.len() - 17], 0));
    }

    #[test]
    fn names_that_point_into_the_header_make_no_reply() {
        let sent = query().write(0x0001, &[0; 32]);
        // The ID starts with 0, which is the root name as long as it is not overwritten.
        let reply = |rtype: u8, owner: &[u8], data: &[u8]| {
            let mut reply = sent[..sent.len() - 11].to_vec();
            reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            reply.extend_from_slice(owner);
            reply.extend_from_slice(&[0, rtype, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            reply.extend_from_slice(data);
            UpstreamReply::read(&reply, &sent)
        };
        for (rtype, owner, data) in [
            (1, b"\xc0\x00", &[192, 0, 2, 1][..]),
            (5, b"\xc0\x0c", b"\xc0\x00"),
            (15, b"\xc0\x0c", b"\0\x0a\x01a\xc0\x00"),
        ] {
            let read = reply(rtype, owner, data);
            assert!(matches!(read, ReceivedMessage::Garbage), "{read:?}");
        }
        let valid = reply(5, b"\xc0\x0c", b"\x01a\xc0\x0c");
        assert!(matches!(valid, ReceivedMessage::Reply(_)), "{valid:?}");
    }

    #[test]
    fn only_the_id_and_the_question_that_were_sent_make_a_reply() {
        let sent = query().write(0x1234, &[0x55; 32]);
        assert_ne!(sent, query().write(0x1234, &[0; 32]), "letters are turned");
        let valid = reply_to(&sent);
        let bent = |at: usize, by: u8| {
            let mut octets = valid.clone();
            octets[at] ^= by;
            octets
        };
        let question_end = sent.len() - 11;
        for (octets, what) in [
            (bent(0, 1), "id"),
            (bent(2, 0x80), "a request"),
            (bent(2, 0x20), "opcode"),
            (bent(13, 0x20), "case"),
            (bent(14, 1), "name"),
            (bent(question_end - 3, 1), "type"),
            (bent(question_end - 1, 2), "class"),
            (bent(5, 1), "number of questions"),
            (valid[..11].to_vec(), "short"),
            (valid[..question_end - 1].to_vec(), "cut in the question"),
        ] {
            let read = UpstreamReply::read(&octets, &sent);
            assert!(matches!(read, ReceivedMessage::NotOurs), "{what}: {read:?}");
        }
        let truncated = UpstreamReply::read(&bent(2, 0x02), &sent);
        assert!(matches!(truncated, ReceivedMessage::Truncated));
        for len in question_end..valid.len() {
            let read = UpstreamReply::read(&valid[..len], &sent);
            assert!(matches!(read, ReceivedMessage::Garbage), "{len}: {read:?}");
        }
    }

    #[test]
    fn flags_and_types_distinguish_queries_and_letter_case_does_not() {
        let name = NameBuf::from_text(b"WWW.EXAMPLE.ORG.", Name::ROOT).unwrap();
        assert_eq!(query(), UpstreamMessage::new(name.as_name(), Type::A));
        assert_ne!(query(), UpstreamMessage::new(name.as_name(), Type::AAAA));
        assert_ne!(query(), query().with_flags(true, false));
        assert_ne!(query(), query().with_flags(false, true));
        let sent = query().with_flags(true, true).write(1, &[0; 32]);
        assert_eq!(sent[3] & CD, CD);
        assert_eq!(sent[sent.len() - 4], 0x80);
    }
}
