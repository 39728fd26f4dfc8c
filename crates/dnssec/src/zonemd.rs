//! The ZONEMD record (RFC 8976), and its hash algorithms.
//!
//! Which records of a zone are hashed, and in which order, is up to the zone; this module has the fields and
//! algorithms.

use aws_lc_rs::digest::{Context, SHA384, SHA512};

/// The only scheme (RFC 8976 section 2.2.2): all records in canonical order through one hash.
pub const ZONEMD_SIMPLE: u8 = 1;

/// Octets before the digest: serial, scheme, hash algorithm.
const ZONEMD_FIXED: usize = 6;

/// A ZONEMD hash algorithm (RFC 8976 section 2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZonemdHash {
    /// SHA-384, which is mandatory to implement.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl ZonemdHash {
    /// Returns the algorithm with a number; `None` if it is unknown.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(ZonemdHash::Sha384),
            2 => Some(ZonemdHash::Sha512),
            _ => None,
        }
    }

    /// Returns the algorithm number.
    pub fn number(self) -> u8 {
        match self {
            ZonemdHash::Sha384 => 1,
            ZonemdHash::Sha512 => 2,
        }
    }

    /// Starts a digest.
    pub fn begin(self) -> Context {
        Context::new(match self {
            ZonemdHash::Sha384 => &SHA384,
            ZonemdHash::Sha512 => &SHA512,
        })
    }
}

/// The fields of a ZONEMD record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zonemd<'a> {
    /// The serial of the version that was hashed.
    pub serial: u32,
    /// The scheme number.
    pub scheme: u8,
    /// The hash algorithm number.
    pub hash: u8,
    /// The digest octets.
    pub digest: &'a [u8],
}

impl<'a> Zonemd<'a> {
    /// Parses record data; `None` if it is too short.
    pub fn read(rdata: &'a [u8]) -> Option<Self> {
        let (fixed, digest) = rdata.split_first_chunk::<ZONEMD_FIXED>()?;
        let [a, b, c, d, scheme, hash] = *fixed;
        Some(Zonemd {
            serial: u32::from_be_bytes([a, b, c, d]),
            scheme,
            hash,
            digest,
        })
    }

    /// Returns the algorithm, if scheme and algorithm are supported.
    pub fn known_hash(&self) -> Option<ZonemdHash> {
        ZonemdHash::from_number(self.hash).filter(|_| self.scheme == ZONEMD_SIMPLE)
    }
}

/// Returns the record data for the digest of a version.
pub fn zonemd_rdata(serial: u32, hash: ZonemdHash, digest: &[u8]) -> Vec<u8> {
    let mut rdata = serial.to_be_bytes().to_vec();
    rdata.extend([ZONEMD_SIMPLE, hash.number()]);
    rdata.extend_from_slice(digest);
    rdata
}
