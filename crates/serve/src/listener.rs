//! Listen addresses: the transports of each, and the rules for what is received there.
//!
//! Rules belong to the socket that a request was received on. Most listeners have none, which costs a request one
//! comparison.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use nameward_zone::AccessList;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// The address; port 0 means a free one.
    pub address: SocketAddr,
    /// Transports that are received there.
    pub transports: ListenTransports,
    /// Rules for requests received there.
    pub rules: Arc<ListenerRules>,
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        ListenAddress {
            address,
            transports: ListenTransports::default(),
            rules: Arc::default(),
        }
    }
}

/// The transports of a listen address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // named like the setting's keywords
pub struct ListenTransports {
    pub udp: bool,
    pub tcp: bool,
}

impl Default for ListenTransports {
    fn default() -> Self {
        ListenTransports {
            udp: true,
            tcp: true,
        }
    }
}

/// The rules of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenerRules {
    /// Clients that are answered, by address or TSIG key; all other requests get REFUSED. `None` means no restriction.
    pub allow_query: Option<AccessList>,
    /// Addresses of proxies, which must send a PROXY header ([`crate::proxy`]). `None` means that there are none.
    pub proxies: Option<AccessList>,
}

impl ListenerRules {
    /// No rules.
    pub(crate) const NONE: ListenerRules = ListenerRules {
        allow_query: None,
        proxies: None,
    };

    /// Checks whether a sender must send a PROXY header.
    pub(crate) fn is_proxy(&self, sender: SocketAddr) -> bool {
        let proxies = self.proxies.as_ref();
        proxies.is_some_and(|proxies| proxies.contains(sender.ip()))
    }
}

/// A bound TCP port that is not served yet.
#[derive(Debug)]
pub struct StreamListener {
    /// The socket.
    pub listener: TcpListener,
    /// Rules for its connections.
    pub rules: Arc<ListenerRules>,
}

impl From<TcpListener> for StreamListener {
    fn from(listener: TcpListener) -> Self {
        StreamListener {
            listener,
            rules: Arc::default(),
        }
    }
}
