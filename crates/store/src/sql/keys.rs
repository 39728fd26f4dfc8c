//! The keys of zones (`cryptokeys`), read for many zones at once and kept for a while: the key cache.

use super::SqlBackend;
use super::dialect::Statement;
use super::error::{RowError, SqlError};
use super::row::Cells;
use nameward_dnssec::{Key, KeyUse, Keys};
use std::collections::HashMap;
use std::sync::Arc;

/// Keys of one zone that are looked at; a zone in the middle of every kind of rollover has a dozen.
const MAX_KEYS: usize = 64;

impl SqlBackend {
    /// Reads the keys of zones; every one is in the result, also those without keys.
    pub(super) async fn read_keys(
        &self,
        zones: &[i64],
    ) -> Result<HashMap<i64, Arc<Keys>>, SqlError> {
        let cache = &self.inner.keys;
        let generation = cache.generation();
        let mut read: HashMap<i64, Result<Vec<Key>, RowError>> =
            zones.iter().map(|zone| (*zone, Ok(Vec::new()))).collect();
        self.read_optional(Statement::Keys, zones, &mut |row| {
            let of = row.int(5).and_then(|zone| read.get_mut(&zone));
            let Some(of) = of else { return };
            if let Ok(keys) = of
                && keys.len() < MAX_KEYS
            {
                match read_key(row) {
                    Ok(key) => keys.push(key),
                    Err(error) => *of = Err(error),
                }
            }
        })
        .await?;
        let finished = read.into_iter().map(|(zone, keys)| {
            let keys = Arc::new(match keys {
                Ok(keys) => Keys::new(keys),
                Err(error) => {
                    // Once for each time the keys are read, so not for every question.
                    tracing::error!("answers with DNSSEC fail: {error}");
                    Keys::broken()
                }
            });
            cache.keep(zone, keys.clone(), generation);
            (zone, keys)
        });
        Ok(finished.collect())
    }
}

/// Reads a row: id, flags, active, published, content.
pub(super) fn read_key(row: &dyn Cells) -> Result<Key, RowError> {
    let id = row.int(0).unwrap_or(0);
    let bad = |reason| RowError {
        table: "cryptokeys",
        id,
        reason,
    };
    let flags = row.int(1).unwrap_or(0);
    let flags = u16::try_from(flags)
        .map_err(|_| bad(format!("expected the flags 256 or 257, found {flags}")))?;
    let usage = KeyUse {
        active: row.int(2) == Some(1),
        published: row.int(3) == Some(1),
    };
    Key::read(row.text(4).unwrap_or_default(), flags, usage).map_err(bad)
}
