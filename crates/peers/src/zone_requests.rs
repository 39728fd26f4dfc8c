//! Decides requests that are not queries for records: transfers, NOTIFY and, where enabled, UPDATE.

use nameward_base::sync::Mutex;
use std::sync::Arc;
use std::time::Instant;

use crate::notify::received::{Notification, NotifyOutcome, NotifySink};
use nameward_maintain::policy::PolicyTable;
use nameward_wire::message::{Message, MessageSection};
use nameward_wire::{Class, Rcode, Type};
use nameward_zone::change::soa_serial;
use nameward_zone::{Serial, Zone};

use crate::transfer_out::{KeyNote, LoggedRefusals, OutgoingTransfers};
use crate::update::requests::UpdateRequests;
use nameward_serve::pipeline::ReplyPath;
use nameward_serve::request::{NoZoneRequests, Request, Verdict, ZoneRequests, extended_error};

/// Request handler of a server with zone policies.
pub struct ZoneRequestHandler {
    policies: Arc<PolicyTable>,
    transfers: Arc<OutgoingTransfers>,
    notify: Option<Arc<dyn NotifySink>>,
    updates: Option<UpdateRequests>,
    refusals: Mutex<LoggedRefusals>,
}

impl ZoneRequestHandler {
    /// Creates a handler that answers NOTIFY with NOTAUTH, and refuses UPDATE.
    pub fn new(policies: Arc<PolicyTable>, transfers: Arc<OutgoingTransfers>) -> Self {
        ZoneRequestHandler {
            policies,
            transfers,
            notify: None,
            updates: None,
            refusals: Mutex::default(),
        }
    }

    /// Passes NOTIFY messages to a sink.
    #[must_use]
    pub fn with_notify_sink(mut self, sink: Arc<dyn NotifySink>) -> Self {
        self.notify = Some(sink);
        self
    }

    /// Passes UPDATE messages to a handler.
    #[must_use]
    pub fn with_updates(mut self, updates: UpdateRequests) -> Self {
        self.updates = Some(updates);
        self
    }

    /// Returns how many transfers to secondaries are running and how many wait for a slot.
    pub fn transfer_counts(&self) -> (usize, usize) {
        self.transfers.counts()
    }

    /// Logs a refused NOTIFY, once per client and zone.
    fn log_refusal(&self, request: &Request<'_>, reason: &str) {
        let (client, zone) = (request.peer.ip(), request.query.qname);
        let mut refusals = self.refusals.lock();
        if refusals.admit(client, zone, Instant::now()) {
            let (peer, key) = (request.peer, KeyNote(request.key_name()));
            tracing::warn!("zone {zone}: NOTIFY from {peer}{key} refused: {reason}");
        }
    }
}

impl ZoneRequests for ZoneRequestHandler {
    fn notify(
        &self,
        request: &Request<'_>,
        reply_path: &mut ReplyPath<'_>,
        _: &mut [u8],
    ) -> Verdict {
        let query = request.query;
        // RFC 1996 section 3.7: only a change of the SOA can be notified.
        if query.qtype != Type::SOA {
            return Verdict::Code(Rcode::FormErr, None);
        }
        let not_auth = Verdict::Code(Rcode::NotAuth, Some(extended_error::NOT_AUTHORITATIVE));
        let Some(sink) = self.notify.as_ref().filter(|_| query.qclass == Class::IN) else {
            return not_auth;
        };
        let table = reply_path.shared().zones.load();
        let Some(version) = table.version_in(request.view, query.qname) else {
            return not_auth;
        };
        let notification = Notification {
            zone: version.as_name(),
            serial: notified_serial(request),
            peer: request.peer,
            key: request.key_name(),
        };
        let policies = self.policies.load();
        let policy = policies.own(version.as_name());
        let secondary = policy.filter(|policy| policy.kind.is_transferred());
        let outcome = match secondary {
            Some(policy) if policy.takes_notify(&request.client()) => sink.notified(&notification),
            Some(_) => NotifyOutcome::Refused,
            None => sink.notified_of_unknown(&notification),
        };
        match outcome {
            NotifyOutcome::Taken => Verdict::Code(Rcode::NoError, None),
            NotifyOutcome::NotAuth => {
                let reason =
                    "not a secondary zone of this server, and the sender is not an autoprimary";
                self.log_refusal(request, reason);
                not_auth
            }
            NotifyOutcome::Refused => {
                self.log_refusal(
                    request,
                    match secondary {
                        Some(_) => {
                            "the sender is not a primary with the expected key and not in allow_notify"
                        }
                        None => "not signed with the autoprimary's key",
                    },
                );
                Verdict::Code(Rcode::Refused, Some(extended_error::PROHIBITED))
            }
        }
    }

    fn expires_in(&self, zone: &Zone) -> Option<u32> {
        self.transfers.expires_in(zone)
    }

    fn update(
        &self,
        request: &Request<'_>,
        reply_path: &mut ReplyPath<'_>,
        out: &mut [u8],
    ) -> Verdict {
        match &self.updates {
            Some(updates) => updates.decide(request, reply_path),
            None => NoZoneRequests.update(request, reply_path, out),
        }
    }

    fn transfer(
        &self,
        request: &Request<'_>,
        reply_path: &mut ReplyPath<'_>,
        out: &mut [u8],
    ) -> Verdict {
        self.transfers.decide(request, reply_path, out)
    }
}

/// Reads the serial of the SOA that a NOTIFY may contain (RFC 1996 section 3.7). An invalid one is ignored: it is
/// only a hint.
fn notified_serial(request: &Request<'_>) -> Option<Serial> {
    let message = Message::parse(request.query.packet()).ok()?;
    let record = message.records().next()?.ok()?;
    let is_soa = record.section == MessageSection::Answer
        && record.rtype == Type::SOA
        && record.name() == request.query.qname;
    let mut data = Vec::new();
    record.expand_data(&mut data).ok().filter(|()| is_soa)?;
    soa_serial(&data)
}
