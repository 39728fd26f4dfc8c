//! The key cache: zone keys (`cryptokeys`), read for many zones at once.

use super::super::dialect::Statement;
use super::super::error::{RowError, SqlError};
use super::super::row::Cells;
use super::super::{LiveZone, SqlBackend};
use super::ByZoneId;
use nameward_dnssec::{KeyUse, Keys, SigningKey};
use std::collections::HashMap;

/// Maximum number of keys evaluated per zone; a zone in the middle of every kind of rollover has a dozen.
pub(crate) const MAX_KEYS: usize = 64;

impl SqlBackend {
    /// Reads the keys of zones; every zone is in the result, even those without keys. A zone with an unusable key has
    /// the keys that were last read, or none that signs.
    pub(crate) async fn read_keys(&self, zones: &[LiveZone]) -> Result<ByZoneId<Keys>, SqlError> {
        let cache = &self.inner.keys;
        let generation = cache.generation();
        let mut read: HashMap<i64, Result<Vec<SigningKey>, RowError>> =
            zones.iter().map(|zone| (zone.id, Ok(Vec::new()))).collect();
        self.read_about(Statement::Keys, zones, &mut |row| {
            let of = row.int(5).and_then(|zone| read.get_mut(&zone));
            let Some(of) = of else { return };
            if let Ok(keys) = of {
                if is_idle_and_unknown(row) {
                    return;
                }
                match read_key(row) {
                    Ok(_) if keys.len() >= MAX_KEYS => *of = Err(too_many(row)),
                    Ok(key) => keys.push(key),
                    Err(error) => *of = Err(error),
                }
            }
        })
        .await?;
        let read = read.into_iter();
        let read = read.map(|(zone, keys)| (zone, keys.map(Keys::by_flags)));
        Ok(cache.take_over(zones, read.collect(), Keys::broken, generation))
    }
}

/// Checks whether a key does not sign and has an unsupported algorithm, as after a rollover that was never completed.
/// No signature depends on it, and its DNSKEY is not published.
fn is_idle_and_unknown(row: &dyn Cells) -> bool {
    row.int(2) != Some(1)
        && SigningKey::unsupported_algorithm(row.text(4).unwrap_or_default()).is_some()
}

/// Returns the error for too many keys: signing with some of them could mean signing with the wrong ones.
fn too_many(row: &dyn Cells) -> RowError {
    let id = row.int(0).unwrap_or(0);
    RowError::new("cryptokeys", id, format!("more than {MAX_KEYS} keys"))
}

/// Reads a row: id, flags, active, published, content.
pub(crate) fn read_key(row: &dyn Cells) -> Result<SigningKey, RowError> {
    let id = row.int(0).unwrap_or(0);
    let bad = |reason: String| RowError::new("cryptokeys", id, reason);
    let flags = row.int(1).unwrap_or(0);
    let flags = u16::try_from(flags)
        .map_err(|_| bad(format!("expected flags 256 or 257, found {flags}")))?;
    let usage = KeyUse::by_flags(flags, row.int(2) == Some(1), row.int(3) == Some(1));
    let key = SigningKey::read(row.text(4).unwrap_or_default(), flags, usage);
    key.map_err(|error| bad(error.to_string()))
}
