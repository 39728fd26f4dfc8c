//! Hashed names of NSEC3 (RFC 5155 section 5) and minimally covering records (RFC 7129 appendix B).

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use data_encoding::{BASE32HEX_NOPAD, HEXLOWER_PERMISSIVE};
use nameward_wire::name::MAX_NAME;
use nameward_wire::{Name, NameBuf};
use quick_cache::sync::Cache;
use std::sync::LazyLock;

/// Maximum number of iterations: more are useless and expensive for both sides (RFC 9276, CVE-2023-50868).
pub const MAX_ITERATIONS: u16 = 100;
/// Iterations up to which hashing a name costs about as much as answering a query.
const CHEAP_ITERATIONS: u16 = 10;
/// Number of cached hashes of names that take more iterations.
const KEPT_HASHES: usize = 32_768;
/// The only hash algorithm (RFC 5155 section 11).
const SHA_1: u8 = 1;
/// Octets of a hashed name.
pub(crate) const HASH: usize = 20;
/// The NSEC3 flag that allows delegations without DS to have no record (RFC 5155 section 3.1.2.1).
pub(crate) const OPT_OUT: u8 = 1;

/// A hashed name.
pub type Nsec3Hash = [u8; HASH];

/// Hashes that took many iterations, keyed by iterations, salt and name. A hash is determined by these, so entries
/// never become wrong. Closest enclosers and wildcards, which most answers need, stay cached; names queried once are
/// evicted.
static KEPT: LazyLock<Cache<Box<[u8]>, Nsec3Hash>> = LazyLock::new(|| Cache::new(KEPT_HASHES));

/// The hash parameters of NSEC3.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Nsec3 {
    /// Iterations after the first hash.
    pub iterations: u16,
    /// The salt that is hashed with every name.
    pub salt: Vec<u8>,
}

impl Nsec3 {
    /// Parses NSEC3PARAM record data; `None` if the hash algorithm is unknown.
    pub fn from_param(rdata: &[u8]) -> Option<Self> {
        let (&[algorithm, _, high, low, salt_len], salt) = rdata.split_first_chunk()?;
        let is_known = algorithm == SHA_1 && salt.len() == usize::from(salt_len);
        is_known.then(|| Nsec3 {
            iterations: u16::from_be_bytes([high, low]),
            salt: salt.to_vec(),
        })
    }

    /// Returns the owner of a name's NSEC3 record: its hash below the apex; `None` if that does not fit.
    pub fn owner(&self, name: Name<'_>, apex: Name<'_>) -> Option<NameBuf> {
        owner(&self.hash(name), apex)
    }

    /// Returns the name with a hash as its first label; `None` if it is not a hash, or does not fit.
    pub fn owner_of(hash: &[u8], apex: Name<'_>) -> Option<NameBuf> {
        owner(hash.try_into().ok()?, apex)
    }

    /// Returns the hash of a name if that is cheap: few iterations, or cached.
    #[inline]
    pub fn known_hash(&self, name: Name<'_>) -> Option<Nsec3Hash> {
        if self.iterations <= CHEAP_ITERATIONS {
            return Some(self.hash(name));
        }
        self.with_key(name, |key| KEPT.get(key))
    }

    /// Returns the hash of a name, and caches it if it took many iterations.
    pub fn kept_hash(&self, name: Name<'_>) -> Nsec3Hash {
        self.known_hash(name).unwrap_or_else(|| {
            let hash = self.hash(name);
            self.with_key(name, |key| KEPT.insert(key.into(), hash));
            hash
        })
    }

    /// Builds the key under which a hash is cached.
    fn with_key<T>(&self, name: Name<'_>, run: impl FnOnce(&[u8]) -> T) -> T {
        let mut key = [0; 3 + 255 + MAX_NAME];
        let salt = &self.salt[..self.salt.len().min(255)];
        let name = name.as_wire();
        let [high, low] = self.iterations.to_be_bytes();
        key[..3].copy_from_slice(&[high, low, salt.len() as u8]);
        key[3..3 + salt.len()].copy_from_slice(salt);
        let end = 3 + salt.len() + name.len();
        key[3 + salt.len()..end].copy_from_slice(name);
        key[3 + salt.len()..end].make_ascii_lowercase();
        run(&key[..end])
    }

    /// Hashes a name.
    pub fn hash(&self, name: Name<'_>) -> [u8; HASH] {
        let mut wire = [0; MAX_NAME];
        let wire = &mut wire[..name.as_wire().len()];
        wire.copy_from_slice(name.as_wire());
        wire.make_ascii_lowercase();
        let mut hash = self.round(wire);
        for _ in 0..self.iterations.min(MAX_ITERATIONS) {
            hash = self.round(&hash);
        }
        hash
    }

    fn round(&self, octets: &[u8]) -> [u8; HASH] {
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(octets);
        context.update(&self.salt);
        let mut hash = [0; HASH];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }

    /// Returns NSEC3PARAM record data. The flags are 0 (RFC 5155 section 4.1.2).
    pub(crate) fn param(&self) -> Vec<u8> {
        let mut rdata = Vec::with_capacity(5 + self.salt.len());
        self.put_parameters(0, &mut rdata);
        rdata
    }

    /// Writes the first octets of NSEC3 and NSEC3PARAM.
    pub(crate) fn put_parameters(&self, flags: u8, out: &mut Vec<u8>) {
        let [high, low] = self.iterations.min(MAX_ITERATIONS).to_be_bytes();
        out.extend_from_slice(&[SHA_1, flags, high, low, self.salt.len() as u8]);
        out.extend_from_slice(&self.salt);
    }
}

/// Returns the name with a hash as its first label.
pub(crate) fn owner(hash: &[u8; HASH], apex: Name<'_>) -> Option<NameBuf> {
    let mut label = [0u8; 33];
    label[0] = 32;
    BASE32HEX_NOPAD.encode_mut(hash, &mut label[1..]);
    label.make_ascii_lowercase();
    NameBuf::join(&label, apex).ok()
}

/// Returns the next hash; the last is followed by the first.
pub(crate) fn next(hash: &[u8; HASH]) -> [u8; HASH] {
    let mut next = *hash;
    for octet in next.iter_mut().rev() {
        *octet = octet.wrapping_add(1);
        if *octet != 0 {
            break;
        }
    }
    next
}

pub(crate) fn previous(hash: &[u8; HASH]) -> [u8; HASH] {
    let mut previous = *hash;
    for octet in previous.iter_mut().rev() {
        *octet = octet.wrapping_sub(1);
        if *octet != 0xff {
            break;
        }
    }
    previous
}

/// The NSEC3PARAM metadata, as written by `pdnsutil set-nsec3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nsec3Param {
    /// The hash parameters.
    pub hashing: Nsec3,
    /// Whether delegations without DS have no NSEC3.
    pub opt_out: bool,
}

/// The reason why the NSEC3PARAM metadata is unusable.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Nsec3ParamError {
    #[error("invalid NSEC3PARAM: expected '1 FLAGS ITERATIONS SALT'")]
    Form,
    /// An algorithm other than that of RFC 5155.
    #[error("unsupported NSEC3 algorithm: expected 1 (SHA-1)")]
    Algorithm,
}

impl Nsec3Param {
    /// Parses `1 0 0 -`: algorithm, flags, iterations, salt. The error says what was expected.
    pub fn read(content: &str) -> Result<Self, Nsec3ParamError> {
        let words: Vec<&str> = content.split_ascii_whitespace().collect();
        let expected = || Nsec3ParamError::Form;
        let [algorithm, flags, iterations, salt] = words[..] else {
            return Err(expected());
        };
        if algorithm != "1" {
            return Err(Nsec3ParamError::Algorithm);
        }
        let flags: u8 = flags.parse().map_err(|_| expected())?;
        let iterations: u16 = iterations.parse().map_err(|_| expected())?;
        let salt = match salt {
            "-" => Vec::new(),
            salt => HEXLOWER_PERMISSIVE
                .decode(salt.as_bytes())
                .map_err(|_| expected())?,
        };
        if salt.len() > 255 {
            return Err(expected());
        }
        Ok(Nsec3Param {
            hashing: Nsec3 {
                // As in PowerDNS: the zone stays in service, with the maximum that validators accept.
                iterations: iterations.min(MAX_ITERATIONS),
                salt,
            },
            opt_out: flags & 1 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nsec3param_data_round_trips() {
        let nsec3 = Nsec3 {
            iterations: 12,
            salt: vec![0xaa, 0xbb],
        };
        let param = nsec3.param();
        assert_eq!(Nsec3::from_param(&param), Some(nsec3));
        for wrong in [&param[..6], &param[1..], &[][..]] {
            assert_eq!(Nsec3::from_param(wrong), None);
        }
    }

    /// RFC 5155 appendix A.
    #[test]
    fn hashes_are_those_of_rfc_5155() {
        let nsec3 = Nsec3 {
            iterations: 12,
            salt: vec![0xaa, 0xbb, 0xcc, 0xdd],
        };
        for (name, expected) in [
            ("example", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("ai.example", "gjeqe526plbf1g8mklp59enfd789njgi"),
            ("ns1.example", "2t7b4g4vsa5smi47k61mv5bv1a22bojr"),
            ("*.w.example", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
            ("X.Y.W.Example", "2vptu5timamqttgl4luu9kg21e0aor3s"),
            ("xx.example", "t644ebqk9bibcna874givr6joj62mlhv"),
        ] {
            let name: NameBuf = name.parse().unwrap();
            let hashed = owner(&nsec3.hash(name.as_name()), Name::ROOT).unwrap();
            assert_eq!(hashed.to_string(), format!("{expected}."));
        }
    }

    #[test]
    fn hashes_of_many_iterations_are_kept_and_those_of_few_are_known() {
        let name: NameBuf = "Kept.Example.".parse().unwrap();
        let name = name.as_name();
        let nsec3 = |iterations| Nsec3 {
            iterations,
            salt: vec![0xaa; 255],
        };
        for few in [0, CHEAP_ITERATIONS] {
            assert_eq!(nsec3(few).known_hash(name), Some(nsec3(few).hash(name)));
        }
        let many = nsec3(MAX_ITERATIONS);
        assert_eq!(many.known_hash(name), None);
        assert_eq!(many.kept_hash(name), many.hash(name));
        assert_eq!(many.known_hash(name), Some(many.hash(name)));
        assert_eq!(
            nsec3(MAX_ITERATIONS - 1).known_hash(name),
            None,
            "others are not"
        );
    }

    #[test]
    fn hashes_go_around() {
        let (zero, ones) = ([0; HASH], [0xff; HASH]);
        assert_eq!((next(&ones), previous(&zero)), (zero, ones));
        let mut hash = ones;
        hash[0] = 7;
        assert_eq!(next(&hash)[0], 8);
        assert_eq!(previous(&next(&hash)), hash);
    }

    #[test]
    fn the_owner_of_a_zone_with_a_long_name_may_not_fit() {
        let apex: NameBuf = format!("{0}.{0}.{0}.{1}", "x".repeat(63), "y".repeat(50))
            .parse()
            .unwrap();
        assert!(owner(&[0; HASH], apex.as_name()).is_none());
    }
}
