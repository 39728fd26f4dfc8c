//! BIND statements that a migration does not convert: the outcome of each, and why.

use crate::migrate::ImportVerdict;

/// Statements that are not converted, with their outcome.
const SKIPPED: &[(&str, ImportVerdict, &str)] = &[
    (
        "allow-new-zones",
        ImportVerdict::Breaks,
        "zones added with rndc addzone are stored elsewhere: add them to the configuration first",
    ),
    (
        "allow-query-cache",
        ImportVerdict::NotNeeded,
        "no resolver cache",
    ),
    (
        "allow-query-cache-on",
        ImportVerdict::NotNeeded,
        "no resolver cache",
    ),
    (
        "allow-recursion",
        ImportVerdict::NotPossible,
        "recursion is forwarded to a resolver: see [recursor]",
    ),
    (
        "check-names",
        ImportVerdict::NotNeeded,
        "names are not restricted",
    ),
    (
        "controls",
        ImportVerdict::NotNeeded,
        "replaced by the control socket",
    ),
    (
        "dlz",
        ImportVerdict::Breaks,
        "zones from other programs (DLZ, DynDB) are not supported",
    ),
    (
        "dyndb",
        ImportVerdict::Breaks,
        "zones from other programs (DLZ, DynDB) are not supported",
    ),
    (
        "forward",
        ImportVerdict::NotPossible,
        "recursion is forwarded to a resolver: see [recursor]",
    ),
    (
        "forwarders",
        ImportVerdict::NotPossible,
        "recursion is forwarded to a resolver: see [recursor]",
    ),
    (
        "http",
        ImportVerdict::Changed,
        "its path is used for listen-on with http; the limits are those of [server]",
    ),
    (
        "logging",
        ImportVerdict::NotPossible,
        "the log goes to standard error (journald); set log_level in [server]",
    ),
    ("plugin", ImportVerdict::Breaks, "plugins are not supported"),
    (
        "rate-limit",
        ImportVerdict::NotPossible,
        "response rate limiting is not supported",
    ),
    (
        "response-policy",
        ImportVerdict::NotPossible,
        "response policy zones are not supported",
    ),
    (
        "server",
        ImportVerdict::NotPossible,
        "set the key of a server in primaries and also_notify",
    ),
    (
        "statistics-channels",
        ImportVerdict::NotPossible,
        "statistics are on the web page: see [web]",
    ),
    (
        "sortlist",
        ImportVerdict::NotPossible,
        "addresses are not sorted by client",
    ),
    (
        "tls",
        ImportVerdict::Changed,
        "used for primaries, also-notify and listen-on, always with TLS 1.3",
    ),
    (
        "transfer-source",
        ImportVerdict::NotPossible,
        "set source for each server in primaries",
    ),
    (
        "transfer-source-v6",
        ImportVerdict::NotPossible,
        "set source for each server in primaries",
    ),
    (
        "notify-source",
        ImportVerdict::NotPossible,
        "set source for each server in also_notify",
    ),
    (
        "notify-source-v6",
        ImportVerdict::NotPossible,
        "set source for each server in also_notify",
    ),
    (
        "max-journal-size",
        ImportVerdict::NotNeeded,
        "see [journal]",
    ),
    (
        "ixfr-from-differences",
        ImportVerdict::NotNeeded,
        "differences are always computed",
    ),
];

/// Options about resolving, files and threads: nothing here depends on them.
const NOT_NEEDED: &[&str] = &[
    "auth-nxdomain",
    "dnssec-validation",
    "dnssec-enable",
    "dnssec-lookaside",
    "managed-keys",
    "managed-keys-directory",
    "trust-anchors",
    "trusted-keys",
    "bindkeys-file",
    "pid-file",
    "session-keyfile",
    "dump-file",
    "statistics-file",
    "memstatistics-file",
    "secroots-file",
    "recursing-file",
    "lock-file",
    "empty-zones-enable",
    "zone-statistics",
    "zero-no-soa-ttl",
    "minimal-responses",
    "max-cache-size",
    "max-cache-ttl",
    "max-ncache-ttl",
    "interface-interval",
    "prefetch",
    "qname-minimization",
    "edns-udp-size",
    "answer-cookie",
    "cookie-algorithm",
    "cookie-secret",
    "rrset-order",
    "tcp-listen-queue",
    "recursive-clients",
    "clients-per-query",
    "max-clients-per-query",
    "resolver-query-timeout",
    "check-integrity",
    "check-mx",
    "check-mx-cname",
    "check-srv-cname",
    "check-wildcard",
    "check-sibling",
    "check-dup-records",
    "check-spf",
    "masterfile-style",
    "masterfile-format",
    "serial-query-rate",
    "transfer-format",
    "transfers-in",
    "transfers-out",
    "transfers-per-ns",
    "provide-ixfr",
    "heartbeat-interval",
    "stacksize",
    "datasize",
    "coresize",
    "files",
    "files-limit",
    "query-source",
    "query-source-v6",
    "root-key-sentinel",
    "stale-answer-enable",
    "parental-agents",
    "key-store",
    "try-tcp-refresh",
    "multi-master",
    "require-server-cookie",
    "max-zone-ttl",
    "fetches-per-zone",
    "fetches-per-server",
    "use-v4-udp-ports",
    "use-v6-udp-ports",
    "avoid-v4-udp-ports",
    "avoid-v6-udp-ports",
];

/// Returns the verdict on a statement or zone that `take` left out, based on its message.
pub(super) fn verdict_of_message(message: &str) -> (ImportVerdict, String) {
    let is_about_zones = ["zone ", "zones ", "view "];
    if is_about_zones
        .iter()
        .any(|start| message.starts_with(start))
    {
        let verdict = match message {
            _ if message.ends_with("type hint") || message.contains("class is not IN") => {
                ImportVerdict::NotNeeded
            }
            _ if message.contains(": type ") => ImportVerdict::NotPossible,
            _ => ImportVerdict::Breaks,
        };
        return (verdict, message.to_string());
    }
    if message.starts_with("a key in a client list") {
        return (
            ImportVerdict::Breaks,
            "query access cannot depend on a key: such clients are refused".into(),
        );
    }
    let keyword = message.split(' ').next().unwrap_or_default();
    let subject = message.split(" ignored").next().unwrap_or(message);
    if let Some((_, verdict, reason)) = SKIPPED.iter().find(|row| row.0 == keyword) {
        return (*verdict, format!("{subject}: {reason}"));
    }
    if NOT_NEEDED.contains(&keyword) {
        (
            ImportVerdict::NotNeeded,
            format!("{subject}: no effect on this server"),
        )
    } else {
        (
            ImportVerdict::NotPossible,
            format!("{subject}: no equivalent"),
        )
    }
}
