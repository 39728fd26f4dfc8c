//! Owns the start of what asks resolvers: the hand-off of questions to a recursor, ALIAS records, and the security poll.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
};

use nameward_serve::{
    alias::AliasResolver,
    pipeline::Shared,
    recursor::{HandOff, HandOffSettings, ResolverSettings, Resolvers},
    security_poll::{PollSettings, SecurityPoller},
};
use tokio::{runtime::Handle, sync::watch};

use super::StartError;
use crate::config::{Config, settings};

/// One descriptor of so many may belong to a question under way, and its further tries take three more.
const DESCRIPTOR_SHARE: u64 = 16;
/// Descriptors of a process whose limit is not known.
const FEW_DESCRIPTORS: u64 = 1024;

/// Starts the hand-off if there is a recursor, and makes the poller if there is something to poll. Call within the
/// runtime. `ours` are the addresses that this server answers on.
pub fn prepare(
    config: &Config,
    shared: &Arc<Shared>,
    ours: &[SocketAddr],
) -> Result<Option<SecurityPoller>, StartError> {
    let resolvers = resolvers(&config.recursor, ours)?;
    if let Some(resolvers) = &resolvers {
        let settings = HandOffSettings {
            allow_from: config.recursor.allow_from.0.clone(),
            in_flight_max: in_flight_max(&config.recursor),
        };
        let hand_off = HandOff::new(Arc::clone(resolvers), settings, Handle::current());
        shared.set_hand_off(hand_off);
    }
    let aliases = AliasResolver::new(shared, resolvers.clone(), Handle::current());
    shared.set_aliases(aliases);
    let poll = &config.security_poll;
    if poll.suffix.is_empty() {
        return Ok(None);
    }
    let settings = PollSettings {
        version: env!("CARGO_PKG_VERSION"),
        suffix: poll.suffix.clone(),
        interval: poll.interval.seconds(),
    };
    SecurityPoller::new(settings, resolvers, Arc::clone(&shared.stats))
        .map(Some)
        .map_err(|error| StartError::PollSuffix(poll.suffix.clone(), error))
}

/// Questions that may be under way: each takes up to four sockets, and most of the descriptors are for TCP clients.
fn in_flight_max(recursor: &settings::Recursor) -> usize {
    let wanted = recursor.in_flight_max.get();
    let descriptors = nameward_serve::raise_descriptor_limit(0).unwrap_or(FEW_DESCRIPTORS);
    let most = (descriptors / DESCRIPTOR_SHARE).max(1) as usize;
    if wanted > most {
        tracing::warn!(
            "recursor.in_flight_max: {most} instead of {wanted}, since only {descriptors} files may be open"
        );
    }
    wanted.min(most)
}

/// Polls until `stopping` says true.
pub async fn poll(poller: SecurityPoller, mut stopping: watch::Receiver<bool>) {
    tokio::select! {
        () = poller.run() => {}
        _ = stopping.wait_for(|stop| *stop) => {}
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

/// Whether this server answers on an address.
fn is_ours(address: SocketAddr, ours: &[SocketAddr]) -> bool {
    let mut same_port = ours.iter().filter(|own| own.port() == address.port());
    let ip = address.ip().to_canonical();
    same_port.any(|own| match own.ip().is_unspecified() {
        true => is_local(ip),
        false => own.ip().to_canonical() == ip,
    })
}

/// Whether an address is one of this machine: no other can be bound.
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
