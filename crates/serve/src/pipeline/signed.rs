//! Requests with a COOKIE (RFC 7873), edns-tcp-keepalive (RFC 7828), EXPIRE (RFC 7314), PADDING (RFC 7830) or client
//! subnet option (RFC 7871) or a TSIG record (RFC 8945). TSIG is verified before anything is decided, and the replies are signed.
//!
//! A reply is built without its TSIG record, with room reserved for it, and signed last: caches and the engine know
//! nothing of TSIG. Late replies are signed when they are sent ([`super::late`]), since the record contains the time
//! of signing.

use std::net::IpAddr;
use std::sync::Arc;

use nameward_answer::{AnswerKind, Medium};
use nameward_dnssec::tsig::{ReplySigner, TsigFailure, verify_request};
use nameward_stats::{Counter, Protocol};
use nameward_wire::message::{ClientSubnet, KeepaliveOption, Query, ReplyOptions, pad_reply};
use nameward_wire::{Opcode, Rcode, Type};
use tokio::sync::Notify;

use super::path::{Arrival, QueriedName, Turn};
use crate::request::{MessageStream, NextMessage, Verdict, medium_of};
use crate::sys::seconds_since_1970;

/// A client subnet option that is FORMERR.
struct MalformedSubnet;

impl Turn<'_> {
    /// Decides a request that is signed, has a cookie or needs one, asks for the idle timeout or the zone's expiry, or
    /// names the subnet of its client.
    #[inline(never)]
    pub(super) fn decide_extended(
        &mut self,
        query: &Query<'_>,
        arrival: &mut impl Arrival,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        self.leave_view();
        let (client, cookie) = (arrival.peer().ip(), query.cookie());
        let keepalive = query
            .edns
            .map_or(KeepaliveOption::Absent, |edns| edns.keepalive);
        let mut options = ReplyOptions {
            cookie: cookie.and_then(|option| self.answer_cookie(option, client)),
            // RFC 7828 section 3.3.1: over UDP the option is ignored.
            keepalive: match keepalive {
                KeepaliveOption::Absent => None,
                KeepaliveOption::Empty | KeepaliveOption::WithValue => arrival.keepalive(),
            },
            subnet: None,
        };
        let subnet = self.believed_subnet(query, client);
        let is_subnet_malformed = subnet.is_err();
        options.subnet = subnet.unwrap_or(None);
        let query = &query.with_reply_options(&options);
        if is_subnet_malformed {
            let (code, medium) = ((Rcode::FormErr, None), medium_of(arrival.transport()));
            let reply = self.engine.respond_with_code(query, code, medium, out);
            return self.limit(Verdict::Reply(reply), (query, None), arrival, queried, out);
        }
        if keepalive == KeepaliveOption::WithValue && options.keepalive.is_some() {
            // RFC 7828 section 3.2.1: a client must not send a value.
            let (code, medium) = ((Rcode::FormErr, None), medium_of(arrival.transport()));
            let reply = self.engine.respond_with_code(query, code, medium, out);
            return Verdict::Reply(reply);
        }
        if self.demands_cookies
            && let Some(verdict) = self.refuse_without_cookie(query, arrival.peer(), out)
        {
            return verdict;
        }
        if query.is_signed {
            self.decide_signed(query, arrival, queried, out)
        } else {
            let verdict = self.decide_verified((query, None), arrival, queried, out);
            let verdict = self.add_expire(verdict, query, queried, out);
            pad(verdict, query, arrival.transport().protocol, out)
        }
    }

    /// Parses the client subnet of a query from a sender that is believed (RFC 7871). That of others is treated as an
    /// unknown option: they could otherwise choose the answers that they get, and their resolvers would cache them.
    fn believed_subnet(
        &mut self,
        query: &Query<'_>,
        sender: IpAddr,
    ) -> Result<Option<ClientSubnet>, MalformedSubnet> {
        self.scratch.forget_client();
        let is_transfer = matches!(query.qtype, Type::AXFR | Type::IXFR);
        let is_query = query.opcode == Opcode::QUERY && !is_transfer;
        let Some(option) = query.client_subnet().filter(|_| is_query) else {
            return Ok(None);
        };
        if !self.zones.believes_subnet_of(sender) {
            return Ok(None);
        }
        let Some(subnet) = ClientSubnet::parse(option) else {
            self.recorder.add(Counter::ClientSubnetErrors, 1);
            return Err(MalformedSubnet);
        };
        self.recorder.add(Counter::ClientSubnetQueries, 1);
        Ok(Some(subnet))
    }

    /// Adds the EXPIRE option to a response with the SOA of a zone, if requested (RFC 7314 section 3).
    fn add_expire(
        &self,
        verdict: Verdict,
        query: &Query<'_>,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let Verdict::Reply(reply) = verdict else {
            return verdict;
        };
        let wants_expire = query.edns.is_some_and(|edns| edns.expire)
            && (query.opcode, query.qtype) == (Opcode::QUERY, Type::SOA)
            && reply.outcome == AnswerKind::Answer
            && !reply.truncated;
        let zone = queried.1.map(|found| found.zone).filter(|_| wants_expire);
        // A zone that is stored elsewhere has no SOA here.
        let zone = zone.filter(|zone| !zone.is_stub() && zone.apex_name() == query.qname);
        let seconds = zone.and_then(|zone| self.shared.zone_requests().expires_in(zone));
        let len = seconds
            .zip(self.engine.opt(query, None))
            .and_then(|(seconds, opt)| {
                // The smallest limit of any client: an option that does not fit is omitted.
                let limit = self.engine.limit(query, Medium::Datagram).min(out.len());
                opt.append_expire(&mut out[..limit], reply.len(), seconds)
            });
        Verdict::Reply(reply.with_len(len.unwrap_or(reply.len())))
    }

    /// Verifies a request, decides it, and signs the reply.
    fn decide_signed(
        &mut self,
        query: &Query<'_>,
        arrival: &mut impl Arrival,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let keys = self.shared.tsig_keys.load();
        let verified = verify_request(query.packet(), &keys, seconds_since_1970().into());
        let (failure, signer) = match verified {
            Ok(Some(signed)) => {
                let query = with_room(query, &signed.signer);
                let request = (&query, Some(&signed.signer));
                let verdict = self.decide_verified(request, arrival, queried, out);
                let verdict = self.add_expire(verdict, &query, queried, out);
                let verdict = pad(verdict, &query, arrival.transport().protocol, out);
                return sign(verdict, signed.signer, out);
            }
            // There is a TSIG record, so it is in a wrong position.
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
            return self.limit(Verdict::Reply(reply), (query, None), arrival, queried, out);
        };
        let query = with_room(query, &signer);
        let reply = self
            .engine
            .respond_with_code(&query, (rcode, None), medium, out);
        let verdict = self.limit(Verdict::Reply(reply), (&query, None), arrival, queried, out);
        sign(verdict, signer, out)
    }
}

/// Pads the reply to a padded query (RFC 7830). On plain transports padding would only amplify (section 6).
fn pad(verdict: Verdict, query: &Query<'_>, protocol: Protocol, out: &mut [u8]) -> Verdict {
    match verdict {
        Verdict::Reply(reply) if !reply.is_empty() && is_padded(query, protocol) => {
            let len = pad_reply(out, reply.len(), query.reserved.into());
            Verdict::Reply(reply.with_len(len))
        }
        other => other,
    }
}

/// Checks whether the reply to a query has to be padded.
pub(super) fn is_padded(query: &Query<'_>, protocol: Protocol) -> bool {
    protocol.is_encrypted() && query.edns.is_some_and(|edns| edns.padding)
}

/// Returns the query with room for the TSIG record reserved in its reply.
fn with_room<'q>(query: &Query<'q>, signer: &ReplySigner) -> Query<'q> {
    let mut query = *query;
    query.reserved = signer.reserved() as u16;
    query
}

/// Signs what a verdict sends now. A late reply has its own signer.
fn sign(verdict: Verdict, mut signer: ReplySigner, out: &mut [u8]) -> Verdict {
    match verdict {
        Verdict::Reply(reply) if !reply.is_empty() => {
            match signer.sign_in_place(out, reply.len(), seconds_since_1970().into()) {
                Some(len) => Verdict::Reply(reply.with_len(len)),
                // Room was reserved, so this is a bug; clients would take an unsigned response for a forged one.
                None => Verdict::Drop,
            }
        }
        Verdict::Stream(messages) => Verdict::Stream(Box::new(TsigMessages { messages, signer })),
        other => other,
    }
}

/// A multi-message response with each message signed: peers refuse streams that leave some unsigned.
struct TsigMessages {
    messages: Box<dyn MessageStream>,
    signer: ReplySigner,
}

impl MessageStream for TsigMessages {
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

    fn cut(&self) -> Option<Arc<Notify>> {
        self.messages.cut()
    }
}
