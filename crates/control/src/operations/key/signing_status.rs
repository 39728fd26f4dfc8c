//! The signing status of a zone for operators: the signer, denial of existence, the keys, their DS, the next step.

use nameward_base::time::now_seconds;
use nameward_dnssec::{Denial, DenialStyle, Keys, SignatureCache, Signing, SigningPolicy};
use nameward_keys::local::{ZoneKey, signing_keys};
use nameward_keys::rollover::{ZoneSigningStatus, signatures_end};
use nameward_keys::storage::KeyStorage;
use nameward_wire::{Name, NameBuf};
use nameward_zone::SigningState;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::errors::zone_keys_error;
use super::zone_keys::listed_keys;
use crate::operations::{ErrorKind, ListedStep, ListedZoneKey, Operations, Outcome};

/// How a zone is signed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListedSigning {
    /// `policy`, `insecure soon` (its policy was removed), `by hand`, `database` (which has the keys), `stored` (it
    /// has its own signatures), or `no`.
    pub signed: String,
    /// The denial of existence method: `nsec`, `nsec3`, `nsec3-opt-out`, `white-lies`, `nsec3-narrow` or `compact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denial: Option<String>,
    /// The policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The numbers, tags, roles and states of its keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The DS that the parent should have, as in a zone file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ds: Vec<String>,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<ListedStep>,
    /// The earliest expiration of the current signatures, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature_expires: Option<u64>,
}

impl ListedSigning {
    fn unsigned() -> Self {
        ListedSigning {
            signed: "no".into(),
            ..ListedSigning::default()
        }
    }
}

impl Operations {
    /// Returns the signing status of a zone. The keys of database zones are read there.
    pub fn signing_of(&self, zone: Name<'_>) -> Option<ListedSigning> {
        let name = NameBuf::from(zone);
        let stored = match self.key_storage(&name) {
            Ok(storage) => self.stored_signing(&name, &*storage),
            Err(_) => Ok(None),
        };
        match stored {
            Ok(Some(signing)) => Some(signing),
            Ok(None) => {
                let is_served = self.commits.table().load().exact(zone).is_some();
                let signing = self.signing_in_memory(zone);
                signing.or_else(|| is_served.then(ListedSigning::unsigned))
            }
            Err(error) => {
                tracing::warn!("zone {name}: cannot read its signing status: {error}");
                None
            }
        }
    }

    /// Returns how a zone in memory is signed, without querying a database; `None` if it is not.
    pub fn signing_in_memory(&self, zone: Name<'_>) -> Option<ListedSigning> {
        let table = self.commits.table().load();
        let version = table.exact(zone)?;
        let denial = denial_keyword(version.signing()).map(str::to_owned);
        let ends = signatures_end(version, now_seconds());
        let how = match version.signing() {
            SigningState::Unsigned => return None,
            SigningState::Stored(_) => "stored",
            SigningState::Online(_) | SigningState::Chained(_) | SigningState::Listed(_) => {
                "database"
            }
        };
        let keys = self.rollover.local_keys().keys(zone).unwrap_or_default();
        if keys.is_empty() || how == "stored" {
            return Some(ListedSigning {
                signed: how.into(),
                denial,
                signature_expires: ends,
                ..ListedSigning::default()
            });
        }
        Some(self.with_status(&NameBuf::from(zone), &keys, denial, ends))
    }

    /// Adds the state of the keys under the zone's policy.
    fn with_status(
        &self,
        name: &NameBuf,
        keys: &[ZoneKey],
        denial: Option<String>,
        ends: Option<u64>,
    ) -> ListedSigning {
        let status = self.rollover.status(name.as_name(), now_seconds());
        let listed: Vec<_> = keys
            .iter()
            .filter_map(|key| super::zone_keys::listed(name, key, keys).ok())
            .collect();
        let state = |number: u32, status: &ZoneSigningStatus| {
            let mut keys = status.keys.iter();
            keys.find(|key| key.number == number).map(|key| key.state)
        };
        let words = |key: &ListedZoneKey| {
            let state = status.as_ref().ok().and_then(|of| state(key.key, of));
            let state = state.unwrap_or("by hand");
            format!("{} {} {} {state}", key.key, key.tag, key.role)
        };
        let has_ds = |number: u32| {
            keys.iter()
                .any(|key| key.number == number && key.usage.asks_ds)
        };
        let with_ds = listed.iter().filter(|key| has_ds(key.key));
        ListedSigning {
            signed: match &status {
                Ok(status) if status.policy.is_some() => "policy",
                Ok(_) => "insecure soon",
                Err(_) => "by hand",
            }
            .into(),
            denial,
            policy: status.as_ref().ok().and_then(|of| of.policy.clone()),
            keys: listed.iter().map(words).collect(),
            ds: with_ds.filter_map(|key| key.ds.clone()).collect(),
            next: status
                .as_ref()
                .ok()
                .and_then(|of| of.next.clone())
                .map(Into::into),
            signature_expires: ends,
        }
    }

    /// Returns how a zone is signed according to its storage; `None` for one that is signed by the zone table.
    fn stored_signing(
        &self,
        name: &NameBuf,
        storage: &dyn KeyStorage,
    ) -> Outcome<Option<ListedSigning>> {
        let Some(policy) = storage.stored_policy().map_err(zone_keys_error(name))? else {
            return Ok(None);
        };
        let in_memory = self.signing_in_memory(name.as_name());
        if policy.is_presigned {
            let stored = ListedSigning {
                signed: "stored".into(),
                ..ListedSigning::default()
            };
            return Ok(Some(in_memory.unwrap_or(stored)));
        }
        // Managed keys are shown even before they sign.
        if self.rollover.status(name.as_name(), now_seconds()).is_ok() {
            let keys = storage.keys().map_err(zone_keys_error(name))?;
            let made = signing_keys(&keys).unwrap_or_default();
            let signing = signing_of_rows(name, made, policy);
            let denial = in_memory.and_then(|signing| signing.denial);
            let denial = denial.unwrap_or_else(|| live_denial_keyword(&signing).into());
            let ends = signing.signs().then(|| signing.earliest_end(now_seconds()));
            return Ok(Some(self.with_status(name, &keys, Some(denial), ends)));
        }
        let listed = match listed_keys(name, storage) {
            Ok(listed) => listed,
            Err(error) if error.kind == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if !listed.iter().any(|key| key.active) {
            return Ok(Some(ListedSigning::unsigned()));
        }
        // An unreadable key makes answers fail, which its description says.
        let keys = storage.keys().unwrap_or_default();
        let signing_keys = signing_keys(&keys).unwrap_or_default();
        let asks_ds = |number: u32| {
            let mut all = keys.iter().zip(signing_keys.list());
            all.any(|(key, made)| key.number == number && made.usage().asks_ds)
        };
        let with_ds: Vec<String> = listed
            .iter()
            .filter(|key| asks_ds(key.key))
            .filter_map(|key| key.ds.clone())
            .collect();
        let signing = signing_of_rows(name, signing_keys, policy);
        let of_memory = in_memory.and_then(|signing| signing.denial);
        Ok(Some(ListedSigning {
            signed: "database".into(),
            denial: Some(of_memory.unwrap_or_else(|| live_denial_keyword(&signing).into())),
            keys: listed.iter().map(stored_key_text).collect(),
            ds: with_ds,
            signature_expires: Some(signing.earliest_end(now_seconds())),
            ..ListedSigning::default()
        }))
    }
}

/// Returns the signing of a zone with these keys and this metadata.
fn signing_of_rows(name: &NameBuf, keys: Keys, policy: SigningPolicy) -> Signing {
    let cache = Arc::new(SignatureCache::new(0));
    Signing::new(name.as_name(), Arc::new(keys), Arc::new(policy), cache)
}

/// Describes a key that no policy manages: number, tag, role and use.
fn stored_key_text(key: &ListedZoneKey) -> String {
    let usage = key.usage();
    let problem = key.problem.as_ref().map(|problem| format!(", {problem}"));
    let problem = problem.unwrap_or_default();
    format!("{} {} {} {usage}{problem}", key.key, key.tag, key.role)
}

/// Returns the keyword for the denial method of a live zone.
fn live_denial_keyword(signing: &Signing) -> &'static str {
    let is_nsec3 = matches!(signing.denial(), Denial::Nsec3(_));
    match (signing.style(), is_nsec3) {
        (DenialStyle::Chain, false) if signing.lists_live_names() => "nsec",
        (DenialStyle::Chain, true) if signing.lists_live_names() => {
            if signing.is_opt_out() {
                "nsec3-opt-out"
            } else {
                "nsec3"
            }
        }
        (DenialStyle::Compact, _) => "compact",
        (_, true) => "nsec3-narrow",
        (_, false) => "white-lies",
    }
}

/// Returns the keyword for the denial method of a signed zone, as in `zone secure --denial`.
fn denial_keyword(state: &SigningState) -> Option<&'static str> {
    Some(match state {
        SigningState::Unsigned => return None,
        SigningState::Chained(chained) => match chained.chain.hashing() {
            None => "nsec",
            Some(_) if chained.signing.is_opt_out() => "nsec3-opt-out",
            Some(_) => "nsec3",
        },
        SigningState::Listed(listed) if listed.signing.is_opt_out() => "nsec3-opt-out",
        SigningState::Listed(_) if state.uses_nsec3() => "nsec3",
        SigningState::Listed(_) => "nsec",
        SigningState::Online(_) if state.is_compact() => "compact",
        SigningState::Online(_) if state.uses_nsec3() => "nsec3-narrow",
        SigningState::Online(_) => "white-lies",
        SigningState::Stored(_) if state.uses_nsec3() => "nsec3",
        SigningState::Stored(_) => "nsec",
    })
}
