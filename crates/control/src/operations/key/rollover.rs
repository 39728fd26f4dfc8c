//! Operations on keys managed by a policy.

use nameward_base::time::now_seconds;
use nameward_dnssec::rollover::{DsSight, KeyRole};
use nameward_keys::local::{KeyProgress, ZoneKeysError};
use nameward_keys::rollover::{NO_POLICY, NextStep, RolloverError, step_words};
use nameward_wire::NameBuf;
use serde::{Deserialize, Serialize};

use super::errors::zone_keys_error;
use crate::operations::{
    DsReport, OperationError, OperationResult, Operations, Outcome, zone_name,
};

/// The steps taken by an operation on managed keys, and the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySteps {
    /// The zone, with its final dot.
    pub zone: String,
    /// The affected keys.
    pub keys: Vec<u32>,
    /// Descriptions of the steps.
    pub steps: Vec<String>,
    /// The next step, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<ListedStep>,
}

/// A future step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedStep {
    /// Description of the step.
    pub step: String,
    /// When, in seconds since 1970; none if it waits for the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
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
    /// Replaces keys by new ones.
    pub(crate) fn roll_keys(&self, zone: &str, role: Option<&str>) -> Outcome {
        let name = zone_name(zone)?;
        let role = match role {
            None => None,
            Some("csk") => Some(KeyRole::Combined),
            Some("ksk") => Some(KeyRole::KeySigning),
            Some("zsk") => Some(KeyRole::ZoneSigning),
            Some(other) => {
                return Err(OperationError::invalid(format!(
                    "expected role csk, ksk or zsk, found {other:?}; to change the algorithm, change it in the \
                     [[dnssec_policy]] and reload"
                )));
            }
        };
        let rolled = self.rollover.roll(name.as_name(), role, now_seconds());
        let (keys, progress) = rolled.map_err(rollover_error(&name))?;
        if keys.is_empty() {
            return Err(OperationError::not_found(format!(
                "zone {name} has no active key of this role; see `nameward key list {name}`"
            )));
        }
        tracing::info!("zone {name}: rollover of keys {keys:?} requested via control socket");
        self.key_steps(&name, keys, &progress)
    }

    /// Records the DS state at the parent, as observed by an operator.
    pub(crate) fn report_ds(&self, zone: &str, key: Option<u32>, report: DsReport) -> Outcome {
        let name = zone_name(zone)?;
        let sight = match report {
            DsReport::Seen => DsSight::Seen,
            DsReport::Gone => DsSight::Gone,
        };
        let noted = self
            .rollover
            .note_ds((name.as_name(), key), sight, now_seconds());
        let (keys, progress) = noted.map_err(rollover_error(&name))?;
        if keys.is_empty() {
            return Err(OperationError::conflict(format!(
                "zone {name}: no rollover is waiting for this; see `nameward zone status {name}`. A removed DS is \
                 accepted only after parent_registration_delay, because the parent may restore it until then"
            )));
        }
        self.key_steps(&name, keys, &progress)
    }

    fn key_steps(&self, name: &NameBuf, keys: Vec<u32>, progress: &KeyProgress) -> Outcome {
        (self.keys_changed)(*name);
        let status = self.rollover.status(name.as_name(), now_seconds());
        let status = status.map_err(rollover_error(name))?;
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

    /// Refuses names of unknown policies.
    pub(crate) fn check_policies(&self, names: &[String]) -> Outcome<()> {
        let unknown = names.iter().find(|name| !self.rollover.knows_policy(name));
        match unknown {
            None => Ok(()),
            Some(name) => Err(OperationError::invalid(format!(
                "no [[dnssec_policy]] {name:?} is configured; use {NO_POLICY:?} for none"
            ))),
        }
    }

    /// Refuses manual changes of managed keys.
    pub(crate) fn check_manual_change(&self, name: &NameBuf) -> Outcome<()> {
        let rank = (self.rank_of)(name.as_name());
        let policy = self.rollover.manager(name.as_name(), rank, now_seconds());
        match policy {
            None => Ok(()),
            Some(policy) => Err(OperationError::refused(format!(
                "the keys of zone {name} are managed by dnssec_policy {policy:?}: use `nameward key rollover {name}` \
                 to replace them, or remove dnssec_policy from the zone to stop signing"
            ))),
        }
    }
}

/// Converts a key processing error to an operation error.
fn rollover_error(name: &NameBuf) -> impl Fn(RolloverError) -> OperationError {
    let name = *name;
    move |error| match error {
        RolloverError::NoPolicy => OperationError::refused(format!(
            "zone {name} has no dnssec_policy: manage its keys with `nameward key add`, `activate` and `remove`"
        )),
        RolloverError::Keys(ZoneKeysError::Refused(refusal)) => {
            OperationError::refused(format!("zone {name}: {refusal}"))
        }
        RolloverError::Keys(error) => zone_keys_error(&name)(error),
        RolloverError::NotLoaded => OperationError::unknown_zone(&name),
        other => OperationError::refused(format!("zone {name}: {other}")),
    }
}
