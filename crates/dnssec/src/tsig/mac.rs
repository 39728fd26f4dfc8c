//! The MAC of a message, computed incrementally.

use super::TsigAlgorithm;
use aws_lc_rs::{constant_time, hmac as lc};
use hmac::{Hmac, KeyInit, Mac as _};
use md5::Md5;

/// A secret, prepared for computing MACs.
pub(super) enum Mac {
    /// The SHA family.
    Sha(Box<lc::Key>),
    /// MD5, which the library used for the others does not support.
    Md5(Hmac<Md5>),
}

/// A MAC being computed.
pub(super) enum MacContext {
    Sha(Box<lc::Context>),
    Md5(Box<Hmac<Md5>>),
}

/// A finished MAC: at most 64 octets.
#[derive(Clone, Copy)]
pub(super) struct MacOctets {
    octets: [u8; 64],
    len: u8,
}

impl Mac {
    pub(super) fn new(algorithm: TsigAlgorithm, secret: &[u8]) -> Self {
        let hash = match algorithm {
            TsigAlgorithm::HmacMd5 => {
                let hmac = Hmac::new_from_slice(secret).expect("HMAC takes a secret of any length");
                return Mac::Md5(hmac);
            }
            TsigAlgorithm::HmacSha1 => lc::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            TsigAlgorithm::HmacSha224 => lc::HMAC_SHA224,
            TsigAlgorithm::HmacSha256 => lc::HMAC_SHA256,
            TsigAlgorithm::HmacSha384 => lc::HMAC_SHA384,
            TsigAlgorithm::HmacSha512 => lc::HMAC_SHA512,
        };
        Mac::Sha(Box::new(lc::Key::new(hash, secret)))
    }

    pub(super) fn begin(&self) -> MacContext {
        match self {
            Mac::Sha(key) => MacContext::Sha(Box::new(lc::Context::with_key(key))),
            Mac::Md5(hmac) => MacContext::Md5(Box::new(hmac.clone())),
        }
    }
}

impl MacContext {
    pub(super) fn update(&mut self, octets: &[u8]) {
        match self {
            MacContext::Sha(context) => context.update(octets),
            MacContext::Md5(hmac) => hmac.update(octets),
        }
    }

    pub(super) fn finish(self) -> MacOctets {
        match self {
            MacContext::Sha(context) => MacOctets::from_slice(context.sign().as_ref()),
            MacContext::Md5(hmac) => MacOctets::from_slice(&hmac.finalize().into_bytes()),
        }
    }
}

impl MacOctets {
    /// Copies at most 64 octets, the length of the longest MAC.
    pub(super) fn from_slice(slice: &[u8]) -> Self {
        let mut octets = [0; 64];
        let len = slice.len().min(octets.len());
        octets[..len].copy_from_slice(&slice[..len]);
        MacOctets {
            octets,
            len: len as u8,
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    /// Compares with a possibly truncated MAC (RFC 8945 section 5.2.2.1), in constant time.
    pub(super) fn begins_with(&self, cut: &[u8]) -> bool {
        let whole = self.as_slice();
        cut.len() <= whole.len()
            && constant_time::verify_slices_are_equal(&whole[..cut.len()], cut).is_ok()
    }
}
