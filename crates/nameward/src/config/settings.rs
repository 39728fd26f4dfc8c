//! All settings: key, type, default and documentation, each defined once.
//!
//! `nameward config` and docs/configuration.md are printed from these tables.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use ipnet::IpNet;
use nameward_base::secret::Secret;
use nameward_control::operations::FaultKind;
use nameward_dnssec::{SoaEdit, tsig::TsigAlgorithm};
use nameward_files::FileList;
use nameward_maintain::policy::{PolicyFragment, RemoteServer, UpdateRule, ZoneKind, ZonemdRule};
use tracing::level_filters::LevelFilter;

pub use super::backend_keywords::{BackendType, ReadPreference, ServedFrom, mode_word};
pub use super::overload_settings::Overload;
pub use super::server_keywords::{AnyPolicy, Follow, SandboxMode};
pub use super::zone_values::ZoneName;
use super::{
    clients::{Clients, Peers},
    listen_entry::{EncryptedEntry, ListenEntry, QuicEntry},
    rate_limit_settings::Rate,
    read::{Addresses, Count, DatabaseUrl, Paths},
    remote_server::RemoteAddress,
    setting::section,
    zone_values::{DirectoryPath, InheritedSetting},
};

section! {
    /// Where the server listens and how it answers.
    Server = "server" {
        /// Addresses to listen on, UDP and TCP. Port 0 picks a free port. A table has settings for one address: with `{
        /// address = "192.0.2.1:53", transports = ["udp", "tcp"], allow_query = ["192.0.2.0/24", "key:name."] }` only
        /// these clients are answered there, whatever the zone allows; others get REFUSED. `proxy_protocol_from` is allowed too.
        listen: Vec<ListenEntry> = r#"["0.0.0.0:53", "[::]:53"]"#;
        /// Proxies (dnsdist, HAProxy) that send the client address in a PROXY header: version 2, over TCP also version 1.
        /// Access lists, limits, cookies and logs use it. Traffic from a proxy without a valid header is dropped. List
        /// only addresses that no other host can send from. Applies to `listen`, `listen_tls` and `listen_https`.
        proxy_protocol_from: Clients = "[]";
        /// Addresses to listen on for DNS over TLS (RFC 7858), usually with port 853. Requires `tls.certificate`. A table
        /// has settings for one address: `{ address = "192.0.2.1:853", allow_query = ["192.0.2.0/24"],
        /// proxy_protocol_from = ["192.0.2.10"] }`, as in `listen`. The PROXY header precedes the handshake.
        listen_tls: Vec<EncryptedEntry> = "[]";
        /// Addresses to listen on for DNS over HTTPS (RFC 8484), usually with port 443. Requires `tls.certificate`.
        /// Tables as in `listen_tls`.
        listen_https: Vec<EncryptedEntry> = "[]";
        /// Addresses to listen on for DNS over QUIC (RFC 9250), usually with port 853. Requires `tls.certificate`. Tables
        /// as in `listen_tls`, without `proxy_protocol_from`: QUIC has no PROXY header.
        listen_quic: Vec<QuicEntry> = "[]";
        /// Threads that answer UDP; 0 means one per core.
        workers: Count<0, 1024> = "0";
        /// Text returned for `version.bind` and `version.server` in class CH; "" refuses the query.
        version: String = r#""Nameward 0.2.0""#;
        /// Name of this server: returned for `id.server` and `hostname.bind` in class CH and in the NSID option (RFC
        /// 5001). "" disables all three.
        nsid: String = r#""""#;
        /// User to switch to after the ports are bound; "" keeps the current user.
        user: String = r#""""#;
        /// Group to switch to; "" means the user's primary group.
        group: String = r#""""#;
        /// Maximum size of a UDP response in octets, whatever the client advertises (RFC 9715).
        udp_payload_max: Count<512, 65535> = "1232";
        /// Response to queries for type ANY (RFC 8482): one RRset of the name; all of them, but truncated over UDP; or
        /// all of them.
        any: AnyPolicy = r#""one""#;
        /// How far a CNAME is followed: into every zone of this server, or only within its own zone.
        cname_follow: Follow = r#""served""#;
        /// Maximum number of open TCP connections; a new connection above it closes the one that has been idle longest.
        tcp_connections_max: Count<1, 1_000_000> = "20000";
        /// Maximum number of open TCP connections per client address (IPv6: per /64); "" means a quarter of all.
        tcp_connections_per_client: InheritedSetting<Count<1, 1_000_000>> = r#""""#;
        /// Timeout for a TCP connection without a complete query, in milliseconds.
        tcp_idle_timeout_ms: Count<10, 3_600_000> = "10000";
        /// Maximum lifetime of a TCP connection, even if it is in use, in milliseconds.
        tcp_total_timeout_ms: Count<10, 86_400_000> = "600000";
        /// Maximum number of concurrent outgoing transfers; further ones wait their turn.
        transfers_out_max: Count<1, 1_000_000> = "100";
        /// Maximum number of concurrent outgoing transfers per client address (IPv6: per /64).
        transfers_out_per_client: Count<1, 1_000_000> = "20";
        /// Memory in MiB for the last transferred version of zones without a journal (signed by this server, or live in a
        /// database), so that secondaries get only the differences (IXFR). 0 disables it.
        transfers_out_kept_mb: Count<0, 1_048_576> = "256";
        /// Clients whose packets are dropped without a response.
        blackhole: Clients = "[]";
        /// Maximum number of concurrent incoming transfers. Slots are shared fairly: a primary never holds more than are
        /// still free.
        transfers_in_max: Count<1, 10_000> = "100";
        /// Maximum number of concurrent transfers from one primary address.
        transfers_in_per_primary: Count<1, 10_000> = "50";
        /// Maximum memory in MiB for all running transfers from primaries; one primary may use half of it. When all of it
        /// is in use, transfers wait; the first MiB of each is not counted.
        transfers_in_memory_mb: Count<2, 2_097_152> = "8192";
        /// Minimum rate of a transfer from a primary in octets per second, averaged over `transfer_idle_timeout_ms`; a
        /// slower transfer is aborted. 0 accepts any rate.
        transfer_rate_min: Count<0, 1_000_000_000> = "1024";
        /// Timeout for connecting to a primary, in milliseconds.
        transfer_connect_timeout_ms: Count<10, 600_000> = "5000";
        /// Timeout for each message of an incoming transfer, in milliseconds.
        transfer_idle_timeout_ms: Count<10, 3_600_000> = "30000";
        /// Timeout for a whole incoming transfer, in milliseconds.
        transfer_total_timeout_ms: Count<10, 604_800_000> = "7200000";
        /// Settings for servers that databases, commands, catalogs, autoprimaries and NS records identify only by
        /// address, each as in `primaries`: a primary or notified server with one of these addresses gets its TLS
        /// settings, and its key and source unless they are set elsewhere. A server given without a port, or with port
        /// 53, matches the entry with its address, whatever the port of the entry
        /// ([transfers.md](transfers.md#encrypted-transfers)).
        remotes: Vec<RemoteServer> = "[]";
        /// Least severe level that is logged.
        log_level: LevelFilter = r#""info""#;
        /// Socket for `nameward reload` and the other commands. "" means `control.sock` in the service's runtime
        /// directory, in `/run/nameward` for root, in the user's runtime directory, or in the directory for temporary
        /// files.
        control_socket: Option<PathBuf> = r#""""#;
        /// File for the process ID; "" means none.
        pid_file: Option<PathBuf> = r#""""#;
        /// Grace period in seconds for which a zone is still served, with a fault, after its file has vanished from a
        /// directory. Increase it if deployments delete files before they rewrite them; 0 withdraws zones immediately.
        /// `nameward reload` does not wait for it.
        zone_file_grace: Count<0, 86_400> = "10";
        /// Directory for state that survives a restart: the state store (`state.db`) with the journal, and the names of
        /// database zones, so that they are answered SERVFAIL instead of REFUSED if a database is down at start-up. ""
        /// means the service's state directory (`$STATE_DIRECTORY`); without one nothing is stored. Created if missing.
        state_directory: Option<PathBuf> = r#""""#;
        /// Sandbox entered at start-up: no capabilities, no access to files that the configuration does not name, no
        /// unused system calls. "auto" restricts as much as the kernel supports, "require" does not start without all of
        /// it, "off" disables the sandbox (docs/hardening.md).
        sandbox: SandboxMode = r#""auto""#;
        /// Additional files and directories that the server may read in the sandbox.
        sandbox_paths: Paths = "[]";
        /// Allow core dumps and debuggers, which can read the secrets in memory.
        core_dumps: bool = "false";
    }
}

section! {
    /// The status page.
    Web = "web" {
        /// Address of the status page; "" disables it.
        listen: Option<SocketAddr> = r#""""#;
        /// Clients that may connect; connections from others are closed without a response.
        allow_from: Vec<IpNet> = r#"["127.0.0.1", "::1"]"#;
        /// Password for the page (HTTP Basic, any user name); "" means no password.
        password: Secret<String> = r#""""#;
        /// API key (`X-API-Key`); "" turns the API off.
        api_key: Secret<String> = r#""""#;
        /// Host names under which the page is served when it has no password, besides `localhost` and the address the
        /// client connects to. This stops other sites from reading the page through a browser (DNS rebinding).
        host_names: Vec<String> = "[]";
        /// Memory in MiB for responses that clients have not read yet. Above it the slowest clients are disconnected.
        reply_memory_mb: Count<1, 65_536> = "64";
        /// The faults that make `/readyz` return 503. By default those with which the server cannot do its work: no
        /// listener works, or no zone of a backend can be answered. Do not list faults of single zones on an anycast
        /// node: anyone who can add a zone could then withdraw the node. docs/status-page.md lists the kinds. A server
        /// that is starting, or has zones and cannot answer for any of them, is never ready.
        ready_faults: Vec<FaultKind> = r#"["listener_down", "backend_lost"]"#;
        /// Minimum share of zones, in percent, that must have data to serve; with fewer, `/readyz` returns 503. 0 means
        /// at least one zone.
        ready_zones_percent: Count<0, 100> = "0";
    }
}

section! {
    /// A source of zones. May be given several times; if several have the same zone, the first one serves it.
    Backend = "backend" {
        /// Type of the backend.
        r#type as "type": BackendType = r#""file""#;
        /// Every `*.zone` file below this directory is a zone, named after the file (`\047` stands for `/`, `@.zone` is
        /// the root zone).
        directory: Option<PathBuf> = r#""""#;
        /// Zones with files elsewhere, as `{ name = "example.org", file = "path" }`.
        zones: Arc<FileList> = "[]";
        /// BIND `named.conf`: primary zones are served, and secondary zones from their local copies. With several views,
        /// the first one that is open to all clients is used.
        named_conf: Option<PathBuf> = r#""""#;
        /// Watch zone files and the BIND configuration, so that changes take effect within about a second. Otherwise
        /// `nameward reload` is needed.
        watch: bool = "true";
        /// Maximum memory in MiB for one zone from a file or a database with mode "resident"; a larger version is
        /// rejected and the previous one stays in service.
        zone_max_mb: Count<1, 16_384> = "4096";
        /// Maximum number of records in one zone from a file or a database with mode "resident".
        zone_records_max: Count<1, 4_000_000_000> = "100000000";
        /// Maximum size in MiB of the names and data produced by all `$GENERATE` lines of a zone. A large file may
        /// produce up to 1000 times its own size.
        generated_max_mb: Count<0, 16_384> = "64";
        /// File of a SQLite database. `nameward db init` creates one.
        path: Option<PathBuf> = r#""""#;
        /// A PostgreSQL or MySQL database, as `postgres://user:password@host/database` or
        /// `mysql://user:password@host/database`. A list contains the servers of one database, the nearest first; the
        /// addresses may differ only in host and port. Several hosts in one address are separated by commas.
        url: DatabaseUrl = r#""""#;
        /// Replica of that database, used for all reads; "" reads from the servers in `url`. A list as in `url`.
        replica_url: DatabaseUrl = r#""""#;
        /// Which of several servers in `url` is used for reads: the one that accepts changes, or the first one in the
        /// list whose lag is at most `lag_max`. Changes are made on the server that accepts them.
        reads: ReadPreference = r#""primary""#;
        /// Maximum lag in seconds between the server used for reads and the one that accepts changes. A higher lag is the
        /// fault `backend_behind`, which `web.ready_faults` may list, and reads move to another server if there is one.
        lag_max: Count<1, 86_400> = "60";
        /// How database zones are served: looked up at query time, or loaded into memory.
        mode: ServedFrom = r#""live""#;
        /// Database connections for look-ups; 0 means one per core, for MySQL two.
        connections: Count<0, 1024> = "0";
        /// Memory in MiB for the SQLite page cache, over all connections. Look-ups are twice as fast if the whole file
        /// fits.
        page_cache_mb: Count<1, 1_048_576> = "256";
        /// Read the keys and metadata of zones, and sign zones that have keys. If they cannot be read, zones are answered
        /// SERVFAIL; set it to false for a database account without access to them.
        dnssec: bool = "true";
        /// Timeout for a database statement, in milliseconds.
        timeout_ms: Count<10, 600_000> = "2000";
    }
}

section! {
    /// A TSIG key (RFC 8945) shared with another server. May be given several times. Keys in databases (table `tsigkeys`)
    /// and keys created by `nameward tsig` are used too, unless a key of the same name is given here.
    KeySettings = "key" {
        /// Name of the key, identical on both servers.
        name: ZoneName = r#"".""#;
        /// Algorithm. Use `hmac-md5` only for peers that support nothing else.
        algorithm: TsigAlgorithm = r#""hmac-sha256""#;
        /// Shared secret in base64. It is never printed.
        secret: Secret<Vec<u8>> = r#""""#;
        /// File with the secret, instead of `secret`; only its owner may have access (mode 0600).
        secret_file: Option<PathBuf> = r#""""#;
    }
}

/// Declares a section with the settings that zones, templates and defaults share.
macro_rules! zone_section {
    ($(#[doc = $about:literal])+ $name:ident = $table:literal { $($own:tt)* }) => {
        section! {
            $(#[doc = $about])+
            $name = $table {
                $($own)*
                /// Servers that the zone is transferred from, in order of preference. Each may have a `key` to sign
                /// messages with, a `source` address to send from, and TLS settings (`tls`, `quic`, `tls_name`, `tls_ca`, `tls_pin`,
                /// `tls_certificate`, `tls_key`, `tls_alpn`), see [transfers.md](transfers.md#encrypted-transfers).
                primaries: InheritedSetting<Vec<RemoteServer>> = r#""""#;
                /// Servers to notify of changes in addition to those in the zone's NS records, each with the same
                /// settings as in `primaries`.
                also_notify: InheritedSetting<Vec<RemoteServer>> = r#""""#;
                /// Whether the servers in the zone's NS records are notified of changes. By default they are for zone
                /// files, primary zones and producers, but not for native zones in databases or secondaries.
                notify_name_servers: InheritedSetting<bool> = r#""""#;
                /// Notify of each change immediately (the default); if false, changes are announced once a minute.
                notify_at_once: InheritedSetting<bool> = r#""""#;
                /// Peers that may transfer the zone: by address, by key, by connection (`"tls"` for encrypted ones,
                /// `"tls-name:NAME"` and `"tls-pin:BASE64"` for clients with such a certificate), or by several of them
                /// (`"192.0.2.1 key:name. tls"`). The first matching entry decides. By default transfers are refused.
                allow_transfer: InheritedSetting<Peers> = r#""""#;
                /// Replace ALIAS records with the addresses of their targets in outgoing transfers. By default the ALIAS
                /// records are transferred.
                expand_alias: InheritedSetting<bool> = r#""""#;
                /// Run the LUA records of the zone ([lua.md](lua.md)). The default is `lua.records`; the metadata
                /// ENABLE-LUA-RECORDS of a database zone has the same effect.
                lua_records: InheritedSetting<bool> = r#""""#;
                /// Transfer a zone signed by this server without its keys and signatures. Zones with narrow NSEC3 can
                /// only be transferred this way.
                transfer_unsigned: InheritedSetting<bool> = r#""""#;
                /// Peers that may send NOTIFY, in addition to the primaries.
                allow_notify: InheritedSetting<Peers> = r#""""#;
                /// Catalog zone (RFC 9432) that lists the zone: a zone of kind producer.
                catalog: InheritedSetting<Box<ZoneName>> = r#""""#;
                /// Group of the zone in its catalog; "" means none.
                catalog_group: String = r#""""#;
                /// Catalog zone that the zone is about to move to, announced in its current catalog (`coo`, RFC 9432
                /// section 4.4.1), so that consumers accept the move.
                catalog_moves_to: InheritedSetting<Box<ZoneName>> = r#""""#;
                /// Peers that may update the zone (RFC 2136). By default updates are refused.
                allow_update: InheritedSetting<Peers> = r#""""#;
                /// Names and types that may be updated, as `{ key = "ddns.example.", subtree = "dyn.example", types =
                /// ["A"] }`; instead of `subtree` a rule may have `name`, or `self = true` for the name of the key.
                /// Without rules, peers in `allow_update` may update everything; if `allow_update` is not set, the keys
                /// in the rules need not be listed there.
                update_policy: InheritedSetting<Vec<UpdateRule>> = r#""""#;
                /// The `[[dnssec_policy]]` that signs the zone and rolls its keys; "none" excludes the zone from a
                /// default policy. Database zones may name theirs in the metadata X-NAMEWARD-DNSSEC-POLICY.
                dnssec_policy: InheritedSetting<String> = r#""""#;
                /// Directory for the keys of file zones and secondaries, as BIND key files
                /// (`Kexample.org.+013+58482.private` and `.key`) readable only by the server. Keys placed there sign the
                /// zone according to the times in the files. By default keys are stored in the state store.
                key_directory: InheritedSetting<DirectoryPath> = r#""""#;
                /// Zone digests (ZONEMD, RFC 8976): "off" (the default) ignores them; "verify" rejects a new version from
                /// a file or primary whose digest is wrong; "require" also rejects a version without a supported digest;
                /// "generate" makes this server generate the digest of a resident zone.
                zonemd: InheritedSetting<ZonemdRule> = r#""""#;
                /// Whether incremental transfers (IXFR) are requested from the primaries; by default they are.
                request_ixfr: InheritedSetting<bool> = r#""""#;
                /// Forward updates of a secondary zone to its primary. By default they are refused.
                forward_updates: InheritedSetting<bool> = r#""""#;
            }
        }

        impl $name {
            /// Returns the settings that zones, templates and defaults share.
            pub fn shared_terms(&self) -> PolicyFragment {
                let list = |peers: &InheritedSetting<Peers>| peers.0.as_ref().map(|peers| peers.0.clone());
                PolicyFragment {
                    primaries: self.primaries.0.clone(),
                    also_notify: self.also_notify.0.clone(),
                    notify_name_servers: self.notify_name_servers.0,
                    notify_at_once: self.notify_at_once.0,
                    allow_transfer: list(&self.allow_transfer),
                    expands_alias: self.expand_alias.0,
                    runs_scripts: self.lua_records.0,
                    transfer_unsigned: self.transfer_unsigned.0,
                    allow_notify: list(&self.allow_notify),
                    allow_update: list(&self.allow_update),
                    update_rules: self.update_policy.0.clone(),
                    forward_updates: self.forward_updates.0,
                    is_incremental: self.request_ixfr.0,
                    dnssec_policy: self.dnssec_policy.0.clone(),
                    key_directory: self.key_directory.0.as_ref().map(|path| path.0.clone()),
                    zonemd: self.zonemd.0,
                    catalog: self.catalog.0.as_ref().map(|name| name.0),
                    catalog_moves_to: self.catalog_moves_to.0.as_ref().map(|name| name.0),
                    catalog_group: Some(self.catalog_group.clone()).filter(|group| !group.is_empty()),
                    ..PolicyFragment::default()
                }
            }
        }
    };
}

zone_section! {
    /// Settings for every zone without its own value in `[[zone]]`, its template or its database.
    ZoneDefaults = "zone_defaults" {
        /// Clients that may query, by address, by TSIG key, by connection (`"tls"`) or by several of them (`"192.0.2.1
        /// key:name."`), as in `allow_transfer`; others are answered REFUSED. The first matching entry decides.
        allow_query: Peers = r#"["any"]"#;
        /// Maximum memory in MiB of a zone transferred from a primary.
        transfer_size_max_mb: Count<1, 1_048_576> = "4096";
        /// SOA-EDIT mode for the served serial of signed database zones without SOA-EDIT metadata, so that secondaries
        /// transfer renewed signatures (`default-soa-edit-signed` in PowerDNS).
        soa_edit: SoaEdit = r#""NONE""#;
    }
}

zone_section! {
    /// Named settings for zones with `template = "name"`. May be given several times.
    TemplateSettings = "template" {
        /// Name of the template.
        name: String = r#""""#;
        /// Kind of the zones.
        kind: InheritedSetting<ZoneKind> = r#""""#;
        /// Maximum memory in MiB of a zone transferred from a primary; 0 means the value in `[zone_defaults]`.
        transfer_size_max_mb: Count<0, 1_048_576> = "0";
    }
}

section! {
    /// A server whose zones become secondary zones here when it sends a NOTIFY for them (`supermasters` in PowerDNS; its
    /// rows in databases are used too). May be given several times. The zones are stored in the state store, or in the
    /// database that contains the row.
    AutoprimarySettings = "autoprimary" {
        /// Address of the server, with its port if it is not 53.
        address: RemoteAddress = r#""127.0.0.1""#;
        /// Name server that must be in the zone's NS records at that address.
        name_server: ZoneName = r#"".""#;
        /// TSIG key that must sign the NOTIFY; it also signs the transfers.
        key: InheritedSetting<ZoneName> = r#""""#;
        /// The `[[template]]` for the zones; "" means none.
        template: String = r#""""#;
    }
}

zone_section! {
    /// Settings of one zone, whichever backend contains it. May be given several times.
    ZoneSettings = "zone" {
        /// Name of the zone.
        name: ZoneName = r#"".""#;
        /// The version of the zone that these settings apply to, for views: `example.org..inside` has the variant
        /// `inside`. "" is the common version, or in a `[[view]]` the name of the view.
        variant: String = r#""""#;
        /// In a `[[view]]`: the version contains only the names that differ from the common version of the zone; its
        /// RRsets replace those of the common version, and HIDE records hide RRsets ([views.md](views.md#overlays)). Both
        /// must be in memory.
        base: bool = "false";
        /// The `[[template]]` for settings that the zone does not have itself.
        template: String = r#""""#;
        /// Native: served from its file or database. Primary: the same, and a database zone notifies its secondaries.
        /// Secondary: transferred from its primaries. Producer, consumer: a catalog zone (RFC 9432) that this server
        /// produces or consumes. The default is the kind in the zone's database, or native.
        kind: InheritedSetting<ZoneKind> = r#""""#;
        /// Zone file, which is watched. For a secondary or consumer: a text copy of the zone is written here.
        file: Option<PathBuf> = r#""""#;
        /// Clients that may query; others are answered REFUSED. The default is taken from the BIND configuration that
        /// contains the zone, or else from `[zone_defaults]`.
        allow_query: InheritedSetting<Peers> = r#""""#;
        /// Maximum memory in MiB of the zone if it is transferred from a primary; 0 means the value in the template or
        /// `[zone_defaults]`.
        transfer_size_max_mb: Count<0, 1_048_576> = "0";
        /// Answers, NXDOMAIN answers and referrals of this zone per second to one client network, instead of the rates in
        /// `[rate_limit]`; 0 means no limit. Versions of the zone for views also have this rate, unless they have their
        /// own.
        responses_per_second: InheritedSetting<Rate> = r#""""#;
        /// The label of the zone in its catalog, by which consumers identify it, to keep one assigned by another server.
        /// "" derives one from the zone name.
        catalog_label: String = r#""""#;
    }
}

section! {
    /// Caches for live database zones. Resident zones need no cache: building an answer is as fast as finding a cached
    /// one.
    Cache = "cache" {
        /// Size of the packet cache, in units of 512 octets; 0 disables it.
        packet_entries: Count<0, 1_000_000_000> = "200000";
        /// Lifetime of a packet cache entry, in seconds. Changes that the server detects take effect immediately
        /// regardless.
        packet_ttl: Count<0, 86_400> = "20";
        /// Size of the query cache, in units of 512 octets; 0 disables it.
        query_entries: Count<0, 1_000_000_000> = "400000";
        /// Lifetime of a query cache entry, in seconds.
        query_ttl: Count<0, 86_400> = "20";
        /// Lifetime of a query cache entry for a name that does not exist, in seconds.
        negative_ttl: Count<0, 86_400> = "60";
        /// How long stale data is served while its database is down or hangs, in seconds.
        stale_while_down: Count<0, 31_536_000> = "3600";
        /// How long a query waits for a hanging database before it is answered with stale data, in milliseconds;
        /// resolvers give up after 400 or more.
        stale_after_ms: Count<1, 600_000> = "300";
        /// Number of database zones whose keys (or lack of keys) are cached; 0 disables the cache.
        key_entries: Count<0, 1_000_000_000> = "100000";
        /// Lifetime of a key cache entry, in seconds.
        key_ttl: Count<0, 86_400> = "30";
        /// Number of database zones whose metadata is cached; 0 disables the cache.
        meta_entries: Count<0, 1_000_000_000> = "100000";
        /// Lifetime of a metadata cache entry, in seconds.
        meta_ttl: Count<0, 86_400> = "60";
        /// Number of cached DNSSEC signatures, 200 to 600 octets each; 0 disables the cache.
        signature_entries: Count<0, 1_000_000_000> = "200000";
        /// Interval at which the zone list of a database is read again, even without a change notice, in seconds.
        zone_refresh: Count<1, 86_400> = "300";
    }
}

section! {
    /// Resolvers for names outside the server's zones. A client that is allowed recursion and requests it (RD) gets their
    /// answer; other clients are refused. If a CNAME in a zone of this server points to another zone, only the CNAME is
    /// returned, and the client resolves its target. Changes take effect on reload.
    Recursor = "recursor" {
        /// Resolvers in order of preference; the next one is tried if one does not respond. "" means none.
        address: Addresses = r#""""#;
        /// Clients whose queries are forwarded.
        allow_from: Clients = r#"["127.0.0.0/8", "::1"]"#;
        /// Timeout for all resolvers together, in milliseconds; after it the client gets SERVFAIL. Over UDP, no response
        /// is sent after five seconds, because the client has given up.
        timeout_ms: Count<10, 60_000> = "3000";
        /// Maximum number of distinct queries in flight; further ones get SERVFAIL immediately. Queries for the same
        /// records share one.
        in_flight_max: Count<1, 4_000> = "1000";
        /// Maximum number of waiting queries per client address (IPv6: per /64); further ones get SERVFAIL immediately. 0
        /// means a quarter of `in_flight_max`.
        in_flight_per_client: Count<0, 32_000> = "0";
        /// Randomize the letter case of forwarded queries and accept only responses that repeat it, which makes forging
        /// harder. Set it to false for resolvers that do not preserve case.
        randomize_case: bool = "true";
    }
}

section! {
    /// Checks by DNS whether this version has known security problems: the TXT record of
    /// `auth-<version>.security-status.<suffix>`, through `recursor.address` or else the system's resolvers. Changes take
    /// effect on reload.
    SecurityPoll = "security_poll" {
        /// Domain to query; "" disables the poll.
        suffix: String = r#""""#;
        /// Interval between polls, in seconds.
        interval: Count<1, 31_536_000> = "1800";
    }
}

section! {
    /// Capacities of the rings behind the tables of the status page.
    Rings = "rings" {
        /// Log messages.
        logmessages: Count<1, 500_000> = "1000";
        /// Queries for names that exist, but not with that type (NODATA).
        noerror_queries as "noerror-queries": Count<1, 500_000> = "1000";
        /// Queries for nonexistent names in a zone of this server (NXDOMAIN).
        nxdomain_queries as "nxdomain-queries": Count<1, 500_000> = "10";
        /// Queries received over UDP.
        queries: Count<1, 500_000> = "100";
        /// Client addresses.
        remotes: Count<1, 500_000> = "10000";
        /// Addresses that sent corrupt packets.
        remotes_corrupt as "remotes-corrupt": Count<1, 500_000> = "1000";
        /// Client prefixes limited by response rate limiting.
        remotes_limited as "remotes-limited": Count<1, 500_000> = "1000";
        /// Addresses that queried zones that this server does not have.
        remotes_unauth as "remotes-unauth": Count<1, 500_000> = "500000";
        /// Queries that failed because of a backend.
        servfail_queries as "servfail-queries": Count<1, 500_000> = "100";
        /// Queries for zones that this server does not have.
        unauth_queries as "unauth-queries": Count<1, 500_000> = "10";
    }
}
