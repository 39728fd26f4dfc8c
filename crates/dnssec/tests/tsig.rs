//! TSIG against vectors of another implementation, and every way in which a signed message can be wrong.

use data_encoding::HEXLOWER;
use nameward_dnssec::tsig::{
    TsigAlgorithm, TsigFailure, TsigKey, TsigKeys, TsigRecord, UNSIGNED_IN_A_ROW, sign_request,
    verify_request,
};
use nameward_wire::NameBuf;
use proptest::prelude::*;
use std::sync::Arc;

const NOW: u64 = 1_700_000_000;
/// A question without EDNS: example.org SOA.
const QUESTION: &[u8] = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x07example\x03org\0\x00\x06\x00\x01";

fn secret() -> Vec<u8> {
    (0..40).collect()
}

fn key(name: &str, algorithm: TsigAlgorithm, secret: &[u8]) -> TsigKey {
    let name: NameBuf = name.parse().unwrap();
    TsigKey::new(name.as_name(), algorithm, secret)
}

fn keys() -> TsigKeys {
    let mut keys = TsigKeys::default();
    keys.insert(key("key.example.", TsigAlgorithm::HmacSha256, &secret()));
    keys
}

fn shared_key() -> Arc<TsigKey> {
    let name: NameBuf = "KEY.example.".parse().unwrap();
    Arc::clone(keys().find(name.as_name()).unwrap())
}

fn signed_question() -> Vec<u8> {
    let mut request = QUESTION.to_vec();
    sign_request(&shared_key(), &mut request, NOW);
    request
}

/// The reply to a question: the same with QR set.
fn reply() -> Vec<u8> {
    let mut reply = QUESTION.to_vec();
    reply[2] |= 0x80;
    reply
}

fn failure(message: &[u8], now: u64) -> TsigFailure {
    match verify_request(message, &keys(), now) {
        Err(refused) => refused.failure,
        Ok(taken) => panic!("taken: {}", taken.is_some()),
    }
}

#[test]
fn vectors_of_another_implementation_hold_in_both_directions() {
    let vectors = include_str!("tsig_vectors.txt");
    let mut seen = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let algorithm = TsigAlgorithm::from_word(words.next().unwrap()).unwrap();
        let mut message = || HEXLOWER.decode(words.next().unwrap().as_bytes()).unwrap();
        let (request, reply) = (message(), message());
        let mut keys = TsigKeys::default();
        keys.insert(key("key.example.", algorithm, &secret()));
        let taken = verify_request(&request, &keys, NOW).ok().flatten().unwrap();
        assert_eq!(&request[..taken.unsigned_len][12..], &QUESTION[12..]);

        let record = |message: &[u8]| TsigRecord::find(message).unwrap().unwrap().mac.to_vec();
        let mut ours = QUESTION.to_vec();
        let mut verifier = sign_request(&taken.key, &mut ours, NOW);
        assert_eq!(record(&ours), record(&request), "{algorithm}");
        assert_eq!(
            verifier.verify(&reply, NOW),
            Ok(QUESTION.len()),
            "{algorithm}"
        );
        assert!(verifier.is_complete());

        let mut signer = taken.signer;
        let mut ours = reply[..QUESTION.len()].to_vec();
        ours[11] = 0;
        signer.sign(&mut ours, NOW);
        assert_eq!(record(&ours), record(&reply), "{algorithm}");
        seen += 1;
    }
    assert_eq!(seen, TsigAlgorithm::ALL.len());
}

#[test]
fn algorithms_are_read_as_configurations_spell_them() {
    for algorithm in TsigAlgorithm::ALL {
        assert_eq!(TsigAlgorithm::from_word(algorithm.word()), Some(algorithm));
        assert_eq!(
            TsigAlgorithm::from_wire_name(algorithm.wire_name()),
            Some(algorithm)
        );
    }
    assert_eq!(
        TsigAlgorithm::from_word("HMAC-SHA256."),
        Some(TsigAlgorithm::HmacSha256)
    );
    assert_eq!(
        TsigAlgorithm::from_word("hmac-sha256.sig-alg.reg.int"),
        None
    );
    assert_eq!(TsigAlgorithm::from_word("hmac-sha3"), None);
}

#[test]
fn an_unsigned_request_differs_from_a_wrong_one() {
    assert!(matches!(verify_request(QUESTION, &keys(), NOW), Ok(None)));
    let signed = signed_question();
    assert!(verify_request(&signed, &keys(), NOW).is_ok_and(|taken| taken.is_some()));
    // Behind the record stands another one, or it stands twice.
    let mut twice = signed.clone();
    twice.extend_from_slice(&signed[QUESTION.len()..]);
    twice[11] = 2;
    assert_eq!(failure(&twice, NOW), TsigFailure::Malformed);
    // It is in the answer section.
    let mut moved = signed.clone();
    (moved[7], moved[11]) = (1, 0);
    assert_eq!(failure(&moved, NOW), TsigFailure::Malformed);
}

#[test]
fn a_key_is_accepted_only_with_its_own_algorithm() {
    let mut request = QUESTION.to_vec();
    sign_request(
        &Arc::new(key("key.example.", TsigAlgorithm::HmacSha512, &secret())),
        &mut request,
        NOW,
    );
    assert_eq!(failure(&request, NOW), TsigFailure::BadKey);
    let mut request = QUESTION.to_vec();
    let other = key("other.example.", TsigAlgorithm::HmacSha256, &secret());
    sign_request(&Arc::new(other), &mut request, NOW);
    assert_eq!(failure(&request, NOW), TsigFailure::BadKey);
}

/// RFC 8945 section 5.3.2: BADKEY and BADSIG are answered with the names of the request and an empty MAC.
#[test]
fn a_refusal_without_a_key_carries_an_empty_mac() {
    let mut request = signed_question();
    request[13] ^= 1;
    let refused = verify_request(&request, &keys(), NOW).err().unwrap();
    assert_eq!(refused.failure, TsigFailure::BadSignature);
    let mut answer = reply();
    let mut signer = refused.signer.unwrap();
    let reserved = signer.reserved();
    signer.sign(&mut answer, NOW + 7);
    assert_eq!(answer.len(), reply().len() + reserved);
    let record = TsigRecord::find(&answer).unwrap().unwrap();
    assert_eq!(
        (record.mac.len(), record.error, record.time_signed),
        (0, 16, NOW)
    );
}

/// RFC 8945 section 5.2.3: BADTIME is answered signed, with the client's time and the server's beside it.
#[test]
fn a_client_with_a_wrong_clock_gets_the_right_time() {
    assert!(verify_request(&signed_question(), &keys(), NOW + 300).is_ok());
    assert!(verify_request(&signed_question(), &keys(), NOW - 300).is_ok());
    let mut request = QUESTION.to_vec();
    let mut verifier = sign_request(&shared_key(), &mut request, NOW);
    let refused = verify_request(&request, &keys(), NOW + 301).err().unwrap();
    assert_eq!(refused.failure, TsigFailure::BadTime);
    let mut answer = reply();
    let mut signer = refused.signer.unwrap();
    let reserved = signer.reserved();
    signer.sign(&mut answer, NOW + 301);
    assert_eq!(answer.len(), reply().len() + reserved);
    let record = TsigRecord::find(&answer).unwrap().unwrap();
    assert_eq!((record.time_signed, record.error), (NOW, 18));
    assert_eq!(record.other, &(NOW + 301).to_be_bytes()[2..]);
    assert_eq!(
        verifier.verify(&answer, NOW),
        Err(TsigFailure::RefusedByPeer(18))
    );
}

#[test]
fn errors_of_peers_are_shown_by_name() {
    for (error, name) in [
        (16, "BADSIG"),
        (17, "BADKEY"),
        (18, "BADTIME"),
        (22, "BADTRUNC"),
    ] {
        let text = TsigFailure::RefusedByPeer(error).to_string();
        assert_eq!(
            text,
            format!("the peer rejected the TSIG record with {name}")
        );
    }
    let text = TsigFailure::RefusedByPeer(4711).to_string();
    assert!(text.ends_with("error 4711"), "{text}");
}

/// RFC 8945 section 5.2.2.1: a MAC may be cut to half its length and to ten octets, no further.
#[test]
fn a_truncated_mac_is_accepted_down_to_half_its_length() {
    let cut_to = |len: usize| {
        let whole = signed_question();
        let record = TsigRecord::find(&whole).unwrap().unwrap();
        let mac_at = whole.len() - 6 - record.mac.len();
        let mut cut = whole[..mac_at + len].to_vec();
        cut.extend_from_slice(&whole[whole.len() - 6..]);
        cut[mac_at - 2..mac_at].copy_from_slice(&(len as u16).to_be_bytes());
        // The length of the data stands right behind the owner, type, class and TTL.
        let length_at = QUESTION.len() + 13 + 8;
        let data = (whole.len() - length_at - 2 - (record.mac.len() - len)) as u16;
        cut[length_at..length_at + 2].copy_from_slice(&data.to_be_bytes());
        cut
    };
    assert!(verify_request(&cut_to(32), &keys(), NOW).is_ok());
    assert!(verify_request(&cut_to(16), &keys(), NOW).is_ok());
    assert_eq!(failure(&cut_to(15), NOW), TsigFailure::Malformed);
    assert_eq!(failure(&cut_to(0), NOW), TsigFailure::Malformed);
}

#[test]
fn a_stream_is_signed_message_by_message_and_in_order() {
    let mut request = QUESTION.to_vec();
    let mut verifier = sign_request(&shared_key(), &mut request, NOW);
    let mut signer = verify_request(&request, &keys(), NOW)
        .ok()
        .flatten()
        .unwrap()
        .signer;
    let messages: Vec<Vec<u8>> = (0..4)
        .map(|i| {
            let mut message = reply();
            signer.sign(&mut message, NOW + i);
            message
        })
        .collect();
    assert_eq!(verifier.verify(&messages[0], NOW), Ok(QUESTION.len()));
    assert_eq!(verifier.verify(&messages[1], NOW), Ok(QUESTION.len()));
    // One was left out.
    assert_eq!(
        verifier.verify(&messages[3], NOW),
        Err(TsigFailure::BadSignature)
    );
}

/// RFC 8945 section 5.3.1: the first and the last message are signed, and of a hundred in a row one.
#[test]
fn unsigned_messages_are_covered_by_the_next_signature() {
    let key = shared_key();
    let stream = |unsigned: u8| {
        let mut request = QUESTION.to_vec();
        let mut verifier = sign_request(&key, &mut request, NOW);
        let mut signer = verify_request(&request, &keys(), NOW)
            .ok()
            .flatten()
            .unwrap()
            .signer;
        let mut first = reply();
        signer.sign(&mut first, NOW);
        assert_eq!(verifier.verify(&first, NOW), Ok(QUESTION.len()));
        let left: Vec<_> = (0..unsigned)
            .map(|_| verifier.verify(&reply(), NOW))
            .collect();
        (verifier, left)
    };
    let (verifier, left) = stream(UNSIGNED_IN_A_ROW);
    assert!(left.iter().all(Result::is_ok));
    assert!(!verifier.is_complete());
    let (_, left) = stream(UNSIGNED_IN_A_ROW + 1);
    assert_eq!(left.last(), Some(&Err(TsigFailure::Unsigned)));
    let mut request = QUESTION.to_vec();
    let mut verifier = sign_request(&key, &mut request, NOW);
    assert_eq!(verifier.verify(&reply(), NOW), Err(TsigFailure::Unsigned));
}

proptest! {
    #[test]
    fn a_changed_octet_is_always_detected(at in 0usize..200, by in 1u8..=255) {
        let mut request = signed_question();
        let at = at % request.len();
        request[at] ^= by;
        // The id of the message may change on its way; letter case of the key's and the algorithm's name does not matter.
        let is_id = at < 2;
        let names = QUESTION.len()..QUESTION.len() + 13 + 10 + 13;
        let is_case = names.contains(&at) && by == 0x20;
        let taken = verify_request(&request, &keys(), NOW).is_ok_and(|taken| taken.is_some());
        prop_assert!(!taken || is_id || is_case, "{at} {by}");
    }

    #[test]
    fn arbitrary_octets_behind_a_question_never_panic(behind in proptest::collection::vec(any::<u8>(), 0..120), records in 0u8..4) {
        let mut message = QUESTION.to_vec();
        message[11] = records;
        message.extend_from_slice(&behind);
        let _ = verify_request(&message, &keys(), NOW);
    }
}

proptest! {
    #[test]
    fn mutated_signed_messages_violate_no_invariant(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in 0..20usize,
        noise in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut message = signed_question();
        for (place, octet) in changes {
            let place = place.index(message.len());
            message[place] = octet;
        }
        message.truncate(message.len() - cut);
        nameward_dnssec::fuzzing::tsig(&message);
        nameward_dnssec::fuzzing::tsig(&noise);
    }
}
