//! BIND statements that a migration does not convert: the outcome of each, and why.

use crate::migrate::{
    ImportVerdict::{self, Breaks, NotNeeded, NotPossible},
    tables::{NO_EFFECT, Outcome, breaks, changed, not_needed, not_possible},
};

/// Returns the outcome for a statement that is not converted.
fn outcome_of(keyword: &str) -> Outcome {
    match keyword {
        "allow-new-zones" => breaks(
            "zones added with rndc addzone are stored elsewhere: add them to the configuration first",
        ),
        "allow-query-cache" | "allow-query-cache-on" => not_needed("no resolver cache"),
        "allow-recursion" | "forward" | "forwarders" => {
            not_possible("recursion is forwarded to a resolver: see [recursor]")
        }
        "check-names" => not_needed("names are not restricted"),
        "controls" => not_needed("replaced by the control socket"),
        "dlz" | "dyndb" => breaks("zones from other programs (DLZ, DynDB) are not supported"),
        "http" => {
            changed("its path is used for listen-on with http; the limits are those of [server]")
        }
        "logging" => {
            not_possible("the log goes to standard error (journald); set log_level in [server]")
        }
        "plugin" => breaks("plugins are not supported"),
        "rate-limit" => not_possible("response rate limiting is not supported"),
        "response-policy" => not_possible("response policy zones are not supported"),
        "server" => not_possible("set the key of a server in primaries and also_notify"),
        "statistics-channels" => not_possible("statistics are on the web page: see [web]"),
        "sortlist" => not_possible("addresses are not sorted by client"),
        "tls" => changed("used for primaries, also-notify and listen-on, always with TLS 1.3"),
        "transfer-source" | "transfer-source-v6" => {
            not_possible("set source for each server in primaries")
        }
        "notify-source" | "notify-source-v6" => {
            not_possible("set source for each server in also_notify")
        }
        "max-journal-size" => not_needed("see [journal]"),
        "ixfr-from-differences" => not_needed("differences are always computed"),
        _ if NOT_NEEDED.contains(&keyword) => NO_EFFECT,
        _ => not_possible("no equivalent"),
    }
}

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
            _ if message.ends_with("type hint") || message.contains("class is not IN") => NotNeeded,
            _ if message.contains(": type ") => NotPossible,
            _ => Breaks,
        };
        return (verdict, message.to_string());
    }
    if message.starts_with("a key in a client list") {
        return (
            Breaks,
            "query access cannot depend on a key: such clients are refused".into(),
        );
    }
    let keyword = message.split(' ').next().unwrap_or_default();
    let subject = message.split(" ignored").next().unwrap_or(message);
    let (verdict, reason) = outcome_of(keyword);
    (verdict, format!("{subject}: {reason}"))
}
