//! The settings that a reload changes under running workers; all others are reported as needing a
//! restart.

use std::sync::Arc;

use nameward_answer::{AnswerPolicy, Engine, ServerIdentity};
use nameward_serve::pipeline::ServingState;

use crate::config::{Config, setting::differences, settings::Server};

/// Settings that take effect on reload, besides zones, rings, `[recursor]` and `[security_poll]`.
const LIVE: [&str; 11] = [
    "query_log.clients",
    "query_log.enabled",
    "query_log.share",
    "query_log.zones",
    "server.any",
    "server.blackhole",
    "server.cname_follow",
    "server.log_level",
    "server.nsid",
    "server.udp_payload_max",
    "server.version",
];

/// Applies a new configuration; returns a line for each setting that needs a restart.
pub fn take(shared: &ServingState, old: &Config, new: &Config) -> Vec<String> {
    if old.server != new.server {
        shared.engine.store(Arc::new(engine(&new.server)));
        // Cached answers may differ now.
        shared.live.flush(&|_| true);
    }
    let mut databases = Vec::new();
    if !old.databases().eq(new.databases()) {
        databases.push("backend (databases)".to_string());
    }
    if old.zone_defaults.soa_edit != new.zone_defaults.soa_edit {
        databases.push("zone_defaults.soa_edit".to_string());
    }
    differences(&old.server, &new.server)
        .chain(differences(&old.web, &new.web))
        .chain(differences(&old.api, &new.api))
        .chain(differences(&old.tls, &new.tls))
        .chain(differences(&old.https, &new.https))
        .chain(differences(&old.quic, &new.quic))
        .chain(differences(&old.cache, &new.cache))
        .chain(differences(&old.overload, &new.overload))
        .chain(differences(&old.log, &new.log))
        .chain(differences(&old.query_log, &new.query_log))
        .chain(differences(&old.dnstap, &new.dnstap))
        .chain(databases)
        .filter(|key| !LIVE.contains(&key.as_str()))
        .map(|key| format!("{key} changed: it takes effect after a restart"))
        .collect()
}

pub fn engine(server: &Server) -> Engine {
    let policy = AnswerPolicy {
        any: server.any,
        follow: server.cname_follow,
    };
    Engine {
        policy,
        identity: ServerIdentity {
            version: server.version.clone(),
            id: server.nsid.clone(),
            nsid: server.nsid.clone().into_bytes(),
        },
        udp_payload: u16::try_from(server.udp_payload_max.get()).unwrap_or(u16::MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nameward_stats::{RingCapacities, Stats};

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("")).unwrap()
    }

    #[test]
    fn reloadable_settings_are_applied_and_others_are_reported() {
        let old = config("[server]\nversion = \"one\"\n");
        let stats = Stats::new(RingCapacities::default());
        let shared = ServingState::new(engine(&old.server), stats);
        let new = config("[server]\nversion = \"two\"\nworkers = 3\n[web]\npassword = \"x\"\n");
        assert_eq!(
            take(&shared, &old, &new),
            [
                "server.workers changed: it takes effect after a restart",
                "web.password changed: it takes effect after a restart",
            ]
        );
        assert_eq!(shared.engine.load().identity.version, "two");
    }

    #[test]
    fn changes_of_databases_caches_and_overload_are_reported_as_needing_a_restart() {
        let text = |path: &str, seconds: u8| {
            format!(
                "[cache]\nquery_ttl = {seconds}\n[overload]\noverload_queue = {seconds}\n\
                 [[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\n"
            )
        };
        let (old, new) = (config(&text("/a.db", 1)), config(&text("/b.db", 2)));
        let shared = ServingState::new(engine(&old.server), Stats::new(RingCapacities::default()));
        assert_eq!(take(&shared, &old, &old), Vec::<String>::new());
        assert_eq!(
            take(&shared, &old, &new),
            [
                "cache.query_ttl changed: it takes effect after a restart",
                "overload.overload_queue changed: it takes effect after a restart",
                "backend (databases) changed: it takes effect after a restart",
            ]
        );
    }

    #[test]
    fn every_live_setting_exists() {
        let all = crate::config::all_settings();
        for key in LIVE {
            let exists = all
                .iter()
                .any(|s| format!("{}.{}", s.section, s.key) == key);
            assert!(exists, "{key}");
        }
    }
}
