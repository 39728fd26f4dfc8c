//! UPDATE requests (RFC 2136): authorization, queueing or forwarding, and the reply.
//!
//! A worker decides from the header, the zone section and the client alone whether an update is accepted; parsing it,
//! comparing it with the zone and making it durable is left to the queues of [`Updates`]. The reply is sent, and
//! counted, when that is done.

mod forward;

use nameward_base::sync::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::update::{UpdateJob, UpdateOutcome, UpdatePermission, Updates};
use nameward_base::text::counted;
use nameward_maintain::policy::{PolicyTable, UpdateSerial, ZonePolicy};
use nameward_stats::{Counter, LogThrottle};
use nameward_wire::{Class, Name, NameBuf, Rcode, Type};
use nameward_zone::change::ChangeAuthor;
use nameward_zone::{AccessClient, SerialRule, Zone};

use crate::connections::PeerConnections;
use forward::UpdateForwarder;
use nameward_serve::pipeline::{LateReply, ReplyPath};
use nameward_serve::request::{Request, TlsPeer, Verdict, extended_error};
use tokio::runtime::Handle;

/// Interval at which the same line about refused updates is repeated, and the number of different lines per interval.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
const LOG_LINES_MAX: usize = 32;

/// Authorizes UPDATE requests and passes them on.
pub struct UpdateRequests {
    policies: Arc<PolicyTable>,
    updates: Arc<Updates>,
    forwarder: UpdateForwarder,
    refusals: Arc<RefusalLog>,
}

/// Origin of an update, for the log.
struct UpdateSender {
    zone: NameBuf,
    peer: std::net::SocketAddr,
    key: Option<NameBuf>,
    tls: Option<Arc<TlsPeer>>,
}

/// The permissions of one client under a zone's update rules.
struct ClientRights {
    policy: Arc<ZonePolicy>,
    peer: IpAddr,
    key: Option<NameBuf>,
}

impl UpdatePermission for ClientRights {
    fn permits(&self, owner: Name<'_>, rtype: Type) -> bool {
        let key = self.key.as_ref().map(NameBuf::as_name);
        let rules = &self.policy.update_rules;
        rules.is_empty() || rules.iter().any(|rule| rule.permits(key, owner, rtype))
    }

    fn author(&self) -> Option<Arc<ChangeAuthor>> {
        let peer = self.peer;
        let author_name = match &self.key {
            Some(key) => format!("update {peer} key {key}"),
            None => format!("update {peer}"),
        };
        Some(ChangeAuthor::new(&author_name, None))
    }
}

impl UpdateRequests {
    /// Accepts updates as the policies allow. Must be called within the runtime.
    pub fn new(
        policies: Arc<PolicyTable>,
        updates: Arc<Updates>,
        connections: Arc<PeerConnections>,
    ) -> Self {
        let throttle = LogThrottle::by_text(LOG_INTERVAL, LOG_LINES_MAX);
        UpdateRequests {
            policies,
            updates,
            forwarder: UpdateForwarder::new(connections, Handle::current()),
            refusals: Arc::new(RefusalLog(Mutex::new(throttle))),
        }
    }

    pub(crate) fn decide(&self, request: &Request<'_>, reply_path: &mut ReplyPath<'_>) -> Verdict {
        let query = request.query;
        let sender = UpdateSender {
            zone: query.qname.into(),
            peer: request.peer,
            key: request.key_name().map(NameBuf::from),
            tls: request.tls.cloned(),
        };
        let refuse = |rcode, error, reason: &str| {
            self.refusals.log(&sender, rcode, reason);
            Verdict::Code(rcode, error)
        };
        // RFC 2136 section 3.1.1.
        if query.qtype != Type::SOA {
            return Verdict::Code(Rcode::FormErr, None);
        }
        let table = reply_path.shared().zones.load();
        let version = table.version_in(request.view, query.qname);
        let found = version.as_ref().and_then(|id| table.exact(id.as_name()));
        let Some(zone) = found.filter(|_| query.qclass == Class::IN) else {
            return refuse(Rcode::NotAuth, None, "not authoritative for this zone");
        };
        let policies = self.policies.load();
        let policy = policies.get(zone.id());
        if !is_allowed(policy, &sender) {
            let reason = match (policy.allow_update.is_none(), sender.key) {
                (true, _) => "allow_update is not set",
                (false, None) => "address not in allow_update, and the update is not signed",
                (false, Some(_)) => "neither address nor key in allow_update",
            };
            return refuse(Rcode::Refused, Some(extended_error::PROHIBITED), reason);
        }
        if policy.kind.is_transferred() && policy.forward_updates {
            return self.forward(request, reply_path, policy, sender);
        }
        if policy.kind.is_transferred() {
            let reason = "secondary zone: send the update to its primary";
            return refuse(Rcode::NotAuth, None, reason);
        }
        if !zone.is_ready() {
            return refuse(Rcode::ServFail, None, "the zone is not loaded");
        }
        if self.updates.is_frozen(zone.id()) {
            return refuse(Rcode::Refused, None, "the zone is frozen");
        }
        self.submit(request, reply_path, (zone, policy), sender)
    }

    /// Forwards an update of a secondary zone to its primary.
    fn forward(
        &self,
        request: &Request<'_>,
        reply_path: &mut ReplyPath<'_>,
        policy: &ZonePolicy,
        sender: UpdateSender,
    ) -> Verdict {
        let Some(reply) = reply_path.take() else {
            return Verdict::Drop;
        };
        let refusals = Arc::clone(&self.refusals);
        let message = request.query.packet().into();
        let primaries = policy.primaries.clone();
        self.forwarder
            .forward(message, primaries, move |result| match result {
                Ok(forwarded) => {
                    let counter = match forwarded.rcode {
                        Rcode::NoError => Counter::DnsupdateAnswers,
                        _ => Counter::DnsupdateRefused,
                    };
                    reply.relay(&forwarded.octets, forwarded.rcode, &[(counter, 1)]);
                    tracing::debug!("{sender}: forwarded, {:?}", forwarded.rcode);
                }
                Err(reason) => {
                    let outcome = UpdateOutcome::Failed(format!("cannot forward: {reason}"));
                    finish(reply, &outcome, &sender, &refusals);
                }
            });
        Verdict::Later
    }

    fn submit(
        &self,
        request: &Request<'_>,
        reply_path: &mut ReplyPath<'_>,
        (zone, policy): (&Zone, &Arc<ZonePolicy>),
        sender: UpdateSender,
    ) -> Verdict {
        let Some(reply) = reply_path.take() else {
            return Verdict::Drop;
        };
        let refusals = Arc::clone(&self.refusals);
        let job = UpdateJob {
            message: request.query.packet().into(),
            zone: zone.id().into(),
            rank: zone.rank(),
            permission: Box::new(ClientRights {
                policy: Arc::clone(policy),
                peer: sender.peer.ip(),
                key: sender.key,
            }),
            serial: serial_rule(policy.update_serial, zone),
            now: SystemTime::now(),
            done: Box::new(move |outcome| finish(reply, &outcome, &sender, &refusals)),
        };
        if let Err(job) = self.updates.submit(job) {
            (job.done)(UpdateOutcome::Failed("too many updates are waiting".into()));
        }
        Verdict::Later
    }
}

/// Checks whether a client may update anything: by its address or key or, without such a list, by a rule for its key.
fn is_allowed(policy: &ZonePolicy, sender: &UpdateSender) -> bool {
    let key = sender.key.as_ref().map(NameBuf::as_name);
    if !policy.allow_update.is_none() {
        policy.allow_update.allows(&AccessClient {
            address: sender.peer.ip(),
            key,
            tls: sender.tls.as_deref(),
        })
    } else {
        let named = policy
            .update_rules
            .iter()
            .filter_map(|rule| rule.key.as_ref());
        key.is_some_and(|key| { named }.any(|wanted| wanted.as_name() == key))
    }
}

/// Returns the zone's serial rule. SOA-EDIT applies to zones that are signed here.
fn serial_rule(rule: UpdateSerial, zone: &Zone) -> SerialRule {
    let soa_edit = || {
        let signing = zone.signing().online();
        signing.map_or_else(Default::default, |signing| signing.soa_edit())
    };
    match rule {
        UpdateSerial::Default => SerialRule::Dated,
        UpdateSerial::Increase => SerialRule::Increase,
        UpdateSerial::Epoch => SerialRule::Epoch,
        UpdateSerial::SoaEdit | UpdateSerial::SoaEditIncrease => SerialRule::SoaEdit(soa_edit()),
    }
}

/// Sends, counts and logs the reply.
fn finish(reply: LateReply, outcome: &UpdateOutcome, sender: &UpdateSender, refusals: &RefusalLog) {
    let rcode = outcome.rcode();
    let (answer, changes) = match outcome {
        UpdateOutcome::Changed { records, .. } => (Counter::DnsupdateAnswers, *records),
        UpdateOutcome::Unchanged => (Counter::DnsupdateAnswers, 0),
        UpdateOutcome::Refused(_) | UpdateOutcome::Failed(_) => (Counter::DnsupdateRefused, 0),
    };
    let counters = [(answer, 1), (Counter::DnsupdateChanges, changes)];
    let error = (rcode == Rcode::Refused).then_some(extended_error::PROHIBITED);
    reply.send_code((rcode, error), &counters);
    match outcome {
        UpdateOutcome::Changed { records, serial } => {
            let records = counted(*records as usize, "record");
            tracing::debug!("{sender}: {records} changed, serial {serial}");
        }
        UpdateOutcome::Unchanged => tracing::debug!("{sender}: no change"),
        UpdateOutcome::Refused(refused) => refusals.log(sender, rcode, &refused.reason),
        UpdateOutcome::Failed(reason) => refusals.log(sender, rcode, reason),
    }
}

impl std::fmt::Display for UpdateSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "zone {}: update from {}", self.zone, self.peer.ip())?;
        match &self.key {
            Some(key) => write!(f, " with key {key}"),
            None => Ok(()),
        }
    }
}

/// Rate-limited log of refused updates; one line per update would flood it.
struct RefusalLog(Mutex<LogThrottle>);

impl RefusalLog {
    fn log(&self, sender: &UpdateSender, rcode: Rcode, reason: &str) {
        // A failed prerequisite is an answer, not a refusal.
        if matches!(
            rcode,
            Rcode::NxDomain | Rcode::YxDomain | Rcode::NxRrset | Rcode::YxRrset
        ) {
            tracing::debug!("{sender}: {reason}");
            return;
        }
        let line = format!("{sender} refused: {reason}");
        let mut throttle = self.0.lock();
        let admitted = throttle.admit(&line, Instant::now());
        drop(throttle);
        match (admitted, rcode) {
            (None, _) => {}
            (Some(0), Rcode::ServFail) => tracing::error!("{line}"),
            (Some(0), _) => tracing::warn!("{line}"),
            (Some(more), Rcode::ServFail) => {
                tracing::error!("{line} ({more} more since the last message)")
            }
            (Some(more), _) => tracing::warn!("{line} ({more} more since the last message)"),
        }
    }
}
