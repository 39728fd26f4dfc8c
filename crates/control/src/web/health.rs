//! The server state at the top of every page and in `/metrics`: one green line, or the faults with their remedies.

use nameward_base::text::counted;

use nameward_base::calendar::UtcTime;

use super::exposition::{label, metric, one_label};
use crate::operations::{
    FaultKind, ForcedTarget, QueueStatus, ReadyRules, ServerFault, ServerStatus,
};

/// Maximum number of expanded faults; the others are collapsed.
const SHOWN_FAULTS: usize = 3;

/// The kind of a page. Only the status page shows the faults expanded: on other pages they would push the contents
/// off the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageView {
    Status,
    Ring,
    ZoneList,
    Zone,
}

impl PageView {
    pub fn is_status(self) -> bool {
        self == PageView::Status
    }

    pub fn is_zone_list(self) -> bool {
        self == PageView::ZoneList
    }
}

/// The top of every page: the server state, also in the window title.
pub struct PageFrame<'a> {
    pub view: PageView,
    /// Product and version.
    pub title: &'a str,
    /// The host name, to distinguish several servers.
    pub host: &'a str,
    /// The state in a few words: "All is well", "Starting", or the fault.
    pub state: String,
    /// The line shown if all is well.
    pub line: String,
    /// The server is starting: neither well nor faulty.
    pub is_starting: bool,
    /// The worst faults; none when all is well.
    pub faults: Vec<ShownFault<'a>>,
    /// The others.
    pub more_faults: Vec<ShownFault<'a>>,
}

/// A fault as shown on the page.
pub struct ShownFault<'a> {
    /// The fault.
    pub fault: &'a ServerFault,
    /// When it started, in RFC 3339 format.
    pub since: String,
    pub effect: Vec<TextSpan<'a>>,
    pub remedy: Vec<TextSpan<'a>>,
}

/// A fragment of a text in which backticks enclose commands and settings.
#[derive(Debug, PartialEq, Eq)]
pub struct TextSpan<'a> {
    pub text: &'a str,
    pub is_code: bool,
}

/// Splits a text at its backticks. A single one is ordinary text.
fn spans(text: &str) -> Vec<TextSpan<'_>> {
    if !text.matches('`').count().is_multiple_of(2) {
        return vec![TextSpan {
            text,
            is_code: false,
        }];
    }
    let pieces = text.split('`').enumerate();
    let spans = pieces.map(|(n, text)| TextSpan {
        text,
        is_code: n % 2 == 1,
    });
    spans.filter(|span| !span.text.is_empty()).collect()
}

impl<'a> PageFrame<'a> {
    /// Builds the top of the page for a state.
    pub fn new(view: PageView, title: &'a str, status: &'a ServerStatus) -> Self {
        let zones = counted(status.zones, "zone");
        let backends = counted(status.backends.len(), "backend");
        let line = if status.backends.is_empty() {
            format!("{zones} served")
        } else {
            format!("{zones} served, {backends} up")
        };
        let kinds: Vec<FaultKind> = status.faults.iter().map(|fault| fault.kind).collect();
        let show = |fault: &'a ServerFault| ShownFault {
            fault,
            since: UtcTime::from_unix(fault.since).to_string(),
            effect: spans(&fault.effect),
            remedy: spans(&fault.remedy),
        };
        let mut faults: Vec<ShownFault<'_>> = status.faults.iter().map(show).collect();
        let more_faults = faults.split_off(faults.len().min(SHOWN_FAULTS));
        PageFrame {
            view,
            title,
            host: &status.host,
            state: match kinds[..] {
                [] => "All is well".into(),
                [FaultKind::Starting] => "Starting".into(),
                [only] => format!("Fault: {}", only.reason()),
                [worst, ..] => format!("{} faults, the worst: {}", kinds.len(), worst.reason()),
            },
            line,
            is_starting: kinds == [FaultKind::Starting],
            faults,
            more_faults,
        }
    }
}

/// Writes the metrics of a state.
pub fn write_metrics(out: &mut String, status: &ServerStatus, ready: &ReadyRules) {
    let is_ready = u8::from(status.reasons(ready).is_empty());
    let help = "Whether /readyz returns 200";
    metric(out, ("nameward_ready", "gauge"), help, [("", is_ready)]);
    let zones = [
        ("served", status.zones),
        ("not_ready", status.zones_not_ready),
        ("never_transferred", status.zones_never_transferred),
        ("unsigned", status.zones_unsigned),
        ("with_errors", status.zones_with_errors),
        ("stale", status.zones_stale),
        ("ahead_of_primary", status.zones_ahead_of_primary),
        ("expired", status.zones_expired),
        ("signed", status.zones_signed),
    ];
    let zones = zones.map(|(state, zones)| (one_label("state", state), zones));
    let help = "Zones by state; a zone can be in several states";
    metric(out, ("nameward_zones", "gauge"), help, zones);
    let of_kind = |kind: &FaultKind| {
        let faults = status.faults.iter().filter(|fault| fault.kind == *kind);
        (one_label("kind", kind.word()), faults.count())
    };
    let faults = FaultKind::ALL.iter().map(of_kind);
    let help = "Faults shown on the status page, by kind";
    metric(out, ("nameward_faults", "gauge"), help, faults);
    let up = status.backends.iter().map(|backend| {
        let engine = label(&backend.engine);
        let labels = format!("{{backend=\"{}\",engine=\"{engine}\"}}", backend.backend);
        (labels, u8::from(backend.is_up))
    });
    let help = "Whether a backend responds";
    metric(out, ("nameward_backend_up", "gauge"), help, up);
    let (is_ok, at) = match &status.last_reload {
        Some(reload) => (reload.is_ok, reload.at),
        None => (true, 0),
    };
    let name = ("nameward_last_reload_success", "gauge");
    let help = "Whether the last reload succeeded; 1 if there was none";
    metric(out, name, help, [("", u8::from(is_ok))]);
    let name = ("nameward_last_reload_timestamp_seconds", "gauge");
    let help = "Time of the last reload; 0 if there was none";
    metric(out, name, help, [("", at)]);
    let running = [
        ("in", status.transfers.incoming),
        ("out", status.transfers.outgoing),
    ];
    let running = running.map(|(way, number)| (one_label("direction", way), number));
    let help = "Transfers in progress";
    metric(out, ("nameward_transfers_running", "gauge"), help, running);
    let dnstap = status.dnstap.as_deref();
    let connected = dnstap.map(|dnstap| ("", u8::from(dnstap.is_connected)));
    let help = "Whether the dnstap collector is connected, if dnstap is enabled";
    metric(out, ("nameward_dnstap_connected", "gauge"), help, connected);
    let sent = dnstap.map(|dnstap| ("", dnstap.sent));
    let help = "dnstap messages sent to the collector";
    metric(out, ("nameward_dnstap_sent_total", "counter"), help, sent);
    write_work_metrics(out, status);
}

/// Writes the metrics of maintenance work, views and health checks.
fn write_work_metrics(out: &mut String, status: &ServerStatus) {
    let queues = |value: fn(&QueueStatus) -> u64| {
        let queues = status.queues.iter();
        queues.map(move |queue| (one_label("queue", &queue.name), value(queue)))
    };
    let waiting = queues(|queue| queue.waiting as u64);
    let help = "Items waiting in a maintenance queue";
    metric(out, ("nameward_queue_items", "gauge"), help, waiting);
    let limits = queues(|queue| queue.limit as u64);
    let help = "Items that may wait in a maintenance queue";
    metric(out, ("nameward_queue_limit", "gauge"), help, limits);
    let full = queues(|queue| queue.full);
    let help = "Items that found a maintenance queue full: refused, or their senders had to wait";
    metric(out, ("nameward_queue_full_total", "counter"), help, full);
    let views = status.views.iter();
    let views = views.map(|(view, requests)| (one_label("view", view), requests));
    let help = "Requests that were in a view";
    metric(
        out,
        ("nameward_view_requests_total", "counter"),
        help,
        views,
    );
    let targets = status.health.iter().map(|target| {
        let is_up = match target.forced {
            Some(forced) => forced == ForcedTarget::Up,
            None => target.state == "up",
        };
        (one_label("target", &target.target), u8::from(is_up))
    });
    let help = "Whether the last health checks of a target succeeded, or an operator set it to up";
    metric(out, ("nameward_health_target_up", "gauge"), help, targets);
    let name = ("nameward_internal_errors_total", "counter");
    let help = "Panics, each of which cost the piece of work that met it";
    metric(out, name, help, [("", status.internal_errors)]);
    let name = ("nameward_memory_refusals_total", "counter");
    let help = "Work rejected for lack of memory";
    metric(out, name, help, [("", status.memory_refusals)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::HealthTarget;

    #[test]
    fn queues_and_panics_are_metrics() {
        let status = ServerStatus {
            internal_errors: 3,
            memory_refusals: 4,
            views: vec![("internal".into(), 9)],
            health: vec![HealthTarget {
                target: "192.0.2.1 port 80".into(),
                state: "up".into(),
                servers: None,
                forced: Some(ForcedTarget::Down),
                since: 0,
                last_checked: 0,
                error: String::new(),
            }],
            queues: vec![QueueStatus {
                name: "updates".into(),
                waiting: 2,
                limit: 1024,
                full: 5,
            }],
            ..ServerStatus::default()
        };
        let mut out = String::new();
        write_metrics(&mut out, &status, &ReadyRules::default());
        for line in [
            "nameward_queue_items{queue=\"updates\"} 2\n",
            "nameward_queue_limit{queue=\"updates\"} 1024\n",
            "nameward_queue_full_total{queue=\"updates\"} 5\n",
            "nameward_internal_errors_total 3\n",
            "nameward_memory_refusals_total 4\n",
            "nameward_view_requests_total{view=\"internal\"} 9\n",
            "nameward_health_target_up{target=\"192.0.2.1 port 80\"} 0\n",
        ] {
            assert!(out.contains(line), "{line}: {out}");
        }
    }

    #[test]
    fn backticks_enclose_code_and_a_single_one_is_text() {
        let shown = |text| -> Vec<(&str, bool)> {
            let spans = spans(text).into_iter();
            spans.map(|span| (span.text, span.is_code)).collect()
        };
        assert_eq!(
            shown("`nameward check` lists every error."),
            [("nameward check", true), (" lists every error.", false)]
        );
        assert_eq!(shown("Fix the file."), [("Fix the file.", false)]);
        assert_eq!(shown("found '`'"), [("found '`'", false)]);
    }
}
