//! PowerDNS settings about services other than answers and transfers: updates, the web page, serials, resolvers.

use super::{
    super::{
        ImportVerdict::{Breaks, Changed, NotNeeded, Taken},
        peers::colon_port,
    },
    PdnsReader, PdnsSetting, words,
};

/// SOA-EDIT values with the same meaning here.
const SOA_EDIT_WORDS: &[&str] = &[
    "INCREMENT-WEEKS",
    "INCEPTION-EPOCH",
    "INCEPTION-INCREMENT",
    "EPOCH",
];

/// The largest value of `instructions_max`.
const INSTRUCTIONS_MAX: u64 = 4_000_000_000;

impl PdnsReader<'_> {
    pub(super) fn updates(&mut self) {
        let switch = self.used("dnsupdate");
        let from = self.used("allow-dnsupdate-from");
        let forward = self.used("forward-dnsupdate");
        if !switch.as_ref().is_some_and(PdnsSetting::is_switch_on) {
            for setting in [&switch, &from, &forward].into_iter().flatten() {
                self.note(NotNeeded, setting, "dnsupdate is off: updates are refused");
            }
            return;
        }
        let list = match &from {
            Some(setting) => self.networks(setting),
            None => ["127.0.0.0/8", "::1"].map(String::from).into(),
        };
        self.server.defaults.allow_update = Some(list);
        let is_forwarded = forward.as_ref().is_none_or(PdnsSetting::is_switch_on);
        self.server.defaults.forward_updates = Some(is_forwarded);
        for (setting, text) in [
            (
                &switch,
                "dnsupdate: allowed by allow_update in [zone_defaults] and by zone metadata",
            ),
            (
                &from,
                "allow-dnsupdate-from: allow_update in [zone_defaults]",
            ),
            (
                &forward,
                "forward-dnsupdate: forward_updates in [zone_defaults]",
            ),
        ] {
            if let Some(setting) = setting {
                self.note(Taken, setting, text);
            }
        }
    }

    /// Converts the switch for LUA records, which has the value `shared` for one state of all scripts.
    pub(super) fn lua_records(&mut self) {
        // A build without them reports that.
        if !cfg!(feature = "lua") {
            return;
        }
        let Some(setting) = self.used("enable-lua-records") else {
            return;
        };
        let is_shared = setting.value == "shared";
        let is_on = is_shared || setting.is_switch_on();
        self.take(&setting, ("lua", "records"), is_on, "enable-lua-records");
        if is_shared {
            let key = ("lua", "shared");
            self.server.set(Some(&setting.location), key, true);
        }
    }

    /// Converts the limit of scripts, which counts something else here.
    pub(super) fn script_limit(&mut self) {
        let Some(setting) = self.used("lua-records-exec-limit") else {
            return;
        };
        let Some(limit) = self.number(&setting) else {
            return;
        };
        let text = "lua-records-exec-limit: instructions_max in [lua] counts calls and loop iterations, not instructions";
        self.note(Changed, &setting, text);
        let (key, limit) = (("lua", "instructions_max"), limit.min(INSTRUCTIONS_MAX));
        self.server.set(Some(&setting.location), key, limit);
    }

    pub(super) fn web(&mut self) {
        let api = self.used_of(&["api", "experimental-json-interface"]);
        let api = api.filter(PdnsSetting::is_switch_on);
        let is_on = self.is_on(&["webserver"], false) || api.is_some();
        let address = self.used("webserver-address");
        let port = self.used("webserver-port");
        let from = self.used("webserver-allow-from");
        let password = self.used("webserver-password");
        let key = self.used_of(&["api-key", "experimental-api-key"]);
        if let Some(api) = &api {
            let (verdict, text) = if key.as_ref().is_some_and(PdnsSetting::is_on) {
                (Taken, "api: the API answers on the same port, see [api]")
            } else {
                let text = "api: there is no api-key, so that no client can use it";
                (NotNeeded, text)
            };
            self.note(verdict, api, text);
        }
        if !is_on {
            for setting in [&address, &port, &from, &password, &key]
                .into_iter()
                .flatten()
            {
                self.note(NotNeeded, setting, "webserver is off");
            }
            return;
        }
        if let Some(setting) = password.as_ref().filter(|setting| setting.is_on()) {
            let (name, value) = (("web", "password"), setting.value.as_str());
            self.take(setting, name, value, "webserver-password");
        }
        match key.as_ref().filter(|setting| setting.is_on()) {
            None => {}
            Some(setting) if api.is_none() => self.note(NotNeeded, setting, "api-key: api is off"),
            Some(setting) => {
                let (name, value) = (("api", "key"), setting.value.as_str());
                self.take(setting, name, value, "api-key");
            }
        }
        let host = address
            .as_ref()
            .map_or("127.0.0.1".into(), |found| found.value.clone());
        let number = port.as_ref().and_then(|found| self.number(found));
        let location = address.or(port).map(|setting| setting.location);
        let location = location.unwrap_or_else(|| self.first.clone());
        match colon_port(&host, number.unwrap_or(8081) as u16) {
            Some((address, port)) => {
                let listen = std::net::SocketAddr::new(address, port).to_string();
                if api.is_some() && key.as_ref().is_some_and(PdnsSetting::is_on) {
                    self.server
                        .set(Some(&location), ("api", "listen"), listen.clone());
                }
                let key = ("web", "listen");
                self.server
                    .take(&location, key, listen, "webserver-address");
            }
            None => self.error(&location, "webserver-address: expected an address"),
        }
        if let Some(setting) = from {
            let list = self.networks(&setting);
            if api.is_some() {
                let key = ("api", "allow_from");
                self.server.set(Some(&setting.location), key, list.clone());
            }
            let key = ("web", "allow_from");
            self.take(&setting, key, list, "webserver-allow-from");
        }
    }

    /// Converts `default-soa-edit-signed`, which applies to signed zones, or else `default-soa-edit`.
    pub(super) fn soa_edit(&mut self) {
        let all = self.used("default-soa-edit");
        let signed = self.used("default-soa-edit-signed");
        for setting in [&all, &signed].into_iter().flatten() {
            let word = setting.value.to_ascii_uppercase();
            let is_signed = signed
                .as_ref()
                .is_some_and(|one| one.location == setting.location);
            let name = if is_signed {
                "default-soa-edit-signed"
            } else {
                "default-soa-edit"
            };
            match word.as_str() {
                "" | "NONE" => self.note(NotNeeded, setting, &format!("{name}: off")),
                _ if !SOA_EDIT_WORDS.contains(&word.as_str()) => {
                    let text = format!("{name}: unknown value {:?}", setting.value);
                    self.note(Breaks, setting, &text);
                }
                _ if is_signed => {
                    self.server.defaults.soa_edit = Some(word);
                    let text = "default-soa-edit-signed: soa_edit in [zone_defaults]";
                    self.note(Taken, setting, text);
                }
                _ => {
                    self.server.defaults.soa_edit = Some(word);
                    let text = "default-soa-edit: soa_edit in [zone_defaults], for signed zones only: raise the \
                                serials of unsigned zones above those of their secondaries";
                    self.note(Changed, setting, text);
                }
            }
        }
    }

    pub(super) fn recursion(&mut self) {
        let is_expanded = self.used("expand-alias");
        if let Some(setting) = &is_expanded {
            let text = "expand-alias: ALIAS records are always answered with addresses";
            self.note(Changed, setting, text);
        }
        if let Some(setting) = self.used("outgoing-axfr-expand-alias") {
            self.server.defaults.expand_alias = setting.is_switch_on().then_some(true);
            let text = "outgoing-axfr-expand-alias: expand_alias in [zone_defaults]";
            self.note(Taken, &setting, text);
        }
        let recursor = self.used("recursor");
        let resolver = self.used("resolver");
        let allowed = self.used("allow-recursion");
        let forwarder = recursor.as_ref().or(resolver.as_ref());
        let Some(forwarder) = forwarder.filter(|setting| setting.is_on()) else {
            return;
        };
        let mut list = Vec::new();
        for word in words(&forwarder.value) {
            match colon_port(word, 53) {
                Some((address, port)) => {
                    list.push(std::net::SocketAddr::new(address, port).to_string());
                }
                None => self.wrong(forwarder, "an address"),
            }
        }
        self.take(forwarder, ("recursor", "address"), list, "resolver");
        // `resolver` is only for ALIAS; `recursor`, up to PowerDNS 4.0, was for clients too.
        let from = match (&recursor, &allowed) {
            (Some(_), Some(allowed)) => self.networks(allowed),
            (Some(_), None) => vec!["any".into()],
            (None, _) => Vec::new(),
        };
        self.server.set(None, ("recursor", "allow_from"), from);
    }
}
