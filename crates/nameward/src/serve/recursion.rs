//! Starts the clients of resolvers: the hand-off of queries to a recursor, ALIAS records, and the security poll.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
};

use nameward_peers::security_poll::{PollSettings, SecurityPoller};
use nameward_serve::alias::AliasResolver;
use nameward_serve::pipeline::ServingState;
use nameward_serve::recursor::{ForwarderSettings, RecursorForwarder, ResolverSettings, Resolvers};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};

use crate::config::{Config, settings};
use crate::start_error::StartError;

/// One in this many descriptors may belong to a query in flight, whose further attempts use three more.
const DESCRIPTOR_SHARE: u64 = 16;
/// Assumed number of descriptors if the limit is unknown.
const FEW_DESCRIPTORS: u64 = 1024;

/// By default one client may have one in this many of the recursor's slots.
const SHARE_OF_CLIENT: usize = 4;
/// Maximum number of pollers waiting to take over: one per reload.
const POLLERS_WAITING: usize = 4;

/// The clients of resolvers, as currently configured.
pub struct Recursion {
    shared: Arc<ServingState>,
    /// The addresses that this server answers on.
    ours: Vec<SocketAddr>,
    runtime: Handle,
    resolvers: Option<Arc<Resolvers>>,
    pollers: mpsc::Sender<Option<SecurityPoller>>,
}

impl Recursion {
    /// Starts the hand-off if there is a recursor, and creates the poller if polling is on: [`poll`] runs what is
    /// received. Call within the runtime.
    pub fn start(
        config: &Config,
        shared: &Arc<ServingState>,
        ours: &[SocketAddr],
    ) -> Result<(Self, mpsc::Receiver<Option<SecurityPoller>>), StartError> {
        let (pollers, received) = mpsc::channel(POLLERS_WAITING);
        let runtime = Handle::current();
        shared.set_aliases(AliasResolver::new(shared, None, runtime.clone()));
        let mut recursion = Recursion {
            shared: Arc::clone(shared),
            ours: ours.to_vec(),
            runtime,
            resolvers: None,
            pollers,
        };
        recursion.set_resolvers(&config.recursor)?;
        recursion.set_poller(config)?;
        Ok((recursion, received))
    }

    /// Applies a new configuration; returns a line for each invalid table, which stays as it was.
    pub fn reload(&mut self, old: &Config, new: &Config) -> Vec<String> {
        let mut refused = Vec::new();
        let mut note = |result: Result<(), StartError>| {
            if let Err(error) = result {
                refused.push(format!("{error}; keeping the previous settings"));
            }
        };
        let is_new = old.recursor != new.recursor;
        if is_new {
            note(self.set_resolvers(&new.recursor));
        }
        if is_new || old.security_poll != new.security_poll {
            note(self.set_poller(new));
        }
        refused
    }

    fn set_resolvers(&mut self, recursor: &settings::Recursor) -> Result<(), StartError> {
        self.resolvers = resolvers(recursor, &self.ours)?;
        let hand_off = self.resolvers.as_ref().map(|resolvers| {
            let in_flight_max = in_flight_max(recursor);
            let settings = ForwarderSettings {
                allow_from: recursor.allow_from.0.clone(),
                in_flight_max,
                in_flight_per_client: match recursor.in_flight_per_client.get() {
                    0 => (in_flight_max / SHARE_OF_CLIENT).max(1),
                    most => most,
                },
            };
            RecursorForwarder::new(Arc::clone(resolvers), settings, self.runtime.clone())
        });
        self.shared.set_hand_off(hand_off);
        if let Some(aliases) = self.shared.aliases() {
            aliases.set_resolvers(self.resolvers.clone());
        }
        Ok(())
    }

    fn set_poller(&self, config: &Config) -> Result<(), StartError> {
        let poller = match poll_settings(config)? {
            None => None,
            Some(settings) => {
                let stats = Arc::clone(&self.shared.stats);
                let poller = SecurityPoller::new(settings, self.resolvers.clone(), stats);
                let suffix = &config.security_poll.suffix;
                Some(poller.map_err(|error| StartError::PollSuffix(suffix.clone(), error))?)
            }
        };
        if self.pollers.try_send(poller).is_err() {
            tracing::warn!("security poll settings not changed: reload again in a moment");
        }
        Ok(())
    }
}

/// Returns the errors in the resolver settings that would prevent a start.
pub fn failures(config: &Config) -> Vec<StartError> {
    let own = resolvers(&config.recursor, &config.listen_addresses()).err();
    own.into_iter().chain(poll_settings(config).err()).collect()
}

/// Returns the settings for the security poll; none if it is off.
fn poll_settings(config: &Config) -> Result<Option<PollSettings>, StartError> {
    let poll = &config.security_poll;
    if poll.suffix.is_empty() {
        return Ok(None);
    }
    let settings = PollSettings {
        version: env!("CARGO_PKG_VERSION"),
        suffix: poll.suffix.clone(),
        interval: poll.interval.seconds(),
    };
    match settings.name() {
        Ok(_) => Ok(Some(settings)),
        Err(error) => Err(StartError::PollSuffix(poll.suffix.clone(), error)),
    }
}

/// Returns the maximum number of queries in flight: each takes up to four sockets, and most of the descriptors are
/// for TCP clients.
fn in_flight_max(recursor: &settings::Recursor) -> usize {
    let wanted = recursor.in_flight_max.get();
    let descriptors = nameward_serve::raise_descriptor_limit(0).unwrap_or(FEW_DESCRIPTORS);
    let most = (descriptors / DESCRIPTOR_SHARE).max(1) as usize;
    if wanted > most {
        tracing::warn!(
            "recursor.in_flight_max: {most} instead of {wanted}: the open file limit is {descriptors}"
        );
    }
    wanted.min(most)
}

/// Runs the poller received last, until `stopping` is true.
pub async fn poll(
    mut pollers: mpsc::Receiver<Option<SecurityPoller>>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut current: Option<SecurityPoller> = None;
    let mut is_open = true;
    loop {
        let polling = async {
            match &mut current {
                Some(poller) => poller.run().await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            () = polling => continue,
            next = pollers.recv(), if is_open => next,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        let Some(mut next) = next else {
            // All senders are dropped.
            is_open = false;
            continue;
        };
        match (&current, &mut next) {
            (Some(before), Some(next)) => next.inherit(before),
            (Some(before), None) => before.reset(),
            (None, _) => {}
        }
        current = next;
    }
}

fn resolvers(
    recursor: &settings::Recursor,
    ours: &[SocketAddr],
) -> Result<Option<Arc<Resolvers>>, StartError> {
    let addresses = &recursor.address.0;
    if addresses.is_empty() {
        return Ok(None);
    }
    if let Some(own) = addresses.iter().find(|address| is_ours(**address, ours)) {
        return Err(StartError::OwnRecursor(*own));
    }
    Ok(Some(Arc::new(Resolvers::new(&ResolverSettings {
        addresses: addresses.clone(),
        timeout: recursor.timeout_ms.millis(),
        randomize_case: recursor.randomize_case,
    }))))
}

/// Checks whether this server answers on an address.
fn is_ours(address: SocketAddr, ours: &[SocketAddr]) -> bool {
    let mut same_port = ours.iter().filter(|own| own.port() == address.port());
    let ip = address.ip().to_canonical();
    same_port.any(|own| {
        if own.ip().is_unspecified() {
            is_local(ip)
        } else {
            own.ip().to_canonical() == ip
        }
    })
}

/// Checks whether an address belongs to this machine: no other can be bound.
fn is_local(ip: IpAddr) -> bool {
    ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_ours_if_we_listen_on_it_or_on_all_of_this_machine() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let ours = [address("127.0.0.1:5300"), address("0.0.0.0:5301")];
        for (text, expected) in [
            ("127.0.0.1:5300", true),
            ("[::ffff:127.0.0.1]:5300", true),
            ("127.0.0.2:5300", false),
            ("127.0.0.1:5302", false),
            ("127.0.0.1:5301", true),
            ("0.0.0.0:5301", true),
            ("192.0.2.1:5301", false),
        ] {
            assert_eq!(is_ours(address(text), &ours), expected, "{text}");
        }
    }
}
