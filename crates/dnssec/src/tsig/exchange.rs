//! One exchange of signed messages, from the perspective of either end.
//!
//! ```text
//! client   sign_request  -> request ->  verify_request              server
//!          ReplyVerifier <- replies <-  ReplySigner
//! ```
//! Each MAC covers the previous one, so messages can be neither dropped nor swapped (RFC 8945 section 5.3.1). Every
//! reply is signed here, because some peers reject a stream with unsigned messages; as a client, up to 99 consecutive
//! unsigned messages are accepted.

use super::mac::{MacContext, MacOctets};
use super::record::{TsigFields, TsigRecord, add_to_additional_count, signed_header};
use super::{TsigAlgorithm, TsigKey, TsigKeys};
use nameward_wire::message::HEADER;
use nameward_wire::{NameBuf, rcode_name};
use std::borrow::Cow;
use std::sync::Arc;

/// Allowed clock difference in seconds (RFC 8945 section 10 recommends 300).
const FUDGE: u16 = 300;
/// Maximum number of consecutive messages in a stream without a TSIG record (RFC 8945 section 5.3.1).
pub const UNSIGNED_IN_A_ROW: u8 = 99;

/// The reason why a signed message is rejected.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TsigFailure {
    /// The record is malformed: FORMERR.
    #[error("the TSIG record is malformed")]
    Malformed,
    /// The key is unknown, or known with another algorithm.
    #[error("unknown TSIG key (BADKEY)")]
    BadKey,
    #[error("TSIG signature verification failed (BADSIG)")]
    BadSignature,
    #[error("TSIG time is outside the allowed window, check both clocks (BADTIME)")]
    BadTime,
    #[error("the peer rejected the TSIG record with {}", error_name(*.0))]
    RefusedByPeer(u16),
    /// A reply, or the end of a stream of replies, is not signed.
    #[error("the reply is not signed")]
    Unsigned,
}

impl TsigFailure {
    /// Returns the error code for the TSIG record of the reply (RFC 8945 section 3), 0 for none.
    pub fn code(self) -> u16 {
        match self {
            TsigFailure::Malformed | TsigFailure::RefusedByPeer(_) | TsigFailure::Unsigned => 0,
            TsigFailure::BadSignature => 16,
            TsigFailure::BadKey => 17,
            TsigFailure::BadTime => 18,
        }
    }
}

/// Returns the name of the error in a TSIG record (RFC 8945 section 3). There 16 is BADSIG, elsewhere BADVERS.
pub fn error_name(error: u16) -> Cow<'static, str> {
    match (error, u8::try_from(error)) {
        (16, _) => "BADSIG".into(),
        (0..=11 | 17..=22, Ok(rcode)) => rcode_name(rcode).into(),
        _ => format!("error {error}").into(),
    }
}

/// A request with a valid signature.
pub struct SignedRequest {
    /// The key that signed it.
    pub key: Arc<TsigKey>,
    /// Octets of the message before the TSIG record.
    pub unsigned_len: usize,
    /// Signs the replies.
    pub signer: ReplySigner,
}

/// A request whose signature was rejected.
pub struct RefusedRequest {
    /// The reason.
    pub failure: TsigFailure,
    /// Adds the required TSIG record to the reply (FORMERR or NOTAUTH), if one is required.
    pub signer: Option<ReplySigner>,
}

/// Verifies a request as a server, in the order of RFC 8945 section 5.2. `None`: the request is not signed.
pub fn verify_request(
    message: &[u8],
    keys: &TsigKeys,
    now: u64,
) -> Result<Option<SignedRequest>, Box<RefusedRequest>> {
    let refuse = |failure, signer| Box::new(RefusedRequest { failure, signer });
    let record = match TsigRecord::find(message) {
        Ok(None) => return Ok(None),
        Ok(Some(record)) => record,
        Err(failure) => return Err(refuse(failure, None)),
    };
    let unkeyed = |failure: TsigFailure| {
        let signer = ReplySigner::unkeyed(&record, failure);
        refuse(failure, Some(signer))
    };
    let algorithm = TsigAlgorithm::from_wire_name(record.algorithm.as_name());
    let key = keys.find(record.key_name.as_name());
    let Some(key) = key.filter(|key| Some(key.algorithm()) == algorithm) else {
        return Err(unkeyed(TsigFailure::BadKey));
    };
    check_mac_len(&record, key).map_err(|failure| refuse(failure, None))?;
    let mut context = key.mac.begin();
    add_received(&mut context, message, &record);
    add_variables(&mut context, key, &record.fields());
    if !context.finish().begins_with(record.mac) {
        return Err(unkeyed(TsigFailure::BadSignature));
    }
    let signer = |error| ReplySigner::keyed(key, &record, error);
    if !is_timely(&record, now) {
        let signer = signer(TsigFailure::BadTime.code());
        return Err(refuse(TsigFailure::BadTime, Some(signer)));
    }
    Ok(Some(SignedRequest {
        key: Arc::clone(key),
        unsigned_len: record.start,
        signer: signer(0),
    }))
}

/// Checks the length of a MAC: longer than the algorithm's output or shorter than acceptable is FORMERR (RFC 8945
/// section 5.2.2.1). Everything else is accepted, so BADTRUNC (for stricter local policies) is never returned.
fn check_mac_len(record: &TsigRecord<'_>, key: &TsigKey) -> Result<(), TsigFailure> {
    let algorithm = key.algorithm();
    let allowed = algorithm.shortest_mac()..=algorithm.mac_len();
    if allowed.contains(&record.mac.len()) {
        Ok(())
    } else {
        Err(TsigFailure::Malformed)
    }
}

fn is_timely(record: &TsigRecord<'_>, now: u64) -> bool {
    record.time_signed.abs_diff(now) <= u64::from(record.fudge)
}

/// Adds a received message to a digest, as it was before it was signed.
fn add_received(context: &mut MacContext, message: &[u8], record: &TsigRecord<'_>) {
    if let Some(header) = signed_header(message, record.original_id) {
        context.update(&header);
        context.update(&message[HEADER..record.start]);
    }
}

fn add_variables(context: &mut MacContext, key: &TsigKey, fields: &TsigFields<'_>) {
    fields.digest_variables(key.name(), key.algorithm().wire_name(), |octets| {
        context.update(octets)
    });
}

/// Signs the replies to one request, one after another.
#[derive(Clone)]
pub struct ReplySigner {
    proof: ReplyProof,
    error: u16,
}

#[derive(Clone)]
enum ReplyProof {
    /// A MAC over each reply and the previous MAC.
    Keyed {
        key: Arc<TsigKey>,
        prior: MacOctets,
        is_first: bool,
        request_time: u64,
    },
    /// An empty MAC, because there is no key to make one with (RFC 8945 section 5.3.2).
    Unkeyed {
        names: Box<(NameBuf, NameBuf)>,
        time_signed: u64,
    },
}

impl ReplySigner {
    fn keyed(key: &Arc<TsigKey>, record: &TsigRecord<'_>, error: u16) -> Self {
        ReplySigner {
            proof: ReplyProof::Keyed {
                key: Arc::clone(key),
                prior: MacOctets::from_slice(record.mac),
                is_first: true,
                request_time: record.time_signed,
            },
            error,
        }
    }

    fn unkeyed(record: &TsigRecord<'_>, failure: TsigFailure) -> Self {
        ReplySigner {
            proof: ReplyProof::Unkeyed {
                names: Box::new((record.key_name, record.algorithm)),
                time_signed: record.time_signed,
            },
            error: failure.code(),
        }
    }

    /// Returns the octets that a reply must leave free for the TSIG record.
    pub fn reserved(&self) -> usize {
        match &self.proof {
            // Six for the server time of a BADTIME.
            ReplyProof::Keyed { key, .. } => key.record_len() + 6,
            ReplyProof::Unkeyed { names, .. } => {
                let (key_name, algorithm) = (names.0.as_name(), names.1.as_name());
                key_name.as_wire().len() + algorithm.as_wire().len() + 26
            }
        }
    }

    /// Returns the key that the request was signed with, if it is known here.
    pub fn key(&self) -> Option<&Arc<TsigKey>> {
        match &self.proof {
            ReplyProof::Keyed { key, .. } => Some(key),
            ReplyProof::Unkeyed { .. } => None,
        }
    }

    /// Appends the TSIG record to the next reply, which is in the first `len` octets of a buffer; returns its new
    /// length, or `None` if the buffer has less room than [`ReplySigner::reserved`].
    pub fn sign_in_place(&mut self, buffer: &mut [u8], len: usize, now: u64) -> Option<usize> {
        let (reply, room) = buffer.split_at_mut_checked(len)?;
        let mut record = Vec::with_capacity(self.reserved());
        self.make_record(reply, &mut record, now);
        room.get_mut(..record.len())?.copy_from_slice(&record);
        add_to_additional_count(reply, 1);
        Some(len + record.len())
    }

    /// Appends the TSIG record to the next reply, which must otherwise be complete.
    pub fn sign(&mut self, reply: &mut Vec<u8>, now: u64) {
        let mut record = Vec::with_capacity(self.reserved());
        self.make_record(reply, &mut record, now);
        reply.append(&mut record);
        add_to_additional_count(reply, 1);
    }

    /// Makes the TSIG record of a reply that is otherwise complete.
    fn make_record(&mut self, reply: &[u8], record: &mut Vec<u8>, now: u64) {
        let id = reply.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let clock = now.to_be_bytes();
        let mut fields = TsigFields {
            time_signed: now,
            fudge: FUDGE,
            original_id: id,
            error: self.error,
            other: &[],
        };
        match &mut self.proof {
            ReplyProof::Unkeyed { names, time_signed } => {
                fields.time_signed = *time_signed;
                fields.encode((names.0.as_name(), names.1.as_name()), &[], record);
            }
            ReplyProof::Keyed {
                key,
                prior,
                is_first,
                request_time,
            } => {
                if self.error == TsigFailure::BadTime.code() {
                    // RFC 8945 section 5.2.3: the client's own time, and in addition the server's.
                    fields.time_signed = *request_time;
                    fields.other = &clock[2..];
                }
                let mut context = begin_reply(key, prior);
                context.update(reply);
                if std::mem::take(is_first) {
                    add_variables(&mut context, key, &fields)
                } else {
                    fields.digest_timers(|octets| context.update(octets))
                }
                *prior = context.finish();
                let names = (key.name(), key.algorithm().wire_name());
                fields.encode(names, prior.as_slice(), record);
            }
        }
    }
}

/// Signs a request as a client, and returns the verifier for its replies.
pub fn sign_request(key: &Arc<TsigKey>, request: &mut Vec<u8>, now: u64) -> ReplyVerifier {
    let fields = TsigFields {
        time_signed: now,
        fudge: FUDGE,
        original_id: request
            .first_chunk()
            .map_or(0, |id| u16::from_be_bytes(*id)),
        error: 0,
        other: &[],
    };
    let mut context = key.mac.begin();
    context.update(request);
    add_variables(&mut context, key, &fields);
    let mac = context.finish();
    let names = (key.name(), key.algorithm().wire_name());
    fields.encode(names, mac.as_slice(), request);
    add_to_additional_count(request, 1);
    ReplyVerifier {
        key: Arc::clone(key),
        context: begin_reply(key, &mac),
        is_first: true,
        unsigned: 0,
    }
}

/// Starts a digest with the previous MAC, preceded by its length (RFC 8945 section 4.3.1).
fn begin_reply(key: &TsigKey, prior: &MacOctets) -> MacContext {
    let mut context = key.mac.begin();
    context.update(&(prior.as_slice().len() as u16).to_be_bytes());
    context.update(prior.as_slice());
    context
}

/// Verifies the replies to one signed request, one after another.
pub struct ReplyVerifier {
    key: Arc<TsigKey>,
    /// The digest of everything since the last MAC.
    context: MacContext,
    is_first: bool,
    unsigned: u8,
}

impl ReplyVerifier {
    /// Verifies the next reply and returns its length without the TSIG record.
    ///
    /// A reply without one is accepted provisionally if it is not the first; only a later MAC authenticates it.
    pub fn verify(&mut self, reply: &[u8], now: u64) -> Result<usize, TsigFailure> {
        let Some(record) = TsigRecord::find(reply)? else {
            if self.is_first || self.unsigned == UNSIGNED_IN_A_ROW {
                return Err(TsigFailure::Unsigned);
            }
            self.unsigned += 1;
            self.context.update(reply);
            return Ok(reply.len());
        };
        let key = &self.key;
        if key.name() != record.key_name.as_name()
            || key.algorithm().wire_name() != record.algorithm.as_name()
        {
            return Err(TsigFailure::BadKey);
        }
        if record.mac.is_empty() && record.error != 0 {
            // RFC 8945 section 5.3.2: it proves nothing, but it tells what went wrong.
            return Err(TsigFailure::RefusedByPeer(record.error));
        }
        check_mac_len(&record, key)?;
        add_received(&mut self.context, reply, &record);
        let fields = record.fields();
        if std::mem::take(&mut self.is_first) {
            add_variables(&mut self.context, key, &fields)
        } else {
            fields.digest_timers(|octets| self.context.update(octets))
        }
        let next = begin_reply(key, &MacOctets::from_slice(record.mac));
        let mac = std::mem::replace(&mut self.context, next).finish();
        if !mac.begins_with(record.mac) {
            return Err(TsigFailure::BadSignature);
        }
        if record.error != 0 {
            return Err(TsigFailure::RefusedByPeer(record.error));
        }
        if !is_timely(&record, now) {
            return Err(TsigFailure::BadTime);
        }
        self.unsigned = 0;
        Ok(record.start)
    }

    /// Checks whether every reply so far is authenticated by a MAC: the last one in a stream must be signed.
    pub fn is_complete(&self) -> bool {
        !self.is_first && self.unsigned == 0
    }
}
