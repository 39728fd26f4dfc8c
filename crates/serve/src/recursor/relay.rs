//! A resolver's response as relayed to a client.
//!
//! The records are the resolver's. The ID, the letter case of the question and the presence of an OPT record (RFC
//! 6891 section 6.1.1) are those of the client's query. RA is set; AD is passed on to clients that requested it (RFC
//! 6840 section 5.8). A response that does not fit into the client's datagram is truncated with TC, and the client
//! retries over TCP.

use nameward_answer::{AnswerKind, Reply};
use nameward_wire::Rcode;
use nameward_wire::message::{HEADER, Query};

use super::query::UpstreamReply;

const TC: u8 = 0x02;
const RD: u8 = 0x01;
const RA: u8 = 0x80;
const AD: u8 = 0x20;
const CD: u8 = 0x10;
/// Size of an OPT record without options, and of the extended error option, in octets.
const OPT: usize = 11;
const EXTENDED_ERROR: usize = 6;

/// Sets the RA flag (RFC 1035 section 4.1.1).
pub(crate) fn offer_recursion(reply: &mut [u8]) {
    if let Some(flags) = reply.get_mut(3) {
        *flags |= RA;
    }
}

/// Client-specific limits of a response.
pub(super) struct RelaySettings {
    /// Maximum response size of the client in octets.
    pub(super) limit: usize,
    /// Our own payload size, for the OPT record.
    pub(super) payload: u16,
}

/// Writes the response for a client; `None` if the resolver's response is not usable for a client.
pub(super) fn relay(
    query: &Query<'_>,
    upstream: &UpstreamReply,
    settings: &RelaySettings,
    out: &mut Vec<u8>,
) -> Option<Reply> {
    let rcode = rcode_of(upstream.rcode())?;
    let (body, additional) = upstream.body();
    let error = upstream.extended_error();
    let opt = match query.edns {
        None => 0,
        Some(_) => OPT + error.map_or(0, |_| EXTENDED_ERROR),
    };
    let truncated = body.len() + opt > settings.limit;
    let kept = if truncated {
        query.question_end
    } else {
        body.len()
    };
    out.clear();
    out.extend_from_slice(body.get(..kept)?);
    // Use this client's letter case; compressed names that point here follow.
    out[HEADER..query.question_end].copy_from_slice(&query.packet()[HEADER..query.question_end]);
    let request = query.packet();
    out[..2].copy_from_slice(&request[..2]);
    let wants_ad = request[3] & AD != 0 || query.edns.is_some_and(|edns| edns.dnssec_ok);
    out[2] = out[2] & !(TC | RD) | request[2] & RD | if truncated { TC } else { 0 };
    out[3] = RA | if wants_ad { out[3] & AD } else { 0 } | request[3] & CD | rcode as u8 & 0x0f;
    let mut additional = if truncated { 0 } else { additional };
    if truncated {
        out[6..10].fill(0);
    }
    if let Some(edns) = query.edns {
        additional += 1;
        let payload = settings.payload.to_be_bytes();
        let dnssec_ok = if edns.dnssec_ok { 0x80 } else { 0 };
        let options = (opt - OPT) as u8;
        out.extend_from_slice(&[0, 0, 41, payload[0], payload[1]]);
        out.extend_from_slice(&[(rcode as u16 >> 4) as u8, 0, dnssec_ok, 0, 0, options]);
        if let Some(error) = error {
            let code = error.to_be_bytes();
            out.extend_from_slice(&[0, 15, 0, 2, code[0], code[1]]);
        }
    }
    out[10..12].copy_from_slice(&additional.to_be_bytes());
    let mut reply = Reply::new(out.len(), rcode, AnswerKind::Other);
    (reply.truncated, reply.zone_found) = (truncated, Some(false));
    Some(reply)
}

/// Returns the response code for a client. Codes about versions and cookies only concern us and the resolver.
fn rcode_of(code: u16) -> Option<Rcode> {
    Some(match code {
        0 => Rcode::NoError,
        1 => Rcode::FormErr,
        2 => Rcode::ServFail,
        3 => Rcode::NxDomain,
        4 => Rcode::NotImp,
        5 => Rcode::Refused,
        6 => Rcode::YxDomain,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::query::{ReceivedMessage, UpstreamMessage};
    use super::*;
    use nameward_wire::Type;

    /// A client's query for www.example A, mixed case, RD and CD set.
    const PLAIN: &[u8] = b"\xab\xcd\x01\x10\0\x01\0\0\0\0\0\0\x03wWw\x07eXample\0\0\x01\0\x01";

    fn upstream(flags: [u8; 2], records: usize) -> UpstreamReply {
        let query = Query::parse(PLAIN).unwrap();
        let sent = UpstreamMessage::new(query.qname, Type::A).write(9, &[0x33; 32]);
        let mut octets = sent[..sent.len() - OPT].to_vec();
        octets[2..12].copy_from_slice(&[flags[0], flags[1], 0, 1, 0, records as u8, 0, 0, 0, 1]);
        for _ in 0..records {
            octets.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01");
        }
        octets.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\0\0\0\x06\0\x0f\0\x02\0\x16");
        match UpstreamReply::read(&octets, &sent) {
            ReceivedMessage::Reply(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    const SETTINGS: RelaySettings = RelaySettings {
        limit: 512,
        payload: 1232,
    };

    #[test]
    fn a_client_gets_its_id_and_letter_case_and_an_opt_record_only_if_it_sent_one() {
        let (query, mut out) = (Query::parse(PLAIN).unwrap(), Vec::new());
        let reply = relay(&query, &upstream([0x85, 0xa0], 1), &SETTINGS, &mut out).unwrap();
        assert_eq!((reply.len(), reply.truncated), (out.len(), false));
        assert_eq!(&out[..2], b"\xab\xcd");
        assert_eq!(out[2..4], [0x85, RA | CD], "AD is for those who ask for it");
        assert_eq!(&out[4..12], [0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(&out[HEADER..PLAIN.len()], &PLAIN[HEADER..]);
        assert_eq!(out.len(), PLAIN.len() + 16);
    }

    #[test]
    fn a_client_with_edns_gets_an_opt_record_of_ours_with_the_error_of_the_resolver() {
        let mut packet = PLAIN.to_vec();
        packet[11] = 1;
        packet.extend_from_slice(b"\0\0\x29\x02\0\0\0\x80\0\0\0");
        let (query, mut out) = (Query::parse(&packet).unwrap(), Vec::new());
        let reply = relay(&query, &upstream([0x81, 0xa2], 0), &SETTINGS, &mut out).unwrap();
        assert_eq!(reply.rcode, Rcode::ServFail);
        assert_eq!(out[3], RA | AD | CD | 2);
        let opt = b"\0\0\x29\x04\xd0\0\0\x80\0\0\x06\0\x0f\0\x02\0\x16";
        assert!(out.ends_with(opt), "{out:x?}");
        assert_eq!(&out[4..12], [0, 1, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_response_that_does_not_fit_becomes_tc_without_records() {
        let (query, mut out) = (Query::parse(PLAIN).unwrap(), Vec::new());
        let reply = relay(&query, &upstream([0x81, 0x80], 40), &SETTINGS, &mut out).unwrap();
        assert!(reply.truncated && out[2] & TC != 0);
        assert_eq!(out.len(), PLAIN.len());
        assert_eq!(&out[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn codes_between_us_and_the_resolver_are_no_reply() {
        let (query, mut out) = (Query::parse(PLAIN).unwrap(), Vec::new());
        let reply = upstream([0x81, 0x8b], 0);
        assert!(relay(&query, &reply, &SETTINGS, &mut out).is_none());
    }

    /// Pseudo-random numbers that are the same in every run.
    fn next_number(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 16) as usize
    }

    #[test]
    fn mutated_replies_of_a_resolver_are_relayed_whole_or_not_at_all() {
        let query = Query::parse(PLAIN).unwrap();
        let sent = UpstreamMessage::new(query.qname, Type::A).write(9, &[0x33; 32]);
        let valid = upstream([0x81, 0x80], 8).octets().to_vec();
        let (mut state, mut out, mut relayed) = (0x9e37_79b9_7f4a_7c15, Vec::new(), 0);
        for _ in 0..50_000 {
            let mut octets = valid.clone();
            for _ in 0..=next_number(&mut state) % 4 {
                // The counts in the header, and everything after the question.
                let from = [6, sent.len() - OPT][next_number(&mut state) % 2];
                let at = from + next_number(&mut state) % (octets.len() - from);
                match next_number(&mut state) % 8 {
                    0 => octets.truncate(at.max(HEADER + 1)),
                    1 => octets.extend_from_slice(&valid[at.min(valid.len())..]),
                    _ => octets[at] = next_number(&mut state) as u8,
                }
                if octets.len() <= sent.len() {
                    break;
                }
            }
            let ReceivedMessage::Reply(reply) = UpstreamReply::read(&octets, &sent) else {
                continue;
            };
            if relay(&query, &reply, &SETTINGS, &mut out).is_some() {
                relayed += 1;
                assert!(out.len() <= SETTINGS.limit, "{octets:x?}");
                let message = nameward_wire::message::Message::parse(&out).unwrap();
                let is_whole = message.records().all(|record| record.is_ok());
                assert!(is_whole, "{octets:x?}");
            }
        }
        assert!(relayed > 1000, "{relayed}");
    }
}
