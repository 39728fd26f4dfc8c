//! `/metrics` in the Prometheus text format 0.0.4.
//!
//! Every variable is exported as `pdns_auth_<name>`, so that dashboards made for PowerDNS keep working, next to our
//! own labelled families under `nameward_`.

use std::fmt::Write as _;

use nameward_stats::{FAMILIES, Histogram, Scope, Snapshot, Transport, VARIABLES, VariableKind};
use nameward_wire::rcode_name;

use super::exposition::{head, metric, one_label};
use super::{Settings, health, type_text};
use crate::operations::ServerStatus;

/// Renders all metrics.
pub(super) fn draw(snapshot: &Snapshot, status: &ServerStatus, settings: &Settings) -> String {
    let mut out = String::with_capacity(32 * 1024);
    for variable in VARIABLES {
        let name = format!("pdns_auth_{}", variable.name.replace('-', "_"));
        // The names are fixed by PowerDNS, and counter names should end in `_total`: untyped metrics pass every
        // check, and `rate()` does not need a type.
        let kind = match variable.kind {
            VariableKind::Counter => "untyped",
            VariableKind::Gauge => "gauge",
        };
        let scope = match variable.scope {
            Scope::Server => "",
            Scope::Host => " (whole host, not only this server)",
        };
        let help = format!("{}{scope}", variable.description);
        let value = variable.value(snapshot);
        metric(&mut out, (&name, kind), &help, [("", value)]);
    }
    for family in FAMILIES {
        let name = format!("nameward_{}_total", family.name);
        let value = [("", family.value(snapshot))];
        metric(&mut out, (&name, "counter"), family.description, value);
    }
    families(&mut out, snapshot);
    health::write_metrics(&mut out, status, &settings.ready);
    let version = settings.title.rsplit(' ').next().unwrap_or_default();
    let info = [(one_label("version", version), 1)];
    let help = "The running version";
    metric(&mut out, ("nameward_build_info", "gauge"), help, info);
    out
}

fn families(out: &mut String, snapshot: &Snapshot) {
    let queries = Transport::ALL.into_iter().map(|transport| {
        let (name, ip) = (transport.protocol.name(), transport.ip.number());
        let labels = format!("{{transport=\"{name}\",ip=\"{ip}\"}}");
        (labels, snapshot.queries(transport))
    });
    let help = "Queries received by transport and IP version";
    metric(out, ("nameward_queries_total", "counter"), help, queries);
    let answers = snapshot.answers_by_rcode();
    let answers = answers.map(|(rcode, count)| (one_label("rcode", rcode_name(rcode)), count));
    let help = "Responses sent by response code";
    metric(out, ("nameward_answers_total", "counter"), help, answers);
    let answers = snapshot
        .answers_by_type()
        .map(|(qtype, count)| (one_label("type", &type_text(qtype)), count));
    let name = ("nameward_answers_by_type_total", "counter");
    metric(out, name, "Responses sent by query type", answers);
    histogram(
        out,
        "nameward_answer_size_bytes",
        "Response sizes",
        &snapshot.answer_sizes(),
        |bytes| bytes.to_string(),
    );
    histogram(
        out,
        "nameward_answer_duration_seconds",
        "Time from receiving a query to sending its response",
        &snapshot.answer_latencies(),
        seconds,
    );
}

fn histogram(
    out: &mut String,
    name: &str,
    help: &str,
    histogram: &Histogram,
    number: impl Fn(u64) -> String,
) {
    head(out, name, help, "histogram");
    for (bound, count) in &histogram.buckets {
        let le = number(*bound);
        let _ = writeln!(out, "{name}_bucket{{le=\"{le}\"}} {count}");
    }
    let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {}", histogram.count);
    let _ = writeln!(out, "{name}_sum {}", number(histogram.sum));
    let _ = writeln!(out, "{name}_count {}", histogram.count);
}

/// Formats nanoseconds as seconds, in exact decimals: a bound is a label, and a label must not change.
fn seconds(ns: u64) -> String {
    let (whole, part) = (ns / 1_000_000_000, ns % 1_000_000_000);
    match part {
        0 => whole.to_string(),
        _ => format!("{whole}.{part:09}")
            .trim_end_matches('0')
            .to_owned(),
    }
}
