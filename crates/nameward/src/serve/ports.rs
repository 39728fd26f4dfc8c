//! Everything that is bound before privileges are dropped: DNS ports, the status page's port, the
//! control socket.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    thread,
    time::Duration,
};

use nameward_control::operations::ListenerStatus;
use nameward_control::socket::{ControlSocket, SocketError};
use nameward_import::bind::interfaces;
use nameward_serve::inherited::InheritedSockets;
use nameward_serve::listen::{self, Bound, ListenError, UdpListener};
use nameward_serve::xdp::{HostAddress, XdpPorts, XdpReplies};

use super::{encrypted_ports::EncryptedPorts, take_over::TakeOver};
use crate::{config::Config, control_location::DefaultLocation, start_error::PortError};

/// How long a successor waits for its predecessor to release the interfaces.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(3);

/// Bound ports that are not yet served.
pub struct Ports {
    /// UDP and TCP.
    pub dns: Bound,
    /// Queues of interfaces.
    pub xdp: XdpPorts,
    pub encrypted: EncryptedPorts,
    /// The status page.
    pub web: Option<TcpListener>,
    /// The API; none if it shares the port of the status page.
    pub api: Option<TcpListener>,
    pub control: Option<ControlSocket>,
}

impl Ports {
    /// Binds the configured ports, except inherited ones.
    pub fn bind(
        config: &Config,
        inherited: &mut InheritedSockets,
        before: Option<&TakeOver>,
    ) -> Result<Self, PortError> {
        let dns = bind_dns(config, inherited)?;
        let xdp = open_xdp(config, &dns, before.is_some());
        let mut encrypted = EncryptedPorts::bind(config, inherited)?;
        if let Some(identity) = before.and_then(TakeOver::quic_identity) {
            encrypted.identity = identity;
        }
        let mut bind = |what, at| match inherited.take_tcp(at) {
            Some(listener) => Ok(listener),
            None => bind_web(what, at),
        };
        let web = config.web.listen.map(|at| bind("web page", at));
        let web = web.transpose()?;
        let api = config.api.listen.filter(|_| !config.shares_web_port());
        let api = api.map(|at| bind("API", at)).transpose()?;
        let control = match (before, inherited.take_local()) {
            (Some(before), Some(listener))
                if is_control_socket(config, before.control_socket()) =>
            {
                Some(ControlSocket::inherit(listener, before.control_socket())?)
            }
            _ => bind_control(config)?,
        };
        if before.is_none() {
            for (address, protocol) in inherited.unused() {
                tracing::warn!(
                    "systemd listens on {address}/{protocol}, which no setting names: queries to it are not answered"
                );
            }
        }
        Ok(Self {
            dns,
            xdp,
            encrypted,
            web,
            api,
            control,
        })
    }

    /// Returns copies of all descriptors, for a server that takes over.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let mut all = self.dns.descriptors()?;
        all.extend(self.encrypted.descriptors()?);
        for listener in self.web.iter().chain(&self.api) {
            all.push(listener.as_fd().try_clone_to_owned()?);
        }
        if let Some(control) = &self.control {
            all.push(control.descriptor()?);
        }
        Ok(all)
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

/// Checks whether the configuration still has the control socket of the server before.
fn is_control_socket(config: &Config, path: &Path) -> bool {
    let default = || DefaultLocation::for_this_process().path();
    let configured = config.server.control_socket.clone().unwrap_or_else(default);
    match (configured.canonicalize(), path.canonicalize()) {
        (Ok(configured), Ok(path)) => configured == path,
        _ => false,
    }
}

fn bind_dns(config: &Config, inherited: &mut InheritedSockets) -> Result<Bound, ListenError> {
    let workers = match config.server.workers.get() {
        0 => thread::available_parallelism().map_or(1, usize::from),
        number => number,
    };
    let entries = config.server.listen.iter();
    let addresses: Vec<_> = entries
        .map(|entry| entry.to_listen(&config.server.proxy_protocol_from))
        .collect();
    match listen::bind_with(&addresses, workers, inherited) {
        Err(ListenError::Refused {
            address, source, ..
        }) if config.example && address.is_ipv6() && !has_ipv6(&source) => {
            // The example should work for a new user on a machine without IPv6.
            tracing::warn!("not listening on {address}: this host has no IPv6");
            let addresses: Vec<_> = addresses
                .into_iter()
                .filter(|entry| entry.address.is_ipv4())
                .collect();
            listen::bind_with(&addresses, workers, inherited)
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

/// Opens the interfaces with XDP. A successor waits for its predecessor to close them.
fn open_xdp(config: &Config, dns: &Bound, is_take_over: bool) -> XdpPorts {
    let names = &config.xdp.interfaces;
    if names.is_empty() {
        return XdpPorts::default();
    }
    let mut listeners: Vec<_> = dns.udp.iter().flatten().cloned().collect();
    listeners.sort_by_key(UdpListener::local);
    listeners.dedup_by_key(|one| one.local());
    let hosts = interfaces::addresses().unwrap_or_else(|error| {
        tracing::warn!("cannot list the addresses of this host: {error}");
        Vec::new()
    });
    // Two header lines, then one line per interface that starts with its name.
    let vlans = std::fs::read_to_string("/proc/net/vlan/config").unwrap_or_default();
    let vlans = vlans.lines().skip(2);
    let hosts = hosts.into_iter().map(|host| HostAddress {
        ip: host.address,
        has_vlan: vlans
            .clone()
            .any(|line| line.split_whitespace().next() == Some(&host.interface)),
    });
    let hosts: Vec<_> = hosts.collect();
    let timeout = if is_take_over {
        CLOSING_TIMEOUT
    } else {
        Duration::ZERO
    };
    let replies = if config.xdp.route_check {
        XdpReplies::ByRoute
    } else {
        XdpReplies::ToSender
    };
    XdpPorts::open((names, replies), listeners, &hosts, timeout)
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
    let place = DefaultLocation::for_this_process();
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
