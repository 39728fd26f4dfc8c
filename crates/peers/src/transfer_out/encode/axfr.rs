//! A whole zone (RFC 5936): its SOA, all other records in memory order, its SOA again.

use super::progress::{MessageProgress, StageOutcome, write_soa};
use super::{BROKEN, OutgoingFault, RecordHead, TransferRequest};
use nameward_wire::Type;
use nameward_wire::message::{BulkWriter, MessageFull};
use nameward_zone::{Node, WalkPosition, Zone, ZoneWalk};
use std::sync::Arc;

/// The messages of a whole-zone transfer.
pub struct AxfrMessages {
    walk: ZoneWalk,
    progress: MessageProgress<AxfrStage>,
}

/// The records of a transfer in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AxfrStage {
    FirstSoa,
    /// At a node, after some of its records.
    Node(WalkPosition, NodeProgress),
    LastSoa,
}

/// The written records of a node: RRsets, and records of the next one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct NodeProgress {
    rrsets: usize,
    records: usize,
}

impl AxfrMessages {
    /// Starts the transfer of a version.
    pub fn new(zone: Arc<Zone>, request: TransferRequest) -> Self {
        AxfrMessages {
            walk: ZoneWalk::new(zone),
            progress: MessageProgress::new(AxfrStage::FirstSoa, request),
        }
    }

    /// Returns the number of records so far.
    pub fn records(&self) -> u64 {
        self.progress.records
    }

    /// Writes the next message and returns its length in octets; `None` after the last one.
    pub fn next_message(&mut self, out: &mut [u8]) -> Result<Option<usize>, OutgoingFault> {
        let walk = &self.walk;
        let no_room = || OutgoingFault::TooLarge {
            owner: Box::new(walk.zone().apex_name().into()),
            rtype: Type::SOA,
        };
        self.progress.next_message(out, no_room, |stage, writer| {
            write_stage(walk, stage, writer)
        })
    }
}

fn write_stage<'n>(
    walk: &'n ZoneWalk,
    stage: AxfrStage,
    writer: &mut BulkWriter<'n, '_>,
) -> Result<StageOutcome<AxfrStage>, OutgoingFault> {
    let AxfrStage::Node(place, progress) = stage else {
        let apex = walk.zone().apex();
        let soa = apex.rrset(Type::SOA).ok_or(OutgoingFault::NoSoa)?;
        let record = soa.records().next().ok_or(OutgoingFault::NoSoa)?;
        let soa = (RecordHead::for_rrset(apex.name(), soa), record.rdata);
        let next = (stage == AxfrStage::FirstSoa).then(|| stage_at(walk.first()));
        return write_soa(soa, (stage, next), writer);
    };
    let node = walk.node(place);
    if node.flags() & BROKEN != 0 {
        return Err(OutgoingFault::Broken(Box::new(node.name().into())));
    }
    match write_node(node, progress, writer) {
        Ok(()) => Ok(Ok(Some(stage_at(walk.next(place))))),
        Err(stop) if writer.is_empty() => Err(stop.head.too_large()),
        Err(stop) => Ok(Err(AxfrStage::Node(place, stop.progress))),
    }
}

fn stage_at(place: Option<WalkPosition>) -> AxfrStage {
    match place {
        Some(place) => AxfrStage::Node(place, NodeProgress::default()),
        None => AxfrStage::LastSoa,
    }
}

/// A node at which the message was full.
struct StoppedAt<'n> {
    progress: NodeProgress,
    head: RecordHead<'n>,
}

/// Writes the remaining records of a node, except the SOA, which is sent first and last.
#[inline]
fn write_node<'n>(
    node: Node<'n>,
    progress: NodeProgress,
    writer: &mut BulkWriter<'n, '_>,
) -> Result<(), StoppedAt<'n>> {
    let (owner, mut written) = (node.name(), None);
    for (number, rrset) in node.rrsets().enumerate().skip(progress.rrsets) {
        if rrset.rtype() == Type::SOA {
            continue;
        }
        let head = RecordHead::for_rrset(owner, rrset);
        let done = if number == progress.rrsets {
            progress.records
        } else {
            0
        };
        for (at, record) in rrset.records().enumerate().skip(done) {
            let head = match head.rtype {
                Type::RRSIG => head.with_ttl_of_covered(node, record.rdata),
                _ => head,
            };
            match head.write(record.rdata, written, writer) {
                Ok(owner) => written = Some(owner),
                Err(MessageFull) => {
                    let progress = NodeProgress {
                        rrsets: number,
                        records: at,
                    };
                    return Err(StoppedAt { progress, head });
                }
            }
        }
    }
    Ok(())
}
