//! RSA signatures (RFC 3110, RFC 5702): the only code that bypasses the safe interface of the cryptographic library.
//!
//! The safe interface accepts keys from 2048 bits and makes no SHA-1 signatures. Zones that were signed years ago have
//! keys of 1024 bits and algorithm 5 or 7; they would become bogus on a server that cannot sign with them.

#![allow(unsafe_code)]

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
use aws_lc_sys::{
    NID_sha1, NID_sha256, NID_sha512, RSA, RSA_free, RSA_private_key_from_bytes, RSA_sign, RSA_size,
};
use std::ptr::NonNull;

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

impl Drop for RsaKey {
    fn drop(&mut self) {
        // SAFETY: the key is owned by us and no longer used.
        unsafe { RSA_free(self.key.as_ptr()) }
    }
}
