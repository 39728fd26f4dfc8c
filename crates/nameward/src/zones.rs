//! Converts settings for the layers below: zone sources, access lists, limits, ring capacities.

use std::sync::Arc;

use nameward_files::{FileLimits, FileList, FileSource, WrittenFiles};
use nameward_maintain::policy::{CONFIGURED_RANK, ZoneKind};
use nameward_stats::{Ring, RingCapacities, Stats};
use nameward_zone::{AccessList, AccessRules, ScriptCheck, ZoneLimits};

use crate::{
    config::{
        Config,
        setting::ConfigTable,
        settings::{Backend, BackendType, Rings, ZoneSettings},
    },
    script_check,
    start_error::StartError,
};

/// Returns the rank of a backend: its number in the configuration, from 1. Zones that the configuration itself
/// declares rank before them.
pub fn rank(index: usize) -> u16 {
    u16::try_from(index + 1).unwrap_or(u16::MAX)
}

/// Returns the sources of zones stored in files: file backends, and `[[zone]]` tables with a file.
pub fn sources(config: &Config) -> Vec<FileSource> {
    let written = Arc::new(copies(config));
    let scripts = script_check::for_config(config);
    let backends = config
        .backends
        .iter()
        .enumerate()
        .filter(|(_, backend)| backend.r#type == BackendType::File)
        .map(|(index, backend)| FileSource {
            rank: rank(index),
            directory: backend.directory.clone(),
            written: Arc::clone(&written),
            zones: Arc::clone(&backend.zones),
            named_conf: backend.named_conf.clone(),
            watch: backend.watch,
            missing_grace: config.server.zone_file_grace.seconds(),
            limits: limits(backend),
            scripts: scripts.clone(),
        });
    let declared = declared(config, &scripts);
    declared.into_iter().chain(backends).collect()
}

/// Returns the files that copies of secondary zones are written to.
fn copies(config: &Config) -> WrittenFiles {
    let mut written = WrittenFiles::default();
    for zone in config.zones.iter().filter(|zone| zone.file.is_some()) {
        let terms = config.zone_policy(zone);
        terms.copy_file.iter().for_each(|file| written.add(file));
    }
    written
}

/// Returns the source of the zones that have a file in their `[[zone]]` table.
fn declared(config: &Config, scripts: &ScriptCheck) -> Option<FileSource> {
    let mut zones = FileList::default();
    for zone in &config.zones {
        let Some(file) = &zone.file else {
            continue;
        };
        let kind = config.zone_policy(zone).kind.unwrap_or_default();
        // The file of a secondary is written, not read.
        if matches!(kind, ZoneKind::Native | ZoneKind::Primary) {
            zones.push(zone.name.0.as_name(), file);
        }
    }
    let defaults = Backend::defaults();
    (!zones.is_empty()).then(|| FileSource {
        rank: CONFIGURED_RANK,
        zones: Arc::new(zones),
        watch: defaults.watch,
        limits: limits(&defaults),
        scripts: scripts.clone(),
        ..FileSource::default()
    })
}

/// Checks that there is storage for zones that are transferred from primaries.
pub fn check_state(config: &Config) -> Result<(), StartError> {
    let is_transferred = |zone: &&ZoneSettings| {
        let kind = config.zone_policy(zone).kind;
        kind.is_some_and(|kind| kind.is_transferred())
    };
    match config.zones.iter().find(is_transferred) {
        Some(zone) if config.state_directory().is_none() => {
            Err(StartError::NoStateDirectory(zone.name.0.to_string()))
        }
        _ => Ok(()),
    }
}

/// Lists the zones that have primaries and no kind. Only a database or a catalog can make such a zone a secondary.
pub fn primaries_without_kind(config: &Config) -> impl Iterator<Item = &ZoneSettings> {
    config.zones.iter().filter(|zone| {
        let has_primaries = zone.primaries.0.iter().flatten().next().is_some();
        has_primaries && config.zone_policy(zone).kind.is_none()
    })
}

/// Checks that each zone with primaries can be a secondary.
pub fn check_kinds(config: &Config) -> Result<(), StartError> {
    let mut without = primaries_without_kind(config).peekable();
    if without.peek().is_none() {
        return Ok(());
    }
    let has_database = config.databases().next().is_some();
    let has_catalog =
        (config.zones.iter()).any(|zone| config.zone_policy(zone).kind == Some(ZoneKind::Consumer));
    match without.next() {
        Some(zone) if !has_database && !has_catalog => {
            Err(StartError::PrimariesWithoutKind(zone.name.0.to_string()))
        }
        _ => Ok(()),
    }
}

/// Returns the access lists that the configuration sets.
pub fn access(config: &Config) -> AccessRules {
    let own = |list: &AccessList| Some(Arc::new(list.clone()));
    let mut rules = AccessRules::default();
    rules.default = own(&config.zone_defaults.allow_query.0).filter(|list| !list.is_any());
    rules.blackhole = own(&config.server.blackhole.0).filter(|list| !list.is_none());
    let senders = own(&config.client_subnet.allow_from.0);
    rules.subnet_senders = senders.filter(|list| !list.is_none());
    for zone in &config.zones {
        if let Some(list) = &zone.allow_query.0 {
            rules.set_zone(zone.name.0.as_name(), Arc::new(list.0.clone()));
        }
    }
    rules
}

/// Returns the memory and record limits of a zone in a backend.
pub fn zone_limits(backend: &Backend) -> ZoneLimits {
    ZoneLimits {
        octets: (backend.zone_max_mb.get() as u64) << 20,
        records: backend.zone_records_max.get() as u64,
    }
}

/// Returns the size limits of a zone in files.
fn limits(backend: &Backend) -> FileLimits {
    let octets = |mib: usize| (mib as u64) << 20;
    FileLimits {
        zone: zone_limits(backend),
        generated_octets: octets(backend.generated_max_mb.get()),
    }
}

/// Returns each ring with its configured capacity.
fn capacities(rings: &Rings) -> [(Ring, usize); Ring::COUNT] {
    [
        (Ring::Logmessages, rings.logmessages.get()),
        (Ring::NoerrorQueries, rings.noerror_queries.get()),
        (Ring::NxdomainQueries, rings.nxdomain_queries.get()),
        (Ring::Queries, rings.queries.get()),
        (Ring::Remotes, rings.remotes.get()),
        (Ring::RemotesCorrupt, rings.remotes_corrupt.get()),
        (Ring::RemotesLimited, rings.remotes_limited.get()),
        (Ring::RemotesUnauth, rings.remotes_unauth.get()),
        (Ring::ServfailQueries, rings.servfail_queries.get()),
        (Ring::UnauthQueries, rings.unauth_queries.get()),
    ]
}

pub fn ring_capacities(rings: &Rings) -> RingCapacities {
    let mut all = RingCapacities::default();
    for (ring, capacity) in capacities(rings) {
        all.set(ring, capacity);
    }
    all
}

/// Sets new capacities on the rings of a running server.
pub fn resize_rings(stats: &Stats, rings: &Rings) {
    for (ring, capacity) in capacities(rings) {
        stats.resize_ring(ring, capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::setting::list;

    #[test]
    fn every_ring_has_a_setting_of_its_name_with_its_default() {
        let defaults = ring_capacities(&Rings::defaults());
        for ring in Ring::ALL {
            assert!(list::<Rings>().any(|setting| setting.key == ring.name()));
            assert_eq!(
                defaults.get(ring),
                ring.default_capacity(),
                "{}",
                ring.name()
            );
        }
    }
}
