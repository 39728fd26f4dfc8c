//! PowerDNS settings that need no conversion logic: the outcome for each, and why.

/// The outcome for a setting that is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingOutcome {
    /// Nothing here depends on it.
    NotNeeded(&'static str),
    /// The behaviour here is fixed, whatever the setting is.
    Changed(&'static str),
    /// There is no equivalent.
    NotPossible(&'static str),
    /// There is no equivalent, and something would leak or break.
    Breaks(&'static str),
    /// Not a known PowerDNS setting.
    Unknown,
}

use SettingOutcome::{Breaks, Changed, NotNeeded, NotPossible};

const SERVICE: SettingOutcome = NotNeeded("done by the service unit");
const THREADS: SettingOutcome = NotNeeded("one worker per core and automatic pools");
const INSIDE: SettingOutcome = NotNeeded("internal to PowerDNS");
const LUA: SettingOutcome = Breaks("Lua scripts other than LUA records are not supported");
/// Only used in a build without LUA records: otherwise the setting is converted.
const LUA_RECORDS: SettingOutcome = Breaks("this build has no LUA records");
const SIGNING: SettingOutcome = NotPossible("new keys have fixed defaults");
const CONTROL: SettingOutcome =
    NotPossible("the control socket is a Unix socket (server.control_socket)");
const QUERY_LOG: SettingOutcome = NotPossible("use [query_log] or `nameward query-log on`");
const GRAPHITE: SettingOutcome = NotPossible("use /metrics");

/// The settings, sorted by name.
const TABLE: &[(&str, SettingOutcome)] = &[
    ("8bit-dns", NotNeeded("names are not restricted")),
    (
        "allow-unsigned-autoprimary",
        Changed("NOTIFY from an autoprimary is accepted by address"),
    ),
    (
        "allow-unsigned-notify",
        Changed("NOTIFY must be signed if the primary has a key (AXFR-MASTER-TSIG)"),
    ),
    (
        "allow-unsigned-supermaster",
        Changed("NOTIFY from an autoprimary is accepted by address"),
    ),
    (
        "axfr-lower-serial",
        NotPossible("a lower serial is never transferred; use `nameward zone retrieve --force`"),
    ),
    ("carbon-instance", GRAPHITE),
    ("carbon-interval", GRAPHITE),
    ("carbon-namespace", GRAPHITE),
    ("carbon-ourname", GRAPHITE),
    ("carbon-server", GRAPHITE),
    (
        "chroot",
        NotNeeded("the service unit restricts the file system (ProtectSystem)"),
    ),
    ("config-dir", INSIDE),
    ("config-name", INSIDE),
    ("consistent-backends", INSIDE),
    ("control-console", SERVICE),
    ("daemon", SERVICE),
    ("default-api-rectify", NotNeeded("not needed")),
    ("default-ksk-algorithm", SIGNING),
    ("default-ksk-size", SIGNING),
    (
        "default-publish-cdnskey",
        NotPossible("set PUBLISH-CDNSKEY for each zone (pdnsutil set-publish-cdnskey)"),
    ),
    (
        "default-publish-cds",
        NotPossible("set PUBLISH-CDS for each zone (pdnsutil set-publish-cds)"),
    ),
    (
        "default-soa-content",
        NotPossible("`nameward zone create` sets the SOA of a new zone"),
    ),
    (
        "default-soa-mail",
        NotPossible("`nameward zone create` sets the SOA of a new zone"),
    ),
    (
        "default-soa-name",
        NotPossible("`nameward zone create` sets the SOA of a new zone"),
    ),
    ("default-ttl", NotPossible("the default TTL is 3600")),
    ("default-zsk-algorithm", SIGNING),
    ("default-zsk-size", SIGNING),
    (
        "delay-notifications",
        NotPossible("NOTIFY is sent immediately"),
    ),
    (
        "direct-dnskey",
        Breaks("DNSKEY, CDS and CDNSKEY rows of a zone with keys are not served"),
    ),
    ("disable-axfr-rectify", NotNeeded("not needed")),
    (
        "disable-syslog",
        NotNeeded("the log goes to standard error (journald)"),
    ),
    ("distributor-threads", THREADS),
    ("dname-processing", NotNeeded("DNAME is always followed")),
    (
        "edns-cookie-secret",
        NotPossible("DNS cookies are not supported"),
    ),
    (
        "edns-subnet-processing",
        Changed(
            "the option is believed from the resolvers that you list in allow_from of [client_subnet]",
        ),
    ),
    ("enable-lua-records", LUA_RECORDS),
    ("entropy-source", INSIDE),
    (
        "forward-notify",
        NotPossible("NOTIFY is not forwarded; use also_notify to notify others after the transfer"),
    ),
    ("guardian", SERVICE),
    ("ignore-unknown-settings", INSIDE),
    ("load-modules", INSIDE),
    (
        "local-address-nonexist-fail",
        NotPossible("the server does not start if an address cannot be bound"),
    ),
    ("log-dns-details", QUERY_LOG),
    ("log-dns-queries", QUERY_LOG),
    ("log-timestamp", NotNeeded("journald adds timestamps")),
    (
        "logging-facility",
        NotNeeded("the log goes to standard error (journald)"),
    ),
    ("lua-axfr-script", LUA),
    ("lua-consistent-hashes-cleanup-interval", INSIDE),
    ("lua-consistent-hashes-expire-delay", INSIDE),
    ("lua-dnsupdate-policy-script", LUA),
    (
        "lua-health-checks-expire-delay",
        Changed("a target is checked until it was not used for an hour"),
    ),
    (
        "lua-health-checks-max-concurrent",
        Changed("at most 256 checks run at one time"),
    ),
    ("lua-prequery-script", LUA),
    ("lua-records-insert-whitespace", INSIDE),
    ("max-ent-entries", NotNeeded("not needed")),
    (
        "max-generate-steps",
        NotNeeded("see generated_max_mb of the backend"),
    ),
    ("max-include-depth", NotNeeded("includes are limited")),
    ("max-nsec3-iterations", Changed("the maximum is 100")),
    (
        "max-queue-length",
        NotNeeded("see overload_queue; the server does not exit on overload"),
    ),
    (
        "max-signature-cache-entries",
        NotNeeded("see signature_entries in [cache]"),
    ),
    (
        "max-tcp-transactions-per-conn",
        NotPossible("connections have a timeout"),
    ),
    ("module-dir", INSIDE),
    ("no-shuffle", INSIDE),
    (
        "non-local-bind",
        NotPossible("set net.ipv4.ip_nonlocal_bind"),
    ),
    (
        "prevent-self-notification",
        NotNeeded("the server never notifies itself"),
    ),
    ("proxy-protocol-maximum-size", INSIDE),
    ("query-logging", QUERY_LOG),
    ("receiver-threads", THREADS),
    ("retrieval-threads", THREADS),
    ("reuseport", NotNeeded("each worker has its own socket")),
    ("rng", INSIDE),
    (
        "secondary-check-signature-freshness",
        NotPossible("secondaries are only queried for their serial"),
    ),
    ("security-poll-suffix", NotNeeded("about PowerDNS versions")),
    (
        "send-signed-notify",
        Changed("NOTIFY is signed if also_notify has a key"),
    ),
    ("setgid", SERVICE),
    ("setuid", SERVICE),
    (
        "signing-threads",
        NotNeeded("see signing_cpu_percent in [overload]"),
    ),
    ("slave-cycle-interval", INSIDE),
    (
        "socket-dir",
        NotNeeded("the control socket is in the service's runtime directory"),
    ),
    (
        "svc-autohints",
        NotNeeded("ipv4hint=auto and ipv6hint=auto are always filled in"),
    ),
    ("tcp-control-address", CONTROL),
    ("tcp-control-port", CONTROL),
    ("tcp-control-range", CONTROL),
    ("tcp-control-secret", CONTROL),
    (
        "tcp-fast-open",
        NotPossible("TCP Fast Open is not supported"),
    ),
    ("traceback-handler", INSIDE),
    (
        "upgrade-unknown-types",
        NotNeeded("TYPEnnn is always accepted in a database"),
    ),
    ("webserver-hash-plaintext-credentials", INSIDE),
    ("webserver-loglevel", NotPossible("the web page has no log")),
    ("webserver-max-bodysize", NotNeeded("requests are limited")),
    (
        "webserver-print-arguments",
        NotNeeded("arguments are not printed"),
    ),
    ("write-pid", NotNeeded("see pid_file in [server]")),
    ("xfr-cycle-interval", INSIDE),
];

/// Returns the outcome for a setting.
pub(super) fn fate_of(name: &str) -> SettingOutcome {
    if let Ok(at) = TABLE.binary_search_by(|(known, _)| known.cmp(&name)) {
        return TABLE[at].1;
    }
    let engine = ["gmysql-", "gpgsql-", "gsqlite3-"];
    if engine.iter().any(|prefix| name.starts_with(prefix)) {
        return match name {
            _ if name.ends_with("-query") => Breaks(
                "custom SQL statements are not supported: the standard PowerDNS schema is required",
            ),
            _ if name.ends_with("-dnssec") => NotNeeded("keys and metadata are always read"),
            _ => NotNeeded("connections are pooled and limited (see docs/configuration.md)"),
        };
    }
    if name.starts_with("bind-") {
        NotNeeded("zone files are watched, and checked when they are loaded")
    } else {
        SettingOutcome::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.is_sorted_by(|(a, _), (b, _)| a < b));
    }
}
