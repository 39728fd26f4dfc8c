//! The table of variables, from which the status page, /metrics and the API are derived.
//!
//! The order is that of the page: the specification's table, with the `ring-` rows in alphabetical position in its
//! first part.

use crate::counter::{Counter, Gauge, IpVersion, Latency, Protocol, Traffic};
use crate::proc::HostReadings;
use crate::ring::Ring;
use crate::snapshot::Snapshot;

/// Whether a variable only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// Only grows within the lifetime of the process.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Whether the number covers this server or the whole host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This server.
    Server,
    /// The whole host (its network namespace, for UDP errors), including other programs.
    Host,
}

/// The source of the value.
#[derive(Clone, Copy)]
enum VariableSource {
    Counter(Counter),
    /// For one IP version, or for both: derived when read, so that the sum is consistent in every snapshot.
    Traffic(Protocol, Option<IpVersion>, Traffic),
    Gauge(Gauge),
    Latency(Latency),
    RingCapacity(Ring),
    RingSize(Ring),
    Host(fn(&HostReadings) -> u64),
    Uptime,
}

/// A row of the Variables table.
pub struct Variable {
    /// The name on the page.
    pub name: &'static str,
    /// The meaning, for the reader of the page.
    pub description: &'static str,
    /// Whether it only grows.
    pub kind: VariableKind,
    /// Whether the number covers this server or the whole host.
    pub scope: Scope,
    source: VariableSource,
}

impl Variable {
    /// Returns the value in a snapshot.
    pub fn value(&self, snapshot: &Snapshot) -> u64 {
        match self.source {
            VariableSource::Counter(counter) => snapshot.counter(counter),
            VariableSource::Traffic(protocol, ip, traffic) => {
                snapshot.traffic(protocol, ip, traffic)
            }
            VariableSource::Gauge(gauge) => snapshot.gauge(gauge),
            VariableSource::Latency(latency) => snapshot.latency_us(latency),
            VariableSource::RingCapacity(ring) => snapshot.ring(ring).capacity() as u64,
            VariableSource::RingSize(ring) => snapshot.ring(ring).size() as u64,
            VariableSource::Host(read) => read(&snapshot.host),
            VariableSource::Uptime => snapshot.uptime_seconds,
        }
    }
}

const fn counter(
    name: &'static str,
    description: &'static str,
    source: VariableSource,
) -> Variable {
    Variable {
        name,
        description,
        kind: VariableKind::Counter,
        scope: Scope::Server,
        source,
    }
}

const fn gauge(name: &'static str, description: &'static str, source: VariableSource) -> Variable {
    Variable {
        kind: VariableKind::Gauge,
        ..counter(name, description, source)
    }
}

impl Variable {
    const fn host_scope(self) -> Self {
        Variable {
            scope: Scope::Host,
            ..self
        }
    }
}

/// Every variable in page order.
#[rustfmt::skip] // a table: one line per row
pub static VARIABLES: &[Variable] = &[
    counter("backend-queries", "Queries sent to the backends", VariableSource::Counter(Counter::BackendQueries)),
    counter("corrupt-packets", "Corrupt packets received", VariableSource::Counter(Counter::CorruptPackets)),
    counter("deferred-cache-inserts", "Cache inserts deferred because of maintenance", VariableSource::Counter(Counter::DeferredCacheInserts)),
    counter("deferred-cache-lookup", "Cache lookups deferred because of maintenance", VariableSource::Counter(Counter::DeferredCacheLookup)),
    counter("deferred-packetcache-inserts", "Packet cache inserts deferred because of maintenance", VariableSource::Counter(Counter::DeferredPacketcacheInserts)),
    counter("deferred-packetcache-lookup", "Packet cache lookups deferred because of maintenance", VariableSource::Counter(Counter::DeferredPacketcacheLookup)),
    counter("dnsupdate-answers", "DNS update packets successfully answered", VariableSource::Counter(Counter::DnsupdateAnswers)),
    counter("dnsupdate-changes", "Total DNS update changes to records", VariableSource::Counter(Counter::DnsupdateChanges)),
    counter("dnsupdate-queries", "DNS update packets received", VariableSource::Counter(Counter::DnsupdateQueries)),
    counter("dnsupdate-refused", "DNS update packets refused", VariableSource::Counter(Counter::DnsupdateRefused)),
    counter("incoming-notifications", "NOTIFY packets received", VariableSource::Counter(Counter::IncomingNotifications)),
    counter("noerror-packets", "NOERROR packets sent", VariableSource::Counter(Counter::NoerrorPackets)),
    counter("nxdomain-packets", "NXDOMAIN packets sent", VariableSource::Counter(Counter::NxdomainPackets)),
    counter("overload-drops", "Queries dropped because backends are overloaded", VariableSource::Counter(Counter::OverloadDrops)),
    counter("packetcache-hit", "Packet cache hits", VariableSource::Counter(Counter::PacketcacheHit)),
    counter("packetcache-miss", "Packet cache misses", VariableSource::Counter(Counter::PacketcacheMiss)),
    gauge("packetcache-size", "Entries in the packet cache", VariableSource::Gauge(Gauge::PacketcacheSize)),
    counter("query-cache-hit", "Query cache hits", VariableSource::Counter(Counter::QueryCacheHit)),
    counter("query-cache-miss", "Query cache misses", VariableSource::Counter(Counter::QueryCacheMiss)),
    gauge("query-cache-size", "Entries in the query cache", VariableSource::Gauge(Gauge::QueryCacheSize)),
    counter("rd-queries", "Recursion-desired questions", VariableSource::Counter(Counter::RdQueries)),
    counter("recursing-answers", "Recursive answers sent", VariableSource::Counter(Counter::RecursingAnswers)),
    counter("recursing-questions", "Questions sent to the recursor", VariableSource::Counter(Counter::RecursingQuestions)),
    counter("recursion-unanswered", "Packets unanswered by the configured recursor", VariableSource::Counter(Counter::RecursionUnanswered)),
    gauge("ring-logmessages-capacity", "Maximum number of entries of the logmessages ring", VariableSource::RingCapacity(Ring::Logmessages)),
    gauge("ring-logmessages-size", "Current number of entries of the logmessages ring", VariableSource::RingSize(Ring::Logmessages)),
    gauge("ring-noerror-queries-capacity", "Maximum number of entries of the noerror-queries ring", VariableSource::RingCapacity(Ring::NoerrorQueries)),
    gauge("ring-noerror-queries-size", "Current number of entries of the noerror-queries ring", VariableSource::RingSize(Ring::NoerrorQueries)),
    gauge("ring-nxdomain-queries-capacity", "Maximum number of entries of the nxdomain-queries ring", VariableSource::RingCapacity(Ring::NxdomainQueries)),
    gauge("ring-nxdomain-queries-size", "Current number of entries of the nxdomain-queries ring", VariableSource::RingSize(Ring::NxdomainQueries)),
    gauge("ring-queries-capacity", "Maximum number of entries of the queries ring", VariableSource::RingCapacity(Ring::Queries)),
    gauge("ring-queries-size", "Current number of entries of the queries ring", VariableSource::RingSize(Ring::Queries)),
    gauge("ring-remotes-capacity", "Maximum number of entries of the remotes ring", VariableSource::RingCapacity(Ring::Remotes)),
    gauge("ring-remotes-corrupt-capacity", "Maximum number of entries of the remotes-corrupt ring", VariableSource::RingCapacity(Ring::RemotesCorrupt)),
    gauge("ring-remotes-corrupt-size", "Current number of entries of the remotes-corrupt ring", VariableSource::RingSize(Ring::RemotesCorrupt)),
    gauge("ring-remotes-size", "Current number of entries of the remotes ring", VariableSource::RingSize(Ring::Remotes)),
    gauge("ring-remotes-unauth-capacity", "Maximum number of entries of the remotes-unauth ring", VariableSource::RingCapacity(Ring::RemotesUnauth)),
    gauge("ring-remotes-unauth-size", "Current number of entries of the remotes-unauth ring", VariableSource::RingSize(Ring::RemotesUnauth)),
    gauge("ring-servfail-queries-capacity", "Maximum number of entries of the servfail-queries ring", VariableSource::RingCapacity(Ring::ServfailQueries)),
    gauge("ring-servfail-queries-size", "Current number of entries of the servfail-queries ring", VariableSource::RingSize(Ring::ServfailQueries)),
    gauge("ring-unauth-queries-capacity", "Maximum number of entries of the unauth-queries ring", VariableSource::RingCapacity(Ring::UnauthQueries)),
    gauge("ring-unauth-queries-size", "Current number of entries of the unauth-queries ring", VariableSource::RingSize(Ring::UnauthQueries)),
    gauge("security-status", "Security status from the regular polling", VariableSource::Gauge(Gauge::SecurityStatus)),
    counter("servfail-packets", "Server-failure packets sent", VariableSource::Counter(Counter::ServfailPackets)),
    counter("signatures", "DNSSEC signatures made", VariableSource::Counter(Counter::Signatures)),
    counter("tcp-answers", "Answers sent over TCP", VariableSource::Traffic(Protocol::Tcp, None, Traffic::Answers)),
    counter("tcp-answers-bytes", "Total bytes of answers sent over TCP", VariableSource::Traffic(Protocol::Tcp, None, Traffic::AnswerBytes)),
    counter("tcp-cookie-queries", "TCP queries received with the COOKIE option", VariableSource::Traffic(Protocol::Tcp, None, Traffic::CookieQueries)),
    counter("tcp-queries", "TCP queries received", VariableSource::Traffic(Protocol::Tcp, None, Traffic::Queries)),
    counter("tcp4-answers", "Answers sent over TCP on IPv4", VariableSource::Traffic(Protocol::Tcp, Some(IpVersion::V4), Traffic::Answers)),
    counter("tcp4-answers-bytes", "Bytes of answers sent over TCP on IPv4", VariableSource::Traffic(Protocol::Tcp, Some(IpVersion::V4), Traffic::AnswerBytes)),
    counter("tcp4-queries", "TCP queries received on IPv4", VariableSource::Traffic(Protocol::Tcp, Some(IpVersion::V4), Traffic::Queries)),
    counter("tcp6-answers", "Answers sent over TCP on IPv6", VariableSource::Traffic(Protocol::Tcp, Some(IpVersion::V6), Traffic::Answers)),
    counter("tcp6-answers-bytes", "Bytes of answers sent over TCP on IPv6", VariableSource::Traffic(Protocol::Tcp, Some(IpVersion::V6), Traffic::AnswerBytes)),
    counter("tcp6-queries", "TCP queries received on IPv6", VariableSource::Traffic(Protocol::Tcp, Some(IpVersion::V6), Traffic::Queries)),
    counter("timedout-packets", "Packets not answered within the configured timeout", VariableSource::Counter(Counter::TimedoutPackets)),
    counter("udp-answers", "Answers sent over UDP", VariableSource::Traffic(Protocol::Udp, None, Traffic::Answers)),
    counter("udp-answers-bytes", "Total bytes of answers sent over UDP", VariableSource::Traffic(Protocol::Udp, None, Traffic::AnswerBytes)),
    counter("udp-cookie-queries", "UDP queries received with the COOKIE EDNS option", VariableSource::Traffic(Protocol::Udp, None, Traffic::CookieQueries)),
    counter("udp-do-queries", "UDP queries received with the DO bit", VariableSource::Traffic(Protocol::Udp, None, Traffic::DoQueries)),
    counter("udp-queries", "UDP queries received", VariableSource::Traffic(Protocol::Udp, None, Traffic::Queries)),
    counter("udp4-answers", "Answers sent over UDP on IPv4", VariableSource::Traffic(Protocol::Udp, Some(IpVersion::V4), Traffic::Answers)),
    counter("udp4-answers-bytes", "Bytes of answers sent over UDP on IPv4", VariableSource::Traffic(Protocol::Udp, Some(IpVersion::V4), Traffic::AnswerBytes)),
    counter("udp4-queries", "UDP queries received on IPv4", VariableSource::Traffic(Protocol::Udp, Some(IpVersion::V4), Traffic::Queries)),
    counter("udp6-answers", "Answers sent over UDP on IPv6", VariableSource::Traffic(Protocol::Udp, Some(IpVersion::V6), Traffic::Answers)),
    counter("udp6-answers-bytes", "Bytes of answers sent over UDP on IPv6", VariableSource::Traffic(Protocol::Udp, Some(IpVersion::V6), Traffic::AnswerBytes)),
    counter("udp6-queries", "UDP queries received on IPv6", VariableSource::Traffic(Protocol::Udp, Some(IpVersion::V6), Traffic::Queries)),
    counter("unauth-packets", "Times a zone the server is not authoritative for was queried", VariableSource::Counter(Counter::UnauthPackets)),
    counter("zone-cache-hit", "Zone cache hits", VariableSource::Counter(Counter::ZoneCacheHit)),
    counter("zone-cache-miss", "Zone cache misses", VariableSource::Counter(Counter::ZoneCacheMiss)),
    gauge("zone-cache-size", "Entries in the zone cache", VariableSource::Gauge(Gauge::ZoneCacheSize)),
    gauge("backend-latency", "Average microseconds per backend lookup", VariableSource::Latency(Latency::Backend)),
    gauge("cache-latency", "Average microseconds per packet cache lookup", VariableSource::Latency(Latency::Cache)),
    counter("cpu-iowait", "Time the whole system waited for I/O, in USER_HZ units", VariableSource::Host(|host| host.cpu_iowait)).host_scope(),
    counter("cpu-steal", "Time stolen by other operating systems in a virtualized environment, in USER_HZ units", VariableSource::Host(|host| host.cpu_steal)).host_scope(),
    gauge("fd-usage", "Open file descriptors", VariableSource::Host(|host| host.fd_usage)),
    gauge("key-cache-size", "Entries in the key cache", VariableSource::Gauge(Gauge::KeyCacheSize)),
    gauge("latency", "Average microseconds to answer a question", VariableSource::Latency(Latency::Answer)),
    gauge("meta-cache-size", "Entries in the metadata cache", VariableSource::Gauge(Gauge::MetaCacheSize)),
    gauge("open-tcp-connections", "Currently open TCP connections", VariableSource::Gauge(Gauge::OpenTcpConnections)),
    gauge("qsize-q", "Questions waiting for database attention", VariableSource::Gauge(Gauge::QsizeQ)),
    gauge("real-memory-usage", "Actual unique memory use in bytes (approximate)", VariableSource::Host(|host| host.real_memory_usage)),
    gauge("receive-latency", "Average microseconds to receive a query", VariableSource::Latency(Latency::Receive)),
    gauge("send-latency", "Average microseconds to send an answer", VariableSource::Latency(Latency::Send)),
    gauge("signature-cache-size", "Entries in the signature cache", VariableSource::Gauge(Gauge::SignatureCacheSize)),
    counter("sys-msec", "Milliseconds spent in system time", VariableSource::Host(|host| host.sys_msec)),
    counter("user-msec", "Milliseconds spent in user time", VariableSource::Host(|host| host.user_msec)),
    counter("uptime", "Process uptime in seconds", VariableSource::Uptime),
    gauge("xfr-queue", "Size of the queue of zones waiting for transfer", VariableSource::Gauge(Gauge::XfrQueue)),
    counter("udp-in-csum-errors", "UDP in-checksum errors", VariableSource::Host(|host| host.udp_in_csum_errors)).host_scope(),
    counter("udp-in-errors", "UDP in errors", VariableSource::Host(|host| host.udp_in_errors)).host_scope(),
    counter("udp-noport-errors", "UDP no-port errors", VariableSource::Host(|host| host.udp_noport_errors)).host_scope(),
    counter("udp-recvbuf-errors", "UDP receive-buffer errors", VariableSource::Host(|host| host.udp_recvbuf_errors)).host_scope(),
    counter("udp-sndbuf-errors", "UDP send-buffer errors", VariableSource::Host(|host| host.udp_sndbuf_errors)).host_scope(),
    counter("udp6-in-csum-errors", "UDP in-checksum errors over IPv6", VariableSource::Host(|host| host.udp6_in_csum_errors)).host_scope(),
    counter("udp6-in-errors", "UDP in errors over IPv6", VariableSource::Host(|host| host.udp6_in_errors)).host_scope(),
    counter("udp6-noport-errors", "UDP no-port errors over IPv6", VariableSource::Host(|host| host.udp6_noport_errors)).host_scope(),
    counter("udp6-recvbuf-errors", "UDP receive-buffer errors over IPv6", VariableSource::Host(|host| host.udp6_recvbuf_errors)).host_scope(),
    counter("udp6-sndbuf-errors", "UDP send-buffer errors over IPv6", VariableSource::Host(|host| host.udp6_sndbuf_errors)).host_scope(),
    // Beyond the specification's table.
    counter("client-subnet-errors", "Queries answered FORMERR because their client subnet option is malformed", VariableSource::Counter(Counter::ClientSubnetErrors)),
    counter("client-subnet-queries", "Queries with a client subnet option that is believed", VariableSource::Counter(Counter::ClientSubnetQueries)),
    counter("cookie-refusals", "Queries over UDP answered with BADCOOKIE or TC because a DNS cookie is required", VariableSource::Counter(Counter::CookieRefusals)),
    counter("cookies-invalid", "Queries with a server cookie that is not valid (any more)", VariableSource::Counter(Counter::CookiesInvalid)),
    counter("cookies-valid", "Queries with a valid server cookie", VariableSource::Counter(Counter::CookiesValid)),
    gauge("dnssec-signature-seconds-left", "Seconds until the first signature served from memory expires; 0 if no zone \
                                            is signed", VariableSource::Gauge(Gauge::DnssecSignatureSecondsLeft)),
    gauge("dnssec-signed-zones", "Signed zones in memory", VariableSource::Gauge(Gauge::DnssecSignedZones)),
    gauge("dnssec-waiting-for-parent", "Zones whose rollover waits for a DS change at the parent", VariableSource::Gauge(Gauge::DnssecWaitingForParent)),
    counter("https-answers", "Answers sent over HTTPS", VariableSource::Traffic(Protocol::Https, None, Traffic::Answers)),
    counter("https-answers-bytes", "Total bytes of answers sent over HTTPS", VariableSource::Traffic(Protocol::Https, None, Traffic::AnswerBytes)),
    gauge("https-connections-open", "Currently open HTTPS connections", VariableSource::Gauge(Gauge::OpenHttpsConnections)),
    counter("https-queries", "Queries received over HTTPS", VariableSource::Traffic(Protocol::Https, None, Traffic::Queries)),
    counter("https4-answers", "Answers sent over HTTPS on IPv4", VariableSource::Traffic(Protocol::Https, Some(IpVersion::V4), Traffic::Answers)),
    counter("https4-answers-bytes", "Bytes of answers sent over HTTPS on IPv4", VariableSource::Traffic(Protocol::Https, Some(IpVersion::V4), Traffic::AnswerBytes)),
    counter("https4-queries", "Queries received over HTTPS on IPv4", VariableSource::Traffic(Protocol::Https, Some(IpVersion::V4), Traffic::Queries)),
    counter("https6-answers", "Answers sent over HTTPS on IPv6", VariableSource::Traffic(Protocol::Https, Some(IpVersion::V6), Traffic::Answers)),
    counter("https6-answers-bytes", "Bytes of answers sent over HTTPS on IPv6", VariableSource::Traffic(Protocol::Https, Some(IpVersion::V6), Traffic::AnswerBytes)),
    counter("https6-queries", "Queries received over HTTPS on IPv6", VariableSource::Traffic(Protocol::Https, Some(IpVersion::V6), Traffic::Queries)),
    gauge("notify-queue", "Outstanding NOTIFY messages: servers that have not responded yet, per zone", VariableSource::Gauge(Gauge::NotifyWaiting)),
    counter("notify-sent", "NOTIFY packets sent", VariableSource::Gauge(Gauge::NotifySent)),
    counter("quic-answers", "Answers sent over QUIC", VariableSource::Traffic(Protocol::Quic, None, Traffic::Answers)),
    counter("quic-answers-bytes", "Total bytes of answers sent over QUIC", VariableSource::Traffic(Protocol::Quic, None, Traffic::AnswerBytes)),
    gauge("quic-connections-open", "Currently open QUIC connections", VariableSource::Gauge(Gauge::OpenQuicConnections)),
    counter("quic-queries", "Queries received over QUIC", VariableSource::Traffic(Protocol::Quic, None, Traffic::Queries)),
    counter("quic4-answers", "Answers sent over QUIC on IPv4", VariableSource::Traffic(Protocol::Quic, Some(IpVersion::V4), Traffic::Answers)),
    counter("quic4-answers-bytes", "Bytes of answers sent over QUIC on IPv4", VariableSource::Traffic(Protocol::Quic, Some(IpVersion::V4), Traffic::AnswerBytes)),
    counter("quic4-queries", "Queries received over QUIC on IPv4", VariableSource::Traffic(Protocol::Quic, Some(IpVersion::V4), Traffic::Queries)),
    counter("quic6-answers", "Answers sent over QUIC on IPv6", VariableSource::Traffic(Protocol::Quic, Some(IpVersion::V6), Traffic::Answers)),
    counter("quic6-answers-bytes", "Bytes of answers sent over QUIC on IPv6", VariableSource::Traffic(Protocol::Quic, Some(IpVersion::V6), Traffic::AnswerBytes)),
    counter("quic6-queries", "Queries received over QUIC on IPv6", VariableSource::Traffic(Protocol::Quic, Some(IpVersion::V6), Traffic::Queries)),
    counter("rate-limit-drops", "Answers dropped by response rate limiting", VariableSource::Counter(Counter::RateLimitDrops)),
    counter("rate-limit-logged", "Answers sent because of rate_limit.log_only that would have been dropped or truncated", VariableSource::Counter(Counter::RateLimitLogged)),
    counter("rate-limit-slips", "Answers replaced by a truncated reply by response rate limiting", VariableSource::Counter(Counter::RateLimitSlips)),
    gauge("ring-remotes-limited-capacity", "Maximum number of entries of the remotes-limited ring", VariableSource::RingCapacity(Ring::RemotesLimited)),
    gauge("ring-remotes-limited-size", "Current number of entries of the remotes-limited ring", VariableSource::RingSize(Ring::RemotesLimited)),
    gauge("database-lag-changes", "Changes of a database that the server that is read does not show, of the database with \
                                   the most", VariableSource::Gauge(Gauge::DatabaseLagChanges)),
    gauge("database-lag-seconds", "Seconds that a database server that is read is behind the one that accepts changes, \
                                   of the database with the most", VariableSource::Gauge(Gauge::DatabaseLagSeconds)),
    gauge("secondary-zones-expired", "Expired secondary zones", VariableSource::Gauge(Gauge::SecondariesExpired)),
    gauge("secondary-zones-refresh-age", "Seconds since the last successful refresh of the most outdated secondary \
                                          zone", VariableSource::Gauge(Gauge::SecondariesRefreshAge)),
    gauge("secondary-zones-stale", "Secondary zones whose last refresh failed and that are still served", VariableSource::Gauge(Gauge::SecondariesStale)),
    gauge("signing-queue", "Queries waiting for signatures", VariableSource::Gauge(Gauge::SigningQueue)),
    counter("lua-failures", "Queries answered SERVFAIL because a LUA record failed", VariableSource::Counter(Counter::LuaFailures)),
    counter("lua-runs", "LUA records run", VariableSource::Counter(Counter::LuaRuns)),
    counter("signing-refusals", "Queries that found the signing queue full: TC over UDP, SERVFAIL over TCP", VariableSource::Counter(Counter::SigningRefusals)),
    counter("signing-waits", "Queries that waited for signatures", VariableSource::Counter(Counter::SigningWaits)),
    gauge("stored-signatures-broken", "Presigned zones with expired or missing signatures or gaps in the NSEC or NSEC3 \
                                       chain", VariableSource::Gauge(Gauge::StoredSignaturesBroken)),
    gauge("stored-signatures-ending", "Presigned zones with signatures that expire within two days", VariableSource::Gauge(Gauge::StoredSignaturesEnding)),
    counter("tls-answers", "Answers sent over TLS", VariableSource::Traffic(Protocol::Tls, None, Traffic::Answers)),
    counter("tls-answers-bytes", "Total bytes of answers sent over TLS", VariableSource::Traffic(Protocol::Tls, None, Traffic::AnswerBytes)),
    gauge("tls-connections-open", "Currently open TLS connections", VariableSource::Gauge(Gauge::OpenTlsConnections)),
    counter("tls-handshakes", "TLS handshakes completed, for queries over TLS, HTTPS and QUIC", VariableSource::Counter(Counter::TlsHandshakes)),
    counter("tls-handshakes-failed", "TLS handshakes that failed or took too long, for queries over TLS, HTTPS and QUIC", VariableSource::Counter(Counter::TlsHandshakesFailed)),
    counter("tls-queries", "Queries received over TLS", VariableSource::Traffic(Protocol::Tls, None, Traffic::Queries)),
    counter("tls4-answers", "Answers sent over TLS on IPv4", VariableSource::Traffic(Protocol::Tls, Some(IpVersion::V4), Traffic::Answers)),
    counter("tls4-answers-bytes", "Bytes of answers sent over TLS on IPv4", VariableSource::Traffic(Protocol::Tls, Some(IpVersion::V4), Traffic::AnswerBytes)),
    counter("tls4-queries", "Queries received over TLS on IPv4", VariableSource::Traffic(Protocol::Tls, Some(IpVersion::V4), Traffic::Queries)),
    counter("tls6-answers", "Answers sent over TLS on IPv6", VariableSource::Traffic(Protocol::Tls, Some(IpVersion::V6), Traffic::Answers)),
    counter("tls6-answers-bytes", "Bytes of answers sent over TLS on IPv6", VariableSource::Traffic(Protocol::Tls, Some(IpVersion::V6), Traffic::AnswerBytes)),
    counter("tls6-queries", "Queries received over TLS on IPv6", VariableSource::Traffic(Protocol::Tls, Some(IpVersion::V6), Traffic::Queries)),
    counter("transfers-in-failed", "Transfers from primaries that failed because of the network", VariableSource::Gauge(Gauge::TransfersInFailed)),
    counter("transfers-in-incremental", "Incremental transfers from primaries (IXFR)", VariableSource::Gauge(Gauge::TransfersInIncremental)),
    counter("transfers-in-not-newer", "Transfers for which the primary had no newer version", VariableSource::Gauge(Gauge::TransfersInNotNewer)),
    counter("transfers-in-refused", "Transfers rejected because of their contents", VariableSource::Gauge(Gauge::TransfersInRefused)),
    counter("transfers-in-whole", "Full transfers from primaries (AXFR)", VariableSource::Gauge(Gauge::TransfersInWhole)),
];

/// A counter that is not a row of the page: /metrics shows it as `nameward_<name>_total`.
pub struct Family {
    /// The name in /metrics, without prefix and suffix.
    pub name: &'static str,
    /// The meaning, for the reader of /metrics.
    pub description: &'static str,
    counter: Counter,
}

impl Family {
    /// Returns the value in a snapshot.
    pub fn value(&self, snapshot: &Snapshot) -> u64 {
        snapshot.counter(self.counter)
    }
}

const fn family(name: &'static str, description: &'static str, counter: Counter) -> Family {
    Family {
        name,
        description,
        counter,
    }
}

/// Every counter that is not a row of the page.
#[rustfmt::skip] // a table: one line per row
pub static FAMILIES: &[Family] = &[
    family("query_denied", "Queries refused by allow_query", Counter::QueryDenied),
    family("blackhole_drops", "Packets dropped by blackhole", Counter::BlackholeDrops),
    family("proxy_header_errors", "Datagrams and connections of proxies dropped for lack of a valid PROXY header", Counter::ProxyHeaderErrors),
    family("xdp_drops", "Datagrams dropped because the XDP ring of their queue was full", Counter::XdpDrops),
    family("client_share_refusals", "Queries refused because their client held its share of the queries that wait", Counter::ClientShareRefusals),
    family("tsig_failures", "Requests with an invalid TSIG record: BADKEY, BADSIG, BADTIME or malformed", Counter::TsigFailures),
    family("transfers_out", "Completed transfers to secondaries", Counter::TransfersOut),
    family("transfers_out_failed", "Failed transfers to secondaries", Counter::TransfersOutFailed),
    family("transfers_out_refused", "Refused transfer requests", Counter::TransfersOutRefused),
    family("query_log_drops", "Dropped query log lines", Counter::QueryLogDrops),
    family("dnstap_drops", "Dropped dnstap messages, including those while no collector was connected", Counter::DnstapDrops),
];

/// Returns the variable with this name.
pub fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_is_alphabetical_with_the_ring_rows_in_it() {
        let end = VARIABLES.iter().position(|v| v.name == "zone-cache-size");
        let names: Vec<_> = VARIABLES[..=end.unwrap()].iter().map(|v| v.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(names.iter().filter(|n| n.starts_with("ring-")).count(), 18);
    }

    #[test]
    fn every_counter_gauge_and_latency_has_its_row() {
        for counter in Counter::ALL {
            let shown = VARIABLES
                .iter()
                .any(|v| matches!(v.source, VariableSource::Counter(c) if c == *counter));
            let is_family = FAMILIES.iter().any(|family| family.counter == *counter);
            assert!(shown || is_family, "{counter:?} is not shown");
        }
        let row = |protocol, ip, traffic| {
            VARIABLES.iter().any(|v| {
                matches!(v.source, VariableSource::Traffic(p, i, t) if (p, i, t) == (protocol, ip, traffic))
            })
        };
        for protocol in Protocol::ALL {
            for traffic in [Traffic::Queries, Traffic::Answers, Traffic::AnswerBytes] {
                assert!(row(protocol, None, traffic), "{protocol:?} {traffic:?}");
                let by_ip = IpVersion::ALL.map(|ip| row(protocol, Some(ip), traffic));
                assert_eq!(by_ip, [true; 2], "{protocol:?} {traffic:?}");
            }
        }
        for gauge in Gauge::ALL {
            let shown = VARIABLES
                .iter()
                .any(|v| matches!(v.source, VariableSource::Gauge(g) if g == *gauge));
            assert!(shown, "{gauge:?} is not shown");
        }
        for latency in Latency::ALL {
            let shown = VARIABLES
                .iter()
                .any(|v| matches!(v.source, VariableSource::Latency(l) if l == *latency));
            assert!(shown, "{latency:?} is not shown");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = VARIABLES.iter().map(|v| v.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIABLES.len());
    }
}
