//! NOTIFY messages for secondary zones, and zones from autoprimaries: a NOTIFY for an unknown zone creates a secondary zone, if its sender is listed and the
//! zone has the name server listed with it.
//!
//! If the autoprimary is listed in a database (`supermasters`), the zone is created in that
//! database, as PowerDNS does; otherwise in the state store.
//!
//! The NOTIFY itself may be forged, so it only triggers a query to the listed address, over TCP or
//! the configured transport. The numbers of pending and of created zones are limited. If a key is
//! listed, the NOTIFY must be signed with it; the key of a signed NOTIFY is also used for the query
//! and the transfers.

use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds;
use nameward_maintain::table::lower_case;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::notify::received::{Notification, NotifyOutcome, NotifySink};
use crate::transfer_in::{SentRequest, read_name_servers};
use nameward_dnssec::tsig::{TsigKey, sign_request};
use nameward_maintain::Core;
use nameward_maintain::policy::{
    Autoprimary, AutoprimarySecondary, Policies, PolicySource, RemoteServer, ZoneKind, address_text,
};
use nameward_sql::write::{MASTER_MAX, NewZone, WriteError};
use nameward_wire::{NameBuf, Type};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{PrimaryClient, random_id};
use crate::secondary::driver::SecondaryHandle;
use crate::transfer_out::LoggedRefusals;

/// Maximum number of pending zones; further NOTIFY messages are ignored: the sender repeats them.
const PENDING_MAX: usize = 1000;
/// Maximum number of zones that autoprimaries may create.
const ZONES_MAX: usize = 1_000_000;
/// Timeout for an autoprimary's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Receives NOTIFY messages for secondary zones, and for unknown zones of autoprimaries.
pub struct SecondaryNotifySink {
    secondaries: SecondaryHandle,
    shared: Arc<AutoprimaryShared>,
}

struct AutoprimaryShared {
    core: Core,
    primaries: Arc<PrimaryClient>,
    /// The runtime that the database connections belong to.
    database_runtime: Handle,
    /// Zones being checked, in wire format and lower case.
    pending: Mutex<HashSet<Box<[u8]>>>,
    /// Zones that were not created and have been logged.
    refusals: Mutex<LoggedRefusals>,
}

impl SecondaryNotifySink {
    /// Creates the receiver. Call within the runtime of the database connections.
    pub fn new(secondaries: SecondaryHandle, primaries: Arc<PrimaryClient>, core: Core) -> Self {
        let shared = AutoprimaryShared {
            core,
            primaries,
            database_runtime: Handle::current(),
            pending: Mutex::default(),
            refusals: Mutex::default(),
        };
        SecondaryNotifySink {
            secondaries,
            shared: Arc::new(shared),
        }
    }
}

impl NotifySink for SecondaryNotifySink {
    fn notified(&self, notification: &Notification<'_>) -> NotifyOutcome {
        // The primary is up, even if it did not respond a moment ago.
        let unresponsive = &self.shared.primaries.unresponsive;
        unresponsive.mark_responsive(notification.peer.ip());
        self.secondaries
            .notified(notification.zone, notification.serial);
        NotifyOutcome::Taken
    }

    fn notified_of_unknown(&self, notification: &Notification<'_>) -> NotifyOutcome {
        let core = &self.shared.core;
        let policies = core.policies.load();
        let peer = notification.peer.ip().to_canonical();
        let is_peer = |listed: &&Autoprimary| listed.address.ip().to_canonical() == peer;
        let listed: Vec<&Autoprimary> = policies.autoprimaries().iter().filter(is_peer).collect();
        let zone = notification.zone;
        let is_here = policies.own(zone).is_some() || core.table().load().exact(zone).is_some();
        if listed.is_empty() || is_here {
            return NotifyOutcome::NotAuth;
        }
        let has_key = |listed: &&Autoprimary| {
            let required_key = listed.key.as_ref().map(NameBuf::as_name);
            required_key.is_none() || required_key == notification.key
        };
        let listed: Vec<Autoprimary> = listed.into_iter().filter(has_key).cloned().collect();
        if listed.is_empty() {
            return NotifyOutcome::Refused;
        }
        let key = notification.key.and_then(|key| policies.keys().find(key));
        let notified = NotifiedZone {
            zone: zone.into(),
            listed,
            key: key.cloned(),
        };
        let mut pending = self.shared.pending.lock();
        if pending.len() < PENDING_MAX && pending.insert(lower_case(zone)) {
            let shared = Arc::clone(&self.shared);
            let runtime = &self.shared.primaries.runtime;
            runtime.spawn(async move { shared.query_autoprimary(&notified).await });
        }
        NotifyOutcome::Taken
    }
}

/// An unknown zone for which an autoprimary sent a NOTIFY.
struct NotifiedZone {
    zone: NameBuf,
    /// The list entries that match the sender; at least one.
    listed: Vec<Autoprimary>,
    /// The key that signed the NOTIFY.
    key: Option<Arc<TsigKey>>,
}

impl AutoprimaryShared {
    /// Queries an autoprimary for the name servers of a zone, and creates the zone if a listed one is among them.
    async fn query_autoprimary(&self, notified: &NotifiedZone) {
        let zone = notified.zone;
        let mut last = String::from("the zone has none of the configured name servers");
        let mut found = None;
        for autoprimary in &notified.listed {
            let server = RemoteServer::plain(autoprimary.address);
            let server = server.configured_by(self.core.policies.load().remotes());
            let query = self.name_servers(&server, zone, notified.key.as_ref());
            match timeout(TIMEOUT, query).await {
                Ok(Ok(servers)) => {
                    if servers.contains(&autoprimary.name_server) {
                        found = Some(autoprimary);
                        break;
                    }
                }
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "timed out".into(),
            }
        }
        match found {
            Some(autoprimary) => self.create(notified, autoprimary).await,
            None => self.log_refusal(notified, &last),
        }
        self.pending.lock().remove(&lower_case(zone.as_name()));
    }

    /// Queries a server for the NS records of a zone.
    async fn name_servers(
        &self,
        server: &RemoteServer,
        zone: NameBuf,
        key: Option<&Arc<TsigKey>>,
    ) -> io::Result<Vec<NameBuf>> {
        let query = SentRequest::query(random_id(), zone, Type::NS);
        let mut message = query.message(None);
        let verifier = key.map(|key| sign_request(key, &mut message, now_seconds()));
        let connections = &self.primaries.connections;
        let reply = connections.exchange(server, &message, TIMEOUT).await;
        let reply = reply.map_err(io::Error::other)?;
        if let Some(mut verifier) = verifier {
            let verified = verifier.verify(&reply, now_seconds());
            verified.map_err(|failure| io::Error::other(failure.to_string()))?;
        }
        read_name_servers(&query, &reply).map_err(|failure| io::Error::other(failure.to_string()))
    }

    /// Logs that a zone is not created, once per autoprimary and zone.
    fn log_refusal(&self, notified: &NotifiedZone, reason: &str) {
        let zone = notified.zone;
        let Some(peer) = notified.listed.first().map(|listed| listed.address) else {
            return;
        };
        if self
            .refusals
            .lock()
            .admit(peer.ip(), zone.as_name(), Instant::now())
        {
            tracing::warn!("zone {zone}: not created for autoprimary {peer}: {reason}");
        }
    }

    async fn create(&self, notified: &NotifiedZone, autoprimary: &Autoprimary) {
        match autoprimary.listed_by {
            PolicySource::Backend(rank) => {
                self.create_in_database(rank, notified, autoprimary).await
            }
            _ => self.create_in_store(notified, autoprimary).await,
        }
    }

    /// Creates a zone in the database that lists the autoprimary.
    async fn create_in_database(
        &self,
        rank: u16,
        notified: &NotifiedZone,
        autoprimary: &Autoprimary,
    ) {
        let Some(database) = self.core.databases.find(rank).cloned() else {
            return;
        };
        let zone = notified.zone;
        let new = NewZone {
            attributes: Vec::new(),
            name: zone,
            kind: ZoneKind::Secondary,
            primaries: Some(addresses_of(&self.core.policies.load(), autoprimary)),
            account: autoprimary.account.clone(),
            key: notified.key.as_ref().map(|key| key.name().into()),
            rrsets: Vec::new(),
            now: SystemTime::now(),
        };
        let peer = autoprimary.address;
        let making = self.database_runtime.spawn(async move {
            let created = database.backend.create_zone(&new).await;
            // The row's policy triggers the first transfer.
            database.request_list();
            created
        });
        match making.await {
            Ok(Ok(_)) => tracing::info!(
                "zone {zone}: created as a secondary of autoprimary {peer} in backend {rank}"
            ),
            // Another server on the same database created it first.
            Ok(Err(WriteError::Exists(_))) => {}
            Ok(Err(error)) => {
                tracing::error!("zone {zone}: cannot create it in backend {rank}: {error}")
            }
            Err(error) => {
                tracing::error!("zone {zone}: cannot create it in backend {rank}: {error}")
            }
        }
    }

    /// Creates a zone in the state store.
    async fn create_in_store(&self, notified: &NotifiedZone, autoprimary: &Autoprimary) {
        let zone = notified.zone;
        let secondary = AutoprimarySecondary {
            zone,
            primary: autoprimary.address,
            key: notified.key.as_ref().map(|key| key.name().into()),
            template: autoprimary.template.clone(),
        };
        let kept = Arc::clone(&self.core.stored_policies);
        // The state store waits for the disk.
        let created = tokio::task::spawn_blocking(move || {
            let count = kept.secondaries()?.len();
            if count < ZONES_MAX {
                kept.set_secondary(&secondary).map(|()| true)
            } else {
                Ok(false)
            }
        });
        let peer = autoprimary.address;
        match created.await {
            Ok(Ok(true)) => {
                tracing::info!("zone {zone}: created as a secondary of autoprimary {peer}")
            }
            Ok(Ok(false)) => tracing::error!(
                "zone {zone}: not created: autoprimaries already created {ZONES_MAX} zones, the maximum"
            ),
            Ok(Err(error)) => tracing::error!("zone {zone}: cannot create it: {error}"),
            Err(error) => tracing::error!("zone {zone}: cannot create it: {error}"),
        }
    }
}

/// Lists an autoprimary's addresses in a database, in the format of `domains.master`: all rows with its name server
/// and account, the sender of the NOTIFY first.
fn addresses_of(policies: &Policies, autoprimary: &Autoprimary) -> String {
    let is_same = |other: &&Autoprimary| {
        other.listed_by == autoprimary.listed_by
            && other.name_server == autoprimary.name_server
            && other.account == autoprimary.account
            && other.address != autoprimary.address
    };
    let others = policies.autoprimaries().iter().filter(is_same);
    let all = std::iter::once(autoprimary).chain(others);
    let mut text = String::new();
    for server in all {
        let address = address_text(server.address);
        let separator = if text.is_empty() { "" } else { ", " };
        if text.len() + separator.len() + address.len() > MASTER_MAX {
            break;
        }
        text += separator;
        text += &address;
    }
    text
}
