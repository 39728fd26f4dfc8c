//! The fuzz target for transfers, shared by `fuzz/` and `tests/transfer_in.rs`.
//!
//! It accepts any bytes and panics only if a promise of this crate is broken.

use crate::transfer_in::{
    SentRequest, TransferAnswer, TransferReader, TransferStep, read_notify_reply, read_soa_reply,
};
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::Serial;

/// Maximum size of a transfer in the target, in octets.
const OCTETS_MAX: u64 = 1 << 16;

/// Reads length-prefixed messages as the response to AXFR and to IXFR: the reader terminates, and what it accepts is
/// a zone within its size limit.
pub fn transfer(bytes: &[u8]) {
    let zone = NameBuf::from_text(b"example", Name::ROOT).unwrap_or(NameBuf::root());
    for (qtype, have) in [
        (Type::AXFR, None),
        (Type::AXFR, Some(Serial(1))),
        (Type::IXFR, Some(Serial(1))),
    ] {
        let request = SentRequest::query(0x1234, zone, qtype);
        let mut reader = TransferReader::new(request, have, None, OCTETS_MAX);
        let mut rest = bytes;
        while let Some((len, behind)) = rest.split_first_chunk::<2>() {
            let len = usize::from(u16::from_be_bytes(*len)).min(behind.len());
            let (message, behind) = behind.split_at(len);
            rest = behind;
            match reader.take(message, 0) {
                Ok(TransferStep::More) => {}
                Ok(TransferStep::Done(answer)) => return check(answer, have),
                Err(_) => {
                    assert!(reader.take(message, 0).is_err(), "taken after a failure");
                    break;
                }
            }
        }
    }
    for request in [
        SentRequest::query(0x1234, zone, Type::SOA),
        SentRequest::notify(0x1234, zone),
    ] {
        let _ = read_soa_reply(&request, bytes);
        let _ = read_notify_reply(&request, bytes);
    }
}

fn check(answer: TransferAnswer, have: Option<Serial>) {
    match answer {
        TransferAnswer::NotNewer(serial) => {
            assert!(have.is_some_and(|have| !serial.is_after(have)));
        }
        TransferAnswer::Differences(differences) => {
            let mut serial = have.expect("differences need a version");
            for difference in &differences {
                let (from, to) = difference.serials().expect("each has two SOAs");
                assert!(from == serial && to.is_after(from));
                serial = to;
            }
        }
        TransferAnswer::Whole(whole) => {
            let octets: usize = whole.contents.iter().map(|p| p.as_bytes().len()).sum();
            assert!(octets as u64 <= OCTETS_MAX);
            for record in whole.contents.iter().flatten() {
                assert!(record.owner.is_at_or_below(whole.zone.apex_name()));
                assert!(!record.rtype.is_meta() && record.rtype.0 != Class::ANY.0);
            }
        }
    }
}
