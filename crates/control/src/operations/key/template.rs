//! Keys requested by operators: generated, or read from a text, with their role and use.

use nameward_base::time::now_seconds;

use nameward_dnssec::rollover::KeyRole;
use nameward_dnssec::{PrivateKey, algorithm_number};
use nameward_keys::local::{PrivateKeyLocation, ZoneKey};
use nameward_keys::storage::manual_use;

use crate::operations::{KeyTemplate, OperationError, Outcome, SecretText};

/// The default key algorithm (RFC 8624 section 3.1 recommends it).
const DEFAULT_ALGORITHM: u8 = 13;
/// The default size of RSA keys in bits.
const DEFAULT_BITS: u32 = 2048;
/// The flags of a DNSKEY with and without the SEP bit (RFC 4034 section 2.1.1).
const ENTRY_POINT: u16 = 257;
const ZONE_SIGNING: u16 = 256;

impl KeyTemplate {
    pub(crate) fn generate(&self) -> Outcome<PrivateKey> {
        let bits = self.bits.unwrap_or(DEFAULT_BITS);
        PrivateKey::generate(self.algorithm()?, bits as usize)
            .map_err(|error| OperationError::invalid(error.to_string()))
    }

    /// Reads a private key in either format.
    pub(crate) fn read(&self, text: &SecretText) -> Outcome<PrivateKey> {
        let octets = text.reveal().as_bytes();
        let read = if text.reveal().contains("-----BEGIN ") {
            PrivateKey::from_pem(octets, self.algorithm()?)
        } else {
            PrivateKey::from_text(octets)
        };
        read.map_err(|error| OperationError::invalid(error.to_string()))
    }

    fn algorithm(&self) -> Outcome<u8> {
        let Some(word) = &self.algorithm else {
            return Ok(DEFAULT_ALGORITHM);
        };
        algorithm_number(word).ok_or_else(|| {
            OperationError::invalid(format!(
                "unsupported algorithm {word:?}: expected 8 (RSASHA256), 10 (RSASHA512), 13 (ECDSAP256SHA256), 14 \
                 (ECDSAP384SHA384) or 15 (ED25519)"
            ))
        })
    }

    pub(crate) fn key(&self, private: PrivateKey) -> Outcome<ZoneKey> {
        let role = match self.role.as_deref().unwrap_or("csk") {
            "csk" => KeyRole::Combined,
            "ksk" => KeyRole::KeySigning,
            "zsk" => KeyRole::ZoneSigning,
            other => {
                return Err(OperationError::invalid(format!(
                    "expected role csk, ksk or zsk, found {other:?}"
                )));
            }
        };
        Ok(ZoneKey {
            number: 0,
            flags: if role.signs_keys() {
                ENTRY_POINT
            } else {
                ZONE_SIGNING
            },
            role,
            usage: manual_use(role, !self.inactive, !self.unpublished),
            created: now_seconds(),
            life: None,
            private,
            location: PrivateKeyLocation::Store,
        })
    }
}
