//! RSA signatures (RFC 3110, RFC 5702): the one place that calls the cryptographic library past its safe interface.
//!
//! The safe interface takes keys from 2048 bits and makes no SHA-1 signatures. Zones that were secured years ago have
//! keys of 1024 bits and algorithm 5 or 7; they would go bogus under a server that cannot sign with them.

#![allow(unsafe_code)]

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
use aws_lc_sys::{
    NID_sha1, NID_sha256, NID_sha512, RSA, RSA_free, RSA_private_key_from_bytes, RSA_sign, RSA_size,
};
use std::ptr::NonNull;

/// The digest under the signature.
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

/// A private key that belongs to us alone.
pub(crate) struct RsaKey {
    key: NonNull<RSA>,
    hash: Hash,
}

// SAFETY: the library allows the use of one key by several threads at once as long as nobody changes it, and
// nothing here does; what it keeps in the key for its own use it guards by a lock.
unsafe impl Send for RsaKey {}
// SAFETY: as above.
unsafe impl Sync for RsaKey {}

impl RsaKey {
    /// Takes the numbers of a key in DER (RSAPrivateKey of RFC 8017); the library checks that they fit together.
    pub(crate) fn from_der(der: &[u8], hash: Hash) -> Option<Self> {
        // SAFETY: pointer and length are those of a slice, which is only read. The result is null or ours.
        let key = unsafe { RSA_private_key_from_bytes(der.as_ptr(), der.len()) };
        Some(RsaKey {
            key: NonNull::new(key)?,
            hash,
        })
    }

    /// PKCS #1 v1.5.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let (algorithm, nid) = self.hash.algorithm();
        let digest = digest(algorithm, message);
        let digest = digest.as_ref();
        // SAFETY: the key is valid until it is dropped.
        let size = unsafe { RSA_size(self.key.as_ptr()) };
        let mut signature = vec![0; size as usize];
        let mut len = 0;
        // SAFETY: the buffer has the `RSA_size` octets that the library writes at the most; the digest is read only;
        // signing does not change the key in a way that others could see.
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
        // SAFETY: the key is ours and nobody uses it any more.
        unsafe { RSA_free(self.key.as_ptr()) }
    }
}
