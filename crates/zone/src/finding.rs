//! Findings of the checks of a zone, with the place they are about.

use crate::draft::{DraftEntry, Flaw};
use core::fmt;
use nameward_wire::Name;
use nameward_wire::zonefile::{RecordPlace, Severity};

/// Messages of one severity that are kept; the rest is counted.
pub(crate) const KEPT: usize = 20;

/// Something the operator should know about a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The place of the record it is about; none if it is about the whole zone.
    pub place: RecordPlace,
    /// The found and the expected.
    pub message: String,
    /// How many findings that are not listed this one stands for; 0 if it is one itself.
    pub unlisted: usize,
}

/// The findings of one zone, bounded.
#[derive(Default)]
pub(crate) struct Findings {
    errors: Vec<Finding>,
    more_errors: usize,
    /// An error is about the whole zone, not only about a name.
    is_fatal: bool,
    warnings: Vec<Finding>,
    more_warnings: usize,
    /// Nobody will read warnings.
    is_silent: bool,
}

impl Findings {
    pub(crate) fn error(&mut self, place: RecordPlace, message: fmt::Arguments<'_>) {
        self.is_fatal = true;
        self.error_of_name(place, message);
    }

    /// An error that breaks one name, and not the zone.
    pub(crate) fn error_of_name(&mut self, place: RecordPlace, message: fmt::Arguments<'_>) {
        if self.errors.len() >= KEPT {
            self.more_errors += 1;
            return;
        }
        let message = message.to_string();
        self.errors.push(Finding {
            severity: Severity::Error,
            place,
            message,
            unlisted: 0,
        });
    }

    /// Passes over warnings from now on.
    pub(crate) fn silence(&mut self) {
        self.is_silent = true;
    }

    /// Whether warnings are passed over: then it is not worth looking for them.
    pub(crate) fn are_silent(&self) -> bool {
        self.is_silent
    }

    pub(crate) fn warning(&mut self, place: RecordPlace, message: fmt::Arguments<'_>) {
        if self.is_silent {
            return;
        }
        if self.warnings.len() >= KEPT {
            self.more_warnings += 1;
            return;
        }
        let message = message.to_string();
        self.warnings.push(Finding {
            severity: Severity::Warning,
            place,
            message,
            unlisted: 0,
        });
    }

    /// Counts warnings that nobody will read.
    pub(crate) fn count_warnings(&mut self, more: usize) {
        self.more_warnings += more;
    }

    /// Reports a flaw; one that is tolerated breaks its owner only.
    pub(crate) fn flaw(
        &mut self,
        flaw: Flaw,
        owner: Name<'_>,
        entry: &DraftEntry,
        tolerated: bool,
    ) {
        let place = entry.from;
        let mut say = |message: fmt::Arguments<'_>| match flaw.is_error() {
            true if tolerated => self.error_of_name(place, message),
            true => self.error(place, message),
            false => self.warning(place, message),
        };
        match flaw {
            Flaw::Duplicate => say(format_args!(
                "{owner} {} stands there twice: merged",
                entry.rtype
            )),
            Flaw::TtlsDiffer(t) => say(format_args!(
                "the TTLs of {owner} {t} differ: the least is used"
            )),
            Flaw::CnameAndOther => say(format_args!(
                "{owner} has a CNAME and also {}: a CNAME stands alone",
                entry.rtype
            )),
            Flaw::Several(t) => say(format_args!("expected one {t} at {owner}, found several")),
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
                    place: RecordPlace::NONE,
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
