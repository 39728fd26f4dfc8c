//! The messages of a signed copy, sent while it is signed: its SOA, its pieces in order, its SOA again (RFC 5936
//! section 2.2).

use super::SignedCopy;
use crate::transfer_out::encode::progress::{MessageProgress, StageOutcome, write_soa};
use crate::transfer_out::encode::{OutgoingFault, RecordHead, TransferRequest};
use nameward_wire::Type;
use nameward_wire::message::BulkWriter;
use std::sync::Arc;

/// Size of a message that is not worth delaying.
const FULL: usize = u16::MAX as usize;

/// Whether a message can be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedReady {
    /// The next piece is not signed yet.
    Nothing,
    /// Less than a full message is ready.
    Part,
    /// A full message, or all that is left, is ready.
    Message,
}

/// The messages of a signed copy.
pub struct SignedMessages {
    copy: Arc<SignedCopy>,
    progress: MessageProgress<SignedStage>,
}

/// The records of a transfer in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignedStage {
    FirstSoa,
    /// At a chunk, after some of its records.
    Chunk {
        index: usize,
        record: usize,
    },
    LastSoa,
}

impl SignedMessages {
    /// Starts a transfer.
    pub fn new(copy: Arc<SignedCopy>, request: TransferRequest) -> Self {
        SignedMessages {
            copy,
            progress: MessageProgress::new(SignedStage::FirstSoa, request),
        }
    }

    /// Returns the number of records so far.
    pub fn records(&self) -> u64 {
        self.progress.records
    }

    /// Returns the number of the next piece.
    pub fn position(&self) -> usize {
        match self.progress.stage {
            Some(SignedStage::FirstSoa) => 0,
            Some(SignedStage::Chunk { index, .. }) => index,
            Some(SignedStage::LastSoa) | None => self.copy.sent_chunks(),
        }
    }

    /// Returns how much can be sent now. A first message has more than the SOA, which alone would mean that there is
    /// nothing new (RFC 1995 section 2).
    pub fn ready(&self) -> SignedReady {
        let (mut octets, from) = (0, self.position());
        for index in from..self.copy.sent_chunks() {
            let Some(chunk) = self.copy.sent_chunk(index) else {
                return match octets {
                    0 => SignedReady::Nothing,
                    _ => SignedReady::Part,
                };
            };
            octets += chunk.octets();
            // Names are compressed, so more than a message's worth may fit.
            if octets >= 2 * FULL {
                break;
            }
        }
        SignedReady::Message
    }

    /// Writes the next message and returns its length in octets; `None` after the last one. There must be something
    /// to send.
    pub fn next_message(&mut self, out: &mut [u8]) -> Result<Option<usize>, OutgoingFault> {
        let (copy, no_room) = (&*self.copy, || OutgoingFault::NoSoa);
        self.progress.next_message(out, no_room, |stage, writer| {
            copy.write_stage(stage, writer)
        })
    }
}

impl SignedCopy {
    fn write_stage<'n>(
        &'n self,
        stage: SignedStage,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<StageOutcome<SignedStage>, OutgoingFault> {
        if let SignedStage::Chunk { index, record } = stage {
            return self.write_chunk(index, record, writer);
        }
        let (ttl, rdata) = &self.soa;
        let head = RecordHead::new(self.zone().apex_name().as_wire(), Type::SOA, *ttl);
        let next = (stage == SignedStage::FirstSoa).then(|| self.stage_at(0));
        write_soa((head, rdata), (stage, next), writer)
    }

    fn stage_at(&self, index: usize) -> SignedStage {
        if index < self.sent_chunks() {
            SignedStage::Chunk { index, record: 0 }
        } else {
            SignedStage::LastSoa
        }
    }

    fn write_chunk<'n>(
        &'n self,
        index: usize,
        first: usize,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<StageOutcome<SignedStage>, OutgoingFault> {
        let Some(chunk) = self.sent_chunk(index) else {
            return Ok(Err(SignedStage::Chunk {
                index,
                record: first,
            }));
        };
        let mut number = first;
        let mut before = None;
        while let Some(record) = chunk.record(number) {
            if record.rtype != Type::SOA {
                let head = RecordHead::new(record.owner, record.rtype, record.ttl);
                let written = before.filter(|(owner, _)| *owner == record.owner);
                let written = written.map(|(_, written)| written);
                match head.write(record.rdata, written, writer) {
                    Ok(written) => before = Some((record.owner, written)),
                    Err(_) if writer.is_empty() => return Err(head.too_large()),
                    Err(_) => {
                        return Ok(Err(SignedStage::Chunk {
                            index,
                            record: number,
                        }));
                    }
                }
            }
            number += 1;
        }
        Ok(Ok(Some(self.stage_at(index + 1))))
    }
}
