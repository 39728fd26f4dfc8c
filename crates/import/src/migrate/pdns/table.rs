//! PowerDNS settings that need no conversion logic: the outcome for each, and why.

use crate::migrate::tables::{Outcome, breaks, changed, not_needed, not_possible};

/// Returns the outcome for a setting that is enabled.
pub(super) fn fate_of(name: &str) -> Outcome {
    if let Some(reason) = reason_not_needed(name) {
        return not_needed(reason);
    }
    match name {
        "allow-unsigned-autoprimary" | "allow-unsigned-supermaster" => {
            changed("NOTIFY from an autoprimary is accepted by address")
        }
        "allow-unsigned-notify" => {
            changed("NOTIFY must be signed if the primary has a key (AXFR-MASTER-TSIG)")
        }
        "axfr-lower-serial" => not_possible(
            "a lower serial is never transferred; use `nameward zone retrieve --force`",
        ),
        "carbon-instance" | "carbon-interval" | "carbon-namespace" | "carbon-ourname"
        | "carbon-server" => not_possible("use /metrics"),
        "default-ksk-algorithm"
        | "default-ksk-size"
        | "default-zsk-algorithm"
        | "default-zsk-size" => not_possible("new keys have fixed defaults"),
        "default-publish-cdnskey" => {
            not_possible("set PUBLISH-CDNSKEY for each zone (pdnsutil set-publish-cdnskey)")
        }
        "default-publish-cds" => {
            not_possible("set PUBLISH-CDS for each zone (pdnsutil set-publish-cds)")
        }
        "default-soa-content" | "default-soa-mail" | "default-soa-name" => {
            not_possible("`nameward zone create` sets the SOA of a new zone")
        }
        "default-ttl" => not_possible("the default TTL is 3600"),
        "delay-notifications" => not_possible("NOTIFY is sent immediately"),
        "direct-dnskey" => {
            breaks("DNSKEY, CDS and CDNSKEY rows of a zone with keys are not served")
        }
        "edns-cookie-secret" => not_possible("DNS cookies are not supported"),
        "edns-subnet-processing" => changed(
            "the option is believed from the resolvers that you list in allow_from of [client_subnet]",
        ),
        // Only in a build without LUA records: otherwise the setting is converted.
        "enable-lua-records" => breaks("this build has no LUA records"),
        "forward-notify" => not_possible(
            "NOTIFY is not forwarded; use also_notify to notify others after the transfer",
        ),
        "local-address-nonexist-fail" => {
            not_possible("the server does not start if an address cannot be bound")
        }
        "log-dns-details" | "log-dns-queries" | "query-logging" => {
            not_possible("use [query_log] or `nameward query-log on`")
        }
        "lua-axfr-script" | "lua-dnsupdate-policy-script" | "lua-prequery-script" => {
            breaks("Lua scripts other than LUA records are not supported")
        }
        "lua-health-checks-expire-delay" => {
            changed("a target is checked until it was not used for an hour")
        }
        "lua-health-checks-max-concurrent" => changed("at most 256 checks run at one time"),
        "max-nsec3-iterations" => changed("the maximum is 100"),
        "max-tcp-transactions-per-conn" => not_possible("connections have a timeout"),
        "non-local-bind" => not_possible("set net.ipv4.ip_nonlocal_bind"),
        "secondary-check-signature-freshness" => {
            not_possible("secondaries are only queried for their serial")
        }
        "send-signed-notify" => changed("NOTIFY is signed if also_notify has a key"),
        "tcp-control-address" | "tcp-control-port" | "tcp-control-range" | "tcp-control-secret" => {
            not_possible("the control socket is a Unix socket (server.control_socket)")
        }
        "tcp-fast-open" => not_possible("TCP Fast Open is not supported"),
        "webserver-loglevel" => not_possible("the web page has no log"),
        _ if is_database(name) && name.ends_with("-query") => breaks(
            "custom SQL statements are not supported: the standard PowerDNS schema is required",
        ),
        _ => not_possible("unknown setting"),
    }
}

fn is_database(name: &str) -> bool {
    let engine = ["gmysql-", "gpgsql-", "gsqlite3-"];
    engine.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns why nothing here depends on a setting.
fn reason_not_needed(name: &str) -> Option<&'static str> {
    Some(match name {
        "8bit-dns" => "names are not restricted",
        "chroot" => "the service unit restricts the file system (ProtectSystem)",
        "config-dir"
        | "config-name"
        | "consistent-backends"
        | "entropy-source"
        | "ignore-unknown-settings"
        | "load-modules"
        | "lua-consistent-hashes-cleanup-interval"
        | "lua-consistent-hashes-expire-delay"
        | "lua-records-insert-whitespace"
        | "module-dir"
        | "no-shuffle"
        | "proxy-protocol-maximum-size"
        | "rng"
        | "slave-cycle-interval"
        | "traceback-handler"
        | "webserver-hash-plaintext-credentials"
        | "xfr-cycle-interval" => "internal to PowerDNS",
        "control-console" | "daemon" | "guardian" | "setgid" | "setuid" => {
            "done by the service unit"
        }
        "default-api-rectify" | "disable-axfr-rectify" | "max-ent-entries" => "not needed",
        "disable-syslog" | "logging-facility" => "the log goes to standard error (journald)",
        "distributor-threads" | "receiver-threads" | "retrieval-threads" => {
            "one worker per core and automatic pools"
        }
        "dname-processing" => "DNAME is always followed",
        "log-timestamp" => "journald adds timestamps",
        "max-generate-steps" => "see generated_max_mb of the backend",
        "max-include-depth" => "includes are limited",
        "max-queue-length" => "see overload_queue; the server does not exit on overload",
        "max-signature-cache-entries" => "see signature_entries in [cache]",
        "prevent-self-notification" => "the server never notifies itself",
        "reuseport" => "each worker has its own socket",
        "security-poll-suffix" => "about PowerDNS versions",
        "signing-threads" => "see signing_cpu_percent in [overload]",
        "socket-dir" => "the control socket is in the service's runtime directory",
        "svc-autohints" => "ipv4hint=auto and ipv6hint=auto are always filled in",
        "upgrade-unknown-types" => "TYPEnnn is always accepted in a database",
        "webserver-max-bodysize" => "requests are limited",
        "webserver-print-arguments" => "arguments are not printed",
        "write-pid" => "see pid_file in [server]",
        _ if is_database(name) && name.ends_with("-query") => return None,
        _ if is_database(name) && name.ends_with("-dnssec") => "keys and metadata are always read",
        _ if is_database(name) => "connections are pooled and limited (see docs/configuration.md)",
        _ if name.starts_with("bind-") => {
            "zone files are watched, and checked when they are loaded"
        }
        _ => return None,
    })
}
