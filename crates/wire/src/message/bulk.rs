//! The message writer for zone transfers: names are compressed with a small hash table instead of by comparison.
//!
//! A transfer has millions of names, so writing a name costs one probe per label until a suffix is found that is
//! already in the message. The table has one slot per hash and overwrites older entries, so the cost is linear in the
//! number of names and the memory is fixed (known attack: quadratic compression). Comparison is case-sensitive, so that
//! names arrive with the case they have in the zone.

use super::{HEADER, MAX_POINTER, MessageFull, OptRecord, Query, ReplyFlags, write_reply_header};
use crate::name::same_octets;
use crate::rtype::{Class, Rcode, Type};

/// Slots in the name table.
const SLOTS: usize = 512;

/// A suffix already written to the message.
#[derive(Clone, Copy)]
struct WrittenSuffix<'n> {
    octets: &'n [u8],
    at: u16,
}

/// An owner that was written, for the following records of its RRset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenOwner {
    pointer: Option<u16>,
}

/// A message being filled with answer records.
pub struct BulkWriter<'n, 'b> {
    out: &'b mut [u8],
    at: usize,
    /// Octets kept free for the OPT record.
    reserved: usize,
    questions: u16,
    answers: u16,
    additional: u16,
    suffixes: [WrittenSuffix<'n>; SLOTS],
}

impl<'n, 'b> BulkWriter<'n, 'b> {
    /// Starts a message of at most `out.len()` octets, copying the question of `query`.
    pub fn reply(query: &Query<'n>, out: &'b mut [u8]) -> Result<Self, MessageFull> {
        let end = query.question_end;
        let question = query.packet().get(HEADER..end).ok_or(MessageFull)?;
        let room = out.get_mut(HEADER..end).ok_or(MessageFull)?;
        room.copy_from_slice(question);
        let mut writer = Self::without_question(out)?;
        (writer.at, writer.questions) = (end, 1);
        let name = query.qname.as_wire();
        writer.note_suffixes(name, name.len() - 1, HEADER);
        Ok(writer)
    }

    /// Starts a further message of a transfer, without a question (RFC 5936 section 2.2.1).
    pub fn without_question(out: &'b mut [u8]) -> Result<Self, MessageFull> {
        if out.len() < HEADER {
            return Err(MessageFull);
        }
        Ok(BulkWriter {
            out,
            at: HEADER,
            reserved: 0,
            questions: 0,
            answers: 0,
            additional: 0,
            suffixes: [WrittenSuffix { octets: &[], at: 0 }; SLOTS],
        })
    }

    /// Keeps room for the OPT record, which comes last.
    pub fn reserve(&mut self, octets: usize) {
        self.reserved = octets;
    }

    /// Returns the number of records so far.
    pub fn records(&self) -> u16 {
        self.answers
    }

    /// Returns the number of octets so far.
    pub fn len(&self) -> usize {
        self.at
    }

    /// Checks whether there are no records yet.
    pub fn is_empty(&self) -> bool {
        self.answers == 0
    }

    #[inline]
    fn room(&mut self, octets: usize) -> Result<&mut [u8], MessageFull> {
        let end = self.at + octets;
        if end + self.reserved > self.out.len() {
            return Err(MessageFull);
        }
        let room = &mut self.out[self.at..end];
        self.at = end;
        Ok(room)
    }

    /// Writes octets verbatim.
    #[inline]
    pub fn bytes(&mut self, octets: &[u8]) -> Result<(), MessageFull> {
        self.room(octets.len())?.copy_from_slice(octets);
        Ok(())
    }

    /// Writes the owner of a record. The result can be passed in for the following records with the same owner.
    #[inline]
    pub fn owner(
        &mut self,
        name: &'n [u8],
        written: Option<WrittenOwner>,
    ) -> Result<WrittenOwner, MessageFull> {
        if let Some(WrittenOwner {
            pointer: Some(pointer),
        }) = written
        {
            self.room(2)?.copy_from_slice(&pointer.to_be_bytes());
            return Ok(WrittenOwner {
                pointer: Some(pointer),
            });
        }
        let at = self.name(name)?;
        let can_point = name.len() > 1 && at <= MAX_POINTER;
        Ok(WrittenOwner {
            pointer: can_point.then_some(0xc000 | at as u16),
        })
    }

    /// Writes type, class IN and TTL; returns the offset of the data length.
    #[inline]
    pub fn fixed(&mut self, rtype: Type, ttl: u32) -> Result<usize, MessageFull> {
        let at = self.at;
        let room = self.room(10)?;
        room[..2].copy_from_slice(&rtype.0.to_be_bytes());
        room[2..4].copy_from_slice(&Class::IN.0.to_be_bytes());
        room[4..8].copy_from_slice(&ttl.to_be_bytes());
        Ok(at + 8)
    }

    /// Finishes a record whose data started after `length_at`, and counts it.
    #[inline]
    pub fn end_record(&mut self, length_at: usize) -> Result<(), MessageFull> {
        self.answers = self.answers.checked_add(1).ok_or(MessageFull)?;
        let len = (self.at - length_at - 2) as u16;
        self.out[length_at..length_at + 2].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }

    /// Discards everything after the first `len` octets. Nothing may be written afterwards: names might point into the
    /// discarded data.
    pub fn take_back(&mut self, len: usize) {
        self.at = self.at.min(len.max(HEADER));
    }

    /// Writes a name, compressed against the message so far; returns an offset that can be used in a pointer to it.
    #[inline]
    pub fn name(&mut self, name: &'n [u8]) -> Result<usize, MessageFull> {
        let (at, mut start) = (self.at, 0);
        while name.len() - start > 1 {
            let suffix = &name[start..];
            let slot = self.suffixes[slot_of(suffix)];
            if same_octets(slot.octets, suffix) {
                let pointer = (0xc000 | slot.at).to_be_bytes();
                self.bytes(&name[..start])?;
                self.bytes(&pointer)?;
                self.note_suffixes(name, start, at);
                return Ok(if start == 0 { slot.at.into() } else { at });
            }
            start += 1 + usize::from(name[start]);
        }
        self.bytes(name)?;
        self.note_suffixes(name, start, at);
        Ok(at)
    }

    /// Registers the suffixes that start in the first `literal` octets of a name written at `at`.
    #[inline]
    fn note_suffixes(&mut self, name: &'n [u8], literal: usize, at: usize) {
        let mut start = 0;
        while start < literal && at + start <= MAX_POINTER {
            let octets = &name[start..];
            self.suffixes[slot_of(octets)] = WrittenSuffix {
                octets,
                at: (at + start) as u16,
            };
            start += 1 + usize::from(name[start]);
        }
    }

    /// Writes the OPT record, for which room was kept.
    pub fn opt(&mut self, opt: &OptRecord<'_>, rcode: Rcode) -> Result<(), MessageFull> {
        self.reserved = 0;
        let room = self.room(opt.octets())?;
        opt.encode(rcode, room);
        self.additional += 1;
        Ok(())
    }

    /// Writes the header of a reply to `request`; returns the length of the message.
    pub fn finish(self, request: &[u8], flags: ReplyFlags) -> usize {
        let counts = [self.questions, self.answers, 0, self.additional];
        write_reply_header(request, self.out, flags, counts);
        self.at
    }
}

/// Returns the slot of a suffix, based on its length and its first octets, which vary most.
#[inline]
fn slot_of(suffix: &[u8]) -> usize {
    let head = match suffix.first_chunk::<8>() {
        Some(head) => u64::from_le_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..suffix.len()].copy_from_slice(suffix);
            u64::from_le_bytes(head)
        }
    };
    let mixed = (head ^ (suffix.len() as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameBuf;
    use crate::message::Message;
    use proptest::prelude::*;

    const QUESTION: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x07example\x03org\0\x00\xfc\x00\x01";

    fn write<'n>(
        writer: &mut BulkWriter<'n, '_>,
        owner: &'n NameBuf,
        target: &'n NameBuf,
    ) -> Result<(), MessageFull> {
        let before = writer.len();
        let result = (|| {
            let written = writer.owner(owner.as_name().as_wire(), None)?;
            let length_at = writer.fixed(Type::NS, 60)?;
            writer.name(target.as_name().as_wire())?;
            writer.end_record(length_at)?;
            writer.owner(owner.as_name().as_wire(), Some(written))?;
            let length_at = writer.fixed(Type::A, 60)?;
            writer.bytes(&[127, 0, 0, 1])?;
            writer.end_record(length_at)
        })();
        if result.is_err() {
            writer.take_back(before);
        }
        result
    }

    proptest! {
        #[test]
        fn names_round_trip_and_are_compressed(
            labels in proptest::collection::vec(("[a-cA-C]{1,3}", 0usize..4), 1..400),
        ) {
            let tails = ["example.org.", "Example.org.", "deep.sub.example.org.", "."];
            let text = |(label, tail): &(String, usize)| match tails[*tail] {
                "." => format!("{label}."),
                tail => format!("{label}.{tail}"),
            };
            let names: Vec<NameBuf> = labels.iter().map(|name| text(name).parse().unwrap()).collect();
            let query = Query::parse(QUESTION).unwrap();
            let mut out = vec![0; 65_535];
            let mut writer = BulkWriter::reply(&query, &mut out).unwrap();
            for pair in names.windows(2) {
                write(&mut writer, &pair[0], &pair[1]).unwrap();
            }
            let len = writer.finish(query.packet(), ReplyFlags::default());
            let message = Message::parse(&out[..len]).unwrap();
            let records: Vec<_> = message.records().map(Result::unwrap).collect();
            prop_assert_eq!(records.len(), 2 * (names.len() - 1));
            for (pair, read) in names.windows(2).zip(records.chunks(2)) {
                let mut data = Vec::new();
                read[0].expand_data(&mut data).unwrap();
                prop_assert_eq!(&data[..], pair[1].as_name().as_wire());
                for record in read {
                    prop_assert_eq!(record.owner.as_name().as_wire(), pair[0].as_name().as_wire());
                }
            }
            prop_assert!(len <= QUESTION.len() + names.len() * (2 * 40 + 10));
        }
    }

    #[test]
    fn names_beyond_the_range_of_pointers_are_not_compression_targets() {
        let query = Query::parse(QUESTION).unwrap();
        let names: Vec<NameBuf> = (0..4000)
            .map(|n| format!("name-{n}.example.org.").parse().unwrap())
            .collect();
        let mut out = vec![0; 65_535];
        let mut writer = BulkWriter::reply(&query, &mut out).unwrap();
        let written = names
            .iter()
            .take_while(|name| write(&mut writer, name, name).is_ok());
        let written = written.count();
        assert!(writer.len() > 65_400 && writer.records() == 2 * written as u16);
        let len = writer.finish(query.packet(), ReplyFlags::default());
        let message = Message::parse(&out[..len]).unwrap();
        for (i, record) in message.records().enumerate() {
            let record = record.unwrap();
            assert_eq!(record.owner, names[i / 2]);
        }
        // Four octets each for TTL and address, and a pointer for each of two names, are the minimum.
        assert!(written > 1000, "{written}");
    }

    #[test]
    fn reserved_room_is_for_the_opt_record_alone() {
        let query = Query::parse(QUESTION).unwrap();
        let name: NameBuf = "example.org.".parse().unwrap();
        let opt = OptRecord {
            payload: 1232,
            expire: Some(7200),
            ..OptRecord::default()
        };
        let mut out = vec![0; QUESTION.len() + 14 + 16 + opt.octets() - 1];
        let mut writer = BulkWriter::reply(&query, &mut out).unwrap();
        writer.reserve(opt.octets());
        assert_eq!(write(&mut writer, &name, &name), Err(MessageFull));
        assert_eq!(writer.len(), QUESTION.len());
        writer.opt(&opt, Rcode::NoError).unwrap();
        let len = writer.finish(query.packet(), ReplyFlags::default());
        assert!(out[..len].ends_with(&[0, 9, 0, 4, 0, 0, 28, 32]));
        assert!(BulkWriter::without_question(&mut [0; 11]).is_err());
    }
}
