//! `/events`: the changes of zones, settings and keys as server-sent events. The listener sends them; here is what a client subscribes to.

use nameward_base::calendar::UtcTime;
use nameward_control::operations::{OperationError, zone_name};
use nameward_maintain::change_feed::{
    ChangeFeed, ChangeKind, FeedEvent, FeedKind, FeedSettingChange, FeedZoneChange, SettingSubject,
};
use nameward_state::JournalOrigin;
use serde_json::{Value, json};

use crate::fields::check_canonical;
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult, EventSubscription, media, to_json};

/// The reason of a gap: the ID is not one of this run of the server.
const UNKNOWN_ID: &str =
    "events since this Last-Event-ID are not known, as after a restart of the server";
/// The reason of a gap: the client is too slow.
const TOO_LATE: &str = "there were more events than are kept; some were left out";
/// The reason of a gap: notices of a database were lost.
const UNKNOWN_CHANGE: &str = "any zone of a database may have changed";

/// Opens a stream of events: from now on, or after the event that `Last-Event-ID` names.
pub fn open(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let zone = call.request.text("zone").map(check_canonical);
    let zone = zone.transpose()?.map(zone_name).transpose()?;
    let scope = call.scope();
    if let Some(zone) = &zone
        && !scope.covers_name(zone.as_name())
    {
        return Err(OperationError::not_found(format!("zone {zone} not found")).into());
    }
    let feed = call.feed()?;
    let newest = *feed.newest().borrow();
    let last = call.request.last_event_id.as_deref();
    let last = last.filter(|id| !id.is_empty());
    let known = last.and_then(|id| read_id(&feed, id).filter(|number| *number <= newest));
    let subscription = EventSubscription {
        position: known.unwrap_or(newest),
        is_after_gap: last.is_some() && known.is_none(),
        zone,
        scope: scope.clone(),
    };
    let mut reply = ApiResponse::text(200, media::EVENTS, "")
        .with("cache-control", "no-store")
        .with("x-accel-buffering", "no");
    reply.events = Some(Box::new(subscription));
    Ok(reply)
}

impl EventSubscription {
    /// Writes the start of the stream: the reconnection delay, the position, and whether events are missing before
    /// it.
    pub fn write_start(&self, feed: &ChangeFeed, out: &mut Vec<u8>) {
        out.extend_from_slice(b"retry: 3000\n");
        if self.is_after_gap {
            self.write(feed, out, "gap", &json!({ "reason": UNKNOWN_ID }));
        } else {
            self.write_position(feed, out);
        }
    }

    /// Writes the position alone: it shows that the connection is alive, and the client reconnects with it.
    pub fn write_position(&self, feed: &ChangeFeed, out: &mut Vec<u8>) {
        out.extend_from_slice(format!(": keep-alive\nid: {}\n\n", self.id(feed)).as_bytes());
    }

    /// Writes the next events, up to `max` of all zones, and moves the position; false if there are none.
    pub fn write_next(&mut self, feed: &ChangeFeed, max: usize, out: &mut Vec<u8>) -> bool {
        let batch = feed.after(self.position, max);
        if let (true, Some(first)) = (batch.has_gap, batch.events.first()) {
            self.position = first.number - 1;
            self.write(feed, out, "gap", &json!({ "reason": TOO_LATE }));
        }
        for event in &batch.events {
            self.position = event.number;
            match &event.kind {
                FeedKind::Unknown => {
                    let data = json!({ "reason": UNKNOWN_CHANGE });
                    self.write(feed, out, "gap", &data);
                }
                FeedKind::Zone(changed) if self.includes(changed) => {
                    self.write(feed, out, "zone", &view(event, changed));
                }
                FeedKind::Setting(changed) if self.includes_setting(changed) => {
                    let name = match changed.subject {
                        SettingSubject::Settings => "settings",
                        SettingSubject::Keys => "keys",
                    };
                    self.write(feed, out, name, &setting_view(event, changed));
                }
                FeedKind::Zone(_) | FeedKind::Setting(_) => {}
            }
        }
        !batch.events.is_empty()
    }

    fn includes(&self, changed: &FeedZoneChange) -> bool {
        let name = changed.zone.as_name();
        let is_wanted = self.zone.as_ref().is_none_or(|zone| *zone == changed.zone);
        is_wanted && self.scope.covers_name(name)
    }

    /// Checks whether the client gets a change of settings or keys. Those of the server are for keys that are not limited.
    fn includes_setting(&self, changed: &FeedSettingChange) -> bool {
        match &changed.zone {
            Some(zone) => {
                let is_wanted = self.zone.as_ref().is_none_or(|wanted| wanted == zone);
                is_wanted && self.scope.covers_name(zone.as_name())
            }
            None => self.zone.is_none() && !self.scope.is_limited(),
        }
    }

    fn write(&self, feed: &ChangeFeed, out: &mut Vec<u8>, event: &str, data: &Value) {
        let head = format!("id: {}\nevent: {event}\ndata: ", self.id(feed));
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&to_json(data));
        out.extend_from_slice(b"\n\n");
    }

    fn id(&self, feed: &ChangeFeed) -> String {
        format!("{:x}-{}", feed.epoch(), self.position)
    }
}

/// Reads the ID of an event; `None` if it is not one of this run of the server.
fn read_id(feed: &ChangeFeed, text: &str) -> Option<u64> {
    let (epoch, number) = text.split_once('-')?;
    let epoch = u64::from_str_radix(epoch, 16).ok()?;
    (epoch == feed.epoch()).then_some(number)?.parse().ok()
}

fn view(event: &FeedEvent, changed: &FeedZoneChange) -> Value {
    let kind = match changed.change {
        ChangeKind::Created => "created",
        ChangeKind::Changed => "changed",
        ChangeKind::Deleted => "deleted",
    };
    let origin = changed.origin.map(|origin| match origin {
        JournalOrigin::Storage => "storage",
        JournalOrigin::Change => "change",
        JournalOrigin::Transfer => "transfer",
    });
    json!({
        "kind": kind,
        "message": changed.author.as_ref().and_then(|author| author.message.as_deref()),
        "origin": origin,
        "serial": changed.serial,
        "time": UtcTime::from_unix(event.time).to_string(),
        "who": changed.author.as_ref().map(|author| &*author.who),
        "zone": changed.zone.to_string().to_ascii_lowercase(),
    })
}

fn setting_view(event: &FeedEvent, changed: &FeedSettingChange) -> Value {
    let zone = changed.zone.as_ref();
    json!({
        "message": changed.author.as_ref().and_then(|author| author.message.as_deref()),
        "operation": changed.operation,
        "time": UtcTime::from_unix(event.time).to_string(),
        "who": changed.author.as_ref().map(|author| &*author.who),
        "zone": zone.map(|zone| zone.to_string().to_ascii_lowercase()),
    })
}

impl Call<'_> {
    fn feed(&self) -> ApiResult<std::sync::Arc<ChangeFeed>> {
        let feed = self.api.operator.feed();
        feed.ok_or_else(|| ApiError::invalid("this server has no feed of changes"))
    }
}
