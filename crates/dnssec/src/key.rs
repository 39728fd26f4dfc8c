//! One key of a zone: read from its private-key text, shown as DNSKEY and DS, used to sign.
//!
//! The text is that of BIND's `.private` files, which PowerDNS keeps in `cryptokeys.content`: lines of a name, a colon and
//! a value; numbers are in base64, most significant octet first.

use crate::rsa::{Hash, RsaKey};
use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
};
use data_encoding::BASE64;
use nameward_wire::Name;

/// RFC 4034 section 2.1.1: a key of a zone.
const ZONE_KEY: u16 = 0x0100;
/// RFC 4034 section 2.1.1: a secure entry point, a key-signing key by convention.
pub(crate) const ENTRY_POINT: u16 = 0x0001;
/// More than any private key has.
const MAX_TEXT: usize = 16 * 1024;
/// Octets of an RSA modulus: larger keys take milliseconds for each signature, so they are no use online.
const RSA_OCTETS: std::ops::RangeInclusive<usize> = 64..=512;

/// The private part of a key, which makes signatures.
enum Pair {
    Rsa(RsaKey),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Whether a key signs, and whether it is in the DNSKEY RRset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyUse {
    /// It signs.
    pub active: bool,
    /// It is shown.
    pub published: bool,
}

/// A key of a zone.
pub struct Key {
    pair: Pair,
    algorithm: u8,
    flags: u16,
    /// Record data of its DNSKEY.
    dnskey: Box<[u8]>,
    tag: u16,
    /// Tells keys apart in the cache of signatures, also keys with equal tags.
    fingerprint: [u8; 32],
    pub(crate) usage: KeyUse,
}

/// Why a text is no private key that can sign. No message quotes the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is longer than any key.
    #[error("expected a private key, found {0} octets")]
    TooLong(usize),
    /// The octets are no text.
    #[error("expected a private key, found octets that are no text")]
    NotText,
    /// Another version of the format.
    #[error("expected Private-key-format v1.2, found another one")]
    Format,
    /// A line is not there.
    #[error("expected a line {0}, found none")]
    MissingLine(&'static str),
    /// The algorithm is no number.
    #[error("expected a number behind Algorithm, found something else")]
    Algorithm,
    /// The value of a line is no base64.
    #[error("expected base64 behind {0}, found something else")]
    NotBase64(&'static str),
    /// The value of a line has another length.
    #[error("expected {0} of {1} octets, found another length")]
    Length(&'static str, usize),
    /// The number is no private key of its curve.
    #[error("PrivateKey is no key of its curve")]
    OffCurve,
    /// An RSA key is too short or too long.
    #[error("expected 512 to 4096 bits of RSA, found {0}")]
    RsaBits(usize),
    /// The numbers do not belong together.
    #[error("the numbers are no RSA key")]
    NotRsa,
    /// An algorithm that this server does not sign with.
    #[error("cannot sign with algorithm {0}")]
    Unsupported(u8),
    /// The flags are not those of a zone key.
    #[error("expected the flags 256 or 257, found {0}")]
    Flags(u16),
}

impl Key {
    /// Returns the number of the algorithm of a private key that this server cannot sign with; `None` for one that it can
    /// sign with, or for a text that is no key.
    pub fn unsupported_algorithm(text: &[u8]) -> Option<u8> {
        let algorithm = KeyFields::read(text).ok()?.algorithm().ok()?;
        (!matches!(algorithm, 5 | 7 | 8 | 10 | 13 | 14 | 15)).then_some(algorithm)
    }

    /// Reads a private key. The error says what was expected, and never quotes the text.
    pub fn read(text: &[u8], flags: u16, usage: KeyUse) -> Result<Key, KeyError> {
        let fields = KeyFields::read(text)?;
        let algorithm = fields.algorithm()?;
        let (pair, public) = match algorithm {
            5 | 7 => rsa(&fields, Hash::Sha1)?,
            8 => rsa(&fields, Hash::Sha256)?,
            10 => rsa(&fields, Hash::Sha512)?,
            13 => ecdsa(&fields, &ECDSA_P256_SHA256_FIXED_SIGNING, &ECDH_P256, 32)?,
            14 => ecdsa(&fields, &ECDSA_P384_SHA384_FIXED_SIGNING, &ECDH_P384, 48)?,
            15 => ed25519(&fields)?,
            other => return Err(KeyError::Unsupported(other)),
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
        Ok(Key {
            pair,
            algorithm,
            flags,
            tag: key_tag(&dnskey),
            dnskey: dnskey.into(),
            fingerprint,
            usage,
        })
    }

    /// The algorithm's number.
    pub fn algorithm(&self) -> u8 {
        self.algorithm
    }

    /// Whether it is an entry point (SEP).
    pub fn is_entry_point(&self) -> bool {
        self.flags & ENTRY_POINT != 0
    }

    /// The key tag.
    pub fn tag(&self) -> u16 {
        self.tag
    }

    /// Record data of its DNSKEY and CDNSKEY.
    pub fn dnskey(&self) -> &[u8] {
        &self.dnskey
    }

    pub(crate) fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Record data of its DS and CDS with a digest of this type; `None` for a type that we do not make.
    pub fn ds(&self, apex: Name<'_>, digest_type: u8) -> Option<Vec<u8>> {
        let algorithm = match digest_type {
            1 => &SHA1_FOR_LEGACY_USE_ONLY,
            2 => &SHA256,
            4 => &SHA384,
            _ => return None,
        };
        // RFC 4034 section 5.1.4: the canonical owner, then the data of the DNSKEY.
        let mut input = apex.as_wire().to_ascii_lowercase();
        input.extend_from_slice(&self.dnskey);
        let mut ds = self.tag.to_be_bytes().to_vec();
        ds.extend_from_slice(&[self.algorithm, digest_type]);
        ds.extend_from_slice(digest(algorithm, &input).as_ref());
        Some(ds)
    }

    /// Signs; `None` only if the library fails.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
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

/// RFC 4034 appendix B.
fn key_tag(dnskey: &[u8]) -> u16 {
    let sum = dnskey.iter().enumerate().fold(0u32, |sum, (i, &octet)| {
        let octet = u32::from(octet);
        sum.wrapping_add(if i % 2 == 0 { octet << 8 } else { octet })
    });
    (sum.wrapping_add(sum >> 16 & 0xffff) & 0xffff) as u16
}

/// The lines of a private key.
struct KeyFields<'t> {
    text: &'t str,
}

impl<'t> KeyFields<'t> {
    fn read(text: &'t [u8]) -> Result<Self, KeyError> {
        if text.len() > MAX_TEXT {
            return Err(KeyError::TooLong(text.len()));
        }
        let text = std::str::from_utf8(text).map_err(|_| KeyError::NotText)?;
        let fields = KeyFields { text };
        match fields.value("Private-key-format") {
            Some(version) if version.starts_with("v1.") => Ok(fields),
            Some(_) => Err(KeyError::Format),
            None => Err(KeyError::MissingLine("Private-key-format")),
        }
    }

    fn value(&self, name: &str) -> Option<&'t str> {
        self.text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn algorithm(&self) -> Result<u8, KeyError> {
        let value = self
            .value("Algorithm")
            .ok_or(KeyError::MissingLine("Algorithm"))?;
        let number = value.split_ascii_whitespace().next().unwrap_or_default();
        number.parse().map_err(|_| KeyError::Algorithm)
    }

    fn octets(&self, name: &'static str) -> Result<Vec<u8>, KeyError> {
        let value = self.value(name).ok_or(KeyError::MissingLine(name))?;
        BASE64
            .decode(value.as_bytes())
            .map_err(|_| KeyError::NotBase64(name))
    }
}

/// A number of exactly so many octets, zeros in front.
fn padded(name: &'static str, octets: Vec<u8>, len: usize) -> Result<Vec<u8>, KeyError> {
    let start = octets.iter().position(|&octet| octet != 0);
    let number = &octets[start.unwrap_or(octets.len())..];
    if number.len() > len {
        return Err(KeyError::Length(name, len));
    }
    let mut padded = vec![0; len - number.len()];
    padded.extend_from_slice(number);
    Ok(padded)
}

fn ecdsa(
    fields: &KeyFields<'_>,
    algorithm: &'static EcdsaSigningAlgorithm,
    curve: &'static agreement::Algorithm,
    len: usize,
) -> Result<(Pair, Vec<u8>), KeyError> {
    let private = padded("PrivateKey", fields.octets("PrivateKey")?, len)?;
    let invalid = KeyError::OffCurve;
    // The text has no public key: it is the private one times the base point.
    let public = agreement::PrivateKey::from_private_key(curve, &private)
        .map_err(|_| invalid)?
        .compute_public_key()
        .map_err(|_| invalid)?;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &private, public.as_ref())
        .map_err(|_| invalid)?;
    // RFC 6605 section 4: both coordinates without the octet that says so.
    let coordinates = public.as_ref().get(1..).unwrap_or_default().to_vec();
    Ok((Pair::Ecdsa(pair), coordinates))
}

fn ed25519(fields: &KeyFields<'_>) -> Result<(Pair, Vec<u8>), KeyError> {
    let seed = fields.octets("PrivateKey")?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
        .map_err(|_| KeyError::Length("PrivateKey", 32))?;
    let public = pair.public_key().as_ref().to_vec();
    Ok((Pair::Ed25519(pair), public))
}

fn rsa(fields: &KeyFields<'_>, hash: Hash) -> Result<(Pair, Vec<u8>), KeyError> {
    let number = |name: &'static str| {
        let octets = fields.octets(name)?;
        let start = octets.iter().position(|&octet| octet != 0);
        Ok::<_, KeyError>(octets[start.unwrap_or(octets.len())..].to_vec())
    };
    let (modulus, exponent) = (number("Modulus")?, number("PublicExponent")?);
    if !RSA_OCTETS.contains(&modulus.len()) {
        return Err(KeyError::RsaBits(modulus.len() * 8));
    }
    let mut numbers = Vec::new();
    // RFC 8017 appendix A.1.2: version 0, then the numbers in this order.
    der_number(&[0], &mut numbers);
    der_number(&modulus, &mut numbers);
    der_number(&exponent, &mut numbers);
    for name in [
        "PrivateExponent",
        "Prime1",
        "Prime2",
        "Exponent1",
        "Exponent2",
        "Coefficient",
    ] {
        der_number(&number(name)?, &mut numbers);
    }
    let mut der = vec![0x30];
    der_length(numbers.len(), &mut der);
    der.extend_from_slice(&numbers);
    let key = RsaKey::from_der(&der, hash).ok_or(KeyError::NotRsa)?;
    Ok((Pair::Rsa(key), rsa_public(&exponent, &modulus)))
}

/// RFC 3110 section 2: the length of the exponent in one octet or three, the exponent, the modulus.
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

/// A number that is not negative.
fn der_number(number: &[u8], out: &mut Vec<u8>) {
    let has_sign = number.first().is_none_or(|&octet| octet >= 0x80);
    out.push(0x02);
    der_length(number.len() + usize::from(has_sign), out);
    if has_sign {
        out.push(0);
    }
    out.extend_from_slice(number);
}

fn der_length(len: usize, out: &mut Vec<u8>) {
    match len {
        0..0x80 => out.push(len as u8),
        0x80..0x100 => out.extend_from_slice(&[0x81, len as u8]),
        // No key text has more octets than two can count.
        _ => out.extend_from_slice(&[0x82, (len >> 8) as u8, len as u8]),
    }
}
