//! The version that a transfer sends: differences from the journal, database zones read as a whole, copies that are
//! signed while they are sent.
//!
//! Preparation is a task that is cancelled when its client disconnects. Work that needs a thread (a disk, a blocking
//! database, work in proportion to the zone's size) holds a permit or a turn, so the number of threads is bounded
//! whatever clients do.

use nameward_serve::seconds_since_1970;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::transfer_out::encode::{
    AxfrMessages, CopyDigest, IxfrMessages, SignedMessages, TransferRequest, condense,
    unsigned_copy,
};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::Difference;
use nameward_zone::{Serial, Zone};
use tokio::sync::{OwnedMutexGuard, Semaphore};

use super::access::TransferAccess;
use super::client_disconnect::ClientDisconnect;
use super::copies::OpenedCopy;
use super::copy_job::CopySource;
use super::digests::{with_computed_digest, with_placeholder};
use super::expand::{AliasExpansion, has_alias};
use super::fault::PrepareFault;
use super::hints::{changes_hints, with_hints};
use super::messages::{OutgoingMessages, SignedTransfer};
use super::sent::ALWAYS_SENT;
use super::version_state::VersionState;
use super::{AliasForm, OutgoingTransfers, RequestedVersion, is_behind};
use nameward_serve::pipeline::ServingState;
use nameward_serve::request::ViewId;

/// Number and total octets of differences from which on they are condensed into one (RFC 1995 section 5).
const CONDENSED_FROM: usize = 32;
const CONDENSED_OCTETS: usize = 256 << 10;

/// How long the client of an IXFR waits for a difference between signed versions; after that it gets the whole zone
/// as it is signed. Knot gives up after five seconds without an octet.
const DIFFERENCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The zone of a transfer, the requested version, and its form.
pub(super) struct TransferSource {
    pub(super) zone: Arc<Zone>,
    pub(super) requested: RequestedVersion,
    pub(super) alias_form: AliasForm,
    pub(super) client: IpAddr,
    /// The view that the client is in.
    pub(super) view: ViewId,
    pub(super) access: TransferAccess,
}

/// The messages of a transfer that can start, and the serial they lead to.
pub(super) struct PreparedTransfer {
    pub(super) messages: OutgoingMessages,
    pub(super) serial: Serial,
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
    /// Prepares a transfer at once, if that needs no waiting.
    pub(super) fn prepare_at_once(
        &self,
        source: &TransferSource,
        request: &TransferRequest,
    ) -> Option<PreparedTransfer> {
        let zone = &source.zone;
        let needs_journal = source.requested != RequestedVersion::Whole && self.store.is_some();
        let is_as_stored = source.alias_form == AliasForm::Records && !zone.has_auto_hints();
        (self.is_plain(zone) && !needs_journal && is_as_stored)
            .then(|| PreparedTransfer::whole(Arc::clone(zone), request.clone()))
    }

    pub(super) async fn prepare(
        self: &Arc<Self>,
        shared: &Arc<ServingState>,
        (source, disconnect): (TransferSource, ClientDisconnect),
        request: TransferRequest,
    ) -> Result<PreparedTransfer, PrepareFault> {
        let has_journal = self.is_plain(&source.zone);
        let is_expanded = source.alias_form == AliasForm::Addresses;
        let requested = source.requested;
        let (zone, is_changed) = self.contents(shared, source, disconnect).await?;
        if !has_journal {
            return self.prepare_copy(shared, zone, requested, request).await;
        }
        let RequestedVersion::Since(serial) = requested else {
            return Ok(PreparedTransfer::whole(zone, request));
        };
        if !is_behind(serial, zone.serial()) {
            return Ok(PreparedTransfer::differences(&zone, Vec::new(), request));
        }
        // The journal has ALIAS records without their addresses and automatic hints, so a client that gets addresses
        // needs the whole zone.
        let (transfers, of) = (Arc::clone(self), Arc::clone(&zone));
        let differences = if is_changed {
            None
        } else {
            let read = move || transfers.differences(&of, serial);
            on_thread(&self.journal_reads, read).await?
        };
        let differences =
            differences.filter(|list| !is_expanded || !list.iter().any(changes_alias));
        Ok(match differences {
            Some(differences) => PreparedTransfer::differences(&zone, differences, request),
            None => PreparedTransfer::whole(zone, request),
        })
    }

    /// Returns a zone's contents in the form that the client gets, and whether ALIAS records were expanded or hints
    /// filled in.
    async fn contents(
        self: &Arc<Self>,
        shared: &Arc<ServingState>,
        source: TransferSource,
        disconnect: ClientDisconnect,
    ) -> Result<(Arc<Zone>, bool), PrepareFault> {
        let is_expanded = source.alias_form == AliasForm::Addresses;
        let live = source.zone.live().map(|live| live.backend());
        if live.is_none() && !is_expanded && !source.zone.has_auto_hints() {
            return Ok((source.zone, false));
        }
        // A database is read by one client at a time.
        let turn = match live {
            Some(backend) => Some(self.live_reads.turns.wait(backend).await),
            None => None,
        };
        let (transfers, shared) = (Arc::clone(self), Arc::clone(shared));
        let work = move || transfers.read_contents(&shared, source, (disconnect, turn));
        let done = self.runtime.spawn_blocking(work).await;
        done.unwrap_or(Err(PrepareFault::SigningEnded))
    }

    /// Like [`Self::contents`], on a thread that may block. Stops waiting when the client disconnects.
    fn read_contents(
        &self,
        shared: &ServingState,
        source: TransferSource,
        (disconnect, turn): (ClientDisconnect, Option<OwnedMutexGuard<()>>),
    ) -> Result<(Arc<Zone>, bool), PrepareFault> {
        if source.access == TransferAccess::NameServers {
            self.check_name_server(shared, &source.zone, (source.client, source.view))?;
        }
        let mut zone = if source.zone.live().is_some() {
            self.live_reads
                .read(self, shared, (&source.zone, &disconnect))?
        } else {
            source.zone
        };
        drop(turn);
        let has_alias = source.alias_form == AliasForm::Addresses && has_alias(&zone);
        if has_alias {
            let expansion = AliasExpansion {
                zone: &zone,
                shared,
                client: source.client,
                view: source.view,
                runtime: &self.runtime,
                disconnect: &disconnect,
            };
            zone = expansion.run()?;
        }
        let has_hints = zone.has_auto_hints();
        if has_hints {
            zone = with_hints(zone)?;
        }
        Ok((zone, has_alias || has_hints))
    }

    /// Prepares the transfer of a zone without a journal: differences between sent versions, or all of it.
    async fn prepare_copy(
        self: &Arc<Self>,
        shared: &Arc<ServingState>,
        zone: Arc<Zone>,
        requested: RequestedVersion,
        request: TransferRequest,
    ) -> Result<PreparedTransfer, PrepareFault> {
        let reader = match self.open_copy(shared, zone).await? {
            OpenedCopy::Version(version) => {
                return Ok(self.prepare_version(version, requested, request));
            }
            OpenedCopy::Reader(reader) => reader,
        };
        let copy = reader.started().await?;
        if let RequestedVersion::Since(serial) = requested {
            if !is_behind(serial, copy.serial()) {
                let messages = IxfrMessages::up_to_date(copy.zone(), copy.soa(), request);
                return Ok(PreparedTransfer {
                    messages: OutgoingMessages::Differences(messages),
                    serial: copy.serial(),
                });
            }
            if self.copies.sent.leads_from(copy.zone(), serial) {
                let completed = reader.completed();
                let in_time = tokio::time::timeout(DIFFERENCE_TIMEOUT, completed).await;
                if let Ok(Some(version)) = in_time.unwrap_or(Ok(None)) {
                    return Ok(self.prepare_version(version, requested, request));
                }
            }
        }
        Ok(PreparedTransfer {
            serial: copy.serial(),
            messages: OutgoingMessages::Signed(SignedTransfer::new(
                SignedMessages::new(copy, request),
                reader,
            )),
        })
    }

    /// Prepares the transfer of a complete version.
    fn prepare_version(
        &self,
        version: Arc<Zone>,
        requested: RequestedVersion,
        request: TransferRequest,
    ) -> PreparedTransfer {
        let RequestedVersion::Since(serial) = requested else {
            return PreparedTransfer::whole(version, request);
        };
        if !is_behind(serial, version.serial()) {
            return PreparedTransfer::differences(&version, Vec::new(), request);
        }
        let sent = self.copies.sent.differences(&version, serial);
        match sent.and_then(|differences| worth_sending(differences, &version)) {
            Some(differences) => PreparedTransfer::differences(&version, differences, request),
            None => PreparedTransfer::whole(version, request),
        }
    }

    /// Returns the version of a zone as it is sent, with its digest and its signatures, once it is complete.
    pub(super) async fn whole_version(
        self: &Arc<Self>,
        zone: Arc<Zone>,
        shared: &Arc<ServingState>,
    ) -> Result<Arc<Zone>, PrepareFault> {
        match self.open_copy(shared, zone).await? {
            OpenedCopy::Version(version) => Ok(version),
            OpenedCopy::Reader(reader) => reader.completed().await?.ok_or(PrepareFault::Gone),
        }
    }

    /// Returns a zone as it is sent: signed, or without keys and signatures, and with the digest computed here.
    async fn open_copy(
        self: &Arc<Self>,
        shared: &Arc<ServingState>,
        zone: Arc<Zone>,
    ) -> Result<OpenedCopy, PrepareFault> {
        let name = NameBuf::from(zone.id());
        let computes_digest = self.computes_digest(&zone);
        let (state, is_unsigned) = {
            let policies = self.policies.load();
            let state = VersionState::from_zone(&zone, &policies, seconds_since_1970());
            (state, policies.get(zone.id()).transfer_unsigned)
        };
        let signing = zone.signing().online().cloned();
        if let Some(signing) = signing.clone().filter(|_| !is_unsigned) {
            let threads = shared.live.signing_threads();
            self.copies
                .start_signers(threads)
                .map_err(PrepareFault::NoThread)?;
            let source = || {
                Ok(CopySource {
                    digest: if computes_digest {
                        CopyDigest::Made
                    } else {
                        CopyDigest::Kept
                    },
                    zone: if computes_digest {
                        with_placeholder(&zone)?
                    } else {
                        Arc::clone(&zone)
                    },
                    signing,
                })
            };
            return self.copies.open(state, source, name);
        }
        // Clients of the same zone wait for each other, and share the first result.
        let turn = self.copy_turns.wait(name).await;
        if let Some(version) = self.copies.find(&name, &state) {
            return Ok(OpenedCopy::Version(version));
        }
        let transfers = Arc::clone(self);
        let work = move || -> Result<Arc<Zone>, PrepareFault> {
            let _turn = turn;
            let mut zone = zone;
            if let Some(signing) = signing {
                zone = Arc::new(unsigned_copy(&zone, &signing).ok_or(PrepareFault::Gone)?);
            }
            if computes_digest {
                zone = with_computed_digest(&zone)?;
            }
            let version = transfers.copies.sent.record(zone);
            transfers.copies.remember(name, state, &version);
            Ok(version)
        };
        Ok(OpenedCopy::Version(
            on_thread(&self.heavy_work, work).await??,
        ))
    }

    /// Returns the differences from a serial to this version of a zone; `None` if the journal does not have them, or
    /// the whole zone is smaller.
    pub(super) fn differences(&self, zone: &Zone, since: Serial) -> Option<Vec<Difference>> {
        let store = self.store.as_ref()?;
        let name = NameBuf::from(zone.id());
        let serial = zone.serial();
        let deadline = Instant::now() + JOURNAL_TIMEOUT;
        let (entries, end) = loop {
            let entries = match store.journal_from(&name, since) {
                Ok(entries) => entries?,
                Err(error) => {
                    tracing::error!("zone {name}: cannot read the journal: {error}");
                    return None;
                }
            };
            // The journal may be ahead of the served version, by a change that is about to be served.
            match entries.iter().position(|entry| entry.to == serial) {
                Some(last) => break (entries, last + 1),
                None if Instant::now() >= deadline => return None,
                None => thread::sleep(JOURNAL_POLL_INTERVAL),
            }
        };
        let differences = entries.into_iter().take(end);
        let differences: Vec<_> = differences.map(|entry| entry.difference).collect();
        if differences.iter().any(changes_hints) {
            return None;
        }
        worth_sending(differences, zone)
    }
}

/// Checks whether an ALIAS record is removed or added.
fn changes_alias(difference: &Difference) -> bool {
    let lists = [&difference.removed, &difference.added];
    lists
        .iter()
        .any(|list| list.first_of(Type::ALIAS).is_some())
}

/// Returns the differences as they are sent, condensed if there are many; `None` if the whole zone is smaller (RFC
/// 1995 section 4).
fn worth_sending(mut differences: Vec<Difference>, zone: &Zone) -> Option<Vec<Difference>> {
    let octets = |list: &[Difference]| list.iter().map(Difference::octets).sum::<usize>();
    if differences.len() >= CONDENSED_FROM
        || differences.len() > 1 && octets(&differences) >= CONDENSED_OCTETS
    {
        differences = vec![condense(&differences)];
    }
    (octets(&differences) <= zone.heap_bytes().max(ALWAYS_SENT)).then_some(differences)
}

/// Maximum time until the journal has a served version. A change in a file or a database is served at once, since it
/// is durable there, and a notified secondary may request it before it is journalled.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between two reads of the journal.
const JOURNAL_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs work on a blocking thread, limited by `permits`. A permit is held as long as its thread runs.
async fn on_thread<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PrepareFault> {
    let permit = Arc::clone(permits).acquire_owned().await;
    let permit = permit.map_err(|_| PrepareFault::Gone)?;
    let run = move || {
        let _permit = permit;
        work()
    };
    let done = tokio::task::spawn_blocking(run).await;
    done.map_err(|_| PrepareFault::SigningEnded)
}
