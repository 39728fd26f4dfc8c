//! Opens the interfaces: loads the filter, binds a socket to each queue, and attaches the filter. Needs CAP_NET_ADMIN, CAP_NET_RAW
//! and CAP_BPF.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::filter::{self, FilterSetup};
use super::{XdpMode, XdpState};
use crate::listen::UdpListener;
use crate::sys::bpf::{self, AttachMode, MapKind};
use crate::sys::interface;
use crate::sys::mapping::Mapping;
use crate::sys::xsk::XdpSocket;

/// Interval at which a successor tries to open an interface that its predecessor is about to close.
const RETRY: Duration = Duration::from_millis(50);
/// Minimum MTU of every interface (RFC 791).
const MTU_MIN: usize = 576;

/// The filter of an interface, which is attached as long as this exists.
pub(super) struct Attachment {
    /// 1 while a worker reads the rings.
    switch: Mapping,
    _link: OwnedFd,
}

impl Attachment {
    pub(super) fn set(&self, is_on: bool) {
        self.switch.set(u32::from(is_on));
    }
}

/// One queue of an interface.
pub(super) struct XdpQueue {
    pub(super) socket: XdpSocket,
    pub(super) attachment: Arc<Attachment>,
    pub(super) state: Arc<XdpState>,
    /// The index of the interface.
    pub(super) interface: u32,
    /// The MTU.
    pub(super) mtu: usize,
}

/// Why an interface is not used.
#[derive(Debug, thiserror::Error)]
enum XdpError {
    #[error("there is no such interface")]
    NoInterface,
    #[error("permission denied (it takes root, or CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF)")]
    Permission,
    #[error("another XDP program is attached to it")]
    Occupied,
    #[error("another process uses its queue {0} with AF_XDP")]
    QueueInUse(u32),
    #[error("this kernel has no AF_XDP")]
    Unsupported,
    #[error("the limit of locked memory (ulimit -l) is too low: a queue takes 10 MiB")]
    LockedMemory,
    #[error("xdp.route_check takes the kernel setting {0} = 1 (sysctl)")]
    NoForwarding(&'static str),
    #[error("cannot {0}: {1}")]
    Refused(&'static str, #[source] io::Error),
}

impl XdpError {
    fn is_busy(&self) -> bool {
        matches!(self, XdpError::Occupied | XdpError::QueueInUse(_))
    }
}

fn refused(step: &'static str) -> impl Fn(io::Error) -> XdpError {
    move |error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => XdpError::Permission,
        Some(libc::ENOSYS | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => XdpError::Unsupported,
        Some(libc::ENOBUFS) => XdpError::LockedMemory,
        _ => XdpError::Refused(step, error),
    }
}

/// The opened queues of all interfaces, not yet served.
#[derive(Default)]
pub struct XdpPorts {
    pub(super) queues: Vec<XdpQueue>,
    pub(super) listeners: Vec<UdpListener>,
    states: Vec<Arc<XdpState>>,
}

impl XdpPorts {
    /// Opens the named interfaces for the addresses of `listeners`; for a wildcard address, those of `hosts`, the
    /// addresses of this host. An interface that cannot be opened is left to the ordinary sockets. One that is in use
    /// is retried for `time_limit`.
    pub fn open(
        (names, replies): (&[String], XdpReplies),
        listeners: Vec<UdpListener>,
        hosts: &[HostAddress],
        time_limit: Duration,
    ) -> Self {
        let mut ports = XdpPorts::default();
        let addresses = answered_addresses(&listeners, hosts);
        let deadline = Instant::now() + time_limit;
        for name in names {
            let opened = loop {
                match open(name, &addresses, replies) {
                    Err(error) if error.is_busy() && Instant::now() < deadline => {
                        thread::sleep(RETRY);
                    }
                    other => break other,
                }
            };
            match opened {
                Ok((state, queues)) => {
                    tracing::info!("XDP on {name}: {}", state.text());
                    ports.states.push(state);
                    ports.queues.extend(queues);
                }
                Err(error) => {
                    tracing::error!("XDP on {name}: {error}; ordinary sockets are used");
                    let state = XdpState::failed(name, error.to_string());
                    ports.states.push(Arc::new(state));
                }
            }
        }
        ports.listeners = listeners;
        ports
    }

    /// Returns the states of all configured interfaces.
    pub fn states(&self) -> Vec<Arc<XdpState>> {
        self.states.clone()
    }
}

/// Where replies are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpReplies {
    /// To the MAC address that sent the query.
    ToSender,
    /// To the next hop in the kernel's routing table. If the route is by another interface, ordinary sockets are
    /// used.
    ByRoute,
}

/// An address and port, with the frames that are taken for it.
type AnsweredAddress = (SocketAddr, i32);

/// An address of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAddress {
    /// The address.
    pub ip: IpAddr,
    /// Whether it is on a VLAN interface.
    pub has_vlan: bool,
}

/// Returns the addresses and ports that are answered.
fn answered_addresses(listeners: &[UdpListener], hosts: &[HostAddress]) -> Vec<AnsweredAddress> {
    let mut all = Vec::new();
    for local in listeners.iter().map(UdpListener::local) {
        // A datagram from the network to a loopback address is forged.
        for host in hosts.iter().filter(|host| !host.ip.is_loopback()) {
            let address = SocketAddr::new(host.ip, local.port());
            let is_covered = local.ip() == host.ip
                || local.ip().is_unspecified() && local.is_ipv4() == host.ip.is_ipv4();
            if is_covered {
                let frames = if host.has_vlan {
                    filter::TAGGED
                } else {
                    filter::UNTAGGED
                };
                all.push((address, frames));
            }
        }
    }
    all
}

fn open(
    name: &str,
    addresses: &[AnsweredAddress],
    replies: XdpReplies,
) -> Result<(Arc<XdpState>, Vec<XdpQueue>), XdpError> {
    let interface = interface::index(name).ok_or(XdpError::NoInterface)?;
    let number = interface::receive_queues(name);
    let by_route = replies == XdpReplies::ByRoute;
    if by_route {
        check_forwarding(addresses)?;
    }
    let mtu = interface::mtu(name).unwrap_or(MTU_MIN);
    let map_refused = refused("create a BPF map");
    let (switch, switch_value) = bpf::create_number().map_err(&map_refused)?;
    let answered = bpf::create_map(MapKind::Hash, (filter::KEY, 4), addresses.len().max(1));
    let answered = answered.map_err(&map_refused)?;
    for (address, frames) in addresses {
        let frames = frames.to_ne_bytes();
        bpf::set_element(&answered, &filter::key(*address), &frames).map_err(&map_refused)?;
    }
    let sockets = bpf::create_map(MapKind::Sockets, (4, 4), number as usize);
    let sockets = sockets.map_err(&map_refused)?;
    let program = bpf::load_program(&filter::program(FilterSetup {
        route_check: by_route.then_some(interface),
        switch: switch.as_raw_fd(),
        addresses: answered.as_raw_fd(),
        sockets: sockets.as_raw_fd(),
    }));
    let program = program.map_err(refused("load the filter"))?;
    let (link, mode) = attach(&program, interface)?;
    let mut opened = Vec::new();
    for queue in 0..number {
        let socket = open_socket((interface, queue), mode)?;
        let descriptor = socket.as_raw_fd().to_ne_bytes();
        bpf::set_element(&sockets, &queue.to_ne_bytes(), &descriptor)
            .map_err(refused("add a socket to the filter"))?;
        opened.push(socket);
    }
    let mode = match mode {
        AttachMode::Generic => XdpMode::Generic,
        AttachMode::Native if opened.iter().all(XdpSocket::is_zero_copy) => XdpMode::ZeroCopy,
        AttachMode::Native => XdpMode::Native,
    };
    let state = Arc::new(XdpState::open(name, mode, opened.len()));
    let attachment = Arc::new(Attachment {
        switch: switch_value,
        _link: link,
    });
    let queues = opened.into_iter().map(|socket| XdpQueue {
        socket,
        attachment: Arc::clone(&attachment),
        state: Arc::clone(&state),
        interface,
        mtu,
    });
    Ok((Arc::clone(&state), queues.collect()))
}

/// Checks that routes can be looked up as for packets from the loopback interface.
fn check_forwarding(addresses: &[AnsweredAddress]) -> Result<(), XdpError> {
    for (is_ipv4, setting, path) in [
        (
            true,
            "net.ipv4.conf.lo.forwarding",
            "/proc/sys/net/ipv4/conf/lo/forwarding",
        ),
        (
            false,
            "net.ipv6.conf.lo.forwarding",
            "/proc/sys/net/ipv6/conf/lo/forwarding",
        ),
    ] {
        let is_needed = addresses.iter().any(|(one, _)| one.is_ipv4() == is_ipv4);
        let is_off = fs::read_to_string(path).is_ok_and(|text| text.trim() == "0");
        if is_needed && is_off {
            return Err(XdpError::NoForwarding(setting));
        }
    }
    Ok(())
}

/// Attaches the filter in the driver, or else in the network stack.
fn attach(program: &OwnedFd, interface: u32) -> Result<(OwnedFd, AttachMode), XdpError> {
    let mut result = Err(XdpError::Unsupported);
    for mode in [AttachMode::Native, AttachMode::Generic] {
        match bpf::attach(program, interface, mode) {
            Ok(link) => return Ok((link, mode)),
            // EEXIST: one is attached in the other mode.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                return Err(XdpError::Occupied);
            }
            Err(error) => result = Err(refused("attach the filter")(error)),
        }
    }
    result
}

/// Opens the socket of a queue, without copying if the driver supports that.
fn open_socket((interface, queue): (u32, u32), mode: AttachMode) -> Result<XdpSocket, XdpError> {
    let zero_copy = match mode {
        AttachMode::Native => XdpSocket::open(interface, queue, true).ok(),
        AttachMode::Generic => None,
    };
    let opened = match zero_copy {
        Some(socket) => Ok(socket),
        None => XdpSocket::open(interface, queue, false),
    };
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => XdpError::QueueInUse(queue),
        _ => refused("open a socket")(error),
    })
}
