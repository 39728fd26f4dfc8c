//! Answers about the server itself, in class CH (RFC 4892).

use crate::{Engine, Medium};
use arrayvec::ArrayVec;
use nameward_wire::message::{HEADER, MessageSection, MessageWriter, OwnerForm, Query, ReplyFlags};
use nameward_wire::{Class, Name, NameBuf, Rcode, Type};

impl Engine {
    /// Answers `version.bind`, `version.server`, `id.server` and `hostname.bind`. Returns the length and whether the
    /// answer was truncated; `None` means REFUSED.
    pub(crate) fn chaos(
        &self,
        query: &Query<'_>,
        medium: Medium,
        out: &mut [u8],
    ) -> Option<(usize, bool)> {
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
        // One character string; the configuration limits it to 255 octets.
        let text = text
            .as_bytes()
            .get(..text.len().min(255))
            .filter(|text| !text.is_empty())?;
        let mut data = ArrayVec::<u8, 256>::new();
        data.push(text.len() as u8);
        data.try_extend_from_slice(text).ok()?;
        let mut writer = MessageWriter::reply(query, out, self.limit(query, medium));
        let opt = self.opt(query, None);
        writer.reserve(opt.map_or(0, |opt| opt.octets()));
        let owner = OwnerForm::pointer(HEADER, false);
        let record = writer.record(
            MessageSection::Answer,
            owner,
            (Type::TXT, Class::CH, 0),
            &data,
        );
        writer.release_reserved();
        if let Some(opt) = &opt {
            // Room was reserved, so it fits.
            let _ = writer.opt(opt, Rcode::NoError);
        }
        let flags = ReplyFlags {
            aa: true,
            tc: record.is_err(),
            ..ReplyFlags::default()
        };
        Some((writer.finish(query.packet(), flags), record.is_err()))
    }
}
