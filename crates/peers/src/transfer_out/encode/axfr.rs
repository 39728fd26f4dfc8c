//! A whole zone (RFC 5936): its SOA, all other records in memory order, its SOA again.

use super::{OutgoingFault, RecordHead, TransferRequest};
use nameward_wire::Type;
use nameward_wire::message::{BulkWriter, MessageFull};
use nameward_zone::node::flags;
use nameward_zone::{Node, WalkPosition, Zone, ZoneWalk};
use std::sync::Arc;

/// Flags of names with records that could not be read.
const BROKEN: u8 = flags::BROKEN | flags::BROKEN_ABOVE | flags::BROKEN_HOST;

/// The messages of a whole-zone transfer.
pub struct AxfrMessages {
    request: TransferRequest,
    walk: ZoneWalk,
    is_first: bool,
    stage: AxfrStage,
    records: u64,
}

/// The progress of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AxfrStage {
    FirstSoa,
    /// At a node, after some of its records.
    Node(WalkPosition, NodeProgress),
    LastSoa,
    Done,
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
            request,
            walk: ZoneWalk::new(zone),
            is_first: true,
            stage: AxfrStage::FirstSoa,
            records: 0,
        }
    }

    /// Returns the transferred zone.
    pub fn zone(&self) -> &Arc<Zone> {
        self.walk.zone()
    }

    /// Returns the number of records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes the next message and returns its length in octets; `None` after the last one.
    pub fn next_message(&mut self, out: &mut [u8]) -> Result<Option<usize>, OutgoingFault> {
        if self.stage == AxfrStage::Done {
            return Ok(None);
        }
        let query = self.request.query();
        let writer = self.request.begin(&query, self.is_first, out);
        let mut writer = writer.map_err(|_| self.soa_too_large())?;
        let mut stage = self.stage;
        while stage != AxfrStage::Done {
            match self.write_stage(stage, &mut writer)? {
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

    fn soa_too_large(&self) -> OutgoingFault {
        OutgoingFault::TooLarge {
            owner: Box::new(self.zone().apex_name().into()),
            rtype: Type::SOA,
        }
    }

    /// Writes the records of a stage; the inner error is the stage at which the message was full.
    fn write_stage<'n>(
        &'n self,
        stage: AxfrStage,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<Result<AxfrStage, AxfrStage>, OutgoingFault> {
        match stage {
            AxfrStage::FirstSoa | AxfrStage::LastSoa => {
                if self.write_soa(writer)?.is_err() {
                    return if writer.is_empty() {
                        Err(self.soa_too_large())
                    } else {
                        Ok(Err(stage))
                    };
                }
                Ok(Ok(match stage {
                    AxfrStage::FirstSoa => self.stage_at(self.walk.first()),
                    _ => AxfrStage::Done,
                }))
            }
            AxfrStage::Node(place, progress) => {
                let node = self.walk.node(place);
                if node.flags() & BROKEN != 0 {
                    return Err(OutgoingFault::Broken(Box::new(node.name().into())));
                }
                match write_node(node, progress, writer) {
                    Ok(()) => Ok(Ok(self.stage_at(self.walk.next(place)))),
                    Err(stop) if writer.is_empty() => Err(stop.head.too_large()),
                    Err(stop) => Ok(Err(AxfrStage::Node(place, stop.progress))),
                }
            }
            AxfrStage::Done => Ok(Ok(AxfrStage::Done)),
        }
    }

    fn stage_at(&self, place: Option<WalkPosition>) -> AxfrStage {
        match place {
            Some(place) => AxfrStage::Node(place, NodeProgress::default()),
            None => AxfrStage::LastSoa,
        }
    }

    fn write_soa<'n>(
        &'n self,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<Result<(), MessageFull>, OutgoingFault> {
        let apex = self.zone().apex();
        let soa = apex.rrset(Type::SOA).ok_or(OutgoingFault::NoSoa)?;
        let record = soa.records().next().ok_or(OutgoingFault::NoSoa)?;
        let head = RecordHead {
            owner: apex.name().as_wire(),
            rtype: Type::SOA,
            ttl: soa.ttl(),
            form: soa.form(),
        };
        Ok(head.write(record.rdata, None, writer).map(|_| ()))
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
    let (owner, mut written) = (node.name().as_wire(), None);
    for (number, rrset) in node.rrsets().enumerate().skip(progress.rrsets) {
        if rrset.rtype() == Type::SOA {
            continue;
        }
        let head = RecordHead {
            owner,
            rtype: rrset.rtype(),
            ttl: rrset.ttl(),
            form: rrset.form(),
        };
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
