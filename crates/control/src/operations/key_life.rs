//! Owns operations on keys that a policy looks after, and the words for how a zone is signed.

use nameward_dnssec::rollover::{DsSight, KeyRole};
use nameward_maintain::key_life::{
    KeyLookError, NextStep, ZoneSigningStatus, signatures_end, step_words,
};
use nameward_maintain::zone_keys::{KeyProgress, ZoneKeysError};
use nameward_wire::{Name, NameBuf};
use nameward_zone::SigningState;
use serde::{Deserialize, Serialize};

use super::key_template::now_seconds;
use super::zone_keys::of_keys;
use super::{DsReport, OperationError, OperationResult, Operations, zone_name};

/// The steps that an operation on keys under a policy led to, and the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySteps {
    /// The zone, with its final dot.
    pub zone: String,
    /// The keys that the operation was about.
    pub keys: Vec<u32>,
    /// The steps in words.
    pub steps: Vec<String>,
    /// The next step, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ListedStep>,
}

/// A step that is to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedStep {
    /// The step in words.
    pub step: String,
    /// When, in seconds since 1970; none if it waits for the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

/// How a zone is signed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListedSigning {
    /// `policy`, `insecure soon` (its policy went), `by hand`, `database` (which has the keys), `stored` (it brings its
    /// signatures), or `no`.
    pub signed: String,
    /// How names are denied: `nsec`, `nsec3`, `nsec3-opt-out`, `white-lies`, `nsec3-narrow` or `compact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<String>,
    /// The policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The numbers, tags, roles and states of its keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The DS that the parent is to have, as in a zone file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ds: Vec<String>,
    /// The next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ListedStep>,
    /// When the first signature ends that is given out now, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature_expires: Option<u64>,
}

impl From<NextStep> for ListedStep {
    fn from(next: NextStep) -> Self {
        ListedStep {
            step: next.words,
            at: next.at,
        }
    }
}

impl Operations {
    /// Has keys replaced by new ones.
    pub(super) fn roll_keys(
        &self,
        zone: &str,
        role: Option<&str>,
    ) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        let role = match role {
            None => None,
            Some("csk") => Some(KeyRole::Combined),
            Some("ksk") => Some(KeyRole::KeySigning),
            Some("zsk") => Some(KeyRole::ZoneSigning),
            Some(other) => {
                return Err(OperationError::invalid(format!(
                    "expected the role csk, ksk or zsk, found {other:?}; for another algorithm change the algorithm of \
                     the [[dnssec_policy]] and reload"
                )));
            }
        };
        let rolled = self.keeper.roll(name.as_name(), role, now_seconds());
        let (keys, progress) = rolled.map_err(of_look(&name))?;
        if keys.is_empty() {
            return Err(OperationError::not_found(format!(
                "zone {name} has no key of this role in use; `nameward key list {name}` lists its keys"
            )));
        }
        tracing::info!("zone {name}: rollover of keys {keys:?} asked for over the control socket");
        self.key_steps(&name, keys, &progress)
    }

    /// Notes what the parent has, as an operator saw it.
    pub(super) fn report_ds(
        &self,
        zone: &str,
        key: Option<u32>,
        report: DsReport,
    ) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        let sight = match report {
            DsReport::Seen => DsSight::Seen,
            DsReport::Gone => DsSight::Gone,
        };
        let noted = self
            .keeper
            .note_ds((name.as_name(), key), sight, now_seconds());
        let (keys, progress) = noted.map_err(of_look(&name))?;
        if keys.is_empty() {
            return Err(OperationError::conflict(format!(
                "zone {name}: nothing waits for this; `nameward zone status {name}` says what is waited for. A DS that is \
                 gone counts after parent_registration_delay, because the parent may bring it back until then"
            )));
        }
        self.key_steps(&name, keys, &progress)
    }

    fn key_steps(
        &self,
        name: &NameBuf,
        keys: Vec<u32>,
        progress: &KeyProgress,
    ) -> Result<OperationResult, OperationError> {
        (self.keys_changed)(*name);
        let status = self.keeper.status(name.as_name(), now_seconds());
        let status = status.map_err(of_look(name))?;
        let steps = progress.steps.iter().map(step_words);
        Ok(OperationResult::KeySteps(KeySteps {
            zone: name.to_string(),
            keys,
            steps: steps
                .map(|(key, words)| format!("key {key}: {words}"))
                .collect(),
            next: status.next.map(Into::into),
        }))
    }

    /// Refuses to change by hand what a policy looks after.
    pub(super) fn check_by_hand(&self, name: &NameBuf) -> Result<(), OperationError> {
        let zone = name.as_name();
        let in_database = self.databases.iter().any(|database| {
            let rank = (self.rank_of)(zone);
            rank == Some(database.rank)
        });
        match self.keeper.policy_name(zone).filter(|_| !in_database) {
            None => Ok(()),
            Some(policy) => Err(OperationError::refused(format!(
                "the dnssec_policy {policy:?} looks after the keys of zone {name}: `nameward key rollover {name}` replaces \
                 them, and taking dnssec_policy from the zone ends signing"
            ))),
        }
    }

    /// Tells how a zone is signed; `None` if it is not, or if it is looked up in a database.
    pub fn signing_of(&self, zone: Name<'_>) -> Option<ListedSigning> {
        let table = self.commits.table().load();
        let version = table.exact(zone)?;
        let denial = denial_word(version.signing()).map(str::to_owned);
        let ends = signatures_end(version, now_seconds());
        let how = match version.signing() {
            SigningState::Unsigned => return None,
            SigningState::Stored(_) => "stored",
            SigningState::Online(_) | SigningState::Chained(_) | SigningState::Listed(_) => {
                "database"
            }
        };
        let keys = self.keeper.keys().keys(zone).unwrap_or_default();
        if keys.is_empty() || how == "stored" {
            return Some(ListedSigning {
                signed: how.into(),
                denial,
                signature_expires: ends,
                ..ListedSigning::default()
            });
        }
        let status = self.keeper.status(zone, now_seconds());
        let name = NameBuf::from(zone);
        let listed: Vec<_> = keys
            .iter()
            .filter_map(|key| super::zone_keys::listed(&name, key, &keys).ok())
            .collect();
        let state = |number: u32, status: &ZoneSigningStatus| {
            let mut keys = status.keys.iter();
            keys.find(|key| key.number == number).map(|key| key.state)
        };
        let words = |key: &super::ListedZoneKey| {
            let state = status.as_ref().ok().and_then(|of| state(key.key, of));
            let state = state.unwrap_or("by hand");
            format!("{} {} {} {state}", key.key, key.tag, key.role)
        };
        let has_ds = |number: u32| {
            keys.iter()
                .any(|key| key.number == number && key.usage.asks_ds)
        };
        let wanted = listed.iter().filter(|key| has_ds(key.key));
        Some(ListedSigning {
            signed: match &status {
                Ok(status) if status.policy.is_some() => "policy",
                Ok(_) => "insecure soon",
                Err(_) => "by hand",
            }
            .into(),
            denial,
            policy: status.as_ref().ok().and_then(|of| of.policy.clone()),
            keys: listed.iter().map(words).collect(),
            ds: wanted.filter_map(|key| key.ds.clone()).collect(),
            next: status
                .as_ref()
                .ok()
                .and_then(|of| of.next.clone())
                .map(Into::into),
            signature_expires: ends,
        })
    }
}

/// The word for the way in which a signed zone denies names, as `zone secure --denial` takes it.
fn denial_word(state: &SigningState) -> Option<&'static str> {
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

/// Turns an error of a look at keys into one of an operation.
fn of_look(name: &NameBuf) -> impl Fn(KeyLookError) -> OperationError {
    let name = *name;
    move |error| match error {
        KeyLookError::Keys(ZoneKeysError::NoPolicy) | KeyLookError::NoPolicy => {
            OperationError::refused(format!(
                "zone {name} has no dnssec_policy: its keys are changed by `nameward key add`, `activate` and `remove`"
            ))
        }
        KeyLookError::Keys(error) => of_keys(&name)(error),
        KeyLookError::NotLoaded => OperationError::not_found(format!(
            "zone {name} not found; `nameward zone list` lists the zones"
        )),
        other => OperationError::refused(format!("zone {name}: {other}")),
    }
}
