//! PrimaryClient questions to other servers: serials and transfers from primaries.
//!
//! ```text
//! soa        the serial of a primary, by UDP: a port and an id of chance, three tries
//! stream     a transfer over TCP, read as it comes (maintain::transfer)
//! limits     transfers in all and from one primary; primaries that were silent a moment ago
//! autoprimary  zones that are made because an autoprimary notifies of them
//! notify     the sender of NOTIFY (maintain::notify_out)
//! parent     the DS of a zone, asked of the servers of its parent
//! progress   records and octets of transfers that run, results of those that have ended
//! ```
//! All of it runs on a runtime of its own, since packing a large zone takes a second: clients of this server never wait
//! for a primary.

mod autoprimary;
mod failure;
mod limits;
mod notify;
mod parent;
mod progress;
mod sink;
mod soa;
mod stream;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nameward_dnssec::tsig::TsigKey;
use nameward_maintain::life::driver::LifeHandle;
use nameward_maintain::life::{
    Ask, AskPrimary, AskTicket, PrimaryAnswer, PrimaryError, PrimaryReply, TransferWay,
};
use nameward_maintain::policy::{PolicyTable, RemoteServer};
use nameward_maintain::transfer::{AskedQuestion, SoaReply, TransferAnswer, TransferFailure};
use nameward_wire::Type;
use nameward_zone::Serial;
use tokio::runtime::Handle;

pub use autoprimary::{AutoprimaryParts, AutoprimarySink};
use failure::AskFailure;
use limits::PrimaryLimits;
pub use notify::{Notifier, NotifierParts, forget_notified};
pub use parent::ParentClient;
pub use progress::{TransferProgress, TransferResults, Transfers};
pub use sink::SecondarySink;

/// Response codes of servers that do not know EDNS.
const FORMERR: u8 = 1;
const NOTIMP: u8 = 4;
/// The response code of a server that does not answer this question, or not by this way.
const REFUSED: u8 = 5;

/// The form of a question to a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionForm {
    /// It asks how long the primary's own copy is good (RFC 7314).
    WithExpire,
    /// It has no EDNS.
    Plain,
}

impl QuestionForm {
    /// Returns the message; `have` is the serial that is here, for an IXFR.
    fn message(self, asked: &AskedQuestion, have: Option<Serial>) -> Vec<u8> {
        match self {
            QuestionForm::WithExpire => asked.message_with_expire(have),
            QuestionForm::Plain => asked.message(have),
        }
    }
}

/// Settings of outgoing questions.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingSettings {
    /// Transfers that run at one time.
    pub transfers_max: usize,
    /// Transfers from one primary that run at one time.
    pub transfers_per_primary: usize,
    /// A connection that does not come about within this time is given up.
    pub connect_timeout: Duration,
    /// A primary that completes no message within this time is given up.
    pub idle_timeout: Duration,
    /// A transfer that lasts longer is given up.
    pub total_timeout: Duration,
}

/// Asks primaries.
#[derive(Clone)]
pub struct PrimaryClient {
    shared: Arc<OutgoingShared>,
    runtime: Handle,
}

struct OutgoingShared {
    policies: Arc<PolicyTable>,
    settings: OutgoingSettings,
    limits: PrimaryLimits,
    transfers: Arc<Transfers>,
}

impl PrimaryClient {
    /// Makes the one who asks, on a runtime.
    pub fn new(policies: Arc<PolicyTable>, settings: OutgoingSettings, runtime: Handle) -> Self {
        let limits = PrimaryLimits::new(settings.transfers_max, settings.transfers_per_primary);
        let shared = OutgoingShared {
            policies,
            settings,
            limits,
            transfers: Arc::default(),
        };
        PrimaryClient {
            shared: Arc::new(shared),
            runtime,
        }
    }

    /// Returns the transfers that run and the results of those that have ended.
    pub fn transfers(&self) -> &Arc<Transfers> {
        &self.shared.transfers
    }

    /// Takes note that a server is there, as after a NOTIFY from it: it is asked although it was silent a moment ago.
    pub fn heard_from(&self, address: std::net::IpAddr) {
        self.shared.limits.heard_from(address);
    }

    /// Returns the one who asks primaries for the life of secondary zones.
    pub fn asker(&self, life: LifeHandle) -> PrimaryAsker {
        PrimaryAsker {
            outgoing: self.clone(),
            life,
        }
    }
}

/// Asks primaries and hands their answers to the life of secondary zones.
pub struct PrimaryAsker {
    outgoing: PrimaryClient,
    life: LifeHandle,
}

impl AskPrimary for PrimaryAsker {
    fn ask(&mut self, ask: Ask) {
        let shared = Arc::clone(&self.outgoing.shared);
        let mut answer = PrimaryAnswerGuard {
            life: self.life.clone(),
            ticket: Some(ask.ticket),
        };
        self.outgoing.runtime.spawn(async move {
            let reply = shared.ask_primary(&ask).await;
            let reply = reply.map_err(|failure| PrimaryError(failure.to_string()));
            answer.give(reply);
        });
    }
}

/// An answer that is given even if the one who asks ends early: the zone would wait for it for ever.
struct PrimaryAnswerGuard {
    life: LifeHandle,
    ticket: Option<AskTicket>,
}

impl PrimaryAnswerGuard {
    fn give(&mut self, reply: Result<PrimaryReply, PrimaryError>) {
        if let Some(ticket) = self.ticket.take() {
            self.life.answered(ticket, reply);
        }
    }
}

impl Drop for PrimaryAnswerGuard {
    fn drop(&mut self) {
        self.give(Err(PrimaryError("the question was given up".into())));
    }
}

impl OutgoingShared {
    /// Asks a primary for its serial, and for what is newer.
    async fn ask_primary(&self, ask: &Ask) -> Result<PrimaryReply, AskFailure> {
        let began = Instant::now();
        let address = ask.primary.address;
        if let Some(ago) = self.limits.silent_since(address) {
            return Err(AskFailure::Silent(ago));
        }
        let mut result = self.check_and_transfer(ask, QuestionForm::WithExpire).await;
        // RFC 6891 section 7: who does not know EDNS answers FORMERR or NOTIMP, and is asked again without.
        if let Err(AskFailure::Peer(TransferFailure::Code(FORMERR | NOTIMP))) = result {
            result = self.check_and_transfer(ask, QuestionForm::Plain).await;
        }
        if result.as_ref().is_err_and(AskFailure::is_silence) {
            self.limits.note_silence(address);
        }
        let mut reply = result?;
        reply.took = began.elapsed();
        Ok(reply)
    }

    async fn check_and_transfer(
        &self,
        ask: &Ask,
        form: QuestionForm,
    ) -> Result<PrimaryReply, AskFailure> {
        let key = self.key_of(&ask.primary)?;
        if let Some(have) = ask.have {
            let reply = match soa::ask_soa((&ask.primary, key.as_ref()), ask.zone, form).await {
                // Knot answers questions about catalog zones over TCP alone.
                Err(AskFailure::Peer(TransferFailure::Code(REFUSED))) => SoaReply::Truncated,
                reply => reply?,
            };
            // A truncated reply says nothing; the transfer begins with the serial anyway.
            if let SoaReply::Serial(serial, expire) = reply
                && !serial.is_after(have)
            {
                return Ok(PrimaryReply {
                    expire: expire.map(|seconds| Duration::from_secs(seconds.into())),
                    ..PrimaryAnswer::Same(serial).into()
                });
            }
        }
        let _room = self.limits.enter(ask.primary.address.ip()).await;
        let progress = self.transfers.begin(ask.zone, ask.primary.address);
        let transfer = self.transfer((ask, form), key.as_ref(), &progress);
        let result = match tokio::time::timeout(self.settings.total_timeout, transfer).await {
            Ok(result) => result,
            Err(_) => Err(AskFailure::Timeout("the transfer takes too long")),
        };
        self.transfers.count(&result);
        let answer = result?;
        Ok(PrimaryReply {
            answer: match answer {
                TransferAnswer::NotNewer(serial) => PrimaryAnswer::Same(serial),
                TransferAnswer::Differences(list) => PrimaryAnswer::Differences(list),
                TransferAnswer::Whole(whole) => PrimaryAnswer::Whole(whole),
            },
            expire: progress.expire(),
            records: progress.records(),
            octets: progress.octets(),
            took: Duration::ZERO,
        })
    }

    /// Transfers what is newer: by differences if the way says so and the primary has them, else as a whole.
    async fn transfer(
        &self,
        (ask, form): (&Ask, QuestionForm),
        key: Option<&Arc<TsigKey>>,
        progress: &TransferProgress,
    ) -> Result<TransferAnswer, AskFailure> {
        if ask.way == TransferWay::Incremental && ask.have.is_some() {
            let asked = (ask, Type::IXFR, form);
            match stream::transfer(asked, key, &self.settings, progress).await {
                Err(AskFailure::Peer(failure)) if stream::is_worth_whole(&failure) => {
                    tracing::debug!("zone {}: IXFR: {failure}; asking for AXFR", ask.zone);
                }
                result => return result,
            }
        }
        stream::transfer((ask, Type::AXFR, form), key, &self.settings, progress).await
    }

    /// Finds the key of a server.
    fn key_of(&self, server: &RemoteServer) -> Result<Option<Arc<TsigKey>>, AskFailure> {
        let Some(name) = &server.key else {
            return Ok(None);
        };
        let policies = self.policies.load();
        match policies.keys().find(name.as_name()) {
            Some(key) => Ok(Some(Arc::clone(key))),
            None => Err(AskFailure::NoKey(name.to_string())),
        }
    }
}

/// Seconds since 1970, for signatures.
fn now_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Returns an id that nobody can guess: the keys of a hasher are random.
fn random_id() -> u16 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u16
}

/// Returns the address that messages to a server are sent from, with a port of the system's choice.
fn local_address(server: &RemoteServer) -> std::net::SocketAddr {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    let unspecified = match server.address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let source = server
        .source
        .filter(|source| source.is_ipv4() == server.address.is_ipv4());
    SocketAddr::new(source.unwrap_or(unspecified), 0)
}

/// A place behind a lock that nobody holds across an await.
fn lock<T>(place: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    place
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
