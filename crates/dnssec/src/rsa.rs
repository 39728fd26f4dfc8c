//! RSA signatures (RFC 3110, RFC 5702) and new RSA keys: the only code that bypasses the safe interface of the cryptographic library.
//!
//! The safe interface accepts and generates keys from 2048 bits and makes no SHA-1 signatures. Zones that were signed
//! years ago have keys of 1024 bits and algorithm 5 or 7; they would become bogus on a server that cannot sign with
//! them, and the next key of a rollover has the size of the previous one.

#![allow(unsafe_code)]

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
use aws_lc_sys::{
    BIGNUM, BN_free, BN_new, BN_set_word, NID_sha1, NID_sha256, NID_sha512, OPENSSL_free, RSA,
    RSA_free, RSA_generate_key_ex, RSA_new, RSA_private_key_from_bytes, RSA_private_key_to_bytes,
    RSA_sign, RSA_size,
};
use std::ptr::{NonNull, null_mut};

/// The public exponent of new keys, which every implementation uses.
const EXPONENT: u64 = 65_537;

/// The digest in the signature.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

impl Hash {
    fn algorithm(self) -> (&'static Algorithm, i32) {
        match self {
            Hash::Sha1 => (&SHA1_FOR_LEGACY_USE_ONLY, NID_sha1),
            Hash::Sha256 => (&SHA256, NID_sha256),
            Hash::Sha512 => (&SHA512, NID_sha512),
        }
    }
}

/// A private key owned exclusively by this value.
pub(crate) struct RsaKey {
    key: NonNull<RSA>,
    hash: Hash,
}

// SAFETY: the library allows several threads to use one key at once as long as it is not modified, and nothing here
// modifies it; internal state that it caches in the key is protected by a lock.
unsafe impl Send for RsaKey {}
// SAFETY: as above.
unsafe impl Sync for RsaKey {}

impl RsaKey {
    /// Reads the numbers of a key in DER (RSAPrivateKey of RFC 8017); the library checks that they are consistent.
    pub(crate) fn from_der(der: &[u8], hash: Hash) -> Option<Self> {
        // SAFETY: pointer and length are those of a slice, which is only read. The result is null or owned by us.
        let key = unsafe { RSA_private_key_from_bytes(der.as_ptr(), der.len()) };
        Some(RsaKey {
            key: NonNull::new(key)?,
            hash,
        })
    }

    /// Signs with PKCS #1 v1.5.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let (algorithm, nid) = self.hash.algorithm();
        let digest = digest(algorithm, message);
        let digest = digest.as_ref();
        // SAFETY: the key is valid until it is dropped.
        let size = unsafe { RSA_size(self.key.as_ptr()) };
        let mut signature = vec![0; size as usize];
        let mut len = 0;
        // SAFETY: the buffer has `RSA_size` octets, the most that the library writes; the digest is only read; signing
        // does not modify the key in a way visible to others.
        let done = unsafe {
            RSA_sign(
                nid,
                digest.as_ptr(),
                digest.len(),
                signature.as_mut_ptr(),
                &mut len,
                self.key.as_ptr(),
            )
        };
        (done == 1 && len == size).then_some(signature)
    }
}

/// A number owned exclusively by this value.
struct BigNumber(NonNull<BIGNUM>);

impl BigNumber {
    fn new(value: u64) -> Option<Self> {
        // SAFETY: the result is null or owned by us.
        let number = BigNumber(NonNull::new(unsafe { BN_new() })?);
        // SAFETY: the number is valid and not shared.
        let is_set = unsafe { BN_set_word(number.0.as_ptr(), value) } == 1;
        is_set.then_some(number)
    }
}

impl Drop for BigNumber {
    fn drop(&mut self) {
        // SAFETY: the number is owned by us and no longer used.
        unsafe { BN_free(self.0.as_ptr()) }
    }
}

/// Generates a key; returns it in DER (RSAPrivateKey of RFC 8017). The library rounds `bits` down to a multiple of 128.
pub(crate) fn generate(bits: u16) -> Option<Vec<u8>> {
    let exponent = BigNumber::new(EXPONENT)?;
    // SAFETY: the result is null or owned by us.
    let key = unsafe { RSA_new() };
    let key = RsaKey {
        key: NonNull::new(key)?,
        hash: Hash::Sha256,
    };
    // SAFETY: the key is valid and not shared, the exponent is only read, and there is no callback.
    let made = unsafe {
        RSA_generate_key_ex(
            key.key.as_ptr(),
            i32::from(bits),
            exponent.0.as_ptr(),
            null_mut(),
        )
    };
    if made != 1 {
        return None;
    }
    let (mut start, mut len) = (null_mut(), 0);
    // SAFETY: both results are written before the function returns 1, and the key is only read.
    let written = unsafe { RSA_private_key_to_bytes(&mut start, &mut len, key.key.as_ptr()) };
    if written != 1 || start.is_null() {
        return None;
    }
    // SAFETY: the library has allocated and written `len` octets there, which nothing else uses.
    let der = unsafe { std::slice::from_raw_parts(start, len) }.to_vec();
    // SAFETY: allocated by the library, released once. It overwrites the octets.
    unsafe { OPENSSL_free(start.cast()) };
    Some(der)
}

impl Drop for RsaKey {
    fn drop(&mut self) {
        // SAFETY: the key is owned by us and no longer used.
        unsafe { RSA_free(self.key.as_ptr()) }
    }
}
