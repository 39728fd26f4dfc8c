//! Owns what can be asked over the control socket.

use std::{fmt::Write, sync::Arc};

use nameward_control::{
    operations::{self, Database, Operations},
    socket::Commands,
};
use nameward_serve::pipeline::Shared;
use nameward_stats::VARIABLES;
use tokio::{runtime::Handle, sync::watch};

use super::{
    databases::{Databases, Followed},
    flush,
    maintenance::Maintenance,
};
use crate::config::settings::BackendMode;

/// Answers the requests of `nameward reload` and the like.
pub struct Operator {
    /// For reloads.
    pub maintenance: Maintenance,
    /// For counters and caches.
    pub shared: Arc<Shared>,
    /// For zones and records.
    pub operations: Operations,
    /// Ends the server.
    pub stop: watch::Sender<bool>,
}

/// What an operator does to zones, on the databases of this server.
pub fn operations(shared: &Arc<Shared>, databases: &Databases, runtime: &Handle) -> Operations {
    let database = |followed: &Followed| {
        let (own, runtime) = (followed.clone(), runtime.clone());
        Database {
            rank: followed.rank,
            mode: match followed.mode {
                BackendMode::Live => "live",
                BackendMode::Resident => "resident",
            },
            backend: followed.backend.clone(),
            publish: Box::new(move |zone| own.follow(&runtime, zone)),
        }
    };
    let (one, all) = (Arc::clone(shared), Arc::clone(shared));
    Operations {
        databases: databases.all().iter().map(database).collect(),
        rank_of: Box::new(move |name| one.zones.load().exact(name).map(|zone| zone.rank())),
        each_zone: Box::new(move |each| {
            let table = all.zones.load();
            table
                .zones()
                .for_each(|zone| each(zone.apex_name(), zone.rank()));
        }),
        runtime: runtime.clone(),
    }
}

impl Commands for Operator {
    fn run(&self, request: &str) -> Result<String, String> {
        let mut words = request.split_ascii_whitespace();
        match words.next().unwrap_or_default() {
            "reload" => {
                tracing::info!("reload asked for over the control socket");
                self.maintenance.reload()
            }
            "stats" => self.counters(&words.collect::<Vec<_>>()),
            "cache" => match (words.next(), words.next(), words.next()) {
                (Some("flush"), what, None) => {
                    tracing::info!("caches flushed over the control socket");
                    flush::flush(&self.shared, what)
                }
                _ => Err("expected: cache flush [NAME|NAME$]".into()),
            },
            "zone" | "record" => operations::run(&self.operations, request),
            "version" => Ok(concat!("nameward ", env!("CARGO_PKG_VERSION"), "\n").into()),
            "stop" => {
                tracing::info!("stop asked for over the control socket");
                self.stop.send_replace(true);
                Ok("stopping\n".into())
            }
            other => Err(format!(
                "unknown request {other:?}; there are cache, record, reload, stats, stop, version and zone"
            )),
        }
    }
}

impl Operator {
    /// `name value` lines; a name may end in `*`.
    fn counters(&self, names: &[&str]) -> Result<String, String> {
        let wanted = |known: &str, name: &str| match name.strip_suffix('*') {
            Some(start) => known.starts_with(start),
            None => known == name,
        };
        for name in names {
            if !VARIABLES.iter().any(|variable| wanted(variable.name, name)) {
                return Err(format!("there is no counter {name:?}"));
            }
        }
        let snapshot = self.shared.stats.snapshot();
        let mut text = String::new();
        for variable in VARIABLES {
            if names.is_empty() || names.iter().any(|name| wanted(variable.name, name)) {
                let _ = writeln!(text, "{} {}", variable.name, variable.value(&snapshot));
            }
        }
        Ok(text)
    }
}
