//! The messages of a signed copy, sent while it is signed: its SOA, its pieces in order, its SOA again (RFC 5936
//! section 2.2).

use super::SignedCopy;
use crate::transfer_out::encode::{OutgoingFault, RecordHead, TransferRequest};
use nameward_wire::Type;
use nameward_wire::message::BulkWriter;
use nameward_zone::CompressibleNames;
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
    request: TransferRequest,
    copy: Arc<SignedCopy>,
    is_first: bool,
    stage: SignedStage,
    records: u64,
}

/// The progress of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignedStage {
    FirstSoa,
    /// At a chunk, after some of its records.
    Chunk {
        index: usize,
        record: usize,
    },
    LastSoa,
    Done,
}

impl SignedMessages {
    /// Starts a transfer.
    pub fn new(copy: Arc<SignedCopy>, request: TransferRequest) -> Self {
        SignedMessages {
            request,
            copy,
            is_first: true,
            stage: SignedStage::FirstSoa,
            records: 0,
        }
    }

    /// Returns the copy.
    pub fn copy(&self) -> &Arc<SignedCopy> {
        &self.copy
    }

    /// Returns the number of records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of the next piece.
    pub fn position(&self) -> usize {
        match self.stage {
            SignedStage::FirstSoa => 0,
            SignedStage::Chunk { index, .. } => index,
            SignedStage::LastSoa | SignedStage::Done => self.copy.sent_chunks(),
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
        if self.stage == SignedStage::Done {
            return Ok(None);
        }
        let query = self.request.query();
        let writer = self.request.begin(&query, self.is_first, out);
        let mut writer = writer.map_err(|_| OutgoingFault::NoSoa)?;
        let mut stage = self.stage;
        loop {
            match self.write_stage(stage, &mut writer)? {
                Ok(SignedStage::Done) => {
                    stage = SignedStage::Done;
                    break;
                }
                Ok(next) => stage = next,
                Err(stopped) => {
                    stage = stopped;
                    break;
                }
            }
        }
        let records = u64::from(writer.records());
        let len = self.request.finish(writer, self.is_first);
        (self.stage, self.is_first) = (stage, false);
        self.records += records;
        Ok(Some(len))
    }

    /// Writes the records of a stage; the inner error is the stage at which the message was full or nothing more was
    /// ready.
    fn write_stage<'n>(
        &'n self,
        stage: SignedStage,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<Result<SignedStage, SignedStage>, OutgoingFault> {
        match stage {
            SignedStage::FirstSoa | SignedStage::LastSoa => {
                let (ttl, rdata) = &self.copy.soa;
                let head = RecordHead {
                    owner: self.copy.zone().apex_name().as_wire(),
                    rtype: Type::SOA,
                    ttl: *ttl,
                    form: CompressibleNames::for_type(Type::SOA),
                };
                if head.write(rdata, None, writer).is_err() {
                    return if writer.is_empty() {
                        Err(head.too_large())
                    } else {
                        Ok(Err(stage))
                    };
                }
                Ok(Ok(match stage {
                    SignedStage::FirstSoa => self.stage_at(0),
                    _ => SignedStage::Done,
                }))
            }
            SignedStage::Chunk { index, record } => self.write_chunk(index, record, writer),
            SignedStage::Done => Ok(Ok(SignedStage::Done)),
        }
    }

    fn stage_at(&self, index: usize) -> SignedStage {
        if index < self.copy.sent_chunks() {
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
    ) -> Result<Result<SignedStage, SignedStage>, OutgoingFault> {
        let Some(chunk) = self.copy.sent_chunk(index) else {
            return Ok(Err(SignedStage::Chunk {
                index,
                record: first,
            }));
        };
        let mut number = first;
        let mut before = None;
        while let Some(record) = chunk.record(number) {
            if record.rtype != Type::SOA {
                let head = RecordHead {
                    owner: record.owner,
                    rtype: record.rtype,
                    ttl: record.ttl,
                    form: CompressibleNames::for_type(record.rtype),
                };
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
        Ok(Ok(self.stage_at(index + 1)))
    }
}
