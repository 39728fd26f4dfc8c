//! What the server says of itself in class CH (RFC 4892).

use crate::Engine;
use nameward_wire::message::{OPT_FIXED, Query, ReplyFlags, write_reply_header};
use nameward_wire::{Class, Name, NameBuf, Type};

impl Engine {
    /// Answers `version.bind`, `version.server`, `id.server` and `hostname.bind`; `None` refuses.
    pub(crate) fn chaos(&self, query: &Query<'_>, out: &mut [u8]) -> Option<usize> {
        if !matches!(query.qtype, Type::TXT | Type::ANY) {
            return None;
        }
        let is = |text: &[u8]| {
            NameBuf::from_text(text, Name::ROOT).is_ok_and(|name| name.as_name() == query.qname)
        };
        let text = if is(b"version.bind") || is(b"version.server") {
            &self.identity.version
        } else if is(b"id.server") || is(b"hostname.bind") {
            &self.identity.id
        } else {
            return None;
        };
        // One character string; the configuration keeps it below 256 octets.
        let text = text
            .as_bytes()
            .get(..text.len().min(255))
            .filter(|text| !text.is_empty())?;
        let mut at = query.question_end;
        out.get_mut(12..at)?
            .copy_from_slice(&query.packet()[12..at]);
        let mut put = |bytes: &[u8]| {
            out.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
            at += bytes.len();
            Some(())
        };
        put(&[0xc0, 12])?;
        put(&Type::TXT.0.to_be_bytes())?;
        put(&Class::CH.0.to_be_bytes())?;
        put(&[0; 4])?;
        put(&(text.len() as u16 + 1).to_be_bytes())?;
        put(&[text.len() as u8])?;
        put(text)?;
        if let Some(edns) = query.edns {
            let payload = self.udp_payload.to_be_bytes();
            let flags = if edns.dnssec_ok { 0x80 } else { 0 };
            let opt: [u8; OPT_FIXED] = [0, 0, 41, payload[0], payload[1], 0, 0, flags, 0, 0, 0];
            put(&opt)?;
        }
        let flags = ReplyFlags {
            aa: true,
            ..ReplyFlags::default()
        };
        write_reply_header(
            query.packet(),
            out,
            flags,
            [1, 1, 0, query.edns.is_some() as u16],
        );
        Some(at)
    }
}
