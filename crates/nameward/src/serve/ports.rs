//! Everything that is bound before privileges are dropped: DNS ports, the status page's port, the
//! control socket.

use std::{
    net::{SocketAddr, TcpListener},
    thread,
};

use nameward_control::operations::ListenerStatus;
use nameward_control::socket::{ControlSocket, SocketError};
use nameward_serve::listen::{self, Bound, ListenError};

use super::encrypted::EncryptedPorts;
use crate::{
    config::{Config, error::plain},
    remote::DefaultLocation,
};

/// A port or socket that cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A DNS port.
    #[error("{0}")]
    Dns(#[from] ListenError),
    /// The port of the status page or of the API.
    #[error("cannot listen on {address} for the {what}: {}", plain(source))]
    Web {
        /// `web page` or `API`.
        what: &'static str,
        /// Its address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The control socket.
    #[error("{0}")]
    Control(#[from] SocketError),
}

/// Bound ports that are not yet served.
pub struct Ports {
    /// UDP and TCP.
    pub dns: Bound,
    /// Encrypted DNS.
    pub encrypted: EncryptedPorts,
    /// The status page.
    pub web: Option<TcpListener>,
    /// The API; none if it shares the port of the status page.
    pub api: Option<TcpListener>,
    /// The control socket.
    pub control: Option<ControlSocket>,
}

impl Ports {
    /// Binds the configured ports.
    pub fn bind(config: &Config) -> Result<Self, PortError> {
        Ok(Self {
            dns: bind_dns(config)?,
            encrypted: EncryptedPorts::bind(config)?,
            web: config
                .web
                .listen
                .map(|at| bind_web("web page", at))
                .transpose()?,
            api: config
                .api
                .listen
                .filter(|_| !config.shares_web_port())
                .map(|at| bind_web("API", at))
                .transpose()?,
            control: bind_control(config)?,
        })
    }

    /// Returns the addresses that DNS is answered on, each with its transports.
    pub fn listeners(&self, config: &Config) -> Vec<ListenerStatus> {
        let encrypted = self.encrypted.addresses().into_iter();
        let encrypted = encrypted.map(|(transport, address)| listener(address, &[transport]));
        let mut all = self.plain_listeners(config);
        all.extend(encrypted);
        all
    }

    /// Returns the addresses without encryption, each with its transports.
    pub fn plain_listeners(&self, config: &Config) -> Vec<ListenerStatus> {
        let plain = self.dns.addresses.iter().zip(&config.server.listen);
        let plain = plain.map(|(address, entry)| {
            let transports = entry.transports.unwrap_or_default();
            match (transports.udp, transports.tcp) {
                (true, false) => listener(*address, &["UDP"]),
                (false, true) => listener(*address, &["TCP"]),
                _ => listener(*address, &["UDP", "TCP"]),
            }
        });
        plain.collect()
    }

    /// Returns the address of the API: its own port, or that of the status page.
    pub fn api_address(&self, config: &Config) -> Option<SocketAddr> {
        if config.shares_web_port() {
            self.web_address()
        } else {
            self.api.as_ref().and_then(|api| api.local_addr().ok())
        }
    }

    /// Returns the address of the status page.
    pub fn web_address(&self) -> Option<SocketAddr> {
        self.web.as_ref().and_then(|web| web.local_addr().ok())
    }
}

fn listener(address: SocketAddr, transports: &[&str]) -> ListenerStatus {
    ListenerStatus {
        address: address.to_string(),
        transports: transports.iter().map(ToString::to_string).collect(),
    }
}

fn bind_dns(config: &Config) -> Result<Bound, ListenError> {
    let workers = match config.server.workers.get() {
        0 => thread::available_parallelism().map_or(1, usize::from),
        number => number,
    };
    let entries = config.server.listen.iter();
    let addresses: Vec<_> = entries
        .map(|entry| entry.to_listen(&config.server.proxy_protocol_from))
        .collect();
    match listen::bind_all(&addresses, workers) {
        Err(ListenError::Refused {
            address, source, ..
        }) if config.example && address.is_ipv6() && !has_ipv6(&source) => {
            // The example should work for a new user on a machine without IPv6.
            tracing::warn!("not listening on {address}: this host has no IPv6");
            let addresses: Vec<_> = addresses
                .into_iter()
                .filter(|entry| entry.address.is_ipv4())
                .collect();
            listen::bind_all(&addresses, workers)
        }
        other => other,
    }
}

fn has_ipv6(error: &std::io::Error) -> bool {
    let lacking = [libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT];
    !error
        .raw_os_error()
        .is_some_and(|code| lacking.contains(&code))
}

fn bind_web(what: &'static str, address: SocketAddr) -> Result<TcpListener, PortError> {
    let bind = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(|source| PortError::Web {
        what,
        address,
        source,
    })
}

/// Binds the control socket. A configured one is mandatory; the default one is a convenience that
/// several servers on one machine, or a user without a directory for it, can do without.
fn bind_control(config: &Config) -> Result<Option<ControlSocket>, SocketError> {
    if let Some(path) = &config.server.control_socket {
        return ControlSocket::bind(path).map(Some);
    }
    let place = DefaultLocation::of_this_process();
    match place
        .prepare()
        .and_then(|()| ControlSocket::bind(&place.path()))
    {
        Ok(socket) => Ok(Some(socket)),
        Err(error) => {
            tracing::warn!("{error}; running without a control socket: set server.control_socket");
            Ok(None)
        }
    }
}
