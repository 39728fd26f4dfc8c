//! One QUIC connection: its handshake, its streams, and its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quinn::{Connection, Incoming};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::exchange::{self, QuicStreams};
use super::{EXCESSIVE_LOAD, NO_ERROR, PROTOCOL_ERROR, QuicState};
use crate::pipeline::TcpPipeline;
use crate::run_now::run_now;
use crate::tcp::{DRAIN_BUSY, DRAIN_IDLE, MessageConnection};
use crate::tls::identify_client;

/// The certificates of a client, as quinn returns them.
type QuicIdentity = Vec<CertificateDer<'static>>;

/// Counts a handshake while it is running.
struct RunningHandshake(Arc<QuicState>);

impl RunningHandshake {
    fn begin(state: &Arc<QuicState>) -> Self {
        state.handshakes.fetch_add(1, Ordering::Relaxed);
        RunningHandshake(Arc::clone(state))
    }
}

impl Drop for RunningHandshake {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection until it ends.
pub(super) async fn run(
    state: Arc<QuicState>,
    connection: MessageConnection<TcpPipeline>,
    incoming: Incoming,
    mut stopping: watch::Receiver<bool>,
) {
    let handshake = RunningHandshake::begin(&state);
    // Computes the signature, which is most of the cost of a handshake.
    let started = state.settings.budget.run(|| incoming.accept()).await;
    let Ok(connecting) = started else {
        return connection.established(false);
    };
    // On a server this never fails: streams of early data are served before the handshake is complete.
    let Ok((quic, accepted)) = connecting.into_0rtt() else {
        return connection.established(false);
    };
    let (complete, is_complete) = watch::channel(false);
    let connection = Arc::new(connection);
    let (shaking, time_limit) = (
        Arc::clone(&connection),
        state.settings.tls.handshake_timeout(),
    );
    let (closing, loaded) = (quic.clone(), state.settings.tls.current());
    let handshake = async move {
        let _handshake = handshake;
        let ended = timeout(time_limit, accepted).await;
        let is_ok = ended.is_ok() && closing.close_reason().is_none();
        shaking.established(is_ok);
        if is_ok {
            let certificates = closing.peer_identity();
            let certificates = certificates.and_then(|it| it.downcast::<QuicIdentity>().ok());
            if let Some(certificates) = certificates {
                let peer = identify_client(&certificates, loaded.client_authorities());
                shaking.identify(Arc::new(peer));
            }
            complete.send_replace(true);
        } else {
            closing.close(EXCESSIVE_LOAD, b"");
        }
        // Stored for streams that wait for it.
        complete.closed().await;
    };
    let streams = Arc::new(QuicStreams {
        connection,
        settings: state.settings.tcp.clone(),
        is_complete,
    });
    let serving = serve_streams(quic.clone(), streams, stopping.clone());
    tokio::select! {
        _ = async { tokio::join!(handshake, serving) } => {}
        _ = stopping.wait_for(|stop| *stop) => {}
        () = sleep(state.settings.tcp.lifetime) => {}
    }
    quic.close(NO_ERROR, b"");
}

/// Serves the streams of a connection, as many as its client may open, until it ends or, after another process has
/// taken over, is idle.
async fn serve_streams(
    quic: Connection,
    streams: Arc<QuicStreams>,
    mut stopping: watch::Receiver<bool>,
) {
    let drain = streams.settings.drain.clone();
    let mut running = JoinSet::new();
    let mut last = Instant::now();
    let mut drains_until = None;
    loop {
        let may_accept = drains_until.is_none_or(|end| Instant::now() < end);
        let is_idle = drains_until.is_some() && running.is_empty();
        tokio::select! {
            biased;
            accepted = quic.accept_bi(), if may_accept => {
                let Ok((send, receive)) = accepted else {
                    return;
                };
                last = Instant::now();
                let (quic, streams) = (quic.clone(), Arc::clone(&streams));
                let exchange = async move {
                    if exchange::serve(&streams, send, receive).await.is_err() {
                        quic.close(PROTOCOL_ERROR, b"");
                    }
                };
                if let Some(waiting) = run_now(Box::pin(exchange)) {
                    running.spawn(waiting);
                }
            }
            Some(_) = running.join_next() => last = Instant::now(),
            () = drain.wait(&mut stopping), if drains_until.is_none() => {
                drains_until = Some(Instant::now() + DRAIN_BUSY);
            }
            // By then the last answers are delivered.
            () = sleep_until(last + DRAIN_IDLE), if is_idle => return,
            () = sleep_until(drains_until.unwrap_or(last)), if drains_until.is_some() && may_accept => {}
            _ = quic.closed(), if !may_accept => return,
        }
    }
}
