//! Connections from proxies: each starts with a PROXY header and is then treated as the connection of the client
//! named there.
//!
//! A proxy has as many connections as it has clients, so it is not counted itself; the client is, once it is known.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{AcceptedAt, Endpoints, RegistrySlot, StreamHandler, StreamState};
use crate::proxy::{HEADER_MAX, NoHeader, ProxyHeader, read_stream};

/// Admits a connection from a proxy, and serves it as a connection of the client.
pub(super) fn admit<H: StreamHandler, F: Future<Output = ()> + Send + 'static>(
    shared: &Arc<StreamState<H>>,
    mut stream: TcpStream,
    (ends, rules): AcceptedAt,
    serve: impl FnOnce(TcpStream, RegistrySlot<H>) -> F + Send + 'static,
) {
    let Ok(id) = shared.registry.enter(None) else {
        return;
    };
    shared.handler.opened(ends.client);
    let mut slot = RegistrySlot {
        shared: Arc::clone(shared),
        id,
        ends,
        rules,
    };
    let task = tokio::spawn(async move {
        let time_limit = slot.shared.settings.message_timeout;
        let header = match timeout(time_limit, read_header(&mut stream)).await {
            Ok(Ok(header)) => header,
            // A proxy that only checks whether the port is open.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotConnected => return,
            Ok(Err(_)) | Err(_) => return slot.shared.handler.header_refused(ends.client),
        };
        if let Some(proxied) = header.ends {
            slot.ends = Endpoints {
                client: proxied.client,
                local: proxied.local,
            };
        }
        let client = slot.ends.client;
        if slot.shared.registry.identify(slot.id, client.ip()).is_err() {
            slot.shared.handler.refused(client);
            return;
        }
        serve(stream, slot).await;
    });
    shared.registry.set_task(id, task.abort_handle());
}

/// Reads a header and not one octet more: the rest belongs to the layer above.
async fn read_header(stream: &mut TcpStream) -> io::Result<ProxyHeader> {
    let mut octets = Vec::new();
    loop {
        let needed = match read_stream(&octets) {
            Ok(header) => return Ok(header),
            Err(NoHeader::Malformed) => return Err(io::ErrorKind::InvalidData.into()),
            Err(NoHeader::Incomplete(needed)) => needed.min(HEADER_MAX),
        };
        let have = octets.len();
        octets.resize(needed, 0);
        let read = stream.read_exact(&mut octets[have..]).await;
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof if have == 0 => io::ErrorKind::NotConnected.into(),
            _ => error,
        })?;
    }
}
