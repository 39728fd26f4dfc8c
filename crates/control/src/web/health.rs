//! The server state at the top of every page and in `/metrics`: one green line, or the faults with their remedies.

use nameward_base::text::counted;
use std::fmt::Write as _;

use nameward_base::calendar::UtcTime;

use super::exposition::{head, label};
use crate::operations::{
    DnstapStatus, FaultKind, ForcedTarget, QueueStatus, ReadyRules, ServerFault, ServerStatus,
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
    let mut gauge = |name: &str, help: &str, rows: &[(String, u64)]| {
        let name = format!("nameward_{name}");
        head(out, &name, help, "gauge");
        for (labels, value) in rows {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let plain = |value: u64| [(String::new(), value)];
    let is_ready = status.reasons(ready).is_empty();
    gauge(
        "ready",
        "Whether /readyz returns 200",
        &plain(is_ready.into()),
    );
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
    let zones = zones.map(|(state, zones)| (format!("{{state=\"{state}\"}}"), zones as u64));
    gauge(
        "zones",
        "Zones by state; a zone can be in several states",
        &zones,
    );
    let of_kind = |kind: &FaultKind| {
        let number = status.faults.iter().filter(|fault| fault.kind == *kind);
        (
            format!("{{kind=\"{}\"}}", kind.word()),
            number.count() as u64,
        )
    };
    let faults: Vec<_> = FaultKind::ALL.iter().map(of_kind).collect();
    gauge(
        "faults",
        "Faults shown on the status page, by kind",
        &faults,
    );
    let up = status.backends.iter().map(|backend| {
        let engine = label(&backend.engine);
        let labels = format!("{{backend=\"{}\",engine=\"{engine}\"}}", backend.backend);
        (labels, u64::from(backend.is_up))
    });
    let up: Vec<_> = up.collect();
    gauge("backend_up", "Whether a backend responds", &up);
    let (is_ok, at) = match &status.last_reload {
        Some(reload) => (reload.is_ok, reload.at),
        None => (true, 0),
    };
    let help = "Whether the last reload succeeded; 1 if there was none";
    gauge("last_reload_success", help, &plain(is_ok.into()));
    let help = "Time of the last reload; 0 if there was none";
    gauge("last_reload_timestamp_seconds", help, &plain(at));
    let transfers = status.transfers;
    let transfers = [
        ("in", transfers.incoming as u64),
        ("out", transfers.outgoing as u64),
    ];
    let rows = transfers.map(|(way, number)| (format!("{{direction=\"{way}\"}}"), number));
    gauge("transfers_running", "Transfers in progress", &rows);
    write_dnstap_metrics(out, status.dnstap.as_deref());
    write_work_metrics(out, status);
}

fn write_dnstap_metrics(out: &mut String, dnstap: Option<&DnstapStatus>) {
    let name = "nameward_dnstap_connected";
    let help = "Whether the dnstap collector is connected, if dnstap is enabled";
    head(out, name, help, "gauge");
    if let Some(dnstap) = dnstap {
        let _ = writeln!(out, "{name} {}", u8::from(dnstap.is_connected));
    }
    let name = "nameward_dnstap_sent_total";
    head(
        out,
        name,
        "dnstap messages sent to the collector",
        "counter",
    );
    if let Some(dnstap) = dnstap {
        let _ = writeln!(out, "{name} {}", dnstap.sent);
    }
}

/// Writes the metrics of maintenance work: its queues, and panics.
fn write_work_metrics(out: &mut String, status: &ServerStatus) {
    type Column = (
        &'static str,
        &'static str,
        &'static str,
        fn(&QueueStatus) -> u64,
    );
    let columns: [Column; 3] = [
        (
            "nameward_queue_items",
            "Items waiting in a maintenance queue",
            "gauge",
            |queue| queue.waiting as u64,
        ),
        (
            "nameward_queue_limit",
            "Items that may wait in a maintenance queue",
            "gauge",
            |queue| queue.limit as u64,
        ),
        (
            "nameward_queue_full_total",
            "Items that found a maintenance queue full: refused, or their senders had to wait",
            "counter",
            |queue| queue.full,
        ),
    ];
    for (name, help, kind, value) in columns {
        head(out, name, help, kind);
        for queue in &status.queues {
            let (label, value) = (label(&queue.name), value(queue));
            let _ = writeln!(out, "{name}{{queue=\"{label}\"}} {value}");
        }
    }
    let name = "nameward_view_requests_total";
    head(out, name, "Requests that were in a view", "counter");
    for (view, requests) in &status.views {
        let _ = writeln!(out, "{name}{{view=\"{}\"}} {requests}", label(view));
    }
    let name = "nameward_health_target_up";
    let help = "Whether the last health checks of a target succeeded, or an operator set it to up";
    head(out, name, help, "gauge");
    for target in &status.health {
        let is_up = match target.forced {
            Some(forced) => forced == ForcedTarget::Up,
            None => target.state == "up",
        };
        let (label, value) = (label(&target.target), u8::from(is_up));
        let _ = writeln!(out, "{name}{{target=\"{label}\"}} {value}");
    }
    let name = "nameward_internal_errors_total";
    head(
        out,
        name,
        "Panics, each of which cost the piece of work that met it",
        "counter",
    );
    let _ = writeln!(out, "{name} {}", status.internal_errors);
    let name = "nameward_memory_refusals_total";
    head(out, name, "Work rejected for lack of memory", "counter");
    let _ = writeln!(out, "{name} {}", status.memory_refusals);
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
