//! Private keys and their text formats: BIND `.private` files, which PowerDNS also stores in `cryptokeys.content`, and
//! PEM.
//!
//! The former has lines of a name, a colon and a value; numbers are in base64, most significant octet first. PEM is
//! written as PKCS #8 (RFC 5958, RFC 8410 for Ed25519); PKCS #1 and SEC 1 (RFC 5915) are read as well. PEM does not
//! specify the DNSSEC algorithm for RSA, so the caller supplies it; together with the flags that yields the same key
//! tag.

use super::KeyError;
use super::der::{self, DerReader};
use crate::rsa;
use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use data_encoding::BASE64;
use nameward_base::secret::{Secret, Zeroize};
use std::fmt;

/// More than any private key needs.
const MAX_TEXT: usize = 16 * 1024;
/// Sizes of new RSA keys in bits: those that are still found in signed zones.
const GENERATED_BITS: std::ops::RangeInclusive<u16> = 1024..=4096;
/// The sizes that the cryptographic library generates are multiples of this.
const GENERATED_STEP: u16 = 128;
/// Octets in a line of PEM, which has 64 digits.
const PEM_LINE: usize = 48;
/// The names of the RSA numbers in the order of RFC 8017 appendix A.1.2.
const RSA_NAMES: [&str; 8] = [
    "Modulus",
    "PublicExponent",
    "PrivateExponent",
    "Prime1",
    "Prime2",
    "Exponent1",
    "Exponent2",
    "Coefficient",
];
/// 1.2.840.113549.1.1.1.
const OID_RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
/// 1.2.840.10045.2.1.
const OID_EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
/// 1.2.840.10045.3.1.7.
const OID_P256: &[u8] = b"\x2a\x86\x48\xce\x3d\x03\x01\x07";
/// 1.3.132.0.34.
const OID_P384: &[u8] = b"\x2b\x81\x04\x00\x22";
/// 1.3.101.112.
const OID_ED25519: &[u8] = b"\x2b\x65\x70";

/// The numbers of a key, without leading zeros, except for those of a curve, which have their full length.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Numbers {
    Rsa([Vec<u8>; 8]),
    Curve(Vec<u8>),
}

impl Zeroize for Numbers {
    fn zeroize(&mut self) {
        match self {
            Numbers::Rsa(numbers) => numbers.iter_mut().for_each(Zeroize::zeroize),
            Numbers::Curve(number) => number.zeroize(),
        }
    }
}

/// A private key.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey {
    algorithm: u8,
    pub(super) numbers: Secret<Numbers>,
}

impl fmt::Debug for PrivateKey {
    /// Shows everything except the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.algorithm)
    }
}

/// Returns the name (IANA mnemonic) of an algorithm that this server can sign with.
pub fn algorithm_name(algorithm: u8) -> Option<&'static str> {
    Some(match algorithm {
        5 => "RSASHA1",
        7 => "NSEC3RSASHA1",
        8 => "RSASHA256",
        10 => "RSASHA512",
        13 => "ECDSAP256SHA256",
        14 => "ECDSAP384SHA384",
        15 => "ED25519",
        _ => return None,
    })
}

/// Parses the number or the name of an algorithm that this server can sign with.
pub fn algorithm_number(word: &str) -> Option<u8> {
    let is_meant = |number: &u8| {
        let name = algorithm_name(*number);
        name.is_some_and(|name| name.eq_ignore_ascii_case(word))
            || word.parse().is_ok_and(|parsed: u8| parsed == *number)
    };
    [5, 7, 8, 10, 13, 14, 15].into_iter().find(is_meant)
}

/// Returns the octets of a curve's private number; `None` for RSA and for unknown algorithms.
fn curve_octets(algorithm: u8) -> Option<usize> {
    match algorithm {
        13 | 15 => Some(32),
        14 => Some(48),
        _ => None,
    }
}

impl PrivateKey {
    /// Returns the algorithm number.
    pub fn algorithm(&self) -> u8 {
        self.algorithm
    }

    /// Generates a random key; `rsa_bits` only applies to RSA.
    pub fn generate(algorithm: u8, rsa_bits: usize) -> Result<Self, KeyError> {
        match (algorithm, curve_octets(algorithm)) {
            (_, Some(octets)) => generate_curve(algorithm, octets),
            (5 | 7 | 8 | 10, None) => generate_rsa(algorithm, rsa_bits),
            (other, None) => Err(KeyError::Unsupported(other)),
        }
    }

    /// Parses the text of a `.private` file. The error says what was expected, and never quotes the text.
    pub fn from_text(text: &[u8]) -> Result<Self, KeyError> {
        let fields = KeyFields::read(text)?;
        let algorithm = fields.algorithm()?;
        let numbers = match (algorithm, curve_octets(algorithm)) {
            // RFC 8032 section 5.1.5: octets, not a number. A shorter value has been truncated.
            (15, Some(_)) => Numbers::Curve(fields.octets("PrivateKey")?),
            (_, Some(octets)) => {
                let number = Secret::new(fields.octets("PrivateKey")?);
                Numbers::Curve(padded(number.reveal(), octets)?)
            }
            (5 | 7 | 8 | 10, None) => {
                let mut numbers = <[Vec<u8>; 8]>::default();
                for (number, name) in numbers.iter_mut().zip(RSA_NAMES) {
                    let octets = Secret::new(fields.octets(name)?);
                    *number = der::trimmed(octets.reveal()).to_vec();
                }
                Numbers::Rsa(numbers)
            }
            (other, None) => return Err(KeyError::Unsupported(other)),
        };
        Ok(PrivateKey::from_numbers(algorithm, numbers))
    }

    fn from_numbers(algorithm: u8, numbers: Numbers) -> Self {
        PrivateKey {
            algorithm,
            numbers: Secret::new(numbers),
        }
    }

    /// Returns the text of a `.private` file, without timing metadata.
    pub fn to_text(&self) -> Secret<String> {
        let name = algorithm_name(self.algorithm).unwrap_or_default();
        self.written("v1.3", name)
    }

    /// Returns the text as PowerDNS stores it in `cryptokeys.content`.
    pub fn to_stored_text(&self) -> Secret<String> {
        let name = match self.algorithm {
            7 => "RSASHA1-NSEC3-SHA1",
            other => algorithm_name(other).unwrap_or_default(),
        };
        self.written("v1.2", name)
    }

    fn written(&self, version: &str, name: &str) -> Secret<String> {
        let mut secret = Secret::new(String::with_capacity(MAX_TEXT));
        let text = secret.reveal_mut();
        let number = self.algorithm;
        text.push_str(&format!(
            "Private-key-format: {version}\nAlgorithm: {number} ({name})\n"
        ));
        let mut line = |name: &str, value: &[u8]| {
            text.push_str(name);
            text.push_str(": ");
            BASE64.encode_append(value, text);
            text.push('\n');
        };
        match self.numbers.reveal() {
            Numbers::Curve(number) => line("PrivateKey", number),
            Numbers::Rsa(numbers) => {
                for (name, number) in RSA_NAMES.iter().zip(numbers) {
                    line(name, number);
                }
            }
        }
        // Without the rest of the buffer: such texts are kept. The copy is exact, and this one is overwritten.
        Secret::new(secret.reveal().as_str().to_owned())
    }

    /// Returns the key size in bits, as tools report it.
    pub fn bits(&self) -> usize {
        match self.numbers.reveal() {
            Numbers::Curve(number) => number.len() * 8,
            Numbers::Rsa([modulus, ..]) => {
                let unused = modulus.first().map_or(0, |first| first.leading_zeros());
                modulus.len() * 8 - unused as usize
            }
        }
    }

    /// Parses PEM, for a key of this algorithm.
    pub fn from_pem(text: &[u8], algorithm: u8) -> Result<Self, KeyError> {
        if algorithm_name(algorithm).is_none() {
            return Err(KeyError::Unsupported(algorithm));
        }
        let (label, der) = pem_body(text)?;
        let der = der.reveal();
        let numbers = match label {
            "PRIVATE KEY" => from_pkcs8(der, algorithm),
            "RSA PRIVATE KEY" if curve_octets(algorithm).is_none() => from_pkcs1(der),
            "EC PRIVATE KEY" if matches!(algorithm, 13 | 14) => from_sec1(der, algorithm),
            _ => None,
        };
        let numbers = numbers.ok_or(KeyError::OtherPem(algorithm))?;
        Ok(PrivateKey::from_numbers(algorithm, numbers))
    }

    /// Returns PEM (PKCS #8).
    pub fn to_pem(&self) -> Secret<String> {
        let (begin, end) = (
            "-----BEGIN PRIVATE KEY-----\n",
            "-----END PRIVATE KEY-----\n",
        );
        let der = self.to_pkcs8();
        let lines = der.reveal().chunks(PEM_LINE);
        let capacity = begin.len() + end.len() + lines.len() * (BASE64.encode_len(PEM_LINE) + 1);
        let mut secret = Secret::new(String::with_capacity(capacity));
        let text = secret.reveal_mut();
        text.push_str(begin);
        for line in lines {
            BASE64.encode_append(line, text);
            text.push('\n');
        }
        text.push_str(end);
        secret
    }

    fn to_pkcs8(&self) -> Secret<Vec<u8>> {
        let oid = |octets| der::element(der::OID, octets);
        let (algorithm, key) = match (self.numbers.reveal(), self.algorithm) {
            (Numbers::Rsa(numbers), _) => {
                let null = der::element(der::NULL, &[]);
                (der::joined(&[oid(OID_RSA), null]), rsa_der(numbers))
            }
            (Numbers::Curve(seed), 15) => (oid(OID_ED25519), der::element(der::OCTET_STRING, seed)),
            (Numbers::Curve(number), algorithm) => {
                let curve = if algorithm == 14 { OID_P384 } else { OID_P256 };
                // RFC 5915 section 3: version 1 and the number; the public key follows from it.
                let version = der::integer(&[1]);
                let private = der::element(der::OCTET_STRING, number);
                let mut parts = vec![version, private];
                if let Some(public) = curve_public(algorithm, number) {
                    let bits = der::element(der::BIT_STRING, &[&[0], &public[..]].concat());
                    // Context-specific, constructed, number 1.
                    parts.push(der::element(0xa1, bits.reveal()));
                }
                let key = der::element(der::SEQUENCE, der::joined(&parts).reveal());
                (der::joined(&[oid(OID_EC), oid(curve)]), key)
            }
        };
        let parts = [
            der::integer(&[0]),
            der::element(der::SEQUENCE, algorithm.reveal()),
            der::element(der::OCTET_STRING, key.reveal()),
        ];
        der::element(der::SEQUENCE, der::joined(&parts).reveal())
    }
}

/// Encodes an RSAPrivateKey of RFC 8017 appendix A.1.2: version 0, then the numbers.
pub(super) fn rsa_der(numbers: &[Vec<u8>; 8]) -> Secret<Vec<u8>> {
    let numbers = numbers.iter().map(|number| der::integer(number));
    let parts: Vec<_> = std::iter::once(der::integer(&[0])).chain(numbers).collect();
    der::element(der::SEQUENCE, der::joined(&parts).reveal())
}

/// Returns the public point of a private number, uncompressed.
pub(super) fn curve_public(algorithm: u8, number: &[u8]) -> Option<Vec<u8>> {
    let curve = match algorithm {
        13 => &ECDH_P256,
        14 => &ECDH_P384,
        _ => return None,
    };
    let private = agreement::PrivateKey::from_private_key(curve, number).ok()?;
    Some(private.compute_public_key().ok()?.as_ref().to_vec())
}

fn generate_curve(algorithm: u8, octets: usize) -> Result<PrivateKey, KeyError> {
    // A random number is not a valid key of the curve at most once in 2^32 tries.
    for _ in 0..8 {
        let mut number = vec![0; octets];
        let filled = SystemRandom::new().fill(&mut number);
        filled.map_err(|_| KeyError::NoRandom)?;
        if algorithm == 15 || curve_public(algorithm, &number).is_some() {
            let numbers = Numbers::Curve(number);
            return Ok(PrivateKey::from_numbers(algorithm, numbers));
        }
    }
    Err(KeyError::NoRandom)
}

fn generate_rsa(algorithm: u8, bits: usize) -> Result<PrivateKey, KeyError> {
    let size = u16::try_from(bits).ok();
    let size = size.filter(|size| GENERATED_BITS.contains(size) && size % GENERATED_STEP == 0);
    let size = size.ok_or(KeyError::NewRsaBits(bits))?;
    let der = rsa::generate(size).ok_or(KeyError::NoRandom)?;
    let der = Secret::new(der);
    let numbers = from_pkcs1(der.reveal()).ok_or(KeyError::NotRsa)?;
    Ok(PrivateKey::from_numbers(algorithm, numbers))
}

/// Splits PEM into its label and contents.
fn pem_body(text: &[u8]) -> Result<(&str, Secret<Vec<u8>>), KeyError> {
    if text.len() > MAX_TEXT {
        return Err(KeyError::TooLong(text.len()));
    }
    let text = std::str::from_utf8(text).map_err(|_| KeyError::NotText)?;
    // A file may start with curve parameters, which the key itself specifies.
    let mut rest = text;
    loop {
        let (_, begun) = rest.split_once("-----BEGIN ").ok_or(KeyError::NotPem)?;
        let (label, body) = begun.split_once("-----").ok_or(KeyError::NotPem)?;
        let (body, after) = body.split_once("-----END ").ok_or(KeyError::NotPem)?;
        if label.ends_with("PRIVATE KEY") {
            let mut digits = Secret::new(Vec::with_capacity(body.len()));
            let octets = body.bytes().filter(|b| !b.is_ascii_whitespace());
            digits.reveal_mut().extend(octets);
            let der = BASE64.decode(digits.reveal());
            return Ok((label, Secret::new(der.map_err(|_| KeyError::NotPem)?)));
        }
        rest = after;
    }
}

fn from_pkcs8(der: &[u8], algorithm: u8) -> Option<Numbers> {
    let mut parts = DerReader(DerReader(der).element(der::SEQUENCE)?);
    parts.integer()?;
    let mut kind = DerReader(parts.element(der::SEQUENCE)?);
    let key = parts.element(der::OCTET_STRING)?;
    let curve = match algorithm {
        13 => OID_P256,
        14 => OID_P384,
        15 => {
            let seed = DerReader(key).element(der::OCTET_STRING)?;
            let is_ours = kind.element(der::OID)? == OID_ED25519 && seed.len() == 32;
            return is_ours.then(|| Numbers::Curve(seed.to_vec()));
        }
        _ => {
            let is_ours = kind.element(der::OID)? == OID_RSA;
            return is_ours.then(|| from_pkcs1(key)).flatten();
        }
    };
    let is_ours = kind.element(der::OID)? == OID_EC && kind.element(der::OID)? == curve;
    let number = is_ours.then(|| sec1_number(key)).flatten()?;
    // GnuTLS, and thus Knot, writes the number with a sign octet, or without leading zeros. The curve is known.
    let number = padded(number, curve_octets(algorithm)?).ok()?;
    Some(Numbers::Curve(number))
}

fn from_pkcs1(der: &[u8]) -> Option<Numbers> {
    let mut parts = DerReader(DerReader(der).element(der::SEQUENCE)?);
    parts.integer()?;
    let mut numbers = <[Vec<u8>; 8]>::default();
    for number in &mut numbers {
        *number = parts.integer()?;
    }
    Some(Numbers::Rsa(numbers))
}

fn from_sec1(der: &[u8], algorithm: u8) -> Option<Numbers> {
    let number = sec1_number(der)?;
    // RFC 5915 section 3: it has the length of its curve, so a key of another curve is rejected.
    let is_ours = curve_octets(algorithm) == Some(number.len());
    is_ours.then(|| Numbers::Curve(number.to_vec()))
}

/// Reads an ECPrivateKey of RFC 5915: version 1, then the number.
fn sec1_number(der: &[u8]) -> Option<&[u8]> {
    let mut parts = DerReader(DerReader(der).element(der::SEQUENCE)?);
    parts.integer()?;
    parts.element(der::OCTET_STRING)
}

/// Returns a number padded with leading zeros to exactly this many octets.
fn padded(octets: &[u8], len: usize) -> Result<Vec<u8>, KeyError> {
    let number = der::trimmed(octets);
    let Some(zeros) = len.checked_sub(number.len()) else {
        return Err(KeyError::Length("PrivateKey", len));
    };
    let mut padded = vec![0; len];
    padded[zeros..].copy_from_slice(number);
    Ok(padded)
}

/// The lines of a private key.
pub(super) struct KeyFields<'t> {
    text: &'t str,
}

impl<'t> KeyFields<'t> {
    pub(super) fn read(text: &'t [u8]) -> Result<Self, KeyError> {
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

    pub(super) fn value(&self, name: &str) -> Option<&'t str> {
        self.text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn algorithm(&self) -> Result<u8, KeyError> {
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
