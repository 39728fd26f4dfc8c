//! Exchanges (query and response), passed to the query log and dnstap.
//!
//! While neither is enabled, a batch costs one relaxed load. A sink copies exchanges into its own bounded queue and
//! never blocks: when the queue is full the copy is dropped and counted, and the response is sent anyway.

use nameward_base::sync::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use nameward_stats::Protocol;
use nameward_wire::Name;
use nameward_wire::message::HEADER;

/// A request, its reply, or both.
#[derive(Clone, Copy)]
pub struct Exchange<'e> {
    /// The transport protocol.
    pub protocol: Protocol,
    /// Client address.
    pub client: SocketAddr,
    /// The address that was queried, if known.
    pub local: Option<SocketAddr>,
    /// The name of the view that it was answered from.
    pub view: Option<&'e Arc<str>>,
    /// The request as received; `None` for a reply that is sent later than its batch.
    pub query: Option<&'e [u8]>,
    /// The reply as sent; `None` for a request that is answered later or not at all.
    pub reply: Option<&'e [u8]>,
    /// When the request was received.
    pub received: SystemTime,
    /// When the reply was sent, or the request was queued.
    pub replied: SystemTime,
}

impl<'e> Exchange<'e> {
    /// Returns the name and type of the question, if the messages have one.
    pub fn question(&self) -> Option<(Name<'e>, u16)> {
        let of_reply = self.reply.and_then(question_of);
        of_reply.or_else(|| self.query.and_then(question_of))
    }
}

/// Reads the question section of a message. Its name is never compressed: no name precedes it.
fn question_of(message: &[u8]) -> Option<(Name<'_>, u16)> {
    let counts = message.get(4..6)?;
    if counts == [0, 0] {
        return None;
    }
    let (name, rest) = Name::split_from(message.get(HEADER..)?).ok()?;
    let rtype = rest.get(..2)?;
    Some((name, u16::from_be_bytes([rtype[0], rtype[1]])))
}

/// Receives exchanges. Called by the answering threads, so it must not block.
pub trait ExchangeSink: Send + Sync {
    /// Receives one exchange.
    fn receive(&self, exchange: &Exchange<'_>);
}

/// The sinks that are currently attached.
#[derive(Default)]
pub struct ExchangeTap {
    is_on: AtomicBool,
    sinks: ArcSwap<Vec<Arc<dyn ExchangeSink>>>,
    changing: Mutex<()>,
}

impl ExchangeTap {
    /// Checks whether any sink is attached.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        // It is enough if the sink sees the next batch.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Passes an exchange to all sinks.
    #[cold]
    pub(crate) fn pass(&self, exchange: &Exchange<'_>) {
        for sink in self.sinks.load().iter() {
            sink.receive(exchange);
        }
    }

    /// Attaches a sink, if it is not attached yet.
    pub fn attach(&self, sink: &Arc<dyn ExchangeSink>) {
        self.change(sink, true);
    }

    /// Detaches a sink.
    pub fn detach(&self, sink: &Arc<dyn ExchangeSink>) {
        self.change(sink, false);
    }

    fn change(&self, sink: &Arc<dyn ExchangeSink>, is_attached: bool) {
        let _changing = self.changing.lock();
        let mut sinks = Vec::clone(&self.sinks.load());
        sinks.retain(|other| !Arc::ptr_eq(other, sink));
        if is_attached {
            sinks.push(Arc::clone(sink));
        }
        self.is_on.store(!sinks.is_empty(), Ordering::Relaxed);
        self.sinks.store(Arc::new(sinks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_of_a_message_is_parsed_and_garbage_has_none() {
        let mut message = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\0\x1c\0\x01".to_vec();
        let (name, rtype) = question_of(&message).expect("a question");
        assert_eq!((name.to_string().as_str(), rtype), ("www.test.", 28));
        for end in 0..message.len() - 2 {
            assert!(question_of(&message[..end]).is_none(), "{end}");
        }
        message[HEADER] = 0xc0;
        assert!(question_of(&message).is_none());
        message[5] = 0;
        assert!(question_of(&message).is_none());
    }
}
