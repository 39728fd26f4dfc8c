//! The version that a transfer is made of: differences from the journal, and zones of databases read as a whole. Both may
//! wait for a disk or a network, so they run on threads that may.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nameward_dnssec::Signing;
use nameward_maintain::outgoing::{
    AxfrMessages, IxfrMessages, OutgoingFault, TransferRequest, condense,
};
use nameward_maintain::outgoing::{
    CopyThreads, SignedCopyError, digested_copy, signed_copy, unsigned_copy,
};
use nameward_stats::Counter;
use nameward_wire::{NameBuf, Rcode, Type};
use nameward_zone::change::Difference;
use nameward_zone::{LookupError, LookupRequest, Serial, Zone};

use super::access::TransferAccess;
use super::digests::{ZoneDigestFault, with_made_digest, with_placeholder};
use super::expand::{AliasExpansion, ExpandFault, has_alias};
use super::sent::SentVersions;
use super::{AliasForm, OutgoingTransfers, Wanted, is_behind};
use crate::pipeline::ServingState;
use crate::request::extended_error;
use crate::signing::SigningPacer;
use crate::sys;

/// Differences, and octets of them, from which on they are condensed into one (RFC 1995 section 5).
const CONDENSED_FROM: usize = 32;
const CONDENSED_OCTETS: usize = 256 << 10;

/// Octets of differences that are sent however small the zone is.
pub(super) const ALWAYS_SENT: usize = 16 << 10;

/// The zone of a transfer, the version that the client asks for, and its form.
pub(super) struct TransferSource {
    pub(super) zone: Arc<Zone>,
    pub(super) wanted: Wanted,
    pub(super) alias_form: AliasForm,
    pub(super) client: IpAddr,
    pub(super) access: TransferAccess,
}

/// The messages of a transfer.
pub(super) enum OutgoingMessages {
    Whole(AxfrMessages),
    Differences(IxfrMessages),
}

impl OutgoingMessages {
    pub(super) fn next_message(&mut self, out: &mut [u8]) -> Result<Option<usize>, OutgoingFault> {
        match self {
            OutgoingMessages::Whole(messages) => messages.next_message(out),
            OutgoingMessages::Differences(messages) => messages.next_message(out),
        }
    }

    pub(super) fn records(&self) -> u64 {
        match self {
            OutgoingMessages::Whole(messages) => messages.records(),
            OutgoingMessages::Differences(messages) => messages.records(),
        }
    }
}

/// The messages of a transfer that can begin, and the serial they lead to.
pub(super) struct PreparedTransfer {
    pub(super) messages: OutgoingMessages,
    pub(super) serial: Serial,
}

/// Why a transfer could not be prepared.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareFault {
    #[error("{0}")]
    Backend(LookupError),
    #[error("{0}")]
    Unsigned(#[from] SignedCopyError),
    #[error("{0}")]
    Unexpanded(#[from] ExpandFault),
    #[error("{0}")]
    Undigested(#[from] ZoneDigestFault),
    #[error("a bug while it was signed")]
    SigningEnded,
    #[error("it is gone")]
    Gone,
    #[error("allow_transfer does not have the client, and it is none of the zone's name servers")]
    NotNameServer,
}

impl PrepareFault {
    /// Returns the response code and the extended error for it.
    pub(super) fn code(&self) -> (Rcode, Option<u16>) {
        match self {
            PrepareFault::Unsigned(SignedCopyError::Narrow) => {
                (Rcode::Refused, Some(extended_error::NOT_SUPPORTED))
            }
            PrepareFault::Backend(_) | PrepareFault::Gone => {
                (Rcode::ServFail, Some(extended_error::NOT_READY))
            }
            PrepareFault::NotNameServer => (Rcode::Refused, Some(extended_error::PROHIBITED)),
            PrepareFault::Unexpanded(_) => (Rcode::ServFail, Some(extended_error::NETWORK_ERROR)),
            PrepareFault::Unsigned(_)
            | PrepareFault::SigningEnded
            | PrepareFault::Undigested(_) => (Rcode::ServFail, None),
        }
    }
}

impl PreparedTransfer {
    fn whole(zone: Arc<Zone>, request: TransferRequest) -> Self {
        PreparedTransfer {
            serial: zone.serial(),
            messages: OutgoingMessages::Whole(AxfrMessages::new(zone, request)),
        }
    }

    fn differences(
        zone: &Arc<Zone>,
        differences: Vec<Difference>,
        request: TransferRequest,
    ) -> Self {
        PreparedTransfer {
            serial: zone.serial(),
            messages: OutgoingMessages::Differences(IxfrMessages::new(zone, differences, request)),
        }
    }
}

impl OutgoingTransfers {
    /// Prepares a transfer at once, if nothing has to be waited for.
    pub(super) fn prepare_at_once(
        &self,
        source: &TransferSource,
        request: &TransferRequest,
    ) -> Option<PreparedTransfer> {
        let zone = &source.zone;
        let needs_journal = source.wanted != Wanted::Whole && self.store.is_some();
        (self.is_plain(zone) && !needs_journal && source.alias_form == AliasForm::Records)
            .then(|| PreparedTransfer::whole(Arc::clone(zone), request.clone()))
    }

    /// Prepares a transfer; may wait.
    pub(super) fn prepare(
        &self,
        shared: &ServingState,
        source: TransferSource,
        request: TransferRequest,
    ) -> Result<PreparedTransfer, PrepareFault> {
        if source.access == TransferAccess::NameServers {
            self.check_name_server(shared, &source)?;
        }
        let has_journal = self.is_plain(&source.zone);
        let is_expanded = source.alias_form == AliasForm::Addresses;
        let mut zone = match source.zone.live().is_some() {
            true => {
                let reads = &self.live_reads;
                reads.read(shared, &source.zone, (&self.runtime, &self.sent))?
            }
            false => source.zone,
        };
        let has_alias = is_expanded && has_alias(&zone);
        if has_alias {
            let expansion = AliasExpansion {
                zone: &zone,
                shared,
                client: source.client,
                runtime: &self.runtime,
            };
            zone = expansion.run()?;
        }
        if !has_journal {
            zone = self.noted(zone, shared)?;
        }
        let Wanted::Since(serial) = source.wanted else {
            return Ok(PreparedTransfer::whole(zone, request));
        };
        if !is_behind(serial, &zone) {
            return Ok(PreparedTransfer::differences(&zone, Vec::new(), request));
        }

        // A zone that is looked up has no journal here, and of one that is signed while it is served the journal has no
        // signatures. It has ALIAS records and not their addresses, so who gets these has to get the whole zone.
        let differences = match has_journal {
            true => (!has_alias)
                .then(|| self.differences(&zone, serial))
                .flatten()
                .filter(|differences| !is_expanded || !differences.iter().any(changes_alias)),
            false => {
                let sent = self.sent.differences(&zone, serial);
                sent.and_then(|differences| worth_sending(differences, &zone))
            }
        };
        Ok(match differences {
            Some(differences) => PreparedTransfer::differences(&zone, differences, request),
            None => PreparedTransfer::whole(zone, request),
        })
    }

    /// Returns a version as it goes out: signed, or without keys and signatures, and with the digest that is made here.
    pub(super) fn finished(
        &self,
        mut zone: Arc<Zone>,
        shared: &ServingState,
    ) -> Result<Arc<Zone>, PrepareFault> {
        let makes_digest = self.makes_digest(&zone);
        let policies = self.policies.load();
        let is_unsigned = policies.of(zone.apex_name()).transfer_unsigned;
        match zone.signing().online().cloned() {
            Some(signing) if !is_unsigned => {
                if makes_digest {
                    zone = with_placeholder(&zone)?;
                }
                return self.signed(&zone, (&signing, makes_digest), shared);
            }
            Some(signing) => {
                zone = Arc::new(unsigned_copy(&zone, &signing).ok_or(PrepareFault::Gone)?);
            }
            None => {}
        }
        match makes_digest {
            true => Ok(with_made_digest(&zone)?),
            false => Ok(zone),
        }
    }

    /// Signs a zone that is signed while it is served, one at a time, on threads that give way to answers and take no more of
    /// the CPU than signing may.
    fn signed(
        &self,
        zone: &Zone,
        (signing, makes_digest): (&Signing, bool),
        shared: &ServingState,
    ) -> Result<Arc<Zone>, PrepareFault> {
        let _turn = self
            .signing_turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (count, share) = shared.live.signing_threads();
        let begin = || {
            sys::give_way();
            let mut pacer = SigningPacer::new(share);
            Box::new(move || pacer.pause()) as Box<dyn FnMut()>
        };
        let threads = CopyThreads {
            count,
            begin: &begin,
        };
        let signed = thread::scope(|scope| {
            let work = || {
                sys::give_way();
                let now = sys::seconds_since_1970();
                match makes_digest {
                    true => digested_copy(zone, signing, now, threads),
                    false => signed_copy(zone, signing, now, threads),
                }
            };
            scope.spawn(work).join()
        });
        let (copy, made) = signed.map_err(|_| PrepareFault::SigningEnded)??;
        self.add(Counter::Signatures, made.into());
        Ok(Arc::new(copy))
    }

    /// Returns the differences that lead from a serial to this version of a zone; `None` where the journal does not have
    /// them, or where the whole zone is less.
    pub(super) fn differences(&self, zone: &Zone, since: Serial) -> Option<Vec<Difference>> {
        let store = self.store.as_ref()?;
        let name = NameBuf::from(zone.apex_name());
        let serial = zone.serial();
        let deadline = Instant::now() + JOURNAL_PATIENCE;
        let (entries, end) = loop {
            let entries = match store.journal_from(&name, since) {
                Ok(entries) => entries?,
                Err(error) => {
                    tracing::error!("zone {name}: the journal cannot be read: {error}");
                    return None;
                }
            };
            // The journal may be ahead of the version that is served, by a change that is about to be.
            match entries.iter().position(|entry| entry.to == serial) {
                Some(last) => break (entries, last + 1),
                None if Instant::now() >= deadline => return None,
                None => thread::sleep(JOURNAL_STEP),
            }
        };
        let differences = entries.into_iter().take(end);
        worth_sending(differences.map(|entry| entry.difference).collect(), zone)
    }
}

/// Returns whether an ALIAS record goes or comes.
fn changes_alias(difference: &Difference) -> bool {
    let lists = [&difference.removed, &difference.added];
    lists
        .iter()
        .any(|list| list.first_of(Type::ALIAS).is_some())
}

/// Returns differences as they are sent, many of them as one; `None` where the whole zone is less (RFC 1995 section 4).
fn worth_sending(mut differences: Vec<Difference>, zone: &Zone) -> Option<Vec<Difference>> {
    let octets = |list: &[Difference]| list.iter().map(Difference::octets).sum::<usize>();
    if differences.len() >= CONDENSED_FROM
        || differences.len() > 1 && octets(&differences) >= CONDENSED_OCTETS
    {
        differences = vec![condense(&differences)];
    }
    (octets(&differences) <= zone.heap_bytes().max(ALWAYS_SENT)).then_some(differences)
}

/// The longest time until the journal has a version that is served. A change of a file or a database is served at once, since
/// it is durable there, and a secondary that is notified of it may ask before it is journalled.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(1);
/// The time between two looks at the journal.
const JOURNAL_STEP: Duration = Duration::from_millis(10);

/// Reads of whole zones from databases. Those of one database follow each other, and who asks for a version that was just
/// read, and is still being sent to another client, gets the same.
#[derive(Default)]
pub(super) struct LiveReads {
    turns: Mutex<HashMap<u32, Arc<Mutex<()>>>>,
    /// By the number of the zone: its generation, and its contents as long as they are in use.
    read: Mutex<HashMap<u64, (u64, Weak<Zone>)>>,
}

impl LiveReads {
    /// Reads a zone as one version.
    fn read(
        &self,
        shared: &ServingState,
        stand_in: &Zone,
        (runtime, sent): (&tokio::runtime::Handle, &SentVersions),
    ) -> Result<Arc<Zone>, PrepareFault> {
        let live = stand_in.live().ok_or(PrepareFault::Gone)?;
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(live.backend).or_default())
        };
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Before it is read: what changes after this is newer than what is read.
        let generation = live.generation();
        let known = self.known(live.number(), generation);
        if let Some(zone) = known.filter(|zone| is_being_sent(zone, sent)) {
            return Ok(zone);
        }
        let source = shared.live.source(live.backend).ok_or(PrepareFault::Gone)?;
        let apex = NameBuf::from(stand_in.apex_name());
        let request = LookupRequest {
            zone: live.id,
            apex,
            name: apex,
        };
        let zone = runtime.block_on(source.read_zone(&request));
        let zone = Arc::new(zone.map_err(PrepareFault::Backend)?);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|_, (_, zone)| zone.strong_count() > 0);
        read.insert(live.number(), (generation, Arc::downgrade(&zone)));
        Ok(zone)
    }

    fn known(&self, number: u64, generation: u64) -> Option<Arc<Zone>> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, zone) = read.get(&number)?;
        zone.upgrade().filter(|_| *read_at == generation)
    }
}

/// Returns whether a version that was read is being sent to a client. One that is merely kept, to make differences of, may be old:
/// not every change of a database is noticed at once.
fn is_being_sent(zone: &Arc<Zone>, sent: &SentVersions) -> bool {
    // The caller has it, and maybe those that are kept.
    Arc::strong_count(zone) > 1 + usize::from(sent.has(zone))
}
