//! Differences (RFC 1995): the newest SOA; for each difference the older SOA, removed records, the newer SOA, added
//! records; the newest SOA again.

use super::progress::{MessageProgress, StageOutcome};
use super::{OutgoingFault, RecordHead, TransferRequest};
use nameward_wire::Type;
use nameward_wire::message::BulkWriter;
use nameward_zone::change::Difference;
use nameward_zone::{RecordList, WireRecord, Zone};
use std::sync::Arc;

/// The messages of an incremental transfer.
pub struct IxfrMessages {
    chain: IxfrChain,
    progress: MessageProgress<IxfrPosition>,
}

/// The records of an incremental transfer.
struct IxfrChain {
    zone: Arc<Zone>,
    /// The SOA of the newest version.
    soa: RecordList,
    differences: Vec<Difference>,
}

/// The progress of a transfer: a step, and an octet offset in its list.
///
/// Step 0 is the newest SOA, four steps are one difference, and the step after the last difference is the newest SOA
/// again.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct IxfrPosition {
    step: usize,
    octets: usize,
}

/// The records of one step.
enum IxfrStep<'n> {
    Soa(&'n RecordList),
    /// All except the SOA.
    Others(&'n RecordList),
}

impl IxfrMessages {
    /// Starts a transfer that leads to `zone` over these differences, the oldest first. Without any, the transfer is
    /// the SOA alone: the client has the newest version.
    pub fn new(zone: &Arc<Zone>, differences: Vec<Difference>, request: TransferRequest) -> Self {
        let soa = zone.soa().into_iter().flat_map(|soa| {
            soa.records().map(move |record| WireRecord {
                owner: zone.apex_name(),
                rtype: Type::SOA,
                ttl: soa.ttl(),
                rdata: record.rdata,
            })
        });
        Self::with_soa(zone, soa.collect(), differences, request)
    }

    /// Starts a transfer to a client that has the newest version, whose SOA is this one.
    pub fn up_to_date(zone: &Arc<Zone>, soa: WireRecord<'_>, request: TransferRequest) -> Self {
        let soa = std::iter::once(soa).collect();
        Self::with_soa(zone, soa, Vec::new(), request)
    }

    fn with_soa(
        zone: &Arc<Zone>,
        soa: RecordList,
        differences: Vec<Difference>,
        request: TransferRequest,
    ) -> Self {
        let chain = IxfrChain {
            zone: Arc::clone(zone),
            soa,
            differences,
        };
        IxfrMessages {
            chain,
            progress: MessageProgress::new(IxfrPosition::default(), request),
        }
    }

    /// Returns the number of records so far.
    pub fn records(&self) -> u64 {
        self.progress.records
    }

    /// Checks whether the last message was written.
    pub fn is_done(&self) -> bool {
        self.progress.stage.is_none()
    }

    /// Writes the next message and returns its length in octets; `None` after the last one.
    pub fn next_message(&mut self, out: &mut [u8]) -> Result<Option<usize>, OutgoingFault> {
        let (chain, no_room) = (&self.chain, || OutgoingFault::NoSoa);
        self.progress
            .next_message(out, no_room, |place, writer| chain.write(place, writer))
    }
}

impl IxfrChain {
    /// Returns the records of a step; `None` after the last.
    fn step(&self, step: usize) -> Option<IxfrStep<'_>> {
        let Some(number) = step.checked_sub(1) else {
            return Some(IxfrStep::Soa(&self.soa));
        };
        let Some(difference) = self.differences.get(number / 4) else {
            let is_last = !self.differences.is_empty() && number == 4 * self.differences.len();
            return is_last.then_some(IxfrStep::Soa(&self.soa));
        };
        Some(match number % 4 {
            0 => IxfrStep::Soa(&difference.removed),
            1 => IxfrStep::Others(&difference.removed),
            2 => IxfrStep::Soa(&difference.added),
            _ => IxfrStep::Others(&difference.added),
        })
    }

    fn write<'n>(
        &'n self,
        place: IxfrPosition,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<StageOutcome<IxfrPosition>, OutgoingFault> {
        let Some(step) = self.step(place.step) else {
            return Ok(Ok(None));
        };
        match write_step(&self.zone, &step, place.octets, writer) {
            Ok(()) => Ok(Ok(Some(IxfrPosition {
                step: place.step + 1,
                octets: 0,
            }))),
            Err((_, head)) if writer.is_empty() => Err(head.too_large()),
            Err((octets, _)) => Ok(Err(IxfrPosition { octets, ..place })),
        }
    }
}

/// Writes the records of a step from an octet offset of its list on; the error is where the message was full.
fn write_step<'n>(
    zone: &Zone,
    step: &IxfrStep<'n>,
    from: usize,
    writer: &mut BulkWriter<'n, '_>,
) -> Result<(), (usize, RecordHead<'n>)> {
    let (list, takes_soa) = match step {
        IxfrStep::Soa(list) => (list, true),
        IxfrStep::Others(list) => (list, false),
    };
    let mut records = list.iter_from(from);
    loop {
        let at = list.as_bytes().len() - records.octets_left();
        let Some(record) = records.next() else {
            return Ok(());
        };
        if (record.rtype == Type::SOA) != takes_soa {
            continue;
        }
        let mut head = RecordHead::new(record.owner.as_wire(), record.rtype, record.ttl);
        if head.rtype == Type::RRSIG
            && let Some(node) = zone.node_of(record.owner)
        {
            head = head.with_ttl_of_covered(node, record.rdata);
        }
        if head.write(record.rdata, None, writer).is_err() {
            return Err((at, head));
        }
        if takes_soa {
            return Ok(());
        }
    }
}
