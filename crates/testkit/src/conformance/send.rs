//! Encoding of a `query` line as a message.

use crate::wire::{Opt, Question, encode_opt, encode_question};

/// A `query` line.
#[derive(Debug, Clone)]
pub struct Query {
    /// QNAME, QTYPE, QCLASS.
    pub question: Question,
    /// Header flags and opcode (RD, CD, AD, ...).
    pub flags: u16,
    /// The OPT record, if any.
    pub opt: Option<Opt>,
    /// Octets after the message.
    pub trailing: Vec<u8>,
}

impl Query {
    /// Returns the message in wire form.
    pub fn encode(&self, id: u16) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.extend_from_slice(&self.flags.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(self.opt.is_some())]);
        encode_question(&mut message, &self.question);
        if let Some(opt) = &self.opt {
            encode_opt(&mut message, opt);
        }
        message.extend_from_slice(&self.trailing);
        message
    }
}
