//! One DNSSEC key of a zone: built from its private key, published as DNSKEY and DS, used to sign.

mod der;
mod file;
mod private;

use crate::rsa::{Hash, RsaKey};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
};
pub use file::{KeyFile, KeyFileError, KeyTimes, file_owner};
use nameward_wire::Name;
use private::{KeyFields, Numbers};
pub use private::{PrivateKey, algorithm_name, algorithm_number};

/// The Zone Key flag (RFC 4034 section 2.1.1).
const ZONE_KEY: u16 = 0x0100;
/// The Secure Entry Point flag, by convention a key-signing key (RFC 4034 section 2.1.1).
pub(crate) const ENTRY_POINT: u16 = 0x0001;
/// Accepted sizes of an RSA modulus, in octets: larger keys take milliseconds per signature, too slow for online
/// signing.
const RSA_OCTETS: std::ops::RangeInclusive<usize> = 64..=512;

/// The private key, which makes signatures.
enum Pair {
    Rsa(RsaKey),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// The tasks of a key in its zone. They are independent: in a rollover a key can be published long before it signs
/// anything, and sign the DNSKEY RRset before it signs the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct KeyUse {
    /// Its DNSKEY is in the zone.
    pub published: bool,
    /// It signs the DNSKEY RRset.
    pub signs_keys: bool,
    /// It signs the other RRsets.
    pub signs_zone: bool,
    /// CDS and CDNSKEY request its DS from the parent (RFC 7344), if the zone publishes such records.
    pub asks_ds: bool,
}

impl KeyUse {
    /// The key is not visible anywhere.
    pub const UNUSED: KeyUse = KeyUse {
        published: false,
        signs_keys: false,
        signs_zone: false,
        asks_ds: false,
    };

    /// The key performs every task.
    pub const EVERYTHING: KeyUse = KeyUse {
        published: true,
        signs_keys: true,
        signs_zone: true,
        asks_ds: true,
    };

    /// Returns the use of a key of which only the flags are known and whether it is active and published, as in
    /// databases and key files. [`crate::Keys::by_flags`] completes it.
    pub fn by_flags(flags: u16, is_active: bool, is_published: bool) -> Self {
        let is_entry_point = flags & ENTRY_POINT != 0;
        KeyUse {
            published: is_published,
            signs_keys: is_active && is_entry_point,
            signs_zone: is_active && !is_entry_point,
            asks_ds: is_published && is_entry_point,
        }
    }

    /// Checks whether the key signs anything.
    pub fn is_active(&self) -> bool {
        self.signs_keys || self.signs_zone
    }
}

/// A DNSSEC key of a zone.
pub struct SigningKey {
    pair: Pair,
    algorithm: u8,
    flags: u16,
    /// DNSKEY record data.
    dnskey: Box<[u8]>,
    tag: u16,
    /// Identifies the key in the signature cache, even among keys with equal tags.
    fingerprint: [u8; 32],
    pub(crate) usage: KeyUse,
}

/// The reason why a text is not a private key that can sign. No message quotes the text.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("expected a private key, found {0} octets")]
    TooLong(usize),
    #[error("expected a private key, found binary data")]
    NotText,
    #[error("unsupported Private-key-format: expected v1.2 or v1.3")]
    Format,
    #[error("missing line {0}")]
    MissingLine(&'static str),
    #[error("invalid number after Algorithm")]
    Algorithm,
    #[error("invalid base64 after {0}")]
    NotBase64(&'static str),
    #[error("{0} has the wrong length: expected {1} octets")]
    Length(&'static str, usize),
    #[error("expected a PEM file with a PRIVATE KEY section")]
    NotPem,
    #[error("the PEM file has no key for algorithm {0}")]
    OtherPem(u8),
    /// The operating system or the library did not deliver random numbers.
    #[error("cannot generate a key: no random numbers available")]
    NoRandom,
    #[error("PrivateKey is not a valid key on its curve")]
    OffCurve,
    #[error("expected an RSA key of 512 to 4096 bits, found {0}")]
    RsaBits(usize),
    #[error(
        "cannot generate an RSA key of {0} bits: the size must be a multiple of 128 from 1024 to 4096"
    )]
    NewRsaBits(usize),
    #[error("the numbers do not form a valid RSA key")]
    NotRsa,
    #[error("unsupported algorithm {0}: expected 5, 7, 8, 10, 13, 14 or 15")]
    Unsupported(u8),
    #[error("expected flags 256 or 257, found {0}")]
    Flags(u16),
}

impl SigningKey {
    /// Returns the algorithm number of a private key if this server cannot sign with it; `None` if it can, or if the
    /// text is not a key.
    pub fn unsupported_algorithm(text: &[u8]) -> Option<u8> {
        let algorithm = KeyFields::read(text).ok()?.algorithm().ok()?;
        algorithm_name(algorithm).is_none().then_some(algorithm)
    }

    /// Parses a private key. The error says what was expected, and never quotes the text.
    pub fn read(text: &[u8], flags: u16, usage: KeyUse) -> Result<SigningKey, KeyError> {
        SigningKey::new(&PrivateKey::from_text(text)?, flags, usage)
    }

    /// Creates a key from its private key.
    pub fn new(private: &PrivateKey, flags: u16, usage: KeyUse) -> Result<SigningKey, KeyError> {
        let algorithm = private.algorithm();
        let (pair, public) = match (private.numbers.reveal(), algorithm) {
            (Numbers::Rsa(numbers), 5 | 7) => rsa(numbers, Hash::Sha1)?,
            (Numbers::Rsa(numbers), 8) => rsa(numbers, Hash::Sha256)?,
            (Numbers::Rsa(numbers), 10) => rsa(numbers, Hash::Sha512)?,
            (Numbers::Curve(number), 13) => ecdsa(13, number, &ECDSA_P256_SHA256_FIXED_SIGNING)?,
            (Numbers::Curve(number), 14) => ecdsa(14, number, &ECDSA_P384_SHA384_FIXED_SIGNING)?,
            (Numbers::Curve(seed), 15) => ed25519(seed)?,
            (_, other) => return Err(KeyError::Unsupported(other)),
        };
        if flags & ZONE_KEY == 0 {
            return Err(KeyError::Flags(flags));
        }
        // RFC 4034 section 2.1: flags, protocol, algorithm, key.
        let mut dnskey = Vec::with_capacity(4 + public.len());
        dnskey.extend_from_slice(&flags.to_be_bytes());
        dnskey.extend_from_slice(&[3, algorithm]);
        dnskey.extend_from_slice(&public);
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, &dnskey).as_ref());
        Ok(SigningKey {
            pair,
            algorithm,
            flags,
            tag: key_tag(&dnskey),
            dnskey: dnskey.into(),
            fingerprint,
            usage,
        })
    }

    /// Returns the algorithm number.
    pub fn algorithm(&self) -> u8 {
        self.algorithm
    }

    /// Checks whether the SEP flag is set.
    pub fn is_entry_point(&self) -> bool {
        self.flags & ENTRY_POINT != 0
    }

    /// Returns the key tag.
    pub fn tag(&self) -> u16 {
        self.tag
    }

    /// Returns the tasks of the key.
    pub fn usage(&self) -> KeyUse {
        self.usage
    }

    /// Returns the DNSKEY flags.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Returns the record data of its DNSKEY and CDNSKEY.
    pub fn dnskey(&self) -> &[u8] {
        &self.dnskey
    }

    /// Returns the SHA-256 of its DNSKEY.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Returns the record data of its DS and CDS with this digest type; `None` if the type is not supported.
    pub fn ds(&self, apex: Name<'_>, digest_type: u8) -> Option<Vec<u8>> {
        ds_data(apex.zone(), &self.dnskey, digest_type)
    }

    /// Signs a message; `None` only if the library fails.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match &self.pair {
            Pair::Rsa(key) => key.sign(message),
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).ok()?;
                Some(signature.as_ref().to_vec())
            }
            Pair::Ed25519(pair) => Some(pair.try_sign(message).ok()?.as_ref().to_vec()),
        }
    }
}

/// Returns DS record data for a key at the apex of a zone, given its DNSKEY data; `None` if the digest type is not
/// supported.
pub fn ds_data(apex: Name<'_>, dnskey: &[u8], digest_type: u8) -> Option<Vec<u8>> {
    let algorithm = match digest_type {
        1 => &SHA1_FOR_LEGACY_USE_ONLY,
        2 => &SHA256,
        4 => &SHA384,
        _ => return None,
    };
    // RFC 4034 section 5.1.4: the canonical owner, then the DNSKEY data.
    let mut input = apex.as_wire().to_ascii_lowercase();
    input.extend_from_slice(dnskey);
    let mut ds = key_tag(dnskey).to_be_bytes().to_vec();
    ds.extend_from_slice(&[*dnskey.get(3)?, digest_type]);
    ds.extend_from_slice(digest(algorithm, &input).as_ref());
    Some(ds)
}

/// Checks whether different keys have different tags or algorithms, so that an RRSIG identifies the key that made it.
pub fn have_distinct_tags(dnskeys: &[Vec<u8>]) -> bool {
    let id = |dnskey: &[u8]| (key_tag(dnskey), dnskey.get(3).copied());
    let differ = |one: &Vec<u8>, other: &Vec<u8>| one == other || id(one) != id(other);
    dnskeys
        .iter()
        .enumerate()
        .all(|(number, one)| dnskeys[number + 1..].iter().all(|other| differ(one, other)))
}

/// Computes the key tag (RFC 4034 appendix B).
pub fn key_tag(dnskey: &[u8]) -> u16 {
    let sum = dnskey.iter().enumerate().fold(0u32, |sum, (i, &octet)| {
        let octet = u32::from(octet);
        sum.wrapping_add(if i % 2 == 0 { octet << 8 } else { octet })
    });
    (sum.wrapping_add(sum >> 16 & 0xffff) & 0xffff) as u16
}

fn ecdsa(
    algorithm: u8,
    private: &[u8],
    signing: &'static EcdsaSigningAlgorithm,
) -> Result<(Pair, Vec<u8>), KeyError> {
    // The text has no public key: it is the private one times the base point.
    let public = private::curve_public(algorithm, private).ok_or(KeyError::OffCurve)?;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(signing, private, &public)
        .map_err(|_| KeyError::OffCurve)?;
    // RFC 6605 section 4: both coordinates, without the format octet.
    let coordinates = public.get(1..).unwrap_or_default().to_vec();
    Ok((Pair::Ecdsa(pair), coordinates))
}

fn ed25519(seed: &[u8]) -> Result<(Pair, Vec<u8>), KeyError> {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed)
        .map_err(|_| KeyError::Length("PrivateKey", 32))?;
    let public = pair.public_key().as_ref().to_vec();
    Ok((Pair::Ed25519(pair), public))
}

fn rsa(numbers: &[Vec<u8>; 8], hash: Hash) -> Result<(Pair, Vec<u8>), KeyError> {
    let [modulus, exponent, ..] = numbers;
    if !RSA_OCTETS.contains(&modulus.len()) {
        return Err(KeyError::RsaBits(modulus.len() * 8));
    }
    let key = RsaKey::from_der(private::rsa_der(numbers).reveal(), hash).ok_or(KeyError::NotRsa)?;
    Ok((Pair::Rsa(key), rsa_public(exponent, modulus)))
}

/// Encodes a public key: the exponent length in one octet or three, the exponent, the modulus (RFC 3110 section 2).
fn rsa_public(exponent: &[u8], modulus: &[u8]) -> Vec<u8> {
    let mut public = match u8::try_from(exponent.len()) {
        Ok(len @ 1..) => vec![len],
        _ => {
            let len = (exponent.len() as u16).to_be_bytes();
            vec![0, len[0], len[1]]
        }
    };
    public.extend_from_slice(exponent);
    public.extend_from_slice(modulus);
    public
}
