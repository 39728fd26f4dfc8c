//! Sockets bound by another process: during an upgrade, or by socket activation.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};

use socket2::{Socket, Type};

/// Sockets bound by another process: the predecessor of this server, or the service manager.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    udp: Vec<(SocketAddr, Socket)>,
    /// QUIC sockets, each with the connection to the predecessor.
    quic: Vec<(SocketAddr, Socket, UnixDatagram)>,
    tcp: Vec<(SocketAddr, Socket)>,
    /// Unix sockets: the control socket.
    local: Vec<Socket>,
}

impl InheritedSockets {
    /// Adds a descriptor according to its type; one that is not a bound socket is dropped. A UDP
    /// socket is for QUIC if the connection to the predecessor follows it.
    pub fn add(&mut self, descriptor: OwnedFd) {
        let socket = Socket::from(descriptor);
        let address = socket.local_addr().ok();
        let is_stream = socket.r#type().is_ok_and(|kind| kind == Type::STREAM);
        match address.map(|address| address.as_socket()) {
            Some(Some(address)) if is_stream => self.tcp.push((address, socket)),
            Some(Some(address)) => self.udp.push((address, socket)),
            Some(None) if is_stream => self.local.push(socket),
            Some(None) => {
                if let Some((address, udp)) = self.udp.pop() {
                    let before = OwnedFd::from(socket).into();
                    self.quic.push((address, udp, before));
                }
            }
            None => {}
        }
    }

    /// Checks whether there is no Internet socket that was not taken.
    pub fn is_empty(&self) -> bool {
        self.udp.is_empty() && self.quic.is_empty() && self.tcp.is_empty()
    }

    /// Returns the addresses of the sockets that were not taken, each with its protocol.
    pub fn unused(&self) -> Vec<(SocketAddr, &'static str)> {
        let udp = self.udp.iter().map(|(address, _)| (*address, "udp"));
        let tcp = self.tcp.iter().map(|(address, _)| (*address, "tcp"));
        udp.chain(tcp).collect()
    }

    /// Takes the UDP sockets of an address; port 0 matches any.
    pub(crate) fn take_udp(&mut self, address: SocketAddr) -> Vec<Socket> {
        let Some(local) = self
            .udp
            .iter()
            .map(|(local, _)| *local)
            .find(is_at(address))
        else {
            return Vec::new();
        };
        let taken = self.udp.extract_if(.., |(other, _)| *other == local);
        taken.map(|(_, socket)| socket).collect()
    }

    /// Takes the QUIC socket of an address, with the connection to the predecessor; port 0 matches
    /// any.
    pub(crate) fn take_quic(
        &mut self,
        address: SocketAddr,
    ) -> Option<(UdpSocket, Option<UnixDatagram>)> {
        let is_here = is_at(address);
        if let Some(found) = self.quic.iter().position(|(local, ..)| is_here(local)) {
            let (_, socket, before) = self.quic.remove(found);
            return Some((socket.into(), Some(before)));
        }
        // From the service manager.
        let found = self.udp.iter().position(|(local, _)| is_here(local))?;
        Some((self.udp.remove(found).1.into(), None))
    }

    /// Takes the listener of an address, if there is one; port 0 matches any.
    pub fn take_tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let found = self
            .tcp
            .iter()
            .position(|(local, _)| is_at(address)(local))?;
        let listener: TcpListener = self.tcp.remove(found).1.into();
        listener.set_nonblocking(true).ok()?;
        Some(listener)
    }

    /// Takes the listening Unix socket, if there is one.
    pub fn take_local(&mut self) -> Option<UnixListener> {
        let listener: UnixListener = OwnedFd::from(self.local.pop()?).into();
        listener.set_nonblocking(true).ok()?;
        Some(listener)
    }
}

/// Compares the address of a socket with a configured one.
fn is_at(wanted: SocketAddr) -> impl Fn(&SocketAddr) -> bool {
    move |local| {
        let is_port = wanted.port() == 0 || wanted.port() == local.port();
        is_port && local.ip() == wanted.ip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::{bind_all, bind_with};

    #[test]
    fn all_sockets_of_another_process_are_used_whatever_the_number_of_workers() {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        for workers in [1, 3, 5] {
            let first = bind_all(&[loopback], 3).unwrap();
            let mut inherited = InheritedSockets::default();
            let descriptors = first.descriptors().unwrap();
            descriptors.into_iter().for_each(|one| inherited.add(one));
            let second = bind_with(&[loopback.into()], workers, &mut inherited).unwrap();
            assert_eq!(second.addresses, first.addresses);
            assert_eq!(second.udp.len(), workers);
            assert_eq!(second.udp.iter().flatten().count(), workers.max(3));
            assert!(inherited.is_empty());
        }
    }
}
