//! One refresh check of a zone: its primaries in turn, the answer, the commit of a new version, and the time of the
//! next check.

use super::Secondaries;
use super::query::{
    PrimaryAnswer, PrimaryError, PrimaryReply, PrimaryRequest, PrimaryRequestId,
    PrimaryRequestStep, QueryPrimary, TransferWay,
};
use super::storage::StorageOutcome;
use super::zone_state::{StorageReport, TransferSize};
use crate::secondary::zone::ZoneState;
use crate::transfer_in::WholeZone;
use nameward_base::text::counted;
use nameward_maintain::schedule::{EventUrgency, Moment, ZoneEvent, ZoneNumber};
use nameward_zone::change::Difference;
use std::time::Duration;

/// How a primary confirms our version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    /// It has the same serial.
    Unchanged,
    /// It has just transferred the version.
    Transferred,
}

/// How often the retry time is doubled for a zone that was never transferred.
const DOUBLED: u32 = 5;
/// Maximum time until the first check since the start is repeated, if it failed.
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// Maximum random reduction of the time to the next check, besides an eighth of that time.
pub(super) const JITTER: Duration = Duration::from_millis(1 << 20);

impl<O: QueryPrimary> Secondaries<O> {
    /// Queries the next primary of a zone for its serial; a zone without a version is transferred at once. Gives up
    /// this check when all primaries were tried.
    pub(super) fn ask_next(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if zone.primaries_tried >= zone.settings.policy.primaries.len() {
            return self.give_up(number, now);
        }
        zone.primaries_tried += 1;
        if zone.serial().is_some() && !zone.is_forced {
            self.ask(number, PrimaryRequestStep::Serial, now)
        } else {
            self.queue_transfer(number, now)
        }
    }

    /// Ends the check and transfers the zone from the same primary when there is a free slot.
    fn queue_transfer(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get(&number) else {
            return;
        };
        // A newer version of a served zone takes precedence over zones that were never transferred.
        let urgency = if zone.serial().is_some() {
            EventUrgency::Requested
        } else {
            zone.urgency
        };
        let lane = zone.lane();
        self.schedule.finish(number);
        // Any request for another check is answered by the transfer.
        self.schedule.cancel(number, ZoneEvent::Refresh);
        self.schedule
            .plan(number, ZoneEvent::Transfer, now, (urgency, lane));
    }

    /// Requests the zone from the primary of this check.
    pub(super) fn begin_transfer(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get(&number) else {
            return;
        };
        let policy = &zone.settings.policy;
        // A digest covers the whole zone, which for differences to database rows is not available here.
        let is_unseen = policy.zonemd.verifies() && zone.storage.is_shared();
        let wants_whole = zone.wants_whole || zone.is_forced || is_unseen;
        let is_incremental = policy.is_incremental && !wants_whole;
        let way = if is_incremental {
            TransferWay::Incremental
        } else {
            TransferWay::Whole
        };
        self.ask(number, PrimaryRequestStep::Transfer(way), now);
    }

    fn ask(&mut self, number: ZoneNumber, step: PrimaryRequestStep, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let policy = &zone.settings.policy;
        let next = zone.next_primary.checked_rem(policy.primaries.len());
        let Some(primary) = next.map(|next| policy.primaries[next].clone()) else {
            return self.give_up(number, now);
        };
        zone.request_id = Some(self.next_request_id);
        (zone.primary, zone.checked) = (Some(primary.address), Some(now));
        let request = PrimaryRequest {
            request_id: PrimaryRequestId {
                zone: number,
                number: self.next_request_id,
            },
            zone: zone.settings.name.to_buf(),
            primary,
            // Without a serial to compare with, any version is accepted.
            have: zone.serial().filter(|_| !zone.is_forced),
            step,
            octets_max: policy.transfer_octets_max,
        };
        self.next_request_id += 1;
        self.outgoing.query(request);
    }

    /// Processes the answer to a query.
    pub fn answered(
        &mut self,
        request_id: PrimaryRequestId,
        reply: Result<PrimaryReply, PrimaryError>,
        now: Moment,
    ) {
        let Some(zone) = self.zones.get_mut(&request_id.zone) else {
            return;
        };
        if zone.request_id != Some(request_id.number) {
            return;
        }
        zone.request_id = None;
        let have = zone.serial();
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return self.fail(request_id.zone, error.to_string(), now),
        };
        let size = |word| TransferSize {
            word,
            records: reply.records,
            took: reply.took,
        };
        (zone.expire_there, zone.memory) = (reply.expire, reply.memory);
        match reply.answer {
            PrimaryAnswer::Same(serial) => {
                zone.serial_there = Some(serial);
                match have {
                    Some(ours) if ours == serial => {
                        self.confirm(request_id.zone, Confirmation::Unchanged, now);
                    }
                    // A primary that is behind us confirms nothing: another may be ahead.
                    Some(ours) => {
                        zone.behind = Some(serial);
                        let error = format!(
                            "the primary has serial {serial}, lower than {ours} on this server"
                        );
                        self.fail(request_id.zone, error, now);
                    }
                    None => self.fail(
                        request_id.zone,
                        format!("the primary has serial {serial}"),
                        now,
                    ),
                }
            }
            PrimaryAnswer::Newer(serial) => {
                zone.serial_there = serial.or(zone.serial_there);
                self.queue_transfer(request_id.zone, now);
            }
            PrimaryAnswer::Differences(differences) => {
                zone.transfer = Some(size("IXFR"));
                self.commit_differences(request_id.zone, differences, now);
            }
            PrimaryAnswer::Whole(version) => {
                zone.transfer = Some(size("AXFR"));
                self.commit_whole(request_id.zone, *version, now);
            }
        }
    }

    fn fail(&mut self, number: ZoneNumber, error: String, now: Moment) {
        if let Some(zone) = self.zones.get_mut(&number) {
            let from = zone.primary.map(|peer| format!("{}: ", zone.label(peer)));
            zone.last_error = Some(format!("{}{error}", from.unwrap_or_default()));
            zone.next_primary += 1;
            (zone.transfer, zone.memory) = (None, None);
        }
        self.try_next_primary(number, now);
    }

    /// Continues with the next primary, in that primary's lane.
    fn try_next_primary(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if zone.primaries_tried >= zone.settings.policy.primaries.len() {
            return self.give_up(number, now);
        }
        zone.is_check_continued = true;
        self.schedule.finish(number);
        self.plan_check(number, now, EventUrgency::Requested);
    }

    /// Handles differences that do not fit: without a pause, the whole zone is requested from the same primary.
    fn fail_differences(&mut self, number: ZoneNumber, error: String, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if zone.wants_whole {
            return self.fail(number, error, now);
        }
        tracing::warn!(
            "zone {}: IXFR rejected: {error}; retrying with AXFR",
            zone.settings.name
        );
        (zone.wants_whole, zone.memory) = (true, None);
        self.begin_transfer(number, now);
    }

    /// Gives up after all primaries failed, until the retry time.
    pub(super) fn give_up(&mut self, number: ZoneNumber, now: Moment) {
        let early = self.draw(JITTER);
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        zone.failures = zone.failures.saturating_add(1);
        zone.is_forced = false;
        let wait = match &zone.held {
            // After a start the network may not be up yet, and the retry time can be hours.
            Some(held) if zone.failures == 1 && !zone.is_confirmed => {
                held.times.retry.min(FIRST_RETRY)
            }
            Some(held) => held.times.retry,
            // There is no configured interval: not too often, and less often over time.
            None => Duration::from_secs(5) * (1 << zone.failures.min(DOUBLED)),
        };
        let early = early.min(wait / 8);
        let error = zone
            .last_error
            .as_deref()
            .unwrap_or("no primary configured");
        // A primary that is down for long is logged less and less often.
        if zone.failures.is_power_of_two() {
            tracing::warn!(
                "zone {}: refresh failed ({} in a row): {error}; retrying in {} s",
                zone.settings.name,
                zone.failures,
                wait.as_secs()
            );
        }
        self.schedule.finish(number);
        self.plan_check(number, now.plus(wait - early), EventUrgency::Timed);
    }

    /// Records that a primary has our version.
    fn confirm(&mut self, number: ZoneNumber, confirmation: Confirmation, now: Moment) {
        let jitter = self.draw(JITTER);
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let Some(held) = &zone.held else {
            return self.fail(number, "no data to confirm".into(), now);
        };
        let (times, serial) = (held.times, held.serial);
        let mut timers = times.confirmed(now, jitter.min(times.refresh / 8));
        if let Some(good) = zone.expire_there.take() {
            let longest = timers.expires;
            timers.expires = longest.min(now.plus(good).seconds());
            // RFC 7314 section 4: a copy that is not newer does not shorten the time that another primary gave.
            if confirmation == Confirmation::Unchanged {
                timers.expires = timers.expires.max(zone.timers.expires.min(longest));
            }
            timers.next_check = timers.next_check.min(timers.expires);
        }
        zone.timers = timers;
        (zone.failures, zone.last_error, zone.wants_whole) = (0, None, false);
        zone.is_confirmed = true;
        (zone.behind, zone.is_forced) = (None, false);
        zone.serial_there = Some(serial);
        let was = std::mem::replace(&mut zone.state, ZoneState::Current);
        let (name, timers) = (zone.settings.name.to_buf(), zone.timers);
        zone.storage.confirm(&name, timers);
        if was == ZoneState::Expired {
            tracing::info!("zone {name}: serial {serial} confirmed by the primary; served again");
            zone.storage.show(&zone.in_storage());
        }
        self.end_check(number, now);
    }

    /// Ends the check of a confirmed zone, and schedules the next one.
    pub(super) fn end_check(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get(&number) else {
            return;
        };
        let timers = zone.timers;
        self.schedule.finish(number);
        let check =
            Moment::from_seconds(timers.next_check).max(now.plus(Duration::from_millis(500)));
        self.plan_check(number, check, EventUrgency::Timed);
        self.plan_expiry(number, Some(Moment::from_seconds(timers.expires)));
    }

    fn commit_differences(
        &mut self,
        number: ZoneNumber,
        differences: Vec<Difference>,
        now: Moment,
    ) {
        let forward = |d: &Difference| d.serials().is_some_and(|(from, to)| to.is_after(from));
        if differences.is_empty() || !differences.iter().all(forward) {
            let error = "the differences do not lead to a higher serial";
            return self.fail_differences(number, error.into(), now);
        }
        let done = self.report(move |outcome| StorageReport::Brought(number, outcome));
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        zone.is_bringing = true;
        zone.storage
            .bring_differences(&zone.in_storage(), differences, now, done);
        self.take_reports(now);
    }

    fn commit_whole(&mut self, number: ZoneNumber, whole: WholeZone, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let ours = zone.serial();
        let serial = whole.zone.serial();
        if whole.zone.apex_name() != zone.settings.name.as_name().zone() {
            let apex = whole.zone.apex_name();
            return self.fail(number, format!("the primary sent zone {apex}"), now);
        }
        if !zone.is_forced && ours.is_some_and(|ours| !serial.is_after(ours)) {
            return self.fail(number, format!("serial {serial} is not higher"), now);
        }
        // The primary knows nothing of our views.
        whole.zone.set_id(zone.settings.name.as_name());
        zone.is_bringing = true;
        let done = self.report(move |outcome| StorageReport::Brought(number, outcome));
        if let Some(zone) = self.zones.get(&number) {
            zone.storage
                .bring_whole(&zone.in_storage(), whole, now, done);
        }
        self.take_reports(now);
    }

    /// Processes the result of storing a version, which ends the check.
    pub(super) fn take_brought(
        &mut self,
        number: ZoneNumber,
        outcome: StorageOutcome,
        now: Moment,
    ) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        (zone.is_bringing, zone.memory) = (false, None);
        if let Some(held) = outcome.held {
            zone.held = Some(held);
        }
        let transfer = zone.transfer.take();
        match outcome.error {
            Some(error) if transfer.is_some_and(|size| size.word == "IXFR") => {
                self.fail_differences(number, error, now);
            }
            Some(error) => self.fail(number, error, now),
            None => {
                if let (Some(size), Some(serial), Some(peer)) =
                    (transfer, zone.serial(), zone.primary)
                {
                    let TransferSize {
                        word,
                        records,
                        took,
                    } = size;
                    tracing::info!(
                        "zone {}: {word} from {peer} completed: serial {serial}, {}, {:.3} s",
                        zone.settings.name,
                        counted(records as usize, "record"),
                        took.as_secs_f64()
                    );
                }
                let contents = zone.held.as_ref().and_then(|held| held.contents.as_ref());
                if let (Some(file), Some(contents)) = (&zone.settings.policy.copy_file, contents) {
                    self.copies.write(file, contents);
                }
                self.confirm(number, Confirmation::Transferred, now);
            }
        }
    }
}
