//! BIND statements that a migration does not convert: the outcome of each, and why.

use crate::migrate::MoveVerdict;

/// Statements that are not converted, with their outcome.
const PASSED_OVER: &[(&str, MoveVerdict, &str)] = &[
    (
        "allow-new-zones",
        MoveVerdict::Breaks,
        "zones that rndc addzone added are kept elsewhere: write them into the configuration first",
    ),
    (
        "allow-query-cache",
        MoveVerdict::NotNeeded,
        "there is no cache of a resolver",
    ),
    (
        "allow-query-cache-on",
        MoveVerdict::NotNeeded,
        "there is no cache of a resolver",
    ),
    (
        "allow-recursion",
        MoveVerdict::NotPossible,
        "recursion is handed to a resolver: see [recursor]",
    ),
    (
        "check-names",
        MoveVerdict::NotNeeded,
        "names may have any octets",
    ),
    (
        "controls",
        MoveVerdict::NotNeeded,
        "the control socket does its work",
    ),
    (
        "dlz",
        MoveVerdict::Breaks,
        "zones of other programs cannot be kept",
    ),
    (
        "dyndb",
        MoveVerdict::Breaks,
        "zones of other programs cannot be kept",
    ),
    (
        "forward",
        MoveVerdict::NotPossible,
        "recursion is handed to a resolver: see [recursor]",
    ),
    (
        "forwarders",
        MoveVerdict::NotPossible,
        "recursion is handed to a resolver: see [recursor]",
    ),
    ("http", MoveVerdict::Breaks, "there is no DNS over HTTPS"),
    (
        "logging",
        MoveVerdict::NotPossible,
        "the log goes to standard error, which journald keeps; log_level of [server] says how much",
    ),
    ("plugin", MoveVerdict::Breaks, "plugins change answers"),
    (
        "rate-limit",
        MoveVerdict::NotPossible,
        "there is no rate limit for answers",
    ),
    (
        "response-policy",
        MoveVerdict::NotPossible,
        "there is no response policy",
    ),
    (
        "server",
        MoveVerdict::NotPossible,
        "a key for a server stands with it in primaries and also_notify",
    ),
    (
        "statistics-channels",
        MoveVerdict::NotPossible,
        "numbers are on the page: see [web]",
    ),
    (
        "sortlist",
        MoveVerdict::NotPossible,
        "addresses are not sorted for clients",
    ),
    (
        "tls",
        MoveVerdict::NotPossible,
        "there is no DNS over TLS; servers that use it are left out",
    ),
    (
        "transfer-source",
        MoveVerdict::NotPossible,
        "write source into the servers of primaries",
    ),
    (
        "transfer-source-v6",
        MoveVerdict::NotPossible,
        "write source into the servers of primaries",
    ),
    (
        "notify-source",
        MoveVerdict::NotPossible,
        "write source into the servers of also_notify",
    ),
    (
        "notify-source-v6",
        MoveVerdict::NotPossible,
        "write source into the servers of also_notify",
    ),
    (
        "max-journal-size",
        MoveVerdict::NotNeeded,
        "[journal] bounds it",
    ),
    (
        "ixfr-from-differences",
        MoveVerdict::NotNeeded,
        "differences are always made",
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
pub(super) fn judged(message: &str) -> (MoveVerdict, String) {
    if message.starts_with("the zone") || message.starts_with("the view") {
        let verdict = match message {
            _ if message.ends_with("type hint") || message.contains("class is not IN") => {
                MoveVerdict::NotNeeded
            }
            _ if message.contains(": type ") => MoveVerdict::NotPossible,
            _ => MoveVerdict::Breaks,
        };
        return (verdict, message.to_string());
    }
    if message.starts_with("a key in a list of clients") {
        return (
            MoveVerdict::Breaks,
            "who may ask cannot depend on a key: such clients are refused".into(),
        );
    }
    let keyword = message.split(' ').next().unwrap_or_default();
    let subject = message.split(" is not taken").next().unwrap_or(message);
    if let Some((_, verdict, reason)) = PASSED_OVER.iter().find(|row| row.0 == keyword) {
        return (*verdict, format!("{subject}: {reason}"));
    }
    match NOT_NEEDED.contains(&keyword) {
        true => (
            MoveVerdict::NotNeeded,
            format!("{subject}: nothing here depends on it"),
        ),
        false => (
            MoveVerdict::NotPossible,
            format!("{subject}: there is nothing like it here"),
        ),
    }
}
