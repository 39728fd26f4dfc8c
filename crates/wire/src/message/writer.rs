//! The message writer: compresses names, counts sections, and keeps room for the OPT and TSIG records that come last.
//!
//! Names are compressed against the question and the last few names written, by comparing from the right: the common
//! tail of two uncompressed names is found without splitting them into labels, and a pointer can go to any label of a
//! name written in full. The number of names compared is bounded, so the cost is linear in the size of the message
//! (known attack: quadratic compression).
//!
//! Nothing is written beyond the limit. Data that does not fit fails with [`MessageFull`], and a caller that writes
//! more than one piece discards the pieces already written ([`MessageWriter::mark`], [`MessageWriter::take_back`]).

use arrayvec::ArrayVec;

use super::{HEADER, OptRecord, Query, ReplyFlags, write_reply_header};
use crate::name::common_tail;
use crate::rtype::{Class, Rcode, Type};

/// Maximum number of names written in full that later names are compressed against.
const MAX_ANCHORS: usize = 16;
/// Largest offset a compression pointer can hold: 14 bits (RFC 1035 section 4.1.4).
pub const MAX_POINTER: usize = 0x3fff;

/// The message has no room for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFull;

/// A message section that contains records (RFC 1035 section 4.1; RFC 2136 section 2.2 for UPDATE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageSection {
    /// The answer section; in an UPDATE, the prerequisites.
    Answer = 1,
    /// The authority section; in an UPDATE, the updates.
    Authority = 2,
    /// The additional section.
    Additional = 3,
}

/// A name already in the message: `name[..literal]` at `at`, the rest through a pointer.
#[derive(Clone, Copy)]
struct Anchor<'n> {
    name: &'n [u8],
    at: u16,
    literal: u8,
}

/// How an owner name is written.
#[derive(Clone, Copy)]
pub enum OwnerForm<'n> {
    /// A pointer, with its two high bits set.
    Pointer(u16),
    /// The root.
    Root,
    /// A name, written in full or compressed.
    Name(&'n [u8]),
}

impl OwnerForm<'_> {
    /// Creates a pointer to an offset, or the root itself, which is shorter than a pointer.
    #[inline]
    pub fn pointer(at: usize, is_root: bool) -> Self {
        if is_root {
            OwnerForm::Root
        } else {
            OwnerForm::Pointer(0xc000 | at as u16)
        }
    }
}

/// The position at which a name was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenName {
    /// Offset of its first octet.
    pub at: usize,
    /// Octets before its pointer.
    pub literal: usize,
    /// The target of its pointer.
    pub pointer: Option<usize>,
}

/// A position to which a message can be rolled back.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    at: usize,
    anchors: usize,
}

/// A message being written.
pub struct MessageWriter<'n, 'b> {
    out: &'b mut [u8],
    at: usize,
    limit: usize,
    reserved: usize,
    anchors: ArrayVec<Anchor<'n>, MAX_ANCHORS>,
    counts: [u16; 4],
}

impl<'n, 'b> MessageWriter<'n, 'b> {
    /// Starts a reply of at most `limit` octets, copying the question of `query`. `out` must have room for the
    /// question.
    #[inline]
    pub fn reply(query: &Query<'n>, out: &'b mut [u8], limit: usize) -> Self {
        let limit = limit.min(out.len());
        let end = query.question_end;
        copy_short(&mut out[HEADER..end], &query.packet()[HEADER..end]);
        let name = query.qname.as_wire();
        let mut anchors = ArrayVec::new();
        anchors.push(Anchor {
            name,
            at: HEADER as u16,
            literal: (name.len() - 1) as u8,
        });
        MessageWriter {
            out,
            at: end,
            limit,
            reserved: 0,
            anchors,
            counts: [1, 0, 0, 0],
        }
    }

    /// Starts a message of at most `limit` octets without a question: a further message of a transfer. `out` must have
    /// room for a header.
    pub fn without_question(out: &'b mut [u8], limit: usize) -> Self {
        let limit = limit.min(out.len());
        MessageWriter {
            out,
            at: HEADER,
            limit,
            reserved: 0,
            anchors: ArrayVec::new(),
            counts: [0; 4],
        }
    }

    /// Keeps room for the records that come last: OPT, TSIG.
    #[inline]
    pub fn reserve(&mut self, octets: usize) {
        let octets = octets.min(self.limit);
        self.limit -= octets;
        self.reserved += octets;
    }

    /// Releases the reserved room, for the records it was reserved for.
    #[inline]
    pub fn release_reserved(&mut self) {
        self.limit += std::mem::take(&mut self.reserved);
    }

    /// Returns the octets written so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Checks whether nothing has been written after the header.
    pub fn is_empty(&self) -> bool {
        self.at <= HEADER
    }

    /// Returns the number of records in a section so far.
    pub fn count(&self, section: MessageSection) -> u16 {
        self.counts[section as usize]
    }

    /// Counts records that were written to a section.
    #[inline]
    pub fn add_count(&mut self, section: MessageSection, records: u16) {
        self.counts[section as usize] += records;
    }

    /// Returns the current position.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            anchors: self.anchors.len(),
        }
    }

    /// Discards everything written since `mark`; the section counts are not changed.
    #[inline]
    pub fn take_back(&mut self, mark: Mark) {
        self.at = mark.at;
        self.anchors.truncate(mark.anchors);
    }

    /// Returns the name in the question, if this is a reply.
    #[inline]
    pub fn question_name(&self) -> &'n [u8] {
        self.anchors.first().map_or(&[0], |anchor| anchor.name)
    }

    /// Writes an owner. If it was written in full, returns a pointer to it, so that an RRset writes its owner only
    /// once.
    #[inline]
    pub fn owner(&mut self, owner: OwnerForm<'n>) -> Result<OwnerForm<'n>, MessageFull> {
        match owner {
            OwnerForm::Pointer(pointer) => {
                self.bytes(&pointer.to_be_bytes())?;
                Ok(owner)
            }
            OwnerForm::Root => {
                self.bytes(&[0])?;
                Ok(owner)
            }
            OwnerForm::Name(name) => {
                let at = self.name(name)?;
                Ok(if name.len() > 1 && at <= MAX_POINTER {
                    OwnerForm::pointer(at, false)
                } else {
                    owner
                })
            }
        }
    }

    /// Writes type, class and TTL; returns the offset of the data length ([`MessageWriter::set_length`]).
    #[inline]
    pub fn fixed(&mut self, rtype: Type, class: Class, ttl: u32) -> Result<usize, MessageFull> {
        let at = self.at;
        if at + 10 > self.limit {
            return Err(MessageFull);
        }
        let fixed = &mut self.out[at..at + 10];
        fixed[..2].copy_from_slice(&rtype.0.to_be_bytes());
        fixed[2..4].copy_from_slice(&class.0.to_be_bytes());
        fixed[4..8].copy_from_slice(&ttl.to_be_bytes());
        self.at = at + 10;
        Ok(at + 8)
    }

    /// Sets the length of data that started after `length_at` and ends here.
    #[inline]
    pub fn set_length(&mut self, length_at: usize) {
        let len = (self.at - length_at - 2) as u16;
        self.out[length_at..length_at + 2].copy_from_slice(&len.to_be_bytes());
    }

    /// Writes octets verbatim.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), MessageFull> {
        let end = self.at + bytes.len();
        if end > self.limit {
            return Err(MessageFull);
        }
        copy_short(&mut self.out[self.at..end], bytes);
        self.at = end;
        Ok(())
    }

    /// Writes a record whose data has no compressible names; writes all of it or nothing.
    pub fn record(
        &mut self,
        section: MessageSection,
        owner: OwnerForm<'n>,
        (rtype, class, ttl): (Type, Class, u32),
        rdata: &[u8],
    ) -> Result<(), MessageFull> {
        let mark = self.mark();
        let mut write = || {
            self.owner(owner)?;
            let length_at = self.fixed(rtype, class, ttl)?;
            self.bytes(rdata)?;
            self.set_length(length_at);
            Ok(())
        };
        let written = write();
        match written {
            Ok(()) => self.add_count(section, 1),
            Err(MessageFull) => self.take_back(mark),
        }
        written
    }

    /// Writes a name, compressed if possible; returns an offset that can be used in a pointer to it.
    #[inline]
    pub fn name(&mut self, name: &'n [u8]) -> Result<usize, MessageFull> {
        let written = self.compressed(name)?;
        if written.literal > 0 && written.at + written.literal <= MAX_POINTER {
            let _ = self.anchors.try_push(Anchor {
                name,
                at: written.at as u16,
                literal: written.literal as u8,
            });
        }
        Ok(match written.literal {
            0 => written.pointer.unwrap_or(written.at),
            _ => written.at,
        })
    }

    /// Writes a name that does not live as long as the message: nothing is compressed against it later.
    #[cold]
    pub fn passing_name(&mut self, name: &[u8]) -> Result<WrittenName, MessageFull> {
        self.compressed(name)
    }

    #[inline(always)]
    fn compressed(&mut self, name: &[u8]) -> Result<WrittenName, MessageFull> {
        let (mut best, mut pointer) = (name.len() - 1, None);
        for anchor in &self.anchors {
            let common = common_tail(name, anchor.name);
            if common <= name.len() - best {
                continue;
            }
            // The first label boundary of `name` inside the common tail.
            let mut start = 0;
            while name.len() - start > common {
                start += 1 + name[start] as usize;
            }
            let there = (anchor.name.len() + start).wrapping_sub(name.len());
            if start < best && there < anchor.literal as usize {
                best = start;
                pointer = Some(anchor.at as usize + there);
                if start == 0 {
                    break;
                }
            }
        }
        let at = self.at;
        self.bytes(&name[..best])?;
        match pointer {
            Some(target) => self.bytes(&(0xc000 | target as u16).to_be_bytes())?,
            None => self.bytes(&[0])?,
        }
        Ok(WrittenName {
            at,
            literal: best,
            pointer,
        })
    }

    /// Writes the OPT record, for which room was kept.
    #[inline]
    pub fn opt(&mut self, opt: &OptRecord<'_>, rcode: Rcode) -> Result<(), MessageFull> {
        self.opt_of_len(opt, opt.octets(), rcode)
    }

    /// Like [`MessageWriter::opt`], with the length of the record, which takes some time to compute.
    #[inline]
    pub fn opt_of_len(
        &mut self,
        opt: &OptRecord<'_>,
        octets: usize,
        rcode: Rcode,
    ) -> Result<(), MessageFull> {
        let end = self.at + octets;
        if end > self.limit {
            return Err(MessageFull);
        }
        opt.encode(rcode, &mut self.out[self.at..end]);
        self.at = end;
        self.counts[MessageSection::Additional as usize] += 1;
        Ok(())
    }

    /// Writes the header of a reply to `request`; returns the length of the message.
    #[inline]
    pub fn finish(&mut self, request: &[u8], flags: ReplyFlags) -> usize {
        write_reply_header(request, self.out, flags, self.counts);
        self.at
    }
}

/// Copies a slice that is usually shorter than 32 octets: two overlapping words instead of a library call.
#[inline(always)]
fn copy_short(out: &mut [u8], bytes: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize>(out: &mut [u8], bytes: &[u8]) -> Option<()> {
        let (head, tail) = (*bytes.first_chunk::<N>()?, *bytes.last_chunk::<N>()?);
        *out.first_chunk_mut::<N>()? = head;
        *out.last_chunk_mut::<N>()? = tail;
        Some(())
    }
    debug_assert_eq!(out.len(), bytes.len());
    match bytes.len() {
        0 => {}
        1..4 => out.copy_from_slice(bytes),
        4..8 => ends::<4>(out, bytes).unwrap_or(()),
        8..16 => ends::<8>(out, bytes).unwrap_or(()),
        16..32 => ends::<16>(out, bytes).unwrap_or(()),
        _ => out.copy_from_slice(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::{Name, NameBuf};

    const QUESTION: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x03www\x07example\0\x00\x01\x00\x01";

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
    }

    #[test]
    fn reserved_room_is_for_the_last_records_alone() {
        let query = Query::parse(QUESTION).unwrap();
        let opt = OptRecord {
            payload: 1232,
            nsid: Some(b"here"),
            error: Some(18),
            ..OptRecord::default()
        };
        let mut out = [0; 512];
        let limit = QUESTION.len() + 16 + opt.octets();
        let mut writer = MessageWriter::reply(&query, &mut out, limit);
        writer.reserve(opt.octets());
        let data = (Type::A, Class::IN, 60);
        let owner = OwnerForm::pointer(HEADER, false);
        assert_eq!(
            writer.record(MessageSection::Answer, owner, data, &[1; 4]),
            Ok(())
        );
        assert_eq!(
            writer.record(MessageSection::Answer, owner, data, &[2; 4]),
            Err(MessageFull)
        );
        writer.release_reserved();
        assert_eq!(writer.opt(&opt, Rcode::BadVers), Ok(()));
        let len = writer.finish(query.packet(), ReplyFlags::default());
        assert_eq!(len, limit);
        let message = Message::parse(&out[..len]).unwrap();
        let records: Vec<_> = message.records().map(Result::unwrap).collect();
        assert_eq!((records[0].rtype, records[1].rtype), (Type::A, Type::OPT));
        // RFC 6891 section 6.1.3: the upper eight bits of BADVERS (16) are in the OPT record.
        assert_eq!(records[1].ttl >> 24, 1);
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn removed_names_are_not_compression_targets() {
        let query = Query::parse(QUESTION).unwrap();
        let (first, second) = (name("mail.other."), name("mx.other."));
        let mut out = [0; 512];
        let mut writer = MessageWriter::reply(&query, &mut out, 512);
        let mark = writer.mark();
        writer.name(first.as_name().as_wire()).unwrap();
        writer.take_back(mark);
        let at = writer.name(second.as_name().as_wire()).unwrap();
        let len = writer.finish(query.packet(), ReplyFlags::default());
        assert_eq!(&out[at..len], second.as_name().as_wire());
    }

    #[test]
    fn names_written_are_the_names_read() {
        let query = Query::parse(QUESTION).unwrap();
        let texts = [
            ".",
            "example.",
            "EXAMPLE.",
            "www.example.",
            "a.www.example.",
            "www.example.test.",
            "test.",
            "b.test.",
            "xample.",
            "le.",
        ];
        let names = texts.map(name);
        let mut out = [0; 512];
        let mut writer = MessageWriter::reply(&query, &mut out, 512);
        let mut places = Vec::new();
        for name in &names {
            places.push(writer.len());
            writer.name(name.as_name().as_wire()).unwrap();
        }
        let len = writer.finish(query.packet(), ReplyFlags::default());
        for (name, place) in names.iter().zip(places) {
            let (read, _) = NameBuf::from_message(&out[..len], place).unwrap();
            assert_eq!(read.as_name(), name.as_name());
        }
    }
}
