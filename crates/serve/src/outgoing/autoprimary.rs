//! Zones of autoprimaries: a NOTIFY for a zone that is not here makes it a secondary zone, if its sender is listed and
//! the zone has the name server that is listed with it.
//!
//! The NOTIFY itself may be forged, so it only begins a question to the listed address, over TCP. Zones that wait are bounded, and
//! so are those that are made.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use nameward_maintain::notify::{Notification, NotifyOutcome, NotifySink};
use nameward_maintain::policy::{Autoprimary, KeptPolicies, KeptSecondary, PolicyTable};
use nameward_maintain::transfer::{AskedQuestion, read_name_servers};
use nameward_wire::{NameBuf, Type};
use nameward_zone::ZoneTable;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{SecondarySink, random_id};

/// Zones that wait to be looked at; more NOTIFY messages are passed over, and come again.
const WAITING_MAX: usize = 1000;
/// Zones that autoprimaries may make in all.
const ZONES_MAX: usize = 1_000_000;
/// How long an autoprimary may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The parts that zones of autoprimaries need.
pub struct AutoprimaryParts {
    /// The policies, with the list of autoprimaries.
    pub policies: Arc<PolicyTable>,
    /// Where the zones are kept.
    pub kept: Arc<KeptPolicies>,
    /// The zones that are served.
    pub zones: Arc<ArcSwap<ZoneTable>>,
    /// Where questions are asked.
    pub runtime: Handle,
}

/// Takes NOTIFY messages for secondary zones, and for zones that autoprimaries have.
pub struct AutoprimarySink {
    secondaries: SecondarySink,
    shared: Arc<AutoprimaryShared>,
}

struct AutoprimaryShared {
    parts: AutoprimaryParts,
    /// Zones that are being looked at, in wire form and lower case.
    waiting: Mutex<HashSet<Box<[u8]>>>,
}

impl AutoprimarySink {
    /// Hands NOTIFY messages for zones that are here to `secondaries`.
    pub fn new(secondaries: SecondarySink, parts: AutoprimaryParts) -> Self {
        let shared = AutoprimaryShared {
            parts,
            waiting: Mutex::default(),
        };
        AutoprimarySink {
            secondaries,
            shared: Arc::new(shared),
        }
    }
}

impl NotifySink for AutoprimarySink {
    fn notified(&self, notification: &Notification<'_>) -> NotifyOutcome {
        self.secondaries.notified(notification)
    }

    fn notified_of_unknown(&self, notification: &Notification<'_>) -> NotifyOutcome {
        let AutoprimaryParts {
            policies,
            zones,
            runtime,
            ..
        } = &self.shared.parts;
        let policies = policies.load();
        let peer = notification.peer.ip().to_canonical();
        let is_peer = |listed: &&Autoprimary| listed.address.ip().to_canonical() == peer;
        let listed: Vec<Autoprimary> = policies
            .autoprimaries()
            .iter()
            .filter(is_peer)
            .cloned()
            .collect();
        let zone = notification.zone;
        let is_here = policies.own(zone).is_some() || zones.load().exact(zone).is_some();
        if listed.is_empty() || is_here {
            return NotifyOutcome::NotAuth;
        }
        let name = zone.as_wire().to_ascii_lowercase().into_boxed_slice();
        let mut waiting = self.shared.waiting();
        if waiting.len() < WAITING_MAX && waiting.insert(name) {
            let (shared, zone) = (Arc::clone(&self.shared), NameBuf::from(zone));
            runtime.spawn(async move { shared.look_at(zone, &listed).await });
        }
        NotifyOutcome::Taken
    }
}

impl AutoprimaryShared {
    fn waiting(&self) -> MutexGuard<'_, HashSet<Box<[u8]>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks an autoprimary for the name servers of a zone, and makes the zone if a listed one is among them.
    async fn look_at(&self, zone: NameBuf, listed: &[Autoprimary]) {
        let mut last = String::from("it has none of the listed name servers");
        let mut found = None;
        for autoprimary in listed {
            match timeout(PATIENCE, name_servers(autoprimary.address, zone)).await {
                Ok(Ok(servers)) => {
                    if servers.contains(&autoprimary.name_server) {
                        found = Some(autoprimary);
                        break;
                    }
                }
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "no answer in time".into(),
            }
        }
        let peer = listed.first().map(|listed| listed.address);
        match found {
            Some(autoprimary) => self.make(zone, autoprimary).await,
            None => tracing::warn!("zone {zone}: not taken from the autoprimary {peer:?}: {last}"),
        }
        let name = zone.as_name().as_wire().to_ascii_lowercase();
        self.waiting().remove(&name[..]);
    }

    async fn make(&self, zone: NameBuf, autoprimary: &Autoprimary) {
        let secondary = KeptSecondary {
            zone,
            primary: autoprimary.address,
            template: autoprimary.template.clone(),
        };
        let kept = Arc::clone(&self.parts.kept);
        // The state store waits for the disk.
        let made = tokio::task::spawn_blocking(move || {
            let count = kept.secondaries()?.len();
            match count < ZONES_MAX {
                true => kept.set_secondary(&secondary).map(|()| true),
                false => Ok(false),
            }
        });
        let peer = autoprimary.address;
        match made.await {
            Ok(Ok(true)) => {
                tracing::info!("zone {zone}: made a secondary of the autoprimary {peer}")
            }
            Ok(Ok(false)) => tracing::error!(
                "zone {zone}: not made: autoprimaries have made {ZONES_MAX} zones already"
            ),
            Ok(Err(error)) => tracing::error!("zone {zone}: not made: {error}"),
            Err(error) => tracing::error!("zone {zone}: not made: {error}"),
        }
    }
}

/// Asks a server for the NS records of a zone, over TCP.
async fn name_servers(server: SocketAddr, zone: NameBuf) -> io::Result<Vec<NameBuf>> {
    let asked = AskedQuestion::query(random_id(), zone, Type::NS);
    let question = asked.message(None);
    let mut stream = TcpStream::connect(server).await?;
    let length = question.len() as u16;
    stream
        .write_all(&[&length.to_be_bytes()[..], &question].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await?;
    read_name_servers(&asked, &reply).map_err(|failure| io::Error::other(failure.to_string()))
}
