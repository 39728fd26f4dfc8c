//! Compares an UPDATE with a zone: permission, prerequisites, and the edits that its steps become.
//!
//! The names of the message are copied when they are first needed, and each step sees the result of the earlier
//! steps, so that "the last NS of the apex" means the last one at that moment. The cost is that of the message and of
//! the names in it, whatever the size of the zone.

use super::message::{Prerequisite, UpdateRequest, UpdateStep, canonical, refused};
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::SerialRule;
use nameward_zone::change::{
    ChangeAuthor, ChangeOrigin, ChangeRefused, ConditionalChange, Edit, NewRecord, RecordsAt,
    RrsetData, SignedBy, ZoneChange, soa_serial,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Decides which records a client may change.
pub trait UpdatePermission: Send + Sync {
    /// Checks whether the client may change records of this owner and type.
    fn permits(&self, owner: Name<'_>, rtype: Type) -> bool;

    /// Returns the client's name for the zone history.
    fn author(&self) -> Option<Arc<ChangeAuthor>> {
        None
    }
}

impl UpdatePermission for Box<dyn UpdatePermission> {
    fn permits(&self, owner: Name<'_>, rtype: Type) -> bool {
        (**self).permits(owner, rtype)
    }

    fn author(&self) -> Option<Arc<ChangeAuthor>> {
        (**self).author()
    }
}

/// An UPDATE for a zone.
pub struct UpdateChange<P> {
    /// The message.
    pub request: UpdateRequest,
    /// The permissions of the client.
    pub permission: P,
    /// How the serial is incremented.
    pub serial: SerialRule,
    /// The current time, for serials that are dates.
    pub now: SystemTime,
}

impl<P: UpdatePermission> ConditionalChange for UpdateChange<P> {
    fn author(&self) -> Option<Arc<ChangeAuthor>> {
        self.permission.author()
    }

    fn names(&self) -> Vec<NameBuf> {
        let request = &self.request;
        let conditions = request.prerequisites.iter().map(Prerequisite::name);
        let steps = request.steps.iter().map(UpdateStep::name);
        conditions.chain(steps).map(NameBuf::from).collect()
    }

    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
        if records.signed_by() == SignedBy::Elsewhere {
            let reason = "the zone was signed elsewhere: no change could keep its signatures right";
            return Err(refused(Rcode::Refused, reason));
        }
        let mut draft = UpdateDraft {
            apex: self.request.zone.as_name(),
            records,
            owners: BTreeMap::new(),
            edits: Vec::new(),
        };
        // Before the prerequisites: their results would reveal the zone's contents to unauthorized clients.
        for step in &self.request.steps {
            self.check_permission(step, &mut draft)?;
        }
        for prerequisite in &self.request.prerequisites {
            draft.check(prerequisite)?;
        }
        for step in &self.request.steps {
            draft.take(step);
        }
        Ok(ZoneChange {
            edits: draft.edits,
            origin: ChangeOrigin::Operator,
            now: self.now,
            serial: self.serial,
        })
    }
}

impl<P: UpdatePermission> UpdateChange<P> {
    fn check_permission(
        &self,
        step: &UpdateStep,
        draft: &mut UpdateDraft<'_>,
    ) -> Result<(), ChangeRefused> {
        let name = step.name();
        let (signed_by, is_apex) = (draft.records.signed_by(), name == draft.apex);
        let is_refused = |rtype: Type| match signed_by {
            // A deletion that has no effect on the served zone would look as if it had.
            SignedBy::ThisServer(_) => !signed_by.takes(rtype, is_apex),
            SignedBy::Nobody | SignedBy::Elsewhere => {
                matches!(step, UpdateStep::Add { .. }) && !signed_by.takes(rtype, is_apex)
            }
        };
        let check = |rtype: Type| {
            if is_refused(rtype) {
                let reason = format!(
                    "{name} {rtype}: records of this type are made by the server that signs the zone"
                );
                return Err(refused(Rcode::Refused, reason));
            }
            match self.permission.permits(name, rtype) {
                true => Ok(()),
                false => {
                    let reason = format!("{name} {rtype}: no rule of the zone permits that");
                    Err(refused(Rcode::Refused, reason))
                }
            }
        };
        match step.rtype() {
            Some(rtype) => check(rtype),
            // A client may delete a name if it may delete each of its RRsets.
            None => {
                let types = draft.owner(name).rrsets.keys().copied();
                let mut deleted = types.filter(|rtype| !(is_apex && stays_at_apex(*rtype)));
                deleted.try_for_each(check)
            }
        }
    }
}

/// Checks whether a type remains when all RRsets of the apex are deleted (RFC 2136 section 3.4.2.3).
fn stays_at_apex(rtype: Type) -> bool {
    matches!(rtype, Type::SOA | Type::NS)
}

/// Checks whether a type is allowed next to a CNAME (RFC 4034 section 3, RFC 2535 section 2.3.5).
fn may_stand_beside_cname(rtype: Type) -> bool {
    matches!(
        rtype,
        Type::CNAME | Type::RRSIG | Type::NSEC | Type::KEY | Type::SIG
    )
}

/// The data of an RRset as in the zone, by canonical form.
type Values = BTreeMap<Vec<u8>, Vec<u8>>;

/// The records of one name after the steps so far.
#[derive(Default)]
struct UpdatedName {
    rrsets: BTreeMap<Type, Values>,
}

/// A change being built.
struct UpdateDraft<'d> {
    apex: Name<'d>,
    records: &'d dyn RecordsAt,
    owners: BTreeMap<Vec<u8>, UpdatedName>,
    edits: Vec<Edit>,
}

impl UpdateDraft<'_> {
    fn owner(&mut self, name: Name<'_>) -> &mut UpdatedName {
        let key = name.as_wire().to_ascii_lowercase();
        self.owners.entry(key).or_insert_with(|| {
            let mut owner = UpdatedName::default();
            self.records.each_record(name, &mut |rtype, _, rdata| {
                let values = owner.rrsets.entry(rtype).or_default();
                values.insert(canonical(rtype, rdata.to_vec()), rdata.to_vec());
            });
            owner
        })
    }

    /// Compares a prerequisite with the zone (RFC 2136 section 3.2).
    fn check(&mut self, prerequisite: &Prerequisite) -> Result<(), ChangeRefused> {
        let name = prerequisite.name();
        let owner = self.owner(name);
        let (is_met, rcode, reason) = match prerequisite {
            Prerequisite::NameIsInUse(_) => (
                !owner.rrsets.is_empty(),
                Rcode::NxDomain,
                format!("{name} owns no record"),
            ),
            Prerequisite::NameIsNotInUse(_) => (
                owner.rrsets.is_empty(),
                Rcode::YxDomain,
                format!("{name} owns records"),
            ),
            Prerequisite::RrsetExists(_, rtype) => (
                owner.rrsets.contains_key(rtype),
                Rcode::NxRrset,
                format!("{name} {rtype} does not exist"),
            ),
            Prerequisite::RrsetIsAbsent(_, rtype) => (
                !owner.rrsets.contains_key(rtype),
                Rcode::YxRrset,
                format!("{name} {rtype} exists"),
            ),
            Prerequisite::RrsetIs(_, rtype, wanted) => {
                let values = owner.rrsets.get(rtype);
                let is_equal = |values: &Values| values.keys().eq(wanted.iter());
                (
                    values.is_some_and(is_equal),
                    Rcode::NxRrset,
                    format!("{name} {rtype} has other data"),
                )
            }
        };
        match is_met {
            true => Ok(()),
            false => Err(refused(rcode, format!("prerequisite not met: {reason}"))),
        }
    }

    /// Performs a step, or ignores it where the RFC says so (RFC 2136 section 3.4.2).
    fn take(&mut self, step: &UpdateStep) {
        let name = NameBuf::from(step.name());
        let is_apex = step.name() == self.apex;
        match step {
            UpdateStep::Add {
                rtype, ttl, rdata, ..
            } => self.add(name, *rtype, *ttl, rdata),
            UpdateStep::DeleteName(_) => {
                let keep = |rtype: &Type, _: &mut Values| is_apex && stays_at_apex(*rtype);
                self.owner(name.as_name()).rrsets.retain(keep);
                self.edits.push(Edit::DeleteName { name });
            }
            UpdateStep::DeleteRrset(_, rtype) if is_apex && stays_at_apex(*rtype) => {}
            UpdateStep::DeleteRrset(_, rtype) => {
                self.owner(name.as_name()).rrsets.remove(rtype);
                let rtype = *rtype;
                self.edits.push(Edit::DeleteRrset { name, rtype });
            }
            UpdateStep::DeleteRecord { rtype, rdata, .. } => self.delete(name, *rtype, rdata),
        }
    }

    /// Adds a record (RFC 2136 section 3.4.2.2).
    fn add(&mut self, name: NameBuf, rtype: Type, ttl: u32, rdata: &[u8]) {
        let owner = self.owner(name.as_name());
        let (has_cname, has_others) = (
            owner.rrsets.contains_key(&Type::CNAME),
            owner
                .rrsets
                .keys()
                .any(|other| !may_stand_beside_cname(*other)),
        );
        let is_passed_over = match rtype {
            Type::CNAME => has_others,
            _ if has_cname && !may_stand_beside_cname(rtype) => true,
            Type::SOA => !is_forward(owner.rrsets.get(&Type::SOA), rdata),
            _ => false,
        };
        if is_passed_over {
            return;
        }
        let values = owner.rrsets.entry(rtype).or_default();
        // At most one record of these types; for WKS (RFC 1035 section 3.4.2) one for each address and protocol.
        let replaced: Vec<Vec<u8>> = match rtype {
            Type::SOA | Type::CNAME | Type::DNAME => std::mem::take(values).into_values().collect(),
            WKS => {
                let is_same = |stored: &&Vec<u8>| stored.get(..5) == rdata.get(..5);
                values.values().filter(is_same).cloned().collect()
            }
            _ => Vec::new(),
        };
        if !replaced.is_empty() {
            values.retain(|_, stored| !replaced.contains(stored));
        }
        let key = canonical(rtype, rdata.to_vec());
        values.entry(key).or_insert_with(|| rdata.to_vec());
        let rrset = RrsetData {
            name,
            rtype,
            ttl,
            records: vec![NewRecord {
                rdata: rdata.to_vec(),
                disabled: false,
            }],
        };
        match rtype {
            Type::SOA | Type::CNAME | Type::DNAME => self.edits.push(Edit::Replace(rrset)),
            _ => {
                let gone = replaced.into_iter().filter(|old| old != rdata).collect();
                self.push_deletion(name, rtype, gone);
                self.push_addition(rrset);
            }
        }
    }

    /// Deletes a record (RFC 2136 section 3.4.2.4).
    fn delete(&mut self, name: NameBuf, rtype: Type, rdata: &[u8]) {
        let is_last_name_server = |values: &Values| rtype == Type::NS && values.len() == 1;
        let is_apex = name.as_name() == self.apex;
        let owner = self.owner(name.as_name());
        let Some(values) = owner.rrsets.get_mut(&rtype) else {
            return;
        };
        if rtype == Type::SOA || is_apex && is_last_name_server(values) {
            return;
        }
        let Some(stored) = values.remove(&canonical(rtype, rdata.to_vec())) else {
            return;
        };
        if values.is_empty() {
            owner.rrsets.remove(&rtype);
        }
        self.push_deletion(name, rtype, vec![stored]);
    }

    /// Deletes records; consecutive deletions in one RRset become one edit.
    fn push_deletion(&mut self, owner: NameBuf, of: Type, gone: Vec<Vec<u8>>) {
        if gone.is_empty() {
            return;
        }
        if let Some(Edit::DeleteRecords { name, rtype, rdata }) = self.edits.last_mut()
            && *rtype == of
            && *name == owner
        {
            rdata.extend(gone);
            return;
        }
        self.edits.push(Edit::DeleteRecords {
            name: owner,
            rtype: of,
            rdata: gone,
        });
    }

    /// Adds a record; consecutive additions with the same RRset and TTL become one edit.
    fn push_addition(&mut self, rrset: RrsetData) {
        if let Some(Edit::Add(last)) = self.edits.last_mut()
            && (last.rtype, last.ttl) == (rrset.rtype, rrset.ttl)
            && last.name == rrset.name
        {
            last.records.extend(rrset.records);
            return;
        }
        self.edits.push(Edit::Add(rrset));
    }
}

/// RFC 1035 section 3.4.2.
const WKS: Type = Type(11);

/// Checks whether a SOA may replace the zone's: RFC 2136 section 3.4.2.2 requires a later serial (RFC 1982).
fn is_forward(zone: Option<&Values>, rdata: &[u8]) -> bool {
    let known = zone.and_then(|values| values.values().next());
    match (known.and_then(|soa| soa_serial(soa)), soa_serial(rdata)) {
        (Some(old), Some(new)) => new.is_after(old),
        _ => false,
    }
}
