//! Requests with a TSIG record (RFC 8945): verified before anything is decided, and their replies signed.
//!
//! A reply is made without its TSIG record, with room kept for it, and signed last: caches and the engine know nothing of
//! signatures. Replies that come later are signed when they leave ([`super::late`]), since the time in the record is that
//! of signing.

use std::sync::Arc;

use nameward_answer::Reply;
use nameward_dnssec::tsig::{ReplySigner, TsigFailure, verify_request};
use nameward_stats::Counter;
use nameward_wire::Rcode;
use nameward_wire::message::Query;
use tokio::sync::Notify;

use super::path::{Arrival, Asked, Turn};
use crate::request::{MessageStream, NextMessage, Verdict, medium_of};
use crate::sys::seconds_since_1970;

impl Turn<'_> {
    /// Verifies a request, decides it, and signs the reply.
    #[cold]
    pub(super) fn decide_signed(
        &mut self,
        query: &Query<'_>,
        arrival: &mut impl Arrival,
        asked: Asked<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let keys = self.shared.tsig_keys.load();
        let verified = verify_request(query.packet(), &keys, seconds_since_1970().into());
        let (failure, signer) = match verified {
            Ok(Some(signed)) => {
                let query = with_room(query, &signed.signer);
                let request = (&query, Some(&signed.signer));
                let verdict = self.decide_verified(request, arrival, asked, out);
                return sign(verdict, signed.signer, out);
            }
            // There is a record, so this is one that stands where none may.
            Ok(None) => (TsigFailure::Malformed, None),
            Err(refused) => (refused.failure, refused.signer),
        };
        self.recorder.add(Counter::TsigFailures, 1);
        let rcode = match failure {
            TsigFailure::Malformed => Rcode::FormErr,
            _ => Rcode::NotAuth,
        };
        let medium = medium_of(arrival.transport());
        let Some(signer) = signer else {
            let reply = self
                .engine
                .respond_with_code(query, (rcode, None), medium, out);
            return Verdict::Reply(reply);
        };
        let query = with_room(query, &signer);
        let reply = self
            .engine
            .respond_with_code(&query, (rcode, None), medium, out);
        sign(Verdict::Reply(reply), signer, out)
    }
}

/// The request, with room kept in its reply.
fn with_room<'q>(query: &Query<'q>, signer: &ReplySigner) -> Query<'q> {
    let mut query = *query;
    query.reserved = signer.reserved() as u16;
    query
}

/// Signs what a verdict sends now. A reply that comes later has a signer of its own.
fn sign(verdict: Verdict, mut signer: ReplySigner, out: &mut [u8]) -> Verdict {
    match verdict {
        Verdict::Reply(reply) if reply.len > 0 => {
            match signer.sign_in_place(out, reply.len, seconds_since_1970().into()) {
                Some(len) => Verdict::Reply(Reply { len, ..reply }),
                // Room was kept, so this is a bug; an answer that is not signed would be taken for a forged one.
                None => Verdict::Drop,
            }
        }
        Verdict::Stream(messages) => Verdict::Stream(Box::new(SignedMessages { messages, signer })),
        other => other,
    }
}

/// An answer of many messages, each of them signed: peers refuse streams that leave some out.
struct SignedMessages {
    messages: Box<dyn MessageStream>,
    signer: ReplySigner,
}

impl MessageStream for SignedMessages {
    fn next_message(&mut self, out: &mut [u8]) -> NextMessage {
        let room = out.len().saturating_sub(self.signer.reserved());
        match self.messages.next_message(&mut out[..room]) {
            NextMessage::Written(len) => {
                let now = seconds_since_1970().into();
                match self.signer.sign_in_place(out, len, now) {
                    Some(len) => NextMessage::Written(len),
                    None => NextMessage::Broken,
                }
            }
            other => other,
        }
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        self.messages.wake()
    }
}
