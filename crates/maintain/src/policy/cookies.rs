//! Secrets for DNS cookies (RFC 9018) that are rolled by command, in the state store or in a database that a fleet shares.
//!
//! A secret has the time from which it makes cookies, and everything else follows from the clock: before it, all servers
//! accept its cookies already; from the next secret's time on, its own cookies are accepted for as long as a client may
//! return one. So a roll is one new entry, and servers that read it at different times still accept each other's cookies.
//!
//! In a database the entries are rows of `tsigkeys`, which all servers on it read: `1763391600.cookies.nameward`,
//! `siphash-2-4`, the secret in base64. No TSIG algorithm has this name, so PowerDNS does not use such a row.

use data_encoding::BASE64;
use nameward_base::secret::Secret;
use nameward_dnssec::tsig::read_secret;
use nameward_sql::StoredTsigKey;
use nameward_wire::NameBuf;

/// Octets of a secret (RFC 9018 section 4.5).
pub const COOKIE_SECRET_OCTETS: usize = 16;
/// The algorithm of a row.
const ALGORITHM: &str = "siphash-2-4";
/// The name of a row after its number.
const SUFFIX: &str = ".cookies.nameward.";

/// A secret, and when it starts to make cookies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledCookieSecret {
    /// Seconds since 1970.
    pub active_from: u64,
    /// The octets.
    pub secret: Secret<Vec<u8>>,
}

impl RolledCookieSecret {
    /// Checks whether a row of `tsigkeys` is meant as a cookie secret.
    pub fn is_row(row: &StoredTsigKey) -> bool {
        row.algorithm == ALGORITHM
    }

    /// Reads a row; `None` if it is not valid.
    pub fn from_row(row: &StoredTsigKey) -> Option<Self> {
        let name = row.name.to_string();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let number = name.strip_suffix(SUFFIX.trim_end_matches('.'))?;
        let secret = read_secret(row.secret.reveal())?;
        let active_from = number.parse().ok()?;
        Self::checked(active_from, secret)
    }

    /// Returns its row.
    pub fn to_row(&self) -> StoredTsigKey {
        StoredTsigKey {
            name: self.row_name(),
            algorithm: ALGORITHM.into(),
            secret: BASE64.encode(self.secret.reveal()).into(),
        }
    }

    /// Returns the name of its row.
    pub fn row_name(&self) -> NameBuf {
        let name = format!("{}{SUFFIX}", self.active_from).parse();
        name.expect("digits and fixed labels are a name")
    }

    /// Reads an item of the state store.
    pub(super) fn from_item(name: &[u8], value: &Secret<Vec<u8>>) -> Option<Self> {
        let number = <[u8; 8]>::try_from(name).ok()?;
        Self::checked(u64::from_be_bytes(number), value.clone())
    }

    /// Returns its name in the state store.
    pub(super) fn item_name(&self) -> Vec<u8> {
        self.active_from.to_be_bytes().to_vec()
    }

    fn checked(active_from: u64, secret: Secret<Vec<u8>>) -> Option<Self> {
        let is_valid = secret.reveal().len() == COOKIE_SECRET_OCTETS;
        is_valid.then_some(RolledCookieSecret {
            active_from,
            secret,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_items_round_trip() {
        let secret = RolledCookieSecret {
            active_from: 1_763_391_600,
            secret: (0..16).collect::<Vec<u8>>().into(),
        };
        let row = secret.to_row();
        assert_eq!(row.name.to_string(), "1763391600.cookies.nameward.");
        assert!(RolledCookieSecret::is_row(&row));
        assert_eq!(RolledCookieSecret::from_row(&row), Some(secret.clone()));
        let item = RolledCookieSecret::from_item(&secret.item_name(), &secret.secret);
        assert_eq!(item, Some(secret));
        for (name, text) in [
            ("x.cookies.nameward.", "AAECAwQFBgcICQoLDA0ODw=="),
            ("1.cookies.nameward.", "AAECAw=="),
            ("1.other.", "AAECAwQFBgcICQoLDA0ODw=="),
        ] {
            let wrong = StoredTsigKey {
                name: name.parse().unwrap(),
                secret: text.into(),
                ..row.clone()
            };
            assert_eq!(RolledCookieSecret::from_row(&wrong), None, "{name}");
        }
    }
}
