//! DNS cookies (RFC 7873) of requests: verified before anything is decided, and answered in the OPT record of the reply
//! whichever path it takes, since the cookie of the reply travels with the query.
//!
//! | over UDP, while cookies are required | reply |
//! |---|---|
//! | valid server cookie, TSIG record, or an opcode other than QUERY | as usual |
//! | client cookie without a valid server cookie | BADCOOKIE, with a server cookie |
//! | no cookie | TC |
//!
//! These replies are rate-limited like errors, although they are hardly larger than the query.

use std::net::{IpAddr, SocketAddr};

use nameward_answer::{Medium, Reply};
use nameward_stats::Counter;
use nameward_wire::message::{Query, ReplyCookie};
use nameward_wire::{Opcode, Rcode};

use super::path::Turn;
use crate::request::Verdict;
use crate::sys::seconds_since_1970;

impl Turn<'_> {
    /// Notes a batch of datagrams: from some rate on, their senders may need cookies.
    #[inline]
    pub(super) fn note_datagrams(&mut self, number: usize) {
        if let Some(cookies) = self.cookies {
            self.demands_cookies = cookies.demands(number, seconds_since_1970());
        }
    }

    /// Verifies a cookie; returns that of the reply, unless cookies are disabled.
    pub(super) fn answer_cookie(&mut self, option: &[u8], client: IpAddr) -> Option<ReplyCookie> {
        let reply = self.cookies?.answer(option, client, seconds_since_1970())?;
        if reply.is_verified {
            self.recorder.add(Counter::CookiesValid, 1);
        } else if option.len() > 8 {
            self.recorder.add(Counter::CookiesInvalid, 1);
        }
        Some(reply)
    }

    /// Decides a query over UDP while cookies are required; `None` if it may be answered.
    #[cold]
    pub(super) fn refuse_without_cookie(
        &mut self,
        query: &Query<'_>,
        peer: SocketAddr,
        out: &mut [u8],
    ) -> Option<Verdict> {
        let cookie = query.reply_options.cookie;
        let is_verified = cookie.is_some_and(|cookie| cookie.is_verified);
        if is_verified || query.is_signed || query.opcode != Opcode::QUERY {
            return None;
        }
        self.recorder.add(Counter::CookieRefusals, 1);
        let engine = self.engine;
        let reply = match cookie {
            Some(_) => {
                let code = (Rcode::BadCookie, None);
                engine.respond_with_code(query, code, Medium::Datagram, out)
            }
            None => engine.respond_truncated(query, out),
        };
        Some(self.limit_without_cookie(reply, query, peer, out))
    }

    /// Answers a request without a question that asks for a cookie only (RFC 7873 section 5.4).
    #[cold]
    pub(super) fn answer_cookie_only(
        &mut self,
        packet: &[u8],
        peer: SocketAddr,
        out: &mut [u8],
    ) -> Option<Reply> {
        let option = Query::parse_cookie_only(packet)?;
        let cookie = self.answer_cookie(option, peer.ip())?;
        let rcode = if cookie.is_verified || option.len() == 8 {
            Rcode::NoError
        } else {
            Rcode::BadCookie
        };
        self.engine
            .respond_without_question(packet, cookie, rcode, out)
    }
}
