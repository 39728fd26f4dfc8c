//! Owns every setting there is: its key, type, default and documentation, each once.
//!
//! `nameward config` and docs/configuration.md are printed from these tables.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use ipnet::IpNet;
use nameward_control::operations::FaultKind;
use nameward_dnssec::{SoaEdit, tsig::TsigAlgorithm};
use nameward_maintain::policy::{PolicyPart, RemoteServer, UpdateRule, ZoneKind, ZonemdRule};
use nameward_store::file::FileList;
use nameward_wire::NameBuf;
use toml::{Spanned, de::DeValue};

pub use super::backend_words::{BackendMode, BackendType};
pub use super::server_words::{AnyPolicy, CnamePolicy, LogLevel};
use super::{
    clients::Clients,
    read::{Addresses, Count, Read, Secret, Wrong},
    setting::section,
    tsig_key::TsigSecret,
    zone_files::read_name,
    zone_terms::{DirectoryPath, InheritedTerm, Peers, RemoteAddress},
};

section! {
    /// Where the server listens and how it answers.
    Server = "server" {
        /// Addresses to answer on, UDP and TCP. Port 0 takes a free port.
        listen: Vec<SocketAddr> = r#"["0.0.0.0:53", "[::]:53"]"#;
        /// Threads that answer UDP; 0 means one for each core.
        workers: Count<0, 1024> = "0";
        /// The text that `version.bind` and `version.server` in class CH answer; "" refuses the question.
        version: String = r#""Nameward 0.1.0""#;
        /// The name of this server: `id.server` and `hostname.bind` in class CH and the NSID
        /// option (RFC 5001). "" gives neither.
        nsid: String = r#""""#;
        /// The user to become after the ports are bound; "" stays as started.
        user: String = r#""""#;
        /// The group to become; "" means the user's own.
        group: String = r#""""#;
        /// The largest UDP answer in octets, whatever the client offers (RFC 9715).
        udp_payload_max: Count<512, 65535> = "1232";
        /// The answer to a question for type ANY (RFC 8482): one RRset of the name; all of them, but
        /// over UDP a truncated answer; or all of them.
        any: AnyPolicy = r#""one""#;
        /// How far a CNAME is followed: into every zone served here, or only within its zone.
        cname_follow: CnamePolicy = r#""served""#;
        /// TCP connections open at one time; one more closes the one that was idle for longest.
        tcp_connections_max: Count<1, 1_000_000> = "20000";
        /// TCP connections of one client address (IPv6: one /64) open at one time.
        tcp_connections_per_client: Count<1, 1_000_000> = "15000";
        /// Milliseconds without a complete query after which a TCP connection is closed.
        tcp_idle_timeout_ms: Count<10, 3_600_000> = "10000";
        /// Milliseconds after which a TCP connection is closed even if it is in use.
        tcp_total_timeout_ms: Count<10, 86_400_000> = "600000";
        /// Transfers to secondaries that run at one time; further ones wait for their turn.
        transfers_out_max: Count<1, 1_000_000> = "100";
        /// Transfers to one client address (IPv6: one /64) that run at one time.
        transfers_out_per_client: Count<1, 1_000_000> = "20";
        /// MiB of zones that are kept as they last went out to secondaries, to send only what changed since (IXFR): those
        /// that are signed while they are served or looked up in a database, which have no journal. 0 keeps none.
        transfers_out_kept_mb: Count<0, 1_048_576> = "256";
        /// Clients whose packets are dropped without an answer, whatever they ask.
        blackhole: Clients = "[]";
        /// Maximum number of concurrent transfers from primaries. Places are shared fairly: a primary never has more
        /// than are still free, so that zones of others find one.
        transfers_in_max: Count<1, 10_000> = "100";
        /// Maximum number of concurrent transfers from one primary address.
        transfers_in_per_primary: Count<1, 10_000> = "50";
        /// Memory in MiB that all running transfers from primaries may hold together, and one primary half of it. When
        /// it is used up, transfers wait; the first MiB of each is not counted.
        transfers_in_memory_mb: Count<2, 2_097_152> = "8192";
        /// Lowest rate of a transfer from a primary in octets per second, averaged over `transfer_idle_timeout_ms`; a
        /// slower one is cut. 0 accepts any rate.
        transfer_rate_min: Count<0, 1_000_000_000> = "1024";
        /// Milliseconds in which a connection to a primary must come about.
        transfer_connect_timeout_ms: Count<10, 600_000> = "5000";
        /// Milliseconds in which a primary must complete a message of a transfer.
        transfer_idle_timeout_ms: Count<10, 3_600_000> = "30000";
        /// Milliseconds after which a transfer from a primary is given up.
        transfer_total_timeout_ms: Count<10, 604_800_000> = "7200000";
        /// The least important message that is logged.
        log_level: LogLevel = r#""info""#;
        /// The socket for `nameward reload` and the like. "" means `control.sock` in the
        /// service's runtime directory, `/run/nameward` for root, the user's runtime directory
        /// or the directory for temporary files.
        control_socket: Option<PathBuf> = r#""""#;
        /// A file for the process id; "" writes none.
        pid_file: Option<PathBuf> = r#""""#;
        /// Grace period in seconds: how long the zone of a file that has vanished from a directory is still served. Zones
        /// stay in service, with a fault, until the file is back or the period ends. Longer helps where deployments delete
        /// files before they write them again; 0 withdraws at once. `nameward reload` does not wait for it.
        zone_file_grace: Count<0, 86_400> = "10";
        /// A directory for what is to survive a restart: the state store (`state.db`) with the journal of
        /// changes, and the names of the zones in databases, so that they are answered SERVFAIL and not
        /// refused when a database is down at start. "" means the service's state directory
        /// (`$STATE_DIRECTORY`); without one nothing is kept. It is made if it is not there.
        state_directory: Option<PathBuf> = r#""""#;
    }
}

section! {
    /// The status page.
    Web = "web" {
        /// The address of the status page; "" means none.
        listen: Option<SocketAddr> = r#""""#;
        /// Clients that may look; others are closed without an answer.
        allow_from: Vec<IpNet> = r#"["127.0.0.1", "::1"]"#;
        /// Password of the page (HTTP Basic, any user name); "" asks for none.
        password: Secret = r#""""#;
        /// Key of the API (`X-API-Key`); "" turns the API off.
        api_key: Secret = r#""""#;
        /// Names under which the page is served when it has no password, besides `localhost` and the
        /// address that a client connects to: no other site can then read it through a browser.
        host_names: Vec<String> = "[]";
        /// MiB of replies that are held for clients of the page that have not read them yet. When there
        /// are more, the slowest clients are cut.
        reply_memory_mb: Count<1, 65_536> = "64";
        /// The faults that make `/readyz` return 503. The default is what makes the server useless: no listener works, or no
        /// zone of a backend can be answered. A fault of a single zone should not be listed on an anycast node: whoever
        /// can add a zone could then withdraw the node. docs/status-page.md lists the kinds. A server that is starting, or
        /// has zones and cannot answer for any of them, is never ready.
        ready_faults: Vec<FaultKind> = r#"["listener_down", "backend_lost"]"#;
        /// Smallest share of zones, in percent, that must have data to serve; with fewer `/readyz` returns 503. 0 means
        /// one zone.
        ready_zones_percent: Count<0, 100> = "0";
    }
}

section! {
    /// A source of zones. This table may be given several times; where two have a zone, the first
    /// one serves it.
    Backend = "backend" {
        /// The kind of source.
        r#type as "type": BackendType = r#""file""#;
        /// Every `*.zone` file below this directory is a zone; the file's name without `.zone`
        /// is the zone's name (`\047` stands for `/`, `@.zone` is the root).
        directory: Option<PathBuf> = r#""""#;
        /// Zones whose files stand elsewhere, as `{ name = "example.org", file = "path" }`.
        zones: Arc<FileList> = "[]";
        /// A `named.conf` of BIND: its zones of type primary are served, and those of type secondary
        /// from the copies that are there. Of several views the first one for all clients counts.
        named_conf: Option<PathBuf> = r#""""#;
        /// Whether zone files, and the BIND configuration, are watched: a change is served within about a
        /// second. If not, changes are taken by `nameward reload`.
        watch: bool = "true";
        /// MiB of memory that one zone may grow to, of a file or of a database with mode "resident"; a larger one is
        /// refused and its old version stays in service.
        zone_max_mb: Count<1, 16_384> = "4096";
        /// Records that one zone of a file, or of a database with mode "resident", may have.
        zone_records_max: Count<1, 4_000_000_000> = "100000000";
        /// MiB of names and data that the `$GENERATE` lines of one zone may make. A large file may make
        /// 1000 times its own size.
        generated_max_mb: Count<0, 16_384> = "64";
        /// The file of a SQLite database. `nameward db init` makes one.
        path: Option<PathBuf> = r#""""#;
        /// A PostgreSQL or MySQL database, as `postgres://user:password@host/database` or
        /// `mysql://user:password@host/database`. Several hosts are separated by commas.
        url: Secret = r#""""#;
        /// A replica of that database for all reading; "" reads from the database itself.
        replica_url: Secret = r#""""#;
        /// How the zones of a database are served: looked up when they are asked for, or loaded
        /// into memory.
        mode: BackendMode = r#""live""#;
        /// Connections to a database for look-ups; 0 means one for each core, for MySQL two.
        connections: Count<0, 1024> = "0";
        /// MiB of memory for pages of a SQLite database, over all connections. Look-ups are twice as
        /// fast where the whole file has room in it.
        page_cache_mb: Count<1, 1_048_576> = "256";
        /// Whether the keys and metadata of zones are read, and zones that have keys are signed. Where
        /// they cannot be read, zones fail; false is for a database whose account may not read them.
        dnssec: bool = "true";
        /// Milliseconds a database may take to answer.
        timeout_ms: Count<10, 600_000> = "2000";
    }
}

section! {
    /// A key of TSIG (RFC 8945), which two servers share. This table may be given several times. Keys in databases (table
    /// `tsigkeys`) and in the state store, where `nameward tsig` stores them, count too, unless one of this name stands here.
    KeySettings = "key" {
        /// The name of the key, which both servers spell alike.
        name: ZoneName = r#"".""#;
        /// The algorithm. `hmac-md5` is for peers that have nothing else.
        algorithm: TsigAlgorithm = r#""hmac-sha256""#;
        /// The secret. It is never printed.
        secret: TsigSecret = r#""""#;
        /// A file with the secret instead, which only its owner may read (mode 0600).
        secret_file: Option<PathBuf> = r#""""#;
    }
}

/// Declares a section with the terms that zones, templates and defaults share.
macro_rules! zone_section {
    ($(#[doc = $about:literal])+ $name:ident = $table:literal { $($own:tt)* }) => {
        section! {
            $(#[doc = $about])+
            $name = $table {
                $($own)*
                /// Servers that the zone is transferred from, in the order they are asked. A server may have a `key` that
                /// messages are signed with and a `source` address that they are sent from.
                primaries: InheritedTerm<Vec<RemoteServer>> = r#""""#;
                /// Servers that are notified of changes besides those of the zone's NS records.
                also_notify: InheritedTerm<Vec<RemoteServer>> = r#""""#;
                /// Whether the servers of the zone's NS records are notified; if nothing is said, those of primary zones
                /// and producers are.
                notify_name_servers: InheritedTerm<bool> = r#""""#;
                /// Whether they are notified of each change at once, as they are if nothing is said; if not, of all changes of
                /// a minute together.
                notify_at_once: InheritedTerm<bool> = r#""""#;
                /// Peers that may transfer the zone, by address, by key or by both (`"192.0.2.1 key:name."`); nobody if
                /// nothing is said. The first entry that matches decides.
                allow_transfer: InheritedTerm<Peers> = r#""""#;
                /// Whether transfers to others have the addresses of the targets of ALIAS records in place of these; if
                /// nothing is said, they have the ALIAS records.
                expand_alias: InheritedTerm<bool> = r#""""#;
                /// Whether a zone that is signed while it is served is transferred without its keys and signatures. Zones
                /// with narrow NSEC3 cannot be transferred otherwise.
                transfer_unsigned: InheritedTerm<bool> = r#""""#;
                /// Peers that may notify of changes; the primaries always may.
                allow_notify: InheritedTerm<Peers> = r#""""#;
                /// The catalog zone (RFC 9432) that the zone is a member of: a zone of kind producer.
                catalog: InheritedTerm<Box<ZoneName>> = r#""""#;
                /// The group that the zone has in its catalog; "" means none.
                catalog_group: String = r#""""#;
                /// The catalog zone that the zone is about to move to: said in its catalog (`coo`, RFC 9432 section 4.4.1),
                /// so that consumers let it move.
                catalog_moves_to: InheritedTerm<Box<ZoneName>> = r#""""#;
                /// Peers that may update the zone (RFC 2136); nobody if nothing is said.
                allow_update: InheritedTerm<Peers> = r#""""#;
                /// Rules that say which names and types may be updated, as `{ key = "ddns.example.", subtree =
                /// "dyn.example", types = ["A"] }`; instead of `subtree` a rule may have `name`, or `self = true` for the
                /// name of the key. Without rules everything may be updated by those in `allow_update`; keys of rules
                /// need not be named there if it is not given.
                update_policy: InheritedTerm<Vec<UpdateRule>> = r#""""#;
                /// The `[[dnssec_policy]]` by which the zone is signed and its keys live; "none" for one that is not, whatever
                /// others are. A zone of a database may name its own by the metadata X-NAMEWARD-DNSSEC-POLICY.
                dnssec_policy: InheritedTerm<String> = r#""""#;
                /// The directory in which the keys of a zone of a file or from a primary are kept as files of BIND
                /// (`Kexample.org.+013+58482.private` and `.key`), which nobody else may read. Keys that are put there sign the
                /// zone, as the times in them say. If nothing is said, keys are kept in the state store.
                key_directory: InheritedTerm<DirectoryPath> = r#""""#;
                /// Digests over the whole zone (ZONEMD, RFC 8976): "off", as if nothing is said, does nothing with them; "verify"
                /// refuses a new version from a file or a primary whose digest is wrong; "require" also one without a digest
                /// that is understood; "generate" makes the digest of a zone in memory here.
                zonemd: InheritedTerm<ZonemdRule> = r#""""#;
                /// Whether incremental transfers (IXFR) are requested from the primaries; by default they are.
                request_ixfr: InheritedTerm<bool> = r#""""#;
                /// Whether updates of a secondary zone are forwarded to its primary; they are refused if nothing is said.
                forward_updates: InheritedTerm<bool> = r#""""#;
            }
        }

        impl $name {
            /// The terms that zones, templates and defaults share.
            pub fn shared_terms(&self) -> PolicyPart {
                let list = |peers: &InheritedTerm<Peers>| peers.0.as_ref().map(|peers| peers.0.clone());
                PolicyPart {
                    primaries: self.primaries.0.clone(),
                    also_notify: self.also_notify.0.clone(),
                    notify_name_servers: self.notify_name_servers.0,
                    notify_at_once: self.notify_at_once.0,
                    allow_transfer: list(&self.allow_transfer),
                    expands_alias: self.expand_alias.0,
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
                    ..PolicyPart::default()
                }
            }
        }
    };
}

zone_section! {
    /// Settings for every zone that has no setting of its own in `[[zone]]`, its template or its database.
    ZoneDefaults = "zone_defaults" {
        /// Clients that may ask; others are answered REFUSED. The first entry that matches decides.
        allow_query: Clients = r#"["any"]"#;
        /// Maximum size in MiB of memory of a zone that is transferred from a primary.
        transfer_size_max_mb: Count<1, 1_048_576> = "4096";
        /// The serial that signed zones in databases show if they have no SOA-EDIT metadata, so that secondaries fetch
        /// renewed signatures (`default-soa-edit-signed` of PowerDNS).
        soa_edit: SoaEdit = r#""NONE""#;
    }
}

zone_section! {
    /// Settings under a name, for zones that say `template = "name"`. This table may be given several times.
    TemplateSettings = "template" {
        /// The template's name.
        name: String = r#""""#;
        /// The kind of the zones.
        kind: InheritedTerm<ZoneKind> = r#""""#;
        /// Maximum size in MiB of memory of a zone that is transferred from a primary; 0 takes the value of
        /// `[zone_defaults]`.
        transfer_size_max_mb: Count<0, 1_048_576> = "0";
    }
}

section! {
    /// A server whose zones become secondary zones here when it notifies of them: `supermasters` of PowerDNS, whose rows in
    /// databases count too. This table may be given several times. The zones are kept in the state store, those of such rows in
    /// the database.
    AutoprimarySettings = "autoprimary" {
        /// The address of the server, with the port that it is asked on if that is not 53.
        address: RemoteAddress = r#""127.0.0.1""#;
        /// The name of a server that the zone's NS records at that address must have.
        name_server: ZoneName = r#"".""#;
        /// The key that a NOTIFY must be signed with; it signs the transfers, too.
        key: InheritedTerm<ZoneName> = r#""""#;
        /// The `[[template]]` whose settings the zones have; "" means none.
        template: String = r#""""#;
    }
}

zone_section! {
    /// One zone's own settings, whichever backend it comes from. This table may be given several times.
    ZoneSettings = "zone" {
        /// The zone's name.
        name: ZoneName = r#"".""#;
        /// The `[[template]]` whose settings the zone has where it has none of its own.
        template: String = r#""""#;
        /// Whether the zone is served from its file or database (native), its secondaries are notified as well (primary),
        /// it is transferred from its primaries (secondary), or it is a catalog zone (RFC 9432) that is made here
        /// (producer) or followed (consumer). If nothing is said, what the database that has the zone says, or native.
        kind: InheritedTerm<ZoneKind> = r#""""#;
        /// The zone file, which is watched. For a secondary or consumer: where a copy is also written as text.
        file: Option<PathBuf> = r#""""#;
        /// Clients that may ask; others are answered REFUSED. "" means what the BIND configuration that
        /// has the zone says, or else `[zone_defaults]`.
        allow_query: Option<Clients> = r#""""#;
        /// MiB that the zone may have if it is transferred from a primary; 0 means what the template or
        /// `[zone_defaults]` says.
        transfer_size_max_mb: Count<0, 1_048_576> = "0";
        /// The label of the zone in its catalog, by which consumers know it: one that another server gave it. "" makes
        /// one from the zone's name.
        catalog_label: String = r#""""#;
    }
}

section! {
    /// Caches for zones that are looked up in a database. Zones in memory need no
    /// cache: their answers are made as fast as a cached one is found.
    Cache = "cache" {
        /// Complete answers that are kept, counted in units of 512 octets; 0 keeps none.
        packet_entries: Count<0, 1_000_000_000> = "200000";
        /// Seconds for which a complete answer is kept. A change that the server notices is
        /// answered at once all the same.
        packet_ttl: Count<0, 86_400> = "20";
        /// Names whose data is kept, counted in units of 1024 octets; 0 keeps none.
        query_entries: Count<0, 1_000_000_000> = "200000";
        /// Seconds for which the data of a name is kept.
        query_ttl: Count<0, 86_400> = "20";
        /// Seconds for which it is remembered that a name does not exist.
        negative_ttl: Count<0, 86_400> = "60";
        /// Seconds for which data that is too old is served while its database is down or hangs.
        stale_while_down: Count<0, 31_536_000> = "3600";
        /// Milliseconds a question waits for a database that hangs before it is answered with such
        /// data; resolvers give up after 400 and more.
        stale_after_ms: Count<1, 600_000> = "300";
        /// Zones of databases whose keys are kept, also that there are none; 0 keeps none.
        key_entries: Count<0, 1_000_000_000> = "100000";
        /// Seconds for which the keys of a zone are kept.
        key_ttl: Count<0, 86_400> = "30";
        /// Zones of databases whose metadata is kept; 0 keeps none.
        meta_entries: Count<0, 1_000_000_000> = "100000";
        /// Seconds for which the metadata of a zone is kept.
        meta_ttl: Count<0, 86_400> = "60";
        /// Signatures of DNSSEC that are kept, 200 to 600 octets each; 0 makes each one anew.
        signature_entries: Count<0, 1_000_000_000> = "200000";
        /// Seconds after which the list of zones of a database is read again, even without a
        /// notice of a change.
        zone_refresh: Count<1, 86_400> = "300";
    }
}

section! {
    /// Questions that wait for a database.
    Overload = "overload" {
        /// Questions that may wait for one database; more are dropped. Answers from caches and
        /// zones in memory do not wait.
        overload_queue: Count<1, 10_000_000> = "5000";
        /// Milliseconds a question may wait; then it is dropped.
        query_timeout_ms: Count<10, 600_000> = "1500";
        /// Names of one zone that may be looked up at one time; questions for more are dropped,
        /// so that a flood of random names does not reach the database.
        lookups_per_zone: Count<1, 10_000_000> = "1000";
        /// Threads that look up in one SQLite database; 0 means one for each core.
        lookup_threads: Count<0, 1024> = "0";
        /// Questions that may wait for signatures to be made, of one zone a quarter of them; more are
        /// answered with TC over UDP and SERVFAIL over TCP. Signatures in the cache do not wait.
        signing_queue: Count<4, 10_000_000> = "4096";
        /// Share of all cores that making signatures for answers may take, in percent. Signing zones for transfers may take as
        /// much again.
        signing_cpu_percent: Count<1, 100> = "50";
    }
}

section! {
    /// Resolvers for questions about names that no zone here has. A client that may have recursion and asks for it (RD) gets
    /// their answer; others are refused. A CNAME of a zone here that leads out of our zones is answered as it is, and the client
    /// asks for its target itself. A reload takes changes.
    Recursor = "recursor" {
        /// The resolvers, the preferred one first; the next one is asked where one gives no answer. "" means none.
        address: Addresses = r#""""#;
        /// Clients whose questions are handed on.
        allow_from: Clients = r#"["127.0.0.0/8", "::1"]"#;
        /// Milliseconds that a question waits for all resolvers together; then the client gets SERVFAIL.
        timeout_ms: Count<10, 60_000> = "3000";
        /// Different questions that may be under way at one time; more get SERVFAIL at once. Those for the same
        /// records share one.
        in_flight_max: Count<1, 4_000> = "1000";
        /// Questions of one client address (IPv6: one /64) that may wait at one time; more get SERVFAIL at once, so that one
        /// client leaves room for others. 0 means a quarter of `in_flight_max`.
        in_flight_per_client: Count<0, 32_000> = "0";
        /// Turn letters of questions at random and take only answers that have them so: one more thing that a forger has
        /// to guess. For resolvers that do not keep the case of questions it has to be false.
        randomize_case: bool = "true";
    }
}

section! {
    /// Asks by DNS whether this version has known security problems: the TXT record of
    /// `auth-<version>.security-status.<suffix>`, through `recursor.address` or else the system's resolvers.
    /// A reload takes changes.
    SecurityPoll = "security_poll" {
        /// The domain to ask below; "" turns the poll off.
        suffix: String = r#""""#;
        /// Seconds between two polls.
        interval: Count<1, 31_536_000> = "1800";
    }
}

section! {
    /// Capacities of the rings behind the tables of the status page.
    Rings = "rings" {
        /// Log messages.
        logmessages: Count<1, 500_000> = "1000";
        /// Questions for names that exist, but not with that type.
        noerror_queries as "noerror-queries": Count<1, 500_000> = "1000";
        /// Questions for names that do not exist in a zone that does.
        nxdomain_queries as "nxdomain-queries": Count<1, 500_000> = "10";
        /// Questions received over UDP.
        queries: Count<1, 500_000> = "100";
        /// Addresses of clients.
        remotes: Count<1, 500_000> = "10000";
        /// Addresses that sent corrupt packets.
        remotes_corrupt as "remotes-corrupt": Count<1, 500_000> = "1000";
        /// Addresses that asked for zones not served here.
        remotes_unauth as "remotes-unauth": Count<1, 500_000> = "500000";
        /// Questions that failed because of a backend.
        servfail_queries as "servfail-queries": Count<1, 500_000> = "100";
        /// Questions for zones not served here.
        unauth_queries as "unauth-queries": Count<1, 500_000> = "10";
    }
}

/// The name of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneName(pub NameBuf);

impl Read for ZoneName {
    fn expected() -> String {
        r#"the name of a zone such as "example.org""#.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        read_name(value, base).map(Self)
    }
}
