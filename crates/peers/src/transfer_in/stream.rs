//! The messages of a transfer, read one after the other as they arrive.
//!
//! ```text
//! First    the SOA of the newest version; not newer than ours: the end (RFC 1995 section 2)
//! Second   another SOA: differences; anything else: the whole zone (RFC 1995 section 4)
//! Whole    records until the SOA is repeated (RFC 5936 section 2.2)
//! Chain    differences until the newest version is reached
//! ```
//! A whole zone is packed as it arrives, like a zone file, and its records are kept separately in the format of the
//! state store: neither is derived from the other afterwards.

use super::chain::{DifferenceChain, listed};
use super::failure::TransferFailure;
use super::question::{SentRequest, is_zone};
use super::records::{RecordCursor, RecordScratch, ScannedRecord};
use super::reply::expire_of;
use nameward_base::memory;
use nameward_dnssec::tsig::{ReplyVerifier, TsigFailure};
use nameward_maintain::PART;
use nameward_wire::message::{Message, MessageSection};
use nameward_wire::zonefile::{Record, RecordLocation, Severity};
use nameward_wire::{Class, Name, Type};
use nameward_zone::change::{Difference, soa_serial};
use nameward_zone::{RecordList, Serial, Zone, ZoneBuilder, ZoneLimits};

/// Maximum number of consecutive messages without records.
const EMPTY_IN_A_ROW: u32 = 16;
/// Octets of the numbers at the end of a SOA.
const SOA_NUMBERS: usize = 20;

/// A zone that was transferred as a whole.
pub struct WholeZone {
    /// The packed zone.
    pub zone: Zone,
    /// Its records as received, for the state store.
    pub contents: Vec<RecordList>,
}

impl WholeZone {
    /// Returns the octets of memory that both take.
    pub fn memory(&self) -> u64 {
        let contents = self.contents.iter().map(|part| part.as_bytes().len());
        (self.zone.heap_bytes() + contents.sum::<usize>()) as u64
    }
}

/// The result of a transfer.
pub enum TransferAnswer {
    /// The primary's serial, which is not newer than ours.
    NotNewer(Serial),
    /// The differences from our version to the newest.
    Differences(Vec<Difference>),
    /// The whole zone.
    Whole(Box<WholeZone>),
}

/// The state of a transfer after a message.
pub enum TransferStep {
    /// More messages follow.
    More,
    /// The transfer has ended.
    Done(TransferAnswer),
}

struct FirstSoa {
    serial: Serial,
    ttl: u32,
    rdata: Box<[u8]>,
}

struct WholeDraft {
    soa: FirstSoa,
    builder: ZoneBuilder,
    contents: Vec<RecordList>,
    /// Octets of all chunks of `contents` except the last one.
    contents_octets: u64,
    octets_max: u64,
}

enum Phase {
    First,
    Second(FirstSoa),
    Whole(Box<WholeDraft>),
    Chain(Box<DifferenceChain>),
    /// With a result or a failure.
    Ended,
}

/// Reads the messages of one transfer.
pub struct TransferReader {
    request: SentRequest,
    have: Option<Serial>,
    verifier: Option<ReplyVerifier>,
    octets_max: u64,
    octets: u64,
    records: u64,
    empty_messages: u32,
    expire: Option<u32>,
    scratch: RecordScratch,
    phase: Phase,
}

impl TransferReader {
    /// Starts reading the response to an AXFR or IXFR query. `have` is our serial; only a newer version is
    /// transferred. `verifier` belongs to the signed query.
    pub fn new(
        request: SentRequest,
        have: Option<Serial>,
        verifier: Option<ReplyVerifier>,
        octets_max: u64,
    ) -> Self {
        TransferReader {
            request,
            have,
            verifier,
            octets_max,
            octets: 0,
            records: 0,
            empty_messages: 0,
            expire: None,
            scratch: RecordScratch::default(),
            phase: Phase::First,
        }
    }

    /// Returns the number of records received.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the octets of these records.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Returns the octets of memory used so far.
    pub fn memory(&self) -> u64 {
        match &self.phase {
            Phase::Whole(whole) => whole.memory(),
            Phase::Chain(chain) => chain.memory(),
            Phase::First | Phase::Second(_) | Phase::Ended => 0,
        }
    }

    /// Returns the remaining lifetime of the primary's copy in seconds, if its first message has one (RFC 7314).
    pub fn expire(&self) -> Option<u32> {
        self.expire
    }

    /// Processes the next message; `now` is in seconds since 1970. After a failure nothing more is accepted.
    pub fn take(&mut self, octets: &[u8], now: u64) -> Result<TransferStep, TransferFailure> {
        let step = self.read_message(octets, now);
        if !matches!(step, Ok(TransferStep::More)) {
            self.phase = Phase::Ended;
        }
        step
    }

    /// Returns the failure for a stream that ends before the transfer.
    pub fn cut_short(&self) -> TransferFailure {
        TransferFailure::Short(self.records)
    }

    fn read_message(&mut self, octets: &[u8], now: u64) -> Result<TransferStep, TransferFailure> {
        let message = Message::parse(octets)?;
        let at = self.request.check(&message)?;
        let verified = match &mut self.verifier {
            Some(verifier) => verifier.verify(octets, now).map(|_| ()),
            None => Ok(()),
        };
        let code = message.rcode();
        match verified {
            // A server that does not know the key cannot sign its refusal.
            Err(TsigFailure::Unsigned) if code != 0 => return Err(TransferFailure::Code(code)),
            verified => verified?,
        }
        if code != 0 {
            return Err(TransferFailure::Code(code));
        }
        if message.is_truncated() {
            return Err(TransferFailure::Truncated);
        }
        if matches!(self.phase, Phase::First) {
            self.expire = expire_of(&message);
        }
        let count = message.promised(MessageSection::Answer);
        self.empty_messages = match count {
            0 => self.empty_messages + 1,
            _ => 0,
        };
        if self.empty_messages > EMPTY_IN_A_ROW {
            return Err(TransferFailure::EmptyMessages);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut cursor = RecordCursor::new(octets, at, count, &mut scratch);
        let mut answer = None;
        while let Some(record) = cursor.next(&mut scratch)? {
            if answer.is_some() {
                return Err(TransferFailure::BehindEnd);
            }
            answer = self.take_record(&record)?;
            // The rest of a response with a version that is not newer is ignored.
            if let Some(TransferAnswer::NotNewer(_)) = answer {
                return self.end(answer);
            }
        }
        self.scratch = scratch;
        if self.memory() > self.octets_max {
            return Err(TransferFailure::TooLarge(self.octets_max));
        }
        let others = u32::from(message.promised(MessageSection::Authority))
            + u32::from(message.promised(MessageSection::Additional));
        cursor.skip_to_end(others)?;
        self.end(answer)
    }

    fn end(&self, answer: Option<TransferAnswer>) -> Result<TransferStep, TransferFailure> {
        let Some(answer) = answer else {
            return Ok(TransferStep::More);
        };
        // RFC 8945 section 5.3.1: the last message is signed.
        match &self.verifier {
            Some(verifier) if !verifier.is_complete() => {
                Err(TransferFailure::Tsig(TsigFailure::Unsigned))
            }
            _ => Ok(TransferStep::Done(answer)),
        }
    }

    fn take_record(
        &mut self,
        record: &ScannedRecord<'_>,
    ) -> Result<Option<TransferAnswer>, TransferFailure> {
        self.check_record(record)?;
        match &mut self.phase {
            Phase::First => self.take_first(record),
            Phase::Second(_) => self.take_second(record),
            Phase::Whole(whole) => match record.rtype {
                Type::SOA => {
                    let Phase::Whole(whole) = std::mem::replace(&mut self.phase, Phase::Ended)
                    else {
                        return Err(TransferFailure::BehindEnd);
                    };
                    whole.finish(record).map(Some)
                }
                _ => {
                    whole.push(record);
                    Ok(None)
                }
            },
            Phase::Chain(chain) => Ok(chain.take(record)?.map(TransferAnswer::Differences)),
            Phase::Ended => Err(TransferFailure::BehindEnd),
        }
    }

    /// Checks a single record.
    #[inline]
    fn check_record(&mut self, record: &ScannedRecord<'_>) -> Result<(), TransferFailure> {
        self.records += 1;
        self.octets += record.octets();
        if record.class != Class::IN {
            return Err(TransferFailure::WrongClass(record.class));
        }
        if record.rtype.is_meta() {
            return Err(TransferFailure::MetaType(record.rtype));
        }
        let zone = self.request.zone.as_name();
        if !record.same_owner && !record.owner.is_at_or_below(zone) {
            return Err(TransferFailure::OutOfZone(record.owner.to_string()));
        }
        if record.rtype == Type::SOA && !is_zone(&self.request, record.owner) {
            return Err(TransferFailure::StraySoa(record.owner.to_string()));
        }
        Ok(())
    }

    fn take_first(
        &mut self,
        record: &ScannedRecord<'_>,
    ) -> Result<Option<TransferAnswer>, TransferFailure> {
        if record.rtype != Type::SOA {
            return Err(TransferFailure::FirstNotSoa(record.rtype));
        }
        let serial = soa_serial(record.rdata).ok_or(TransferFailure::NoSoa)?;
        if self.have.is_some_and(|have| !serial.is_after(have)) {
            return Ok(Some(TransferAnswer::NotNewer(serial)));
        }
        self.phase = Phase::Second(FirstSoa {
            serial,
            ttl: record.ttl,
            rdata: record.rdata.into(),
        });
        Ok(None)
    }

    fn take_second(
        &mut self,
        record: &ScannedRecord<'_>,
    ) -> Result<Option<TransferAnswer>, TransferFailure> {
        let Phase::Second(soa) = std::mem::replace(&mut self.phase, Phase::Ended) else {
            return Err(TransferFailure::BehindEnd);
        };
        let is_ixfr = self.request.qtype == Type::IXFR;
        if is_ixfr
            && record.rtype == Type::SOA
            && record.rdata != &*soa.rdata
            && let Some(have) = self.have
        {
            let chain = DifferenceChain::begin(soa.serial, have, record)?;
            self.phase = Phase::Chain(Box::new(chain));
            return Ok(None);
        }
        let mut whole = WholeDraft::begin(soa, self.request.zone.as_name(), self.octets_max);
        if record.rtype == Type::SOA {
            return whole.finish(record).map(Some);
        }
        whole.push(record);
        self.phase = Phase::Whole(Box::new(whole));
        Ok(None)
    }
}

impl WholeDraft {
    fn begin(soa: FirstSoa, zone: Name<'_>, octets_max: u64) -> Self {
        let mut builder = ZoneBuilder::new(zone);
        builder.set_limits(ZoneLimits {
            octets: octets_max,
            records: u64::MAX,
        });
        let first = ScannedRecord {
            owner: zone,
            same_owner: false,
            rtype: Type::SOA,
            class: Class::IN,
            ttl: soa.ttl,
            rdata: &soa.rdata,
        };
        let (first_part, first_record) = (listed(&first), scanned(&first));
        let contents = vec![RecordList::from_iter([first_part])];
        builder.add(&first_record);
        WholeDraft {
            builder,
            contents,
            contents_octets: 0,
            octets_max,
            soa,
        }
    }

    fn memory(&self) -> u64 {
        self.builder.memory() + self.contents_memory()
    }

    fn contents_memory(&self) -> u64 {
        let last = self.contents.last().map_or(0, |part| part.as_bytes().len());
        self.contents_octets + last as u64
    }

    #[inline]
    fn push(&mut self, record: &ScannedRecord<'_>) {
        self.builder.add(&scanned(record));
        let is_full = |part: &RecordList| part.as_bytes().len() >= PART;
        if self.contents.last().is_none_or(is_full) {
            self.contents_octets = self.contents_memory();
            self.contents.push(RecordList::default());
        }
        if let Some(part) = self.contents.last_mut() {
            part.push(listed(record));
        }
    }

    /// Finishes the zone with the last SOA, which repeats the first one (RFC 5936 section 2.2).
    fn finish(mut self, last: &ScannedRecord<'_>) -> Result<TransferAnswer, TransferFailure> {
        if !is_same_soa(last.rdata, &self.soa.rdata) {
            return Err(TransferFailure::LastSoaDiffers {
                first: self.soa.serial,
                last: soa_serial(last.rdata).unwrap_or_default(),
            });
        }
        // Empty non-terminals are created now, and count as well.
        self.builder.set_limits(ZoneLimits {
            octets: self.octets_max.saturating_sub(self.contents_memory()),
            records: u64::MAX,
        });
        let (zone, findings) = self.builder.end();
        let Some(mut zone) = zone else {
            if self.builder.lacks_memory() {
                memory::note_refusal(format!("a transfer of {}", last.owner));
                return Err(TransferFailure::NoMemory);
            }
            if self.builder.is_full() {
                return Err(TransferFailure::TooLarge(self.octets_max));
            }
            let mut errors = findings.into_iter();
            let first = errors.find(|finding| finding.severity == Severity::Error);
            let message = first.map_or_else(String::new, |finding| finding.message);
            return Err(TransferFailure::Invalid(message));
        };
        zone.set_signing(zone.stored_signatures());
        Ok(TransferAnswer::Whole(Box::new(WholeZone {
            zone,
            contents: self.contents,
        })))
    }
}

/// Compares the data of two SOAs; the letter case of their names does not matter (RFC 4343).
fn is_same_soa(one: &[u8], other: &[u8]) -> bool {
    let split = |soa: &[u8]| soa.len().checked_sub(SOA_NUMBERS);
    match (split(one), split(other)) {
        (Some(names), Some(others)) if names == others => {
            one[names..] == other[names..] && one[..names].eq_ignore_ascii_case(&other[..names])
        }
        _ => false,
    }
}

fn scanned<'s>(record: &ScannedRecord<'s>) -> Record<'s> {
    Record {
        owner: record.owner,
        same_owner: record.same_owner,
        rtype: record.rtype,
        class: record.class,
        ttl: record.ttl,
        rdata: record.rdata,
        from: RecordLocation::NONE,
    }
}
