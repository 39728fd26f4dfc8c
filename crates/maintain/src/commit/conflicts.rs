//! Zone files that contradict changes made through this server: kept here until the file or an operator settles it.

use crate::follow::FaultyZoneList;
use crate::table::lower_case;
use nameward_base::sync::Mutex;
use nameward_wire::Name;
use std::collections::BTreeMap;

/// Zones whose contradiction is described; of more, the number alone.
const DESCRIBED_MAX: usize = 1000;

/// The version of a zone that is served while its file and the changes contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictSide {
    /// The version with the changes: the edited file is not taken.
    Changes,
    /// The file, which came back without the changes: these are in the journal, and further ones are refused.
    File,
}

/// The zones of each side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileConflicts {
    /// Zones that are served with the changes.
    pub with_changes: FaultyZoneList,
    /// Zones that are served as their files have them.
    pub as_file: FaultyZoneList,
}

/// The contradictions at this moment, by the names of zones in lower case.
#[derive(Default)]
pub(crate) struct ConflictLog(Mutex<Conflicts>);

type Conflicts = BTreeMap<Box<[u8]>, (ConflictSide, String)>;

impl ConflictLog {
    /// Notes a contradiction.
    pub(crate) fn note(&self, zone: Name<'_>, side: ConflictSide, text: impl FnOnce() -> String) {
        let mut conflicts = self.0.lock();
        let has_room = conflicts.len() < DESCRIBED_MAX;
        let text = has_room.then(text).unwrap_or_default();
        conflicts.insert(lower_case(zone), (side, text));
    }

    /// Notes that the file and the changes of a zone agree, or that it has no file any more.
    pub(crate) fn forget(&self, zone: Name<'_>) {
        let mut conflicts = self.0.lock();
        // Nearly always there is none, and then no name has to be written.
        if !conflicts.is_empty() {
            conflicts.remove(&lower_case(zone));
        }
    }

    /// Notes that the file of a zone has all that is served. Where the file is served without the changes, that settles
    /// nothing.
    pub(crate) fn settle_by_file(&self, zone: Name<'_>) {
        let mut conflicts = self.0.lock();
        if !conflicts.is_empty()
            && let Some((ConflictSide::Changes, _)) = conflicts.get(&lower_case(zone))
        {
            conflicts.remove(&lower_case(zone));
        }
    }

    pub(crate) fn list(&self) -> FileConflicts {
        let mut list = FileConflicts::default();
        for (zone, (side, text)) in &*self.0.lock() {
            let zones = match side {
                ConflictSide::Changes => &mut list.with_changes,
                ConflictSide::File => &mut list.as_file,
            };
            zones.add(Name::from_valid_wire(zone), text);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    #[test]
    fn a_contradiction_is_listed_until_it_is_settled() {
        let log = ConflictLog::default();
        let [one, two] = ["One.test.", "two.test."].map(|name| name.parse::<NameBuf>().unwrap());
        log.note(one.as_name(), ConflictSide::File, || "a".into());
        log.note(two.as_name(), ConflictSide::Changes, || "b".into());
        let list = log.list();
        assert_eq!((list.as_file.number, list.with_changes.number), (1, 1));
        assert_eq!(list.as_file.first[0].name, "one.test.");
        log.settle_by_file(one.as_name());
        assert_eq!(
            log.list().as_file.number,
            1,
            "the changes are still not served"
        );
        log.forget("ONE.test.".parse::<NameBuf>().unwrap().as_name());
        log.settle_by_file(two.as_name());
        assert_eq!(log.list(), FileConflicts::default());
    }
}
