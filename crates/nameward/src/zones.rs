//! Owns the way from settings to the terms of the layers below: sources of zones, ring capacities.

use std::sync::Arc;

use nameward_stats::{Ring, RingCapacities, Stats};
use nameward_store::file::{Limits, Source};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessRules, ZoneLimits};

use crate::{
    config::{
        Config,
        clients::Clients,
        settings::{Backend, BackendType, Rings},
    },
    serve::StartError,
};

/// The rank of a backend by its place in the configuration.
pub fn rank(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// The sources of zones that file backends name.
pub fn sources(config: &Config) -> Result<Vec<Source>, StartError> {
    config
        .backends
        .iter()
        .enumerate()
        .filter(|(_, backend)| backend.r#type == BackendType::File)
        .map(|(index, backend)| {
            let zones = backend.zones.iter().map(|zone| {
                let name = NameBuf::from_text(zone.name.as_bytes(), Name::ROOT)
                    .map_err(|error| StartError::ZoneName(zone.name.clone(), error))?;
                Ok((name, zone.file.clone()))
            });
            Ok(Source {
                rank: rank(index),
                directory: backend.directory.clone(),
                zones: zones.collect::<Result<_, StartError>>()?,
                named_conf: backend.named_conf.clone(),
                watch: backend.watch,
                limits: limits(backend),
            })
        })
        .collect()
}

/// The access lists that the configuration sets.
pub fn access(config: &Config) -> AccessRules {
    let own = |list: &Clients| Some(Arc::new(list.0.clone()));
    let mut rules = AccessRules::default();
    rules.default = own(&config.zone_defaults.allow_query).filter(|list| !list.is_any());
    rules.blackhole = own(&config.server.blackhole).filter(|list| !list.is_none());
    for zone in &config.zones {
        if let Some(list) = &zone.allow_query {
            rules.set_zone(zone.name.0.as_name(), Arc::new(list.0.clone()));
        }
    }
    rules
}

/// What one zone of a backend may grow to.
fn limits(backend: &Backend) -> Limits {
    let octets = |mib: usize| (mib as u64) << 20;
    Limits {
        zone: ZoneLimits {
            octets: octets(backend.zone_max_mb.get()),
            records: backend.zone_records_max.get() as u64,
        },
        generated_octets: octets(backend.generated_max_mb.get()),
    }
}

/// Each ring with the capacity it is to have.
fn capacities(rings: &Rings) -> [(Ring, usize); Ring::COUNT] {
    [
        (Ring::Logmessages, rings.logmessages.get()),
        (Ring::NoerrorQueries, rings.noerror_queries.get()),
        (Ring::NxdomainQueries, rings.nxdomain_queries.get()),
        (Ring::Queries, rings.queries.get()),
        (Ring::Remotes, rings.remotes.get()),
        (Ring::RemotesCorrupt, rings.remotes_corrupt.get()),
        (Ring::RemotesUnauth, rings.remotes_unauth.get()),
        (Ring::ServfailQueries, rings.servfail_queries.get()),
        (Ring::UnauthQueries, rings.unauth_queries.get()),
    ]
}

/// Capacities for new statistics.
pub fn ring_capacities(rings: &Rings) -> RingCapacities {
    let mut all = RingCapacities::default();
    for (ring, capacity) in capacities(rings) {
        all.set(ring, capacity);
    }
    all
}

/// Gives the rings of a running server their new capacities.
pub fn resize_rings(stats: &Stats, rings: &Rings) {
    for (ring, capacity) in capacities(rings) {
        stats.resize_ring(ring, capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::setting::{Section, list};

    #[test]
    fn every_ring_has_a_setting_of_its_name_with_its_default() {
        let defaults = ring_capacities(&Rings::defaults());
        for ring in Ring::ALL {
            assert!(list::<Rings>().any(|setting| setting.key == ring.name()));
            assert_eq!(
                defaults.of(ring),
                ring.default_capacity(),
                "{}",
                ring.name()
            );
        }
    }
}
