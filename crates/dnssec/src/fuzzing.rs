//! The fuzz target for signed messages, shared by `fuzz/` (coverage-guided, nightly compiler) and a short run in the
//! tests.
//!
//! It accepts arbitrary octets and panics only if a guarantee of [`crate::tsig`] is violated.

use crate::tsig::{TsigAlgorithm, TsigKey, TsigKeys, TsigRecord, sign_request, verify_request};
use nameward_wire::message::{HEADER, Message};
use nameward_wire::{Name, Type};

const NOW: u64 = 1_700_000_000;
/// Octets of the longest message.
const LONGEST: usize = 65_535;

/// Verifies octets as a signed request, and as a correctly signed request.
pub fn tsig(octets: &[u8]) {
    let octets = &octets[..octets.len().min(LONGEST)];
    let name = Name::from_valid_wire(b"\x03key\x07example\0");
    let mut keys = TsigKeys::default();
    keys.insert(TsigKey::new(name, TsigAlgorithm::HmacSha256, b"secret"));
    if let Err(refused) = verify_request(octets, &keys, NOW)
        && let Some(mut signer) = refused.signer
    {
        let mut reply = octets[..2].to_vec();
        reply.resize(HEADER, 0);
        let most = HEADER + signer.reserved();
        let mut buffer = reply.clone();
        buffer.resize(most, 0);
        let len = signer.clone().sign_in_place(&mut buffer, HEADER, NOW);
        signer.sign(&mut reply, NOW);
        assert!(reply.len() <= most, "more than was reserved");
        assert_eq!(len.map(|len| &buffer[..len]), Some(&reply[..]));
        assert!(matches!(TsigRecord::find(&reply), Ok(Some(_))));
    }
    let Ok(message) = Message::parse(octets) else {
        return;
    };
    let mut records = message.records();
    let is_unsigned = records.all(|record| record.is_ok_and(|record| record.rtype != Type::TSIG));
    // One more record must fit into the 16-bit count.
    if is_unsigned && octets[10..12] != [0xff, 0xff] {
        let mut request = octets.to_vec();
        let key = keys.find(name).expect("the key that was inserted");
        sign_request(key, &mut request, NOW);
        let verified = verify_request(&request, &keys, NOW);
        let verified = verified.ok().flatten().expect("a signature that verifies");
        assert_eq!(verified.unsigned_len, octets.len());
    }
}
