//! Findings of the zone checks, each with the source location it refers to.

use crate::draft::{DraftEntry, Flaw};
use core::fmt;
use nameward_wire::Name;
use nameward_wire::zonefile::{RecordLocation, Severity};

/// Maximum number of messages kept per severity; further ones are only counted.
pub(crate) const KEPT: usize = 20;

/// A problem with a zone that is reported to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Error or warning.
    pub severity: Severity,
    /// Location of the record; none if the finding is about the whole zone.
    pub location: RecordLocation,
    /// Describes what was found and what was expected.
    pub message: String,
    /// The number of unlisted findings that this entry summarises; 0 for an ordinary finding.
    pub unlisted: usize,
}

/// The findings for one zone, bounded in number.
#[derive(Default)]
pub(crate) struct Findings {
    errors: Vec<Finding>,
    more_errors: usize,
    /// At least one error affects the whole zone, not just a single name.
    is_fatal: bool,
    warnings: Vec<Finding>,
    more_warnings: usize,
    /// Warnings are not collected.
    is_silent: bool,
}

impl Findings {
    pub(crate) fn error(&mut self, location: RecordLocation, message: fmt::Arguments<'_>) {
        self.name_error(location, message, false);
    }

    /// Adds an error of a name; a tolerated one breaks that name and not the zone.
    pub(crate) fn name_error(
        &mut self,
        location: RecordLocation,
        message: fmt::Arguments<'_>,
        is_tolerated: bool,
    ) {
        self.is_fatal |= !is_tolerated;
        let more = &mut self.more_errors;
        keep(&mut self.errors, more, (Severity::Error, location), message);
    }

    /// Discards warnings from now on.
    pub(crate) fn silence(&mut self) {
        self.is_silent = true;
    }

    /// Checks whether warnings are discarded, in which case searching for them can be skipped.
    pub(crate) fn are_silent(&self) -> bool {
        self.is_silent
    }

    pub(crate) fn warning(&mut self, location: RecordLocation, message: fmt::Arguments<'_>) {
        if !self.is_silent {
            let (list, more) = (&mut self.warnings, &mut self.more_warnings);
            keep(list, more, (Severity::Warning, location), message);
        }
    }

    /// Counts warnings that are not listed.
    pub(crate) fn count_warnings(&mut self, more: usize) {
        self.more_warnings += more;
    }

    /// Reports a flaw; a tolerated one only breaks its owner.
    pub(crate) fn flaw(
        &mut self,
        flaw: Flaw,
        owner: Name<'_>,
        entry: &DraftEntry,
        tolerated: bool,
    ) {
        let location = entry.from;
        let mut say = |message: fmt::Arguments<'_>| {
            if flaw.is_error() {
                self.name_error(location, message, tolerated)
            } else {
                self.warning(location, message)
            }
        };
        match flaw {
            Flaw::Duplicate => say(format_args!(
                "duplicate {owner} {} record: merged",
                entry.rtype
            )),
            Flaw::TtlsDiffer(t) => say(format_args!(
                "{owner} {t} has different TTLs: the lowest is used"
            )),
            Flaw::CnameAndOther => say(format_args!(
                "{owner} has a CNAME and {}: a CNAME cannot coexist with other records",
                entry.rtype
            )),
            Flaw::Several(t) => say(format_args!("more than one {t} record at {owner}")),
            Flaw::TooManyTypes => say(format_args!(
                "{owner} has more than {} types",
                crate::draft::MAX_TYPES
            )),
            Flaw::TooManyRecords(t) => say(format_args!(
                "{owner} {t} has more than {} records",
                crate::draft::MAX_RECORDS
            )),
        }
    }

    pub(crate) fn are_fatal(&self) -> bool {
        self.is_fatal
    }

    pub(crate) fn into_list(self) -> Vec<Finding> {
        let mut list = self.errors;
        list.extend(self.warnings);
        let mut more = |severity, count: usize, what: &str| {
            if count > 0 {
                list.push(Finding {
                    severity,
                    location: RecordLocation::NONE,
                    message: format!("{count} more {what}"),
                    unlisted: count,
                });
            }
        };
        more(Severity::Error, self.more_errors, "errors");
        more(Severity::Warning, self.more_warnings, "warnings");
        list
    }
}

/// Adds a finding to a list, or counts it if the list is full.
fn keep(
    list: &mut Vec<Finding>,
    more: &mut usize,
    (severity, location): (Severity, RecordLocation),
    message: fmt::Arguments<'_>,
) {
    if list.len() >= KEPT {
        *more += 1;
        return;
    }
    list.push(Finding {
        severity,
        location,
        message: message.to_string(),
        unlisted: 0,
    });
}
