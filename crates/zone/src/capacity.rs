//! Size limits of a zone, and fallible growth of buffers, so that running out of memory fails the zone and not the
//! process.

/// Maximum memory and number of records of one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Octets of memory while the zone is built.
    pub octets: u64,
    /// Records, duplicates included.
    pub records: u64,
}

impl Default for ZoneLimits {
    fn default() -> Self {
        ZoneLimits {
            octets: 4 << 30,
            records: 100_000_000,
        }
    }
}

/// The reason why a zone accepts no further records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ZoneFull {
    #[error("the zone has more than {0} records (zone_records_max)")]
    Records(u64),
    #[error("the zone needs more than {} MiB of memory (zone_max_mb)", .0 >> 20)]
    Octets(u64),
    #[error("out of memory")]
    Memory,
}

/// Appends to a list if there is memory for it.
#[inline]
pub(crate) fn try_push<T>(list: &mut Vec<T>, item: T) -> Result<(), ZoneFull> {
    list.try_reserve(1).map_err(|_| ZoneFull::Memory)?;
    list.push(item);
    Ok(())
}

/// Clears a buffer, and frees its memory if it is larger than most zones need.
pub(crate) fn empty<T>(buffer: &mut Vec<T>, kept: usize) {
    if buffer.capacity() > kept {
        *buffer = Vec::new()
    } else {
        buffer.clear()
    }
}
