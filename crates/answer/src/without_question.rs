//! Replies to packets that are not proper requests, and to requests without a question.

use crate::{AnswerKind, Engine, Reply};
use nameward_wire::Rcode;
use nameward_wire::message::{
    HEADER, Malformed, OptRecord, ReplyCookie, ReplyFlags, write_reply_header,
};

impl Engine {
    /// Writes the reply to a request for a cookie without a question: a header and an OPT record.
    #[cold]
    pub fn respond_without_question(
        &self,
        packet: &[u8],
        cookie: ReplyCookie,
        rcode: Rcode,
        out: &mut [u8],
    ) -> Option<Reply> {
        let opt = OptRecord {
            payload: self.udp_payload,
            cookie: Some(cookie.octets),
            ..OptRecord::default()
        };
        let len = HEADER + opt.write(rcode, out.get_mut(HEADER..)?)?;
        let flags = ReplyFlags {
            rcode: rcode as u8 & 0x0f,
            ..ReplyFlags::default()
        };
        write_reply_header(packet, out, flags, [0, 0, 0, 1]);
        Some(Reply::new(len, rcode, AnswerKind::Other))
    }

    /// Writes the reply to a packet that is not a proper request; `None` means no reply is sent.
    pub fn respond_to_malformed(
        &self,
        packet: &[u8],
        malformed: Malformed,
        out: &mut [u8],
    ) -> Option<Reply> {
        let (rcode, end) = match malformed {
            Malformed::TooShort | Malformed::Response => return None,
            Malformed::FormErr => (Rcode::FormErr, HEADER),
            Malformed::FormErrAfterQuestion(end) => (Rcode::FormErr, end),
            Malformed::NotImplemented => (Rcode::NotImp, HEADER),
        };
        out.get_mut(HEADER..end)?
            .copy_from_slice(packet.get(HEADER..end)?);
        let flags = ReplyFlags {
            rcode: rcode as u8,
            ..ReplyFlags::default()
        };
        write_reply_header(packet, out, flags, [(end > HEADER) as u16, 0, 0, 0]);
        Some(Reply::new(end, rcode, AnswerKind::Other))
    }
}
