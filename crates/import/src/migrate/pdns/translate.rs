//! PowerDNS settings with an equivalent: listeners, access, web page, limits. Defaults that differ are written out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    super::{
        ImportVerdict::{self, Changed, NotNeeded, NotPossible, Taken},
        ImportedRemote, ImportedValue, SettingKey,
        peers::{colon_port, network, written},
        tables::{NumberRow, numbers},
    },
    PdnsReader, PdnsSetting, words,
};

/// Numbers that are the same, some in another unit.
const NUMBERS: &[NumberRow] = numbers! {
    "cache-ttl" => cache.packet_ttl, 0..=86_400;
    "query-cache-ttl" => cache.query_ttl, 0..=86_400;
    "negquery-cache-ttl" => cache.negative_ttl, 0..=86_400;
    "dnssec-key-cache-ttl" => cache.key_ttl, 0..=86_400;
    "zone-metadata-cache-ttl" => cache.meta_ttl, 0..=86_400;
    "domain-metadata-cache-ttl" => cache.meta_ttl, 0..=86_400;
    "zone-cache-refresh-interval" => cache.zone_refresh, 1..=86_400;
    "max-packet-cache-entries" => cache.packet_entries, 0..=1_000_000_000;
    "max-cache-entries" => cache.query_entries, 0..=1_000_000_000;
    "overload-queue-length" => overload.overload_queue, 1..=10_000_000;
    "queue-limit" => overload.query_timeout_ms, 10..=600_000;
    "max-tcp-connections" => server.tcp_connections_max, 1..=1_000_000;
    "max-tcp-connections-per-client" => server.tcp_connections_per_client, 1..=1_000_000;
    "max-tcp-connection-duration" => server.tcp_total_timeout_ms * 1000, 10..=86_400_000;
    "tcp-idle-timeout" => server.tcp_idle_timeout_ms * 1000, 10..=3_600_000;
    "udp-truncation-threshold" => server.udp_payload_max, 512..=65_535;
    "lua-health-checks-interval" => health.interval, 1..=86_400;
    "axfr-fetch-timeout" => server.transfer_idle_timeout_ms * 1000, 10..=3_600_000;
};

impl PdnsReader<'_> {
    pub(super) fn translate(&mut self) {
        self.listen();
        self.identity();
        self.numbers();
        self.transfers();
        self.notify();
        self.updates();
        self.web();
        self.lua_records();
        self.script_limit();
        self.soa_edit();
        self.recursion();
        self.backends();
    }

    fn listen(&mut self) {
        if let Some(setting) = self.used("proxy-protocol-from") {
            let value = self.networks(&setting);
            let key = ("server", "proxy_protocol_from");
            self.take(&setting, key, value, "proxy-protocol-from");
        }
        let port = self.used("local-port");
        let port = match &port {
            Some(setting) => self.number(setting).unwrap_or(53) as u16,
            None => 53,
        };
        let address = self.used("local-address");
        let address6 = self.used("local-ipv6");
        let mut list = Vec::new();
        for setting in address.iter().chain(&address6) {
            for word in words(&setting.value) {
                match colon_port(word, port) {
                    Some((address, port)) => list.push(SocketAddr::new(address, port)),
                    None => self.wrong(setting, "an address"),
                }
            }
        }
        let location = address.as_ref().or(address6.as_ref());
        let texts =
            |list: &[SocketAddr]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
        let key = ("server", "listen");
        match location {
            Some(setting) => self.take(setting, key, texts(&list), "local-address"),
            None if port != 53 => {
                let all = [
                    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                ];
                let all = all.map(|all| SocketAddr::new(all, port));
                self.server.set(None, key, texts(&all));
            }
            None => {}
        }
    }

    fn identity(&mut self) {
        // PowerDNS truncates ANY queries over UDP unless any-to-tcp is off.
        let any = if self.is_on(&["any-to-tcp"], true) {
            "truncate"
        } else {
            "all"
        };
        self.server.set(None, ("server", "any"), any);
        if let Some(setting) = self.used("server-id") {
            let value = match setting.value.as_str() {
                "disabled" => "",
                name => name,
            };
            self.take(&setting, ("server", "nsid"), value, "server-id");
        }
        if let Some(setting) = self.used("version-string") {
            let value = match setting.value.as_str() {
                "full" | "powerdns" => None,
                "anonymous" => Some(""),
                text => Some(text),
            };
            match value {
                Some(text) => {
                    self.take(&setting, ("server", "version"), text, "version-string");
                }
                None => {
                    let text = "version-string: version.bind returns the Nameward version";
                    self.note(Changed, &setting, text);
                }
            }
        }
        if let Some(setting) = self.used("loglevel") {
            let level = match self.number(&setting) {
                Some(0..=3) => "error",
                Some(4) => "warn",
                Some(5 | 6) => "info",
                _ => "debug",
            };
            self.take(&setting, ("server", "log_level"), level, "loglevel");
        }
    }

    fn numbers(&mut self) {
        for row in NUMBERS {
            let Some(setting) = self.used(row.name) else {
                continue;
            };
            let Some(number) = self.number(&setting) else {
                continue;
            };
            match row.convert(number) {
                Some(number) => self.take(&setting, row.key, number, row.name),
                // Zero means "no limit" there.
                None => {
                    let (table, key) = row.key;
                    let text = format!("{}: {key} in [{table}] keeps its default", row.name);
                    self.note(Changed, &setting, &text);
                }
            }
        }
        if let Some(setting) = self.used("xfr-max-received-mbytes") {
            let size = self.number(&setting).filter(|size| *size > 0);
            self.server.defaults.transfer_size_max_mb = size;
            let text = "xfr-max-received-mbytes: transfer_size_max_mb in [zone_defaults]";
            self.note(Taken, &setting, text);
        }
    }

    fn transfers(&mut self) {
        let is_off = self.is_on(&["disable-axfr"], false);
        let setting = self.used("allow-axfr-ips");
        let list = match (&setting, is_off) {
            (_, true) => Vec::new(),
            (Some(setting), false) => self.networks(setting),
            (None, false) => ["127.0.0.0/8", "::1"].map(String::from).into(),
        };
        self.server.defaults.allow_transfer = Some(list);
        if let Some(setting) = setting {
            let text = "allow-axfr-ips: allow_transfer in [zone_defaults]; ALLOW-AXFR-FROM of a zone adds to it";
            self.note(Taken, &setting, text);
        }
        if let Some(setting) = self.used("query-local-address") {
            let is_any = words(&setting.value).all(|word| {
                word.parse()
                    .is_ok_and(|ip: std::net::IpAddr| ip.is_unspecified())
            });
            let verdict = if is_any { NotNeeded } else { NotPossible };
            let text = "query-local-address: set source for servers in primaries or also_notify; AXFR-SOURCE of a zone \
                        is used";
            self.note(verdict, &setting, text);
        }
    }

    fn notify(&mut self) {
        let is_primary = self.is_on(&["primary", "master"], false);
        if !is_primary {
            // Without primary=yes PowerDNS sends no NOTIFY.
            self.server.defaults.notify_name_servers = Some(false);
        }
        if let Some(setting) = self.used("also-notify") {
            let mut remotes = Vec::new();
            for word in words(&setting.value) {
                match colon_port(word, 53) {
                    Some((address, port)) => remotes.push(ImportedRemote {
                        address: written(address, port),
                        ..ImportedRemote::default()
                    }),
                    None => self.wrong(&setting, "an address"),
                }
            }
            if is_primary {
                self.server.defaults.also_notify = remotes;
                let text = "also-notify: also_notify in [zone_defaults]";
                self.note(Taken, &setting, text);
            } else {
                let text = "also-notify: no NOTIFY is sent, primary is off";
                self.note(NotNeeded, &setting, text);
            }
        }
        if let Some(setting) = self.used("only-notify") {
            let (verdict, text) = match setting.value.as_str() {
                "" => {
                    self.server.defaults.notify_name_servers = Some(false);
                    (Taken, "only-notify: notify_name_servers in [zone_defaults]")
                }
                "0.0.0.0/0,::/0" | "0.0.0.0/0, ::/0" => (NotNeeded, "only-notify: all"),
                _ => (
                    NotPossible,
                    "only-notify: either all name servers of a zone are notified or none (notify_name_servers)",
                ),
            };
            self.note(verdict, &setting, text);
        }
        if let Some(setting) = self.used("trusted-notification-proxy") {
            self.server.defaults.allow_notify =
                Some(self.networks(&setting)).filter(|list| !list.is_empty());
            let text = "trusted-notification-proxy: allow_notify in [zone_defaults]";
            self.note(Taken, &setting, text);
        }
        if let Some(setting) = self.used("allow-notify-from") {
            let text = "allow-notify-from: the primaries of a zone may always notify";
            self.note(Changed, &setting, text);
        }
        if let Some(setting) = self.used_of(&["secondary-do-renotify", "slave-renotify"]) {
            let (verdict, text) = if setting.is_on() {
                (NotPossible, "set SLAVE-RENOTIFY for each zone")
            } else {
                (NotNeeded, "off")
            };
            self.note(verdict, &setting, &format!("secondary-do-renotify: {text}"));
        }
    }

    /// Converts networks as PowerDNS interprets them: the longest prefix decides, so it must come first here.
    pub(super) fn networks(&mut self, setting: &PdnsSetting) -> Vec<String> {
        let mut list = Vec::new();
        for word in words(&setting.value) {
            let (sign, text) = match word.strip_prefix('!') {
                Some(text) => ("!", text),
                None => ("", word),
            };
            match network(text) {
                Some((network, bits)) => list.push((bits, format!("{sign}{network}"))),
                None => self.wrong(setting, "a network"),
            }
        }
        if list.iter().any(|(_, text)| text.starts_with('!')) {
            list.sort_by_key(|(bits, _)| std::cmp::Reverse(*bits));
        }
        list.into_iter().map(|(_, text)| text).collect()
    }

    pub(super) fn number(&mut self, setting: &PdnsSetting) -> Option<u64> {
        let number = setting.value.parse().ok();
        if number.is_none() {
            self.wrong(setting, "a number");
        }
        number
    }

    pub(super) fn wrong(&mut self, setting: &PdnsSetting, expected: &str) {
        let found = &setting.value;
        self.error(
            &setting.location,
            format!("expected {expected}, found {found:?}"),
        );
    }

    pub(super) fn take(
        &mut self,
        setting: &PdnsSetting,
        key: SettingKey,
        value: impl Into<ImportedValue>,
        from: &str,
    ) {
        self.server.take(&setting.location, key, value, from);
    }

    pub(super) fn note(&mut self, verdict: ImportVerdict, setting: &PdnsSetting, text: &str) {
        self.server.note(verdict, &setting.location, text);
    }
}
