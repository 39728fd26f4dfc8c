//! The certificates and ports of encrypted DNS (TLS, HTTPS, QUIC), which are opened before the change of user.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use nameward_serve::{
    inherited::InheritedSockets,
    listen::{self, ListenError},
    quic::{QuicIdentity, QuicListener},
    tls::{ServerTls, TlsError},
};
use nameward_stats::Protocol;

use crate::config::{Config, listen_entry::EncryptedEntry};

/// Loads the configured certificates; `None` without any, or without a listener for them. Call before the change of user: keys
/// are often readable by root only.
pub fn load_tls(config: &Config) -> Result<Option<Arc<ServerTls>>, TlsError> {
    let is_used = config.api.listen.is_some() || config.listens_encrypted();
    let options = config.tls.options().filter(|_| is_used);
    options.map(ServerTls::load).transpose()
}

#[derive(Default)]
pub struct EncryptedPorts {
    pub tls: Vec<TcpListener>,
    pub https: Vec<TcpListener>,
    pub quic: Vec<QuicListener>,
    /// The keys of QUIC connections, which a server that takes over gets.
    pub identity: QuicIdentity,
}

impl EncryptedPorts {
    /// Binds the configured ports, except inherited ones.
    pub fn bind(config: &Config, inherited: &mut InheritedSockets) -> Result<Self, ListenError> {
        let server = &config.server;
        let addresses = |list: &[EncryptedEntry]| {
            let list = list.iter().map(|entry| entry.0.address);
            list.collect::<Vec<SocketAddr>>()
        };
        let quic = server.listen_quic.iter().map(|entry| entry.0.address);
        Ok(Self {
            tls: listen::bind_streams(&addresses(&server.listen_tls), Protocol::Tls, inherited)?,
            https: listen::bind_streams(
                &addresses(&server.listen_https),
                Protocol::Https,
                inherited,
            )?,
            quic: listen::bind_quic(&quic.collect::<Vec<_>>(), inherited)?,
            identity: QuicIdentity::default(),
        })
    }

    /// Returns copies of all descriptors, for a server that takes over.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let streams = self.tls.iter().chain(&self.https);
        let streams = streams.map(|one| one.as_fd().try_clone_to_owned());
        let mut all = streams.collect::<io::Result<Vec<_>>>()?;
        for listener in &self.quic {
            all.extend(listener.descriptors()?);
        }
        Ok(all)
    }

    /// Returns the addresses with the names of their transports.
    pub fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let streams = |listeners: &[TcpListener]| {
            let addresses = listeners.iter().map(TcpListener::local_addr);
            addresses.filter_map(Result::ok).collect::<Vec<_>>()
        };
        let quic = self.quic.iter().map(QuicListener::local_addr);
        let lists = [
            ("TLS", streams(&self.tls)),
            ("HTTPS", streams(&self.https)),
            ("QUIC", quic.filter_map(Result::ok).collect()),
        ];
        let named = |(name, list): (&'static str, Vec<SocketAddr>)| {
            let list = list.into_iter();
            list.map(move |address| (name, address))
        };
        lists.into_iter().flat_map(named).collect()
    }
}
