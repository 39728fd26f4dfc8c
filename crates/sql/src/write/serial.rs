//! A higher serial for a zone whose rows are unchanged but that is served differently: with other keys, signatures or
//! denial.
//!
//! Secondaries only transfer a zone if its serial is higher. PowerDNS leaves that to `pdnsutil increase-serial`; here
//! it is part of the transaction that changes the keys. SOA-EDIT is applied to the stored serial when the zone is
//! served signed, and some of its rules yield the same serial for a whole week; the stored serial is then increased
//! until the served one increases.

use nameward_base::time::seconds_since_1970;
use nameward_dnssec::SoaEdit;
use nameward_wire::{NameBuf, Rcode, Type};
use nameward_zone::change::{
    ChangeOrigin, ChangeRefused, ConditionalChange, Edit, RecordsAt, RrsetData, ZoneChange,
    set_soa_serial, soa_serial,
};
use nameward_zone::{Serial, SerialRule};
use std::time::SystemTime;

/// A change to nothing but the serial.
pub(super) struct RaisedSerial {
    pub(super) apex: NameBuf,
    /// SOA-EDIT before and after the change of signing, `None` while the zone is unsigned.
    pub(super) soa_edit: (SoaEdit, SoaEdit),
    pub(super) now: SystemTime,
}

impl RaisedSerial {
    /// Returns the edit that increases the serial; `None` for a zone without a SOA.
    pub(super) fn edit(&self, records: &dyn RecordsAt) -> Result<Option<Edit>, ChangeRefused> {
        let mut soa = None;
        records.each_record(self.apex.as_name(), &mut |rtype, ttl, rdata| {
            if rtype == Type::SOA {
                soa = Some((ttl, rdata.to_vec()));
            }
        });
        let Some((ttl, mut rdata)) = soa else {
            return Ok(None);
        };
        let unreadable = || ChangeRefused {
            rcode: Rcode::ServFail,
            reason: format!("zone {}: invalid SOA record", self.apex),
        };
        let serial = soa_serial(&rdata).ok_or_else(unreadable)?;
        set_soa_serial(&mut rdata, self.next(serial));
        Ok(Some(Edit::Replace(RrsetData {
            name: self.apex,
            rtype: Type::SOA,
            ttl,
            records: vec![rdata.into()],
        })))
    }

    fn next(&self, serial: Serial) -> Serial {
        let seconds = seconds_since_1970(self.now) as u32;
        let shown = |edit: SoaEdit, serial: Serial| Serial(edit.serial(serial.0, seconds));
        let (before, after) = self.soa_edit;
        let next = serial.raised(SerialRule::default(), self.now);
        let shown_before = shown(before, serial);
        if shown(after, next).is_after(shown_before) {
            next
        } else {
            shown_before.plus(1)
        }
    }
}

impl ConditionalChange for RaisedSerial {
    fn names(&self) -> Vec<NameBuf> {
        vec![self.apex]
    }

    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
        Ok(ZoneChange {
            edits: self.edit(records)?.into_iter().collect(),
            origin: ChangeOrigin::Operator,
            now: self.now,
            serial: SerialRule::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_shown_serial_increases_with_every_soa_edit() {
        let now = 1_794_722_400;
        let edits = [
            SoaEdit::None,
            SoaEdit::IncrementWeeks,
            SoaEdit::InceptionEpoch,
            SoaEdit::InceptionIncrement,
        ];
        for before in edits {
            for after in edits {
                for serial in [1, 10, 2_026_111_201, 2_026_111_500] {
                    let raised = RaisedSerial {
                        apex: "example.".parse().unwrap(),
                        soa_edit: (before, after),
                        now: SystemTime::UNIX_EPOCH + Duration::from_secs(now),
                    };
                    let next = raised.next(Serial(serial));
                    let old = Serial(before.serial(serial, now as u32));
                    let new = Serial(after.serial(next.0, now as u32));
                    assert!(new.is_after(old), "{before:?} {after:?} {serial}");
                }
            }
        }
    }
}
