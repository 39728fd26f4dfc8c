//! Owns operations on keys of TSIG that the state store keeps: generate, import, list, remove.

use std::fmt;

use data_encoding::BASE64;
use nameward_dnssec::tsig::TsigAlgorithm;
use nameward_maintain::policy::{KeptError, KeptKey, KeptPolicies, PolicySource};
use nameward_wire::{Name, NameBuf};
use serde::{Deserialize, Serialize};

use super::{ErrorKind, ListedItem, OperationError, OperationResult, Operations, TakeItem};

/// The shortest secret that is taken: half of the shortest hash, as for MACs (RFC 8945 section 5.2.2.1).
const SECRET_MIN: usize = 8;
/// The longest secret that is taken; a longer one is hashed to less by every algorithm.
const SECRET_MAX: usize = 512;

/// A secret on its way through the control socket, which is not to be seen in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A key of TSIG that the server knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTsigKey {
    /// Its name.
    pub name: String,
    /// Its algorithm.
    pub algorithm: String,
    /// Where it is kept: `configuration`, `backend N` or `state store`.
    pub source: String,
    /// The secret as base64, where it was asked for and is kept in the state store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
}

impl Operations {
    /// Makes a key with a secret of the length of its hash.
    pub fn generate_key(
        &self,
        name: &str,
        algorithm: Option<&str>,
    ) -> Result<OperationResult, OperationError> {
        let algorithm = read_algorithm(algorithm)?;
        let mut secret = vec![0; algorithm.mac_len()];
        aws_lc_rs::rand::fill(&mut secret)
            .map_err(|_| OperationError::new(ErrorKind::Internal, "no random numbers"))?;
        self.keep_key(name, algorithm, secret)
    }

    /// Takes a key that another server made.
    pub fn import_key(
        &self,
        name: &str,
        algorithm: Option<&str>,
        secret: &SecretText,
    ) -> Result<OperationResult, OperationError> {
        let algorithm = read_algorithm(algorithm)?;
        let text: String = secret.0.split_whitespace().collect();
        let secret = BASE64.decode(text.as_bytes());
        let secret = secret.map_err(|_| OperationError::invalid("the secret is no base64"))?;
        if !(SECRET_MIN..=SECRET_MAX).contains(&secret.len()) {
            let octets = secret.len();
            return Err(OperationError::invalid(format!(
                "a secret has {SECRET_MIN} to {SECRET_MAX} octets, this one has {octets}"
            )));
        }
        self.keep_key(name, algorithm, secret)
    }

    fn keep_key(
        &self,
        name: &str,
        algorithm: TsigAlgorithm,
        secret: Vec<u8>,
    ) -> Result<OperationResult, OperationError> {
        let name = key_name(name)?;
        if let Some(source) = self.key_source(name.as_name()) {
            let place = place_of(source);
            return Err(OperationError::conflict(format!(
                "there is a key {name} already ({place})"
            )));
        }
        let text = SecretText(BASE64.encode(&secret));
        let key = KeptKey {
            name,
            algorithm,
            secret,
        };
        self.kept()?.set_key(&key).map_err(of_kept)?;
        tracing::info!("stored TSIG key {name} ({algorithm})");
        Ok(OperationResult::TsigKey(ListedTsigKey {
            name: name.to_string(),
            algorithm: algorithm.word().into(),
            source: place_of(PolicySource::Kept),
            secret: Some(text),
        }))
    }

    /// Lists all keys in the order of their names; with the secrets of those that the state store keeps if asked.
    pub fn list_keys(
        &self,
        has_secrets: bool,
        items: TakeItem<'_>,
    ) -> Result<OperationResult, OperationError> {
        let kept = match has_secrets {
            true => self.kept()?.keys().map_err(of_kept)?,
            false => Vec::new(),
        };
        let mut keys: Vec<_> = self.policies.keys_by_source();
        keys.sort_by(|(a, one), (b, other)| {
            let names = one.name().canonical_cmp(other.name());
            names.then(a.cmp(b))
        });
        let count = keys.len() as u64;
        for (source, key) in keys {
            let secret = kept
                .iter()
                .filter(|_| source == PolicySource::Kept)
                .find(|kept| kept.name.as_name() == key.name());
            let listed = ListedTsigKey {
                name: key.name().to_string(),
                algorithm: key.algorithm().word().into(),
                source: place_of(source),
                secret: secret.map(|key| SecretText(BASE64.encode(&key.secret))),
            };
            if !items(ListedItem::TsigKey(listed)) {
                break;
            }
        }
        Ok(OperationResult::Listed { items: count })
    }

    /// Removes a key from the state store.
    pub fn remove_key(&self, name: &str) -> Result<OperationResult, OperationError> {
        let name = key_name(name)?;
        match self.kept()?.remove_key(name.as_name()).map_err(of_kept)? {
            true => {
                tracing::info!("removed TSIG key {name}");
                Ok(OperationResult::TsigKeyRemoved {
                    name: name.to_string(),
                })
            }
            false => match self.key_source(name.as_name()) {
                Some(source) => Err(OperationError::refused(format!(
                    "key {name} is not kept in the state store ({}): remove it there",
                    place_of(source)
                ))),
                None => Err(OperationError::not_found(format!("key {name} not found"))),
            },
        }
    }

    fn kept(&self) -> Result<&KeptPolicies, OperationError> {
        Ok(&self.kept)
    }

    /// The place that a key counts from.
    fn key_source(&self, name: Name<'_>) -> Option<PolicySource> {
        let keys = self.policies.keys_by_source().into_iter();
        let sources = keys.filter(|(_, key)| key.name() == name);
        sources.map(|(source, _)| source).min()
    }
}

fn place_of(source: PolicySource) -> String {
    match source {
        PolicySource::Configured => "configuration".into(),
        PolicySource::Backend(rank) => format!("backend {rank}"),
        PolicySource::Catalogs => "catalog".into(),
        PolicySource::Kept => "state store".into(),
    }
}

fn read_algorithm(word: Option<&str>) -> Result<TsigAlgorithm, OperationError> {
    let Some(word) = word else {
        return Ok(TsigAlgorithm::HmacSha256);
    };
    TsigAlgorithm::from_word(word).ok_or_else(|| {
        let words = TsigAlgorithm::ALL.map(TsigAlgorithm::word).join(", ");
        OperationError::invalid(format!(
            "the algorithm {word:?} is not known: there are {words}"
        ))
    })
}

fn key_name(text: &str) -> Result<NameBuf, OperationError> {
    let name = NameBuf::from_text(text.as_bytes(), Name::ROOT);
    let mut name =
        name.map_err(|error| OperationError::invalid(format!("{text:?} is no name: {error}")))?;
    name.make_lowercase();
    match name.as_name().is_root() {
        true => Err(OperationError::invalid("a key needs a name")),
        false => Ok(name),
    }
}

fn of_kept(error: KeptError) -> OperationError {
    match error {
        KeptError::NoStore => OperationError::refused(error.to_string()),
        KeptError::Store(_) => OperationError::new(ErrorKind::Backend, error.to_string()),
    }
}
