//! A question that is answered later: all that is needed for that, apart from the buffers it came in.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use nameward_answer::Medium;
use nameward_stats::Transport;

use super::view::Held;
use crate::tcp::Ticket;
use crate::udp::ReturnPath;

/// Where a reply goes.
pub(crate) enum ReplyTo {
    Datagram(Box<ReturnPath>),
    Stream(Ticket),
}

pub(crate) struct Job {
    /// As it was received; it was parsed once without an error.
    pub(crate) packet: Box<[u8]>,
    pub(crate) client: SocketAddr,
    pub(crate) reply_to: ReplyTo,
    pub(crate) received: Instant,
    /// Parts of zones fetched so far.
    pub(crate) parts: Vec<Held>,
}

impl Job {
    pub(crate) fn medium(&self) -> Medium {
        match self.reply_to {
            ReplyTo::Datagram(_) => Medium::Datagram,
            ReplyTo::Stream(_) => Medium::Stream,
        }
    }

    pub(crate) fn transport(&self) -> Transport {
        match (&self.reply_to, self.client.ip()) {
            (ReplyTo::Datagram(_), IpAddr::V4(_)) => Transport::Udp4,
            (ReplyTo::Datagram(_), IpAddr::V6(_)) => Transport::Udp6,
            (ReplyTo::Stream(_), IpAddr::V4(_)) => Transport::Tcp4,
            (ReplyTo::Stream(_), IpAddr::V6(_)) => Transport::Tcp6,
        }
    }
}
