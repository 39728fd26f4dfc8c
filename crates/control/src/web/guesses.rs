//! Password and API key guesses, limited per client.
//!
//! A client may guess ten times at once and then every six seconds, with at most two guesses waiting: hashes are slow
//! by design, and one is computed at a time. A client that has presented the right secret is known and is not locked
//! out by wrong guesses from its own address.

use nameward_base::sync::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::access::client_network;

/// Interval after which one more guess is allowed.
pub const GUESS_INTERVAL: Duration = Duration::from_secs(6);
/// Number of guesses that are allowed at once.
const GUESSES_AT_ONCE: u32 = 10;
/// Maximum number of guesses per client waiting to be computed.
const WAITING_MAX: u32 = 2;
/// Maximum number of remembered clients.
const CLIENTS_MAX: usize = 1024;

/// The guesses of all clients.
#[derive(Default)]
pub struct Guesses {
    clients: Mutex<HashMap<IpAddr, Guesser>>,
}

struct Guesser {
    /// When all guesses are allowed again.
    full_at: Instant,
    waiting: u32,
    is_known: bool,
}

/// An allowed guess that is not decided yet; wrong unless reported as right.
pub struct Guess<'a> {
    all: &'a Guesses,
    client: IpAddr,
}

impl Guesses {
    /// Checks whether a client has presented a right secret.
    pub fn is_known_client(&self, client: IpAddr) -> bool {
        let clients = self.clients.lock();
        clients
            .get(&client_network(client.to_canonical()))
            .is_some_and(|c| c.is_known)
    }

    /// Takes a guess from the client's allowance; `None` if it has none left.
    pub fn begin(&self, client: IpAddr, now: Instant) -> Option<Guess<'_>> {
        let client = client_network(client.to_canonical());
        let mut clients = self.clients.lock();
        if !clients.contains_key(&client) && clients.len() >= CLIENTS_MAX {
            forget(&mut clients, now)?;
        }
        let guesser = clients.entry(client).or_insert(Guesser {
            full_at: now,
            waiting: 0,
            is_known: false,
        });
        let full_at = guesser.full_at.max(now) + GUESS_INTERVAL;
        if full_at > now + GUESS_INTERVAL * GUESSES_AT_ONCE || guesser.waiting >= WAITING_MAX {
            return None;
        }
        guesser.full_at = full_at;
        guesser.waiting += 1;
        Some(Guess { all: self, client })
    }
}

impl Guess<'_> {
    /// Records that the guess was right: it costs nothing, and the client is known from now on.
    pub fn mark_right(self) {
        if let Some(guesser) = self.all.clients.lock().get_mut(&self.client) {
            guesser.full_at -= GUESS_INTERVAL;
            guesser.is_known = true;
        }
    }
}

impl Drop for Guess<'_> {
    fn drop(&mut self) {
        if let Some(guesser) = self.all.clients.lock().get_mut(&self.client) {
            guesser.waiting -= 1;
        }
    }
}

/// Evicts the client with the least to lose: neither one that waits nor, if there is another, a known one.
fn forget(clients: &mut HashMap<IpAddr, Guesser>, now: Instant) -> Option<()> {
    clients.retain(|_, c| c.is_known || c.waiting > 0 || c.full_at > now);
    if clients.len() < CLIENTS_MAX {
        return Some(());
    }
    let idle = clients.iter().filter(|(_, c)| c.waiting == 0);
    let least = idle.min_by_key(|(_, c)| (c.is_known, c.full_at));
    let client = *least?.0;
    clients.remove(&client);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_client_guesses_ten_times_and_then_every_six_seconds() {
        let (guesses, now, client) = (Guesses::default(), Instant::now(), address("192.0.2.1"));
        for _ in 0..10 {
            assert!(guesses.begin(client, now).is_some());
        }
        assert!(guesses.begin(client, now).is_none());
        assert!(guesses.begin(address("192.0.2.2"), now).is_some());
        let later = now + GUESS_INTERVAL;
        assert!(guesses.begin(client, later).is_some());
        assert!(guesses.begin(client, later).is_none());
    }

    #[test]
    fn two_guesses_of_a_client_wait_and_no_more() {
        let (guesses, now, client) = (Guesses::default(), Instant::now(), address("192.0.2.1"));
        let first = guesses.begin(client, now);
        let second = guesses.begin(client, now);
        assert!(first.is_some() && second.is_some());
        assert!(guesses.begin(client, now).is_none());
        drop(first);
        assert!(guesses.begin(client, now).is_some());
    }

    #[test]
    fn a_right_guess_is_free_and_makes_the_client_known() {
        let (guesses, now, client) = (Guesses::default(), Instant::now(), address("2001:db8::1"));
        assert!(!guesses.is_known_client(client));
        for _ in 0..50 {
            guesses.begin(client, now).expect("a guess").mark_right();
        }
        assert!(guesses.is_known_client(address("2001:db8::2")));
        assert!(!guesses.is_known_client(address("2001:db8:0:1::1")));
    }

    #[test]
    fn countless_clients_cost_bounded_memory_and_known_ones_stay() {
        let (guesses, now, known) = (Guesses::default(), Instant::now(), address("192.0.2.1"));
        guesses.begin(known, now).expect("a guess").mark_right();
        for n in 0..5000u32 {
            let client = IpAddr::V4((0x0a00_0000 + n).into());
            assert!(guesses.begin(client, now).is_some());
        }
        assert!(guesses.clients.lock().len() <= CLIENTS_MAX);
        assert!(guesses.is_known_client(known));
    }
}
