//! The server status for people: names and values in columns, a table of backends, faults with their remedies.

use nameward_base::text::{counted, duration_text, listed, utc_text};
use std::fmt::Write as _;

use crate::operations::{BackendStatus, RateLimitStatus, ServerStatus};

/// Formats the state of a server.
pub(crate) fn text(status: &ServerStatus) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<14} {value}");
    };
    row("version", &status.version);
    row("host", &status.host);
    row("process", &status.process.to_string());
    row("uptime", &duration_text(status.uptime_seconds));
    if let Some(config) = &status.config {
        row("configuration", config);
    }
    for listener in &status.listeners {
        let transports = listed(listener.transports.iter().cloned());
        row("listening", &format!("{} ({transports})", listener.address));
    }
    if let Some(web) = &status.web {
        row("status page", &format!("http://{web}/"));
    }
    row("workers", &status.workers.to_string());
    row("zones", &zones(status));
    let rates = status.queries_per_second;
    let (one, five, ten) = (rates.minute_1, rates.minutes_5, rates.minutes_10);
    let rates = format!("{one:.1} per second (1 min), {five:.1} (5 min), {ten:.1} (10 min)");
    row("queries", &rates);
    let transfers = status.transfers;
    let (coming, going) = (transfers.incoming, transfers.outgoing);
    let waiting = (transfers.incoming_waiting, transfers.outgoing_waiting);
    let transfers = format!(
        "{coming} in, {} waiting; {going} out, {} waiting",
        waiting.0, waiting.1
    );
    row("transfers", &transfers);
    let mebibytes = status.memory_bytes as f64 / f64::from(1 << 20);
    row("memory", &format!("{mebibytes:.1} MiB"));
    if !status.sandbox.is_empty() {
        row("sandbox", &status.sandbox);
    }
    for xdp in &status.xdp {
        row("XDP", &format!("{}: {}", xdp.interface, xdp.state));
    }
    health_row(status, &mut row);
    local_row(&status.only_here, &mut row);
    if let Some(limit) = &status.rate_limit {
        row("rate limit", &rate_limit(limit));
    }
    if let Some(dnstap) = &status.dnstap {
        let state = if dnstap.is_connected {
            "sending to"
        } else {
            "not connected to"
        };
        let (socket, sent, dropped) = (&dnstap.socket, dnstap.sent, dnstap.dropped);
        row(
            "dnstap",
            &format!("{state} {socket}; {sent} sent, {dropped} dropped"),
        );
    }
    match &status.last_reload {
        None => row("last reload", "none since start"),
        Some(reload) => {
            let end = if reload.is_ok { "ok" } else { "failed" };
            let line = format!("{} {end}: {}", utc_text(reload.at), reload.text);
            row("last reload", &line);
        }
    }
    backends(&mut text, &status.backends);
    if status.faults.is_empty() {
        text.push_str("\nfaults: none\n")
    } else {
        let _ = writeln!(text, "\nfaults: {}", status.faults.len());
    }
    for fault in &status.faults {
        let (kind, said, since) = (fault.kind.word(), &fault.text, utc_text(fault.since));
        let (effect, remedy) = (&fault.effect, &fault.remedy);
        let _ = writeln!(
            text,
            "  {kind}: {said}\n    Since {since}. {effect}\n    {remedy}"
        );
    }
    text
}

fn zones(status: &ServerStatus) -> String {
    let mut text = format!("{} served", status.zones);
    for (number, state) in [
        (status.zones_not_ready, "without data"),
        (status.zones_never_transferred, "never transferred"),
        (status.zones_unsigned, "answered unsigned"),
        (status.zones_with_errors, "with errors"),
        (status.zones_stale, "stale"),
        (status.zones_expired, "expired"),
        (status.zones_signed, "signed in memory"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {number} {state}");
        }
    }
    text
}

fn backends(text: &mut String, backends: &[BackendStatus]) {
    let _ = writeln!(
        text,
        "\n{:<8} {:<9} {:<9} {:<6} {:<21} {:>8}  ADDRESS",
        "BACKEND", "ENGINE", "MODE", "STATE", "SINCE", "ZONES"
    );
    for backend in backends {
        let BackendStatus {
            backend: number,
            engine,
            address,
            mode,
            zones,
            ..
        } = backend;
        let state = if backend.is_up { "up" } else { "down" };
        let since = utc_text(backend.since);
        let number = match number {
            0 => "[[zone]]".to_string(),
            number => number.to_string(),
        };
        let _ = writeln!(
            text,
            "{number:<8} {engine:<9} {mode:<9} {state:<6} {since:<21} {zones:>8}  {address}"
        );
        if let (Some(error), Some(at)) = (&backend.last_error, backend.last_error_at) {
            let _ = writeln!(text, "         last error {}: {error}", utc_text(at));
        }
        if let Some(unseen) = &backend.unseen_changes {
            let (since, error) = (utc_text(unseen.since), &unseen.error);
            let _ = writeln!(
                text,
                "         change detection lost since {since}: {error}"
            );
        }
        for failed in &backend.failed_servers {
            let (server, since, error) = (&failed.server, utc_text(failed.since), &failed.error);
            let _ = writeln!(text, "         server {server} down since {since}: {error}");
        }
    }
    if backends.is_empty() {
        let none = counted(0, "backend");
        let _ = writeln!(text, "{none}");
    }
}

/// Describes response rate limiting: the networks that are limited now.
fn rate_limit(limit: &RateLimitStatus) -> String {
    let mode = if limit.is_log_only {
        "on, log only; "
    } else {
        "on; "
    };
    let networks: Vec<_> = limit
        .limited
        .iter()
        .map(|one| {
            format!(
                "{} ({})",
                one.network,
                counted(one.responses as usize, "response")
            )
        })
        .collect();
    match networks.len() {
        0 => format!("{mode}no network is over its limit"),
        _ => format!("{mode}over the limit: {}", networks.join(", ")),
    }
}

/// Writes how many targets of health checks are in which state, if there are any.
fn health_row(status: &ServerStatus, row: &mut impl FnMut(&str, &str)) {
    let targets = &status.health;
    if targets.is_empty() {
        return;
    }
    let count = |state: &str| targets.iter().filter(|one| one.state == state).count();
    let (up, down, unknown) = (count("up"), count("down"), count("unknown"));
    let forced = targets.iter().filter(|one| one.forced.is_some()).count();
    let shared = status
        .health_shared_with
        .map_or_else(String::new, |servers| {
            format!(", shared with {}", counted(servers, "other server"))
        });
    let text = format!("{up} up, {down} down, {unknown} not checked yet, {forced} forced{shared}");
    row("health checks", &text);
}

fn local_row(items: &[String], row: &mut impl FnMut(&str, &str)) {
    if !items.is_empty() {
        let what = listed(items);
        let line = format!("{what}; other servers on the database do not have them");
        row("only here", &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::{FaultKind, ServerFault};

    #[test]
    fn a_state_with_faults_lists_each_with_its_remedy() {
        let status = ServerStatus {
            zones: 3,
            zones_not_ready: 1,
            only_here: vec!["2 TSIG keys".into(), "1 API key".into()],
            backends: vec![BackendStatus {
                backend: 1,
                engine: "sqlite".into(),
                address: "sqlite:/a.db".into(),
                mode: "live".into(),
                is_up: false,
                since: 951_782_400,
                last_error: Some("no such file".into()),
                last_error_at: Some(951_782_401),
                unseen_changes: None,
                failed_servers: Vec::new(),
                lag: None,
                zones: 3,
                is_lost: true,
            }],
            faults: vec![ServerFault {
                kind: FaultKind::BackendDown,
                since: 951_782_400,
                text: "backend 1 is down".into(),
                effect: "Nothing is answered.".into(),
                remedy: "start it".into(),
            }],
            ..ServerStatus::default()
        };
        let text = text(&status);
        for line in [
            "zones          3 served, 1 without data",
            "only here      2 TSIG keys and 1 API key; other servers on the database do not have them",
            "1        sqlite    live      down   2000-02-29T00:00:00Z         3  sqlite:/a.db",
            "         last error 2000-02-29T00:00:01Z: no such file",
            "faults: 1",
            "  backend_down: backend 1 is down",
            "    Since 2000-02-29T00:00:00Z. Nothing is answered.",
            "    start it",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
