//! PowerDNS settings that need no conversion logic: the outcome for each, and why.

/// The outcome for a setting that is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingFate {
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

use SettingFate::{Breaks, Changed, NotNeeded, NotPossible};

const SERVICE: SettingFate = NotNeeded("the service unit does it");
const THREADS: SettingFate = NotNeeded("there is one worker for each core, and pools by need");
const INSIDE: SettingFate = NotNeeded("it is about the inside of PowerDNS");
const LUA: SettingFate =
    Breaks("Lua is not run: records and requests that depend on it would be answered otherwise");
const SIGNING: SettingFate = NotPossible("defaults of new keys are not settings");
const CONTROL: SettingFate =
    NotPossible("the control socket is a Unix socket (server.control_socket)");
const QUERY_LOG: SettingFate =
    NotPossible("queries are logged by [query_log], or nameward query-log on");
const GRAPHITE: SettingFate = NotPossible("numbers are fetched from /metrics");

/// The settings, sorted by name.
const TABLE: &[(&str, SettingFate)] = &[
    ("8bit-dns", NotNeeded("names may have any octets")),
    (
        "allow-unsigned-autoprimary",
        Changed("a NOTIFY of an autoprimary is taken by its address"),
    ),
    (
        "allow-unsigned-notify",
        Changed("a NOTIFY must be signed where the primary has a key (AXFR-MASTER-TSIG)"),
    ),
    (
        "allow-unsigned-supermaster",
        Changed("a NOTIFY of an autoprimary is taken by its address"),
    ),
    (
        "axfr-lower-serial",
        NotPossible(
            "a lower serial is never transferred; nameward zone retrieve asks for the zone",
        ),
    ),
    ("carbon-instance", GRAPHITE),
    ("carbon-interval", GRAPHITE),
    ("carbon-namespace", GRAPHITE),
    ("carbon-ourname", GRAPHITE),
    ("carbon-server", GRAPHITE),
    (
        "chroot",
        NotNeeded("the service unit closes the file system (ProtectSystem)"),
    ),
    ("config-dir", INSIDE),
    ("config-name", INSIDE),
    ("consistent-backends", INSIDE),
    ("control-console", SERVICE),
    ("daemon", SERVICE),
    (
        "default-api-rectify",
        NotNeeded("there is nothing to rectify"),
    ),
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
        NotPossible("a new zone gets its SOA from nameward zone create"),
    ),
    (
        "default-soa-mail",
        NotPossible("a new zone gets its SOA from nameward zone create"),
    ),
    (
        "default-soa-name",
        NotPossible("a new zone gets its SOA from nameward zone create"),
    ),
    ("default-ttl", NotPossible("a TTL that is missing is 3600")),
    ("default-zsk-algorithm", SIGNING),
    ("default-zsk-size", SIGNING),
    ("delay-notifications", NotPossible("NOTIFY is sent at once")),
    (
        "direct-dnskey",
        Breaks("DNSKEY, CDS and CDNSKEY rows of a zone with keys are not served"),
    ),
    (
        "disable-axfr-rectify",
        NotNeeded("there is nothing to rectify"),
    ),
    (
        "disable-syslog",
        NotNeeded("the log goes to standard error, which journald keeps"),
    ),
    ("distributor-threads", THREADS),
    ("dname-processing", NotNeeded("DNAME is always followed")),
    (
        "edns-cookie-secret",
        NotPossible("there are no cookies of DNS"),
    ),
    (
        "edns-subnet-processing",
        NotPossible("answers do not depend on a client subnet"),
    ),
    ("enable-lua-records", LUA),
    ("entropy-source", INSIDE),
    (
        "forward-notify",
        NotPossible("a NOTIFY is not forwarded; also_notify notifies others after the transfer"),
    ),
    ("guardian", SERVICE),
    ("ignore-unknown-settings", INSIDE),
    ("load-modules", INSIDE),
    (
        "local-address-nonexist-fail",
        NotPossible("an address that cannot be bound ends the server"),
    ),
    ("log-dns-details", QUERY_LOG),
    ("log-dns-queries", QUERY_LOG),
    (
        "log-timestamp",
        NotNeeded("journald has the time of each line"),
    ),
    (
        "logging-facility",
        NotNeeded("the log goes to standard error, which journald keeps"),
    ),
    ("lua-axfr-script", LUA),
    ("lua-dnsupdate-policy-script", LUA),
    ("lua-health-checks-expire-delay", INSIDE),
    ("lua-health-checks-interval", INSIDE),
    ("lua-prequery-script", LUA),
    ("lua-records-exec-limit", INSIDE),
    ("lua-records-insert-whitespace", INSIDE),
    ("max-ent-entries", NotNeeded("there is nothing to rectify")),
    (
        "max-generate-steps",
        NotNeeded("generated_max_mb of a backend bounds $GENERATE"),
    ),
    ("max-include-depth", NotNeeded("includes are bounded")),
    ("max-nsec3-iterations", Changed("100 are the most")),
    (
        "max-queue-length",
        NotNeeded("overload_queue bounds what waits, and nothing ends the server"),
    ),
    (
        "max-signature-cache-entries",
        NotNeeded("signature_entries of [cache] has a default"),
    ),
    (
        "max-tcp-transactions-per-conn",
        NotPossible("connections end by time"),
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
    (
        "proxy-protocol-from",
        Breaks("clients behind a proxy would have the address of the proxy in every list"),
    ),
    ("proxy-protocol-maximum-size", INSIDE),
    ("query-logging", QUERY_LOG),
    ("receiver-threads", THREADS),
    ("retrieval-threads", THREADS),
    (
        "reuseport",
        NotNeeded("each worker has a socket of its own"),
    ),
    ("rng", INSIDE),
    (
        "secondary-check-signature-freshness",
        NotPossible("a secondary is asked for its serial only"),
    ),
    (
        "security-poll-suffix",
        NotNeeded("it is about versions of PowerDNS"),
    ),
    (
        "send-signed-notify",
        Changed("a NOTIFY is signed where also_notify has a key"),
    ),
    ("setgid", SERVICE),
    ("setuid", SERVICE),
    (
        "signing-threads",
        NotNeeded("signing_cpu_percent of [overload] has a default"),
    ),
    ("slave-cycle-interval", INSIDE),
    (
        "socket-dir",
        NotNeeded("the control socket is in the service's runtime directory"),
    ),
    (
        "svc-autohints",
        NotPossible("hints of SVCB and HTTPS records stay as they are written"),
    ),
    ("tcp-control-address", CONTROL),
    ("tcp-control-port", CONTROL),
    ("tcp-control-range", CONTROL),
    ("tcp-control-secret", CONTROL),
    ("tcp-fast-open", NotPossible("there is no TCP Fast Open")),
    ("traceback-handler", INSIDE),
    (
        "upgrade-unknown-types",
        NotNeeded("TYPEnnn in a database is read whatever the type"),
    ),
    ("webserver-hash-plaintext-credentials", INSIDE),
    (
        "webserver-loglevel",
        NotPossible("there is no log of the page"),
    ),
    ("webserver-max-bodysize", NotNeeded("requests are bounded")),
    (
        "webserver-print-arguments",
        NotNeeded("arguments are not printed"),
    ),
    ("write-pid", NotNeeded("pid_file of [server] writes one")),
    ("xfr-cycle-interval", INSIDE),
];

/// Returns the outcome for a setting.
pub(super) fn fate_of(name: &str) -> SettingFate {
    if let Ok(at) = TABLE.binary_search_by(|(known, _)| known.cmp(&name)) {
        return TABLE[at].1;
    }
    let engine = ["gmysql-", "gpgsql-", "gsqlite3-"];
    if engine.iter().any(|prefix| name.starts_with(prefix)) {
        return match name {
            _ if name.ends_with("-query") => Breaks(
                "statements of one's own cannot be kept: the tables must be those of PowerDNS",
            ),
            _ if name.ends_with("-dnssec") => NotNeeded("keys and metadata are always read"),
            _ => NotNeeded("connections are kept and bounded here (see docs/configuration.md)"),
        };
    }
    match name.starts_with("bind-") {
        true => NotNeeded("zone files are watched, and checked when they are loaded"),
        false => SettingFate::Unknown,
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
