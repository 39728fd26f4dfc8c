//! The zone list of a database on disk, for a start while the database does not answer.
//!
//! ```text
//! "nameward zones 1" | length u16, address of the database | count u32 | zones: id i64, length u8, name (wire) | checksum u64
//! ```
//! Integers are little-endian. The file is written under another name, synced and renamed, so that there is always a
//! complete one. An invalid one is ignored with a log line; only SERVFAIL is ever answered from it.

use nameward_base::file;
use nameward_wire::Name;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

const MAGIC: &[u8; 16] = b"nameward zones 1";
/// Maximum size of a file in octets: more than a million zones.
const MAX_FILE: usize = 64 << 20;
/// Minimum interval between two writes.
const INTERVAL: Duration = Duration::from_secs(5);

/// A zone: its ID in the database and its name in wire format.
pub(super) type ListEntry<'a> = (i64, &'a [u8]);
/// The same, read from a file.
type Zones = Vec<(i64, Box<[u8]>)>;

/// The file of one database.
pub(super) struct ZoneListFile {
    path: Option<PathBuf>,
    /// The address of the database, without a password.
    address: String,
    is_changed: bool,
    written: Option<Instant>,
    writing: Option<JoinHandle<()>>,
}

impl ZoneListFile {
    /// Creates the file object; nothing is read or written yet, and without a directory nothing ever is.
    pub(super) fn new(directory: Option<&Path>, address: &str) -> Self {
        let file = format!("zones-{:016x}", checksum(address.as_bytes()));
        ZoneListFile {
            path: directory.map(|directory| directory.join(file)),
            address: address.into(),
            is_changed: false,
            written: None,
            writing: None,
        }
    }

    /// Records that the list differs from the file.
    pub(super) fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// Returns how soon the file must be written, if at all.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let is_needed = self.is_changed && self.path.is_some();
        let since = self.written.map_or(INTERVAL, |written| written.elapsed());
        is_needed.then(|| INTERVAL.saturating_sub(since))
    }

    /// Writes the list if that is due. Another thread waits for the disk, and gives back the memory that the list took.
    pub(super) fn write_if_due<'a>(
        &mut self,
        zones: impl Iterator<Item = ListEntry<'a>>,
        give_back: fn(),
    ) {
        let is_writing = self
            .writing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if is_writing || self.due_in() != Some(Duration::ZERO) {
            return;
        }
        let Some(path) = self.path.clone() else {
            return;
        };
        self.is_changed = false;
        self.written = Some(Instant::now());
        let address = self.address.clone();
        let Some(bytes) = encode(&address, zones) else {
            tracing::warn!("{address}: too many zones for the saved zone list");
            return;
        };
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let (start, shown) = (Instant::now(), path.display());
            match file::replace(&path, 0o644, &bytes) {
                Ok(()) => tracing::debug!(took = ?start.elapsed(), "{shown}: written"),
                Err(error) => {
                    tracing::warn!("{address}: cannot write the zone list to {shown}: {error}");
                }
            }
            drop(bytes);
            give_back();
        }));
    }

    /// Returns the last written list; empty if there is no usable one.
    pub(super) fn read(&self) -> Zones {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        let read = || -> Result<Zones, ZoneListError> {
            let length = fs::metadata(path)?.len();
            if length > MAX_FILE as u64 {
                return Err(ZoneListError::TooLarge(length));
            }
            decode(&fs::read(path)?, &self.address)
        };
        match read() {
            Ok(zones) => zones,
            Err(_) if !path.exists() => Vec::new(),
            Err(reason) => {
                let (address, path) = (&self.address, path.display());
                tracing::warn!("{address}: zone list {path} ignored: {reason}");
                Vec::new()
            }
        }
    }
}

fn encode<'a>(address: &str, zones: impl Iterator<Item = ListEntry<'a>>) -> Option<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&u16::try_from(address.len()).ok()?.to_le_bytes());
    bytes.extend_from_slice(address.as_bytes());
    let count_at = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    let mut count = 0_u32;
    for (id, name) in zones {
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.push(u8::try_from(name.len()).ok()?);
        bytes.extend_from_slice(name);
        count += 1;
        if bytes.len() > MAX_FILE - 8 {
            return None;
        }
    }
    bytes[count_at..count_at + 4].copy_from_slice(&count.to_le_bytes());
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    Some(bytes)
}

/// An unusable zone list on disk.
#[derive(Debug, thiserror::Error)]
enum ZoneListError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("expected at most {MAX_FILE} octets, found {0}")]
    TooLarge(u64),
    #[error("truncated")]
    Short,
    #[error("wrong checksum")]
    Checksum,
    #[error("unknown format or version")]
    Unknown,
    #[error("it belongs to another database")]
    OtherDatabase,
    #[error("zone {0} has an invalid name")]
    BadName(i64),
}

fn decode(bytes: &[u8], address: &str) -> Result<Zones, ZoneListError> {
    let short = || ZoneListError::Short;
    let (bytes, sum) = bytes.split_last_chunk::<8>().ok_or_else(short)?;
    if checksum(bytes) != u64::from_le_bytes(*sum) {
        return Err(ZoneListError::Checksum);
    }
    let mut reader = ListReader(bytes);
    if reader.take::<16>() != Some(MAGIC) {
        return Err(ZoneListError::Unknown);
    }
    let length = reader.take().map(|length| u16::from_le_bytes(*length));
    let found = reader.slice(length.unwrap_or(0).into()).ok_or_else(short)?;
    if found != address.as_bytes() {
        return Err(ZoneListError::OtherDatabase);
    }
    let count = u32::from_le_bytes(*reader.take().ok_or_else(short)?);
    // A zone takes at least ten octets, so a wrong count allocates no more than the file has.
    let mut zones = Vec::with_capacity((count as usize).min(reader.0.len() / 10));
    for _ in 0..count {
        let id = i64::from_le_bytes(*reader.take().ok_or_else(short)?);
        let [length] = *reader.take().ok_or_else(short)?;
        let name = reader.slice(length.into()).ok_or_else(short)?;
        if Name::from_wire(name).is_err() {
            return Err(ZoneListError::BadName(id));
        }
        zones.push((id, name.into()));
    }
    Ok(zones)
}

/// The octets of a file that are not read yet.
struct ListReader<'a>(&'a [u8]);

impl<'a> ListReader<'a> {
    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }
}

/// Computes FNV-1a, 64 bits: against broken files, not against forged ones.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "postgres://user@host/pdns";

    fn file() -> Vec<u8> {
        let zones: [ListEntry<'_>; 3] =
            [(1, b"\x03one\x00"), (-7, b"\x00"), (i64::MAX, b"\x01*\x00")];
        encode(ADDRESS, zones.into_iter()).unwrap()
    }

    #[test]
    fn zone_lists_round_trip() {
        let zones = decode(&file(), ADDRESS).unwrap();
        let zones: Vec<ListEntry<'_>> = zones.iter().map(|(id, name)| (*id, &name[..])).collect();
        let expected: [ListEntry<'_>; 3] =
            [(1, b"\x03one\x00"), (-7, b"\x00"), (i64::MAX, b"\x01*\x00")];
        assert_eq!(zones, expected);
    }

    #[test]
    fn a_file_that_is_cut_short_or_broken_anywhere_is_not_used() {
        let good = file();
        for length in 0..good.len() {
            assert!(decode(&good[..length], ADDRESS).is_err(), "{length}");
        }
        for at in 0..good.len() {
            let mut broken = good.clone();
            broken[at] ^= 0x20;
            assert!(decode(&broken, ADDRESS).is_err(), "{at}");
        }
        assert!(decode(&good, "postgres://user@other/pdns").is_err());
    }

    #[test]
    fn lists_with_a_right_checksum_and_wrong_contents_are_not_used() {
        let with_sum = |mut bytes: Vec<u8>| {
            let sum = checksum(&bytes);
            bytes.extend_from_slice(&sum.to_le_bytes());
            bytes
        };
        let good = file();
        let body = &good[..good.len() - 8];
        let count_at = MAGIC.len() + 2 + ADDRESS.len();
        let mut many = body.to_vec();
        many[count_at..count_at + 4].fill(0xff);
        assert_eq!(
            decode(&with_sum(many), ADDRESS).unwrap_err().to_string(),
            "truncated"
        );
        let mut name = body.to_vec();
        *name.last_mut().unwrap() = 1;
        assert_eq!(
            decode(&with_sum(name), ADDRESS).unwrap_err().to_string(),
            format!("zone {} has an invalid name", i64::MAX)
        );
        let mut version = body.to_vec();
        version[15] = b'2';
        let error = decode(&with_sum(version), ADDRESS).unwrap_err().to_string();
        assert!(error.contains("unknown format"), "{error}");
    }
}
