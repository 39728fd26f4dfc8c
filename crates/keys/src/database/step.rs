//! The steps of a policy for the keys of a database zone: planned with the existing rows, written in one transaction,
//! then recorded.

use super::comparison::{KeyFamiliarity, RowUse, end_stand_ins, reconcile_keys, unfit_key};
use super::rows::{number_of, read_rows, row, set_metadata};
use super::{DatabaseZoneKeys, LIVES, NotedKeyState, ZONES, note};
use crate::local::{
    KeyPlan, KeyProgress, SigningSettings, ZoneKey, ZoneKeysError, item_name, made_key, wire,
};
use nameward_base::secret::Secret;
use nameward_dnssec::DenialSettings;
use nameward_dnssec::rollover::{self, KeyState, ParentRequest, PolicyKey};
use nameward_sql::write::{
    AttributeChange, Committed, KEY_SERVER, KeyEdit, KeyRefusal, KeyStep, ParentRecords, StoredKey,
    WriteError,
};
use nameward_state::StateChange;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Maximum number of rounds: one makes keys, one takes steps, and others may interfere.
const ROUNDS: usize = 6;
/// The data of CDS and CDNSKEY that request the removal of all DS (RFC 8078 section 4).
const CDS_REMOVAL: [u8; 5] = [0, 0, 0, 0, 0];
const CDNSKEY_REMOVAL: [u8; 5] = [0, 0, 3, 0, 0];
/// SHA-256, which all validators support.
const DIGEST: u8 = 2;

/// The rows of a zone, its keys with states, and the records.
struct ZoneRound<'r> {
    zone: &'r DatabaseZoneKeys<'r>,
    plan: &'r KeyPlan,
    now: u64,
    rows: Vec<StoredKey>,
    keys: Vec<ZoneKey>,
    noted: Vec<NotedKeyState>,
    terms: SigningSettings,
    is_found: bool,
}

/// The keys were changed by others since they were read.
const CHANGED: ZoneKeysError = ZoneKeysError::Refused(KeyRefusal::ChangedMeanwhile);

impl DatabaseZoneKeys<'_> {
    /// Takes all steps that are due for a zone: in the database, then in the state store.
    pub(super) fn take_due_steps(
        &self,
        plan: &KeyPlan,
        now: u64,
    ) -> Result<KeyProgress, ZoneKeysError> {
        let _changing = self.keys.changing.lock();
        let mut made: Vec<Secret<String>> = Vec::new();
        for _ in 0..ROUNDS {
            let round = self.begin_round(plan, now)?;
            let next = rollover::advance(&plan.rollover, &round.lives(), now);
            if !next.missing.is_empty() {
                match self.make_keys(&round, &next.missing) {
                    Ok(contents) => made.extend(contents),
                    Err(error) if error == CHANGED => {}
                    Err(error) => return Err(error),
                }
                continue;
            }
            let rows = round.rows.clone();
            let mut progress = match self.take_steps(round, next) {
                Err(error) if error == CHANGED => continue,
                result => result?,
            };
            let new = rows.iter().filter(|row| made.contains(&row.content));
            progress.made = new.map(number_of).collect();
            return Ok(progress);
        }
        Err(CHANGED)
    }

    fn begin_round<'r>(
        &'r self,
        plan: &'r KeyPlan,
        now: u64,
    ) -> Result<ZoneRound<'r>, ZoneKeysError> {
        let name = self.row.name;
        let rows = self.rows()?;
        let noted = self.keys.noted(name.as_name())?;
        let terms = self.keys.terms(name.as_name())?;
        // The former server knew the states. Its keys are adopted like those of any other manager: what is recorded here is
        // older than its last steps.
        let is_taken_over = self.is_taken_over()?;
        let (acquaintance, known) = match terms.managed {
            Some(_) if !is_taken_over => (KeyFamiliarity::Known, &noted[..]),
            _ => (KeyFamiliarity::New, &[][..]),
        };
        if is_taken_over {
            tracing::info!("zone {name}: taking over the keys from another server");
        }
        let found = reconcile_keys(&read_rows(&rows)?, known, acquaintance, (plan, now));
        let (keys, changes) = found?;
        for change in &changes {
            tracing::warn!("zone {name}: {change}; the dnssec_policy continues from there");
        }
        Ok(ZoneRound {
            zone: self,
            plan,
            now,
            rows,
            keys,
            noted,
            terms,
            is_found: is_taken_over || !changes.is_empty(),
        })
    }

    /// Adds the keys that the policy requires, unused: they are invisible before the next step. Returns their texts.
    fn make_keys(
        &self,
        round: &ZoneRound<'_>,
        missing: &[PolicyKey],
    ) -> Result<Vec<Secret<String>>, ZoneKeysError> {
        let (mut contents, mut changes) = (Vec::new(), Vec::new());
        let mut keys = round.keys.clone();
        for policy_key in missing {
            let key = made_key(policy_key, round.plan.rsa_bits, &keys, round.now)?;
            let row = row(&key);
            contents.push(row.content.clone());
            changes.push(AttributeChange::Key(KeyEdit::Add(row)));
            keys.push(key);
        }
        self.write_step(round, changes, None, false)?;
        // From here on the zone is known, and so are its other keys.
        self.note_all(round, &round.keys, &round.lives())?;
        Ok(contents)
    }

    /// Takes the steps that were planned.
    fn take_steps(
        &self,
        round: ZoneRound<'_>,
        next: rollover::Rollover,
    ) -> Result<KeyProgress, ZoneKeysError> {
        let mut keys = round.keys.clone();
        keys.retain(|key| next.keys.iter().any(|life| life.id == key.number));
        for (key, life) in keys.iter_mut().zip(&next.keys) {
            key.set_life(life.clone());
        }
        end_stand_ins(&mut keys, (round.plan, round.now))?;
        if let Some(unfit) = unfit_key(&keys)? {
            return self.wait_for_settling(&round, unfit);
        }
        let edits = round.key_edits(&keys);
        let is_visible = edits
            .iter()
            .any(|edit| matches!(edit, KeyEdit::SetUse { .. }));
        let request = rollover::parent_request(&round.plan.rollover, &next.keys);
        let before = rollover::parent_request(&round.plan.rollover, &round.lives());
        let managed = round.terms.managed.as_ref();
        let shows_cds = round.plan.shows_cds;
        let is_due = !edits.is_empty()
            || round.is_found
            || request != before
            || managed.is_none_or(|managed| {
                managed.shows_cds != shows_cds
                    || managed.asks_removal != (request == ParentRequest::Removal)
            });
        let took = Instant::now();
        let committed = if is_due {
            let had_cds = shows_cds || managed.is_some_and(|managed| managed.shows_cds);
            let parent = had_cds.then(|| round.parent_records(&keys, &request));
            let mut changes: Vec<AttributeChange> =
                edits.into_iter().map(AttributeChange::Key).collect();
            changes.extend(round.metadata(&keys));
            Some(self.write_step(&round, changes, parent, is_visible)?)
        } else {
            None
        };
        // A database may delay a step: it counts from when it was written.
        let late = took.elapsed().as_secs();
        let lives = keys.iter().filter_map(|key| key.life.as_ref());
        let lives: Vec<KeyState> = lives.map(|life| delayed(life, round.now, late)).collect();
        for (key, life) in keys.iter_mut().zip(&lives) {
            key.set_life(life.clone());
        }
        self.note_all(&round, &keys, &lives)?;
        if let Some(committed) = committed.filter(|committed| committed.is_changed) {
            // If that fails, the step is still in the database.
            if let Err(error) = self.publish(&committed) {
                tracing::warn!("zone {}: {error}", self.row.name);
            }
        }
        Ok(KeyProgress {
            made: Vec::new(),
            steps: next.steps,
            keys,
            next_at: next.next_at,
            // The database reports its own changes.
            is_visible: false,
            reread_at: None,
        })
    }

    /// Leaves everything as it is until the next record is everywhere: then a key takes over from another in one
    /// step, which rows can express.
    fn wait_for_settling(
        &self,
        round: &ZoneRound<'_>,
        unfit: u32,
    ) -> Result<KeyProgress, ZoneKeysError> {
        let lives = round.lives();
        let records = lives.iter().flat_map(KeyState::records);
        let settled = records.filter_map(|record| record.settles_at);
        let next_at = settled.filter(|at| *at > round.now).min();
        if next_at.is_none() {
            return Err(ZoneKeysError::Unfit(unfit));
        }
        self.write_step(round, Vec::new(), None, false)?;
        self.note_all(round, &round.keys, &lives)?;
        Ok(KeyProgress {
            keys: round.keys.clone(),
            next_at,
            ..KeyProgress::default()
        })
    }

    fn write_step(
        &self,
        round: &ZoneRound<'_>,
        changes: Vec<AttributeChange>,
        parent: Option<ParentRecords>,
        raises_serial: bool,
    ) -> Result<Committed, ZoneKeysError> {
        let step = KeyStep {
            expected: round.rows.clone(),
            server: self.keys.server()?,
            changes,
            parent,
            raises_serial,
            now: UNIX_EPOCH + Duration::from_secs(round.now),
        };
        let step = self.database.backend.take_key_step(self.row.id, &step);
        self.database.wait(step).map_err(|error| match error {
            ZoneKeysError::Database { error, .. } if matches!(*error, WriteError::ReadOnly(_)) => {
                ZoneKeysError::Secondary
            }
            error => error,
        })
    }

    /// Records the states of keys and the settings of their zone, in one write.
    fn note_all(
        &self,
        round: &ZoneRound<'_>,
        keys: &[ZoneKey],
        lives: &[KeyState],
    ) -> Result<(), ZoneKeysError> {
        let name = round.zone.row.name;
        let zone = name.as_name();
        let mut changes = Vec::new();
        for (key, life) in keys.iter().zip(lives) {
            let one = NotedKeyState {
                fingerprint: *key.key()?.fingerprint(),
                life: life.clone(),
            };
            if !round.noted.contains(&one) {
                changes.push(note(zone, &one));
            }
        }
        let is_gone = |one: &&NotedKeyState| !lives.iter().any(|life| life.id == one.life.id);
        let gone = round.noted.iter().filter(is_gone);
        let remove = |id| StateChange::remove_item(LIVES, item_name(zone, id));
        changes.extend(gone.map(|one| remove(one.life.id)));
        let terms = round.next_terms(lives);
        match &terms {
            Some(terms) if *terms == round.terms => {}
            Some(terms) => {
                changes.push(StateChange::set_item(ZONES, wire(zone), terms.value()));
            }
            None => changes.push(StateChange::remove_item(ZONES, wire(zone))),
        }
        if !changes.is_empty() {
            self.keys.store()?.write(changes)?;
        }
        Ok(())
    }
}

impl ZoneRound<'_> {
    fn lives(&self) -> Vec<KeyState> {
        let lives = self.keys.iter().filter_map(|key| key.life.clone());
        lives.collect()
    }

    /// Returns the row changes that bring the rows to the required use.
    fn key_edits(&self, keys: &[ZoneKey]) -> Vec<KeyEdit> {
        let mut edits = Vec::new();
        for before in &self.keys {
            let Some(row) = self.row(before.number) else {
                continue;
            };
            let (id, own) = (row.id, keys.iter().find(|key| key.number == before.number));
            let Some(life) = own.and_then(|key| key.life.as_ref()) else {
                edits.push(KeyEdit::Forget(id));
                continue;
            };
            let RowUse {
                is_active,
                is_published,
            } = RowUse::from_state(life);
            if (row.is_active, row.is_published) != (is_active, is_published) {
                edits.push(KeyEdit::SetUse {
                    id,
                    is_active,
                    is_published,
                });
            }
        }
        edits
    }

    fn row(&self, number: u32) -> Option<&StoredKey> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.id == i64::from(number))
    }

    /// Returns the metadata changes of a step: the denial method when signing starts, and the removal of everything
    /// when it ends.
    fn metadata(&self, keys: &[ZoneKey]) -> Vec<AttributeChange> {
        let mut changes = Vec::new();
        // They would request the DS of all active keys.
        if self.plan.shows_cds {
            changes.extend(["PUBLISH-CDS", "PUBLISH-CDNSKEY"].map(|kind| set_metadata(kind, None)));
        }
        let signed_before = self.rows.iter().any(|row| row.is_active);
        let signs = keys.iter().any(|key| key.usage.is_active());
        if !signed_before && signs {
            let denial = &self.plan.denial;
            changes.extend(
                denial
                    .metadata()
                    .map(|(kind, content)| set_metadata(kind, content)),
            );
        }
        if keys.is_empty() {
            let kinds = DenialSettings::METADATA.into_iter().chain([KEY_SERVER]);
            changes.extend(kinds.map(|kind| set_metadata(kind, None)));
        }
        changes
    }

    /// Returns the records that request the DS set that the policy wants from the parent.
    fn parent_records(&self, keys: &[ZoneKey], request: &ParentRequest) -> ParentRecords {
        let zone = self.zone.name();
        let mut records = ParentRecords {
            ttl: self.plan.dnskey_ttl,
            cds: Vec::new(),
            cdnskey: Vec::new(),
        };
        match request {
            _ if !self.plan.shows_cds => {}
            ParentRequest::Nothing => {}
            ParentRequest::Removal => {
                records.cds.push(CDS_REMOVAL.into());
                records.cdnskey.push(CDNSKEY_REMOVAL.into());
            }
            ParentRequest::Keys(numbers) => {
                let wanted = keys.iter().filter(|key| numbers.contains(&key.number));
                for made in wanted.filter_map(|key| key.key().ok()) {
                    records.cds.extend(made.ds(zone, DIGEST));
                    records.cdnskey.push(made.dnskey().to_vec());
                }
            }
        }
        records
    }

    /// Returns the settings to record; none for a zone that is insecure and has no policy.
    fn next_terms(&self, lives: &[KeyState]) -> Option<SigningSettings> {
        let plan = self.plan;
        if lives.is_empty() && plan.rollover.keys.is_empty() {
            return None;
        }
        Some(SigningSettings {
            denial: plan.denial.clone(),
            managed: Some(plan.managed(lives)),
            ..SigningSettings::default()
        })
    }
}

/// Returns a state whose steps of `now` were taken this many seconds later.
fn delayed(life: &KeyState, now: u64, late: u64) -> KeyState {
    let mut life = life.clone();
    for record in life.records_mut() {
        if record.since == now {
            record.since += late;
            record.settles_at = record.settles_at.map(|at| at + late);
        }
    }
    life
}
