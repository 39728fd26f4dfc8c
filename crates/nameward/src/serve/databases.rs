//! Converts settings for databases, caches and overload.

use std::{sync::Arc, thread};

use nameward_dnssec::SignatureCache;
use nameward_maintain::follow::databases::ServedFrom;
use nameward_serve::live::LiveSettings;
use nameward_sql::{
    CacheBounds, Concurrency, DatabaseAddress, SecurityOptions, SqlBackend, SqlError, SqlOptions,
};

use crate::{
    config::{Config, settings::Backend},
    zones,
};

/// Returns the settings for caches and overload.
pub fn live_settings(config: &Config, signatures: &Arc<SignatureCache>) -> LiveSettings {
    let (cache, overload) = (&config.cache, &config.overload);
    LiveSettings {
        packet_entries: cache.packet_entries.get(),
        packet_ttl: cache.packet_ttl.seconds(),
        query_entries: cache.query_entries.get(),
        query_ttl: cache.query_ttl.seconds(),
        negative_ttl: cache.negative_ttl.seconds(),
        stale_while_down: cache.stale_while_down.seconds(),
        stale_after: cache.stale_after_ms.millis(),
        overload_queue: overload.overload_queue.get(),
        query_timeout: overload.query_timeout_ms.millis(),
        lookups_per_zone: overload.lookups_per_zone.get(),
        threads: or_cores(overload.lookup_threads.get()),
        signing_queue: overload.signing_queue.get(),
        signing_cpu_percent: overload.signing_cpu_percent.get(),
        client_percent: overload.client_percent.get(),
        signatures: Arc::clone(signatures),
    }
}

fn or_cores(number: usize) -> usize {
    match number {
        0 => thread::available_parallelism().map_or(1, usize::from),
        number => number,
    }
}

/// Returns the signature cache, which all databases share.
pub fn signatures(config: &Config) -> Arc<SignatureCache> {
    Arc::new(SignatureCache::new(config.cache.signature_entries.get()))
}

fn security(config: &Config, is_read: bool, signatures: &Arc<SignatureCache>) -> SecurityOptions {
    let cache = &config.cache;
    SecurityOptions {
        is_read,
        keys: CacheBounds {
            entries: cache.key_entries.get(),
            ttl: cache.key_ttl.seconds(),
        },
        metadata: CacheBounds {
            entries: cache.meta_entries.get(),
            ttl: cache.meta_ttl.seconds(),
        },
        signatures: Arc::clone(signatures),
        soa_edit: config.zone_defaults.soa_edit,
    }
}

/// Returns the configured databases, each with its rank. Nothing is connected yet.
pub fn prepare(
    config: &Config,
    signatures: &Arc<SignatureCache>,
) -> Result<Vec<(u16, ServedFrom, SqlBackend)>, SqlError> {
    let databases = config.databases().map(|(index, backend)| {
        let security = security(config, backend.dnssec, signatures);
        let sql = SqlBackend::new(options(backend, security)?)?;
        Ok((zones::rank(index), backend.mode, sql))
    });
    databases.collect()
}

fn options(backend: &Backend, security: SecurityOptions) -> Result<SqlOptions, SqlError> {
    let address = match &backend.path {
        Some(path) => DatabaseAddress::Sqlite(path.clone()),
        None => DatabaseAddress::parse(backend.url.reveal())?,
    };
    let replica = match backend.replica_url.reveal().as_str() {
        "" => None,
        url => Some(DatabaseAddress::parse(url)?),
    };
    let mut concurrency = Concurrency::for_cores(&address);
    if let connections @ 1.. = backend.connections.get() {
        concurrency.connections = connections;
    }
    Ok(SqlOptions {
        address,
        replica,
        read_preference: backend.reads,
        lag_max: backend.lag_max.seconds(),
        concurrency,
        page_cache_kib: backend.page_cache_mb.get() * 1024,
        timeout: backend.timeout_ms.millis(),
        security,
        zone_limits: zones::zone_limits(backend),
    })
}
