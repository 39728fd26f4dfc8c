//! TSIG: messages signed with a shared secret (RFC 8945).
//!
//! Covers keys and their algorithms ([`TsigKey`], [`TsigKeys`]), the record in the message ([`record`]) and both ends
//! of an exchange: [`verify_request`] and [`ReplySigner`] for a server, [`sign_request`] and [`ReplyVerifier`] for a
//! client. MACs are compared in constant time. The time is passed in as seconds since 1970.

mod exchange;
mod mac;
mod record;
mod secret;

pub use exchange::{
    RefusedRequest, ReplySigner, ReplyVerifier, SignedRequest, TsigFailure, UNSIGNED_IN_A_ROW,
    sign_request, verify_request,
};
pub use record::TsigRecord;
pub use secret::read_secret;

use mac::Mac;
use nameward_wire::{Name, NameBuf};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The hash of a MAC (RFC 8945 section 6).
#[allow(missing_docs)] // named like the algorithms
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TsigAlgorithm {
    /// HMAC-MD5. Broken as a hash; for peers that support nothing else.
    HmacMd5,
    HmacSha1,
    HmacSha224,
    HmacSha256,
    HmacSha384,
    HmacSha512,
}

impl TsigAlgorithm {
    /// Every algorithm.
    pub const ALL: [TsigAlgorithm; 6] = [
        TsigAlgorithm::HmacMd5,
        TsigAlgorithm::HmacSha1,
        TsigAlgorithm::HmacSha224,
        TsigAlgorithm::HmacSha256,
        TsigAlgorithm::HmacSha384,
        TsigAlgorithm::HmacSha512,
    ];

    /// Returns the name as used in configurations, the name used in the record, and the octets of a full MAC.
    fn row(self) -> (&'static str, &'static [u8], usize) {
        match self {
            TsigAlgorithm::HmacMd5 => ("hmac-md5", b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0", 16),
            TsigAlgorithm::HmacSha1 => ("hmac-sha1", b"\x09hmac-sha1\0", 20),
            TsigAlgorithm::HmacSha224 => ("hmac-sha224", b"\x0bhmac-sha224\0", 28),
            TsigAlgorithm::HmacSha256 => ("hmac-sha256", b"\x0bhmac-sha256\0", 32),
            TsigAlgorithm::HmacSha384 => ("hmac-sha384", b"\x0bhmac-sha384\0", 48),
            TsigAlgorithm::HmacSha512 => ("hmac-sha512", b"\x0bhmac-sha512\0", 64),
        }
    }

    /// Returns the name as used in configurations.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// Parses the name as used in configurations: any case, optional final dot, including the long name of HMAC-MD5.
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.strip_suffix('.').unwrap_or(word).to_ascii_lowercase();
        let short = word.strip_suffix(".sig-alg.reg.int");
        Self::ALL.into_iter().find(|algorithm| match short {
            Some(short) => *algorithm == TsigAlgorithm::HmacMd5 && algorithm.word() == short,
            None => algorithm.word() == word,
        })
    }

    /// Returns the name used in the record, in lower case.
    pub fn wire_name(self) -> Name<'static> {
        Name::from_valid_wire(self.row().1)
    }

    /// Returns the algorithm that a record names.
    pub fn from_wire_name(name: Name<'_>) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.wire_name() == name)
    }

    /// Returns the octets of a full MAC.
    pub fn mac_len(self) -> usize {
        self.row().2
    }

    /// Returns the octets of the shortest acceptable MAC: half of the full one, but at least ten (RFC 8945 section
    /// 5.2.2.1).
    pub fn shortest_mac(self) -> usize {
        (self.mac_len() / 2).max(10)
    }
}

impl fmt::Display for TsigAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A named secret that two servers share.
pub struct TsigKey {
    name: NameBuf,
    algorithm: TsigAlgorithm,
    mac: Mac,
}

impl TsigKey {
    /// Creates a key from a secret. The case of the name does not matter (RFC 8945 section 4.2).
    pub fn new(name: Name<'_>, algorithm: TsigAlgorithm, secret: &[u8]) -> Self {
        let mut lower = NameBuf::from(name);
        lower.make_lowercase();
        TsigKey {
            name: lower,
            algorithm,
            mac: Mac::new(algorithm, secret),
        }
    }

    /// Returns the key name in lower case.
    pub fn name(&self) -> Name<'_> {
        self.name.as_name()
    }

    /// Returns the key algorithm.
    pub fn algorithm(&self) -> TsigAlgorithm {
        self.algorithm
    }
}

impl fmt::Debug for TsigKey {
    /// Shows everything except the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({} {})", self.name(), self.algorithm)
    }
}

/// The TSIG keys of a server, by name.
#[derive(Debug, Clone, Default)]
pub struct TsigKeys {
    by_name: HashMap<Box<[u8]>, Arc<TsigKey>>,
}

impl TsigKeys {
    /// Adds a key and returns the one of the same name that it replaces.
    pub fn insert(&mut self, key: TsigKey) -> Option<Arc<TsigKey>> {
        self.by_name
            .insert(key.name().as_wire().into(), Arc::new(key))
    }

    /// Adds a key that is shared with other owners.
    pub fn insert_shared(&mut self, key: Arc<TsigKey>) {
        self.by_name.insert(key.name().as_wire().into(), key);
    }

    /// Finds a key by name.
    pub fn find(&self, name: Name<'_>) -> Option<&Arc<TsigKey>> {
        let mut lower = NameBuf::from(name);
        lower.make_lowercase();
        self.by_name.get(lower.as_name().as_wire())
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Checks whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}
