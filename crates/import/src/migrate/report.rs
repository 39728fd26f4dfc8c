//! The migration report: the outcome for each setting of the other server, with file and line.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::Path,
    sync::Arc,
};

/// A line in a file of the other server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigLocation {
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl ConfigLocation {
    pub(crate) fn new(file: &Arc<str>, line: u32) -> Self {
        let file = Arc::clone(file);
        Self { file, line }
    }

    /// Returns the start of a file.
    pub(crate) fn start_of(path: &Path) -> Self {
        Self {
            file: path.to_string_lossy().into(),
            line: 1,
        }
    }
}

impl fmt::Display for ConfigLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The outcome for a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImportVerdict {
    /// It has the same meaning here.
    Taken,
    /// It is converted with a different meaning, which the note describes.
    Changed,
    /// Nothing here depends on it.
    NotNeeded,
    /// There is no equivalent here; the server works without it.
    NotPossible,
    /// There is no equivalent here, and a zone would leak or break without it.
    Breaks,
}

impl ImportVerdict {
    /// Every verdict, in the order of the summary line.
    pub const ALL: [Self; 5] = [
        Self::Taken,
        Self::Changed,
        Self::NotNeeded,
        Self::NotPossible,
        Self::Breaks,
    ];

    pub fn words(self) -> &'static str {
        match self {
            Self::Taken => "converted",
            Self::Changed => "converted with changes",
            Self::NotNeeded => "not needed",
            Self::NotPossible => "not supported",
            Self::Breaks => "not supported, would leak or break",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// First location of the setting.
    pub location: ConfigLocation,
    pub verdict: ImportVerdict,
    /// The setting and its outcome.
    pub text: String,
    /// How often it occurs.
    pub count: usize,
}

impl fmt::Display for ImportNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (location, words, text) = (&self.location, self.verdict.words(), &self.text);
        write!(f, "{location}: {words}: {text}")?;
        match self.count {
            0 | 1 => Ok(()),
            2 => write!(f, " (here and once more)"),
            count => write!(f, " (here and {} more times)", count - 1),
        }
    }
}

/// All lines: equal ones once, with the location of the first.
#[derive(Debug, Default)]
pub struct ImportReport {
    notes: Vec<ImportNote>,
    known: HashMap<(ImportVerdict, String), usize>,
    /// Every location for which a line was added, including those of equal lines.
    locations: HashSet<ConfigLocation>,
}

impl ImportReport {
    pub fn add(
        &mut self,
        verdict: ImportVerdict,
        location: &ConfigLocation,
        text: impl Into<String>,
    ) {
        let text = text.into();
        self.locations.insert(location.clone());
        let next = self.notes.len();
        match *self.known.entry((verdict, text.clone())).or_insert(next) {
            at if at < next => self.notes[at].count += 1,
            _ => self.notes.push(ImportNote {
                location: location.clone(),
                verdict,
                text,
                count: 1,
            }),
        }
    }

    /// Adds a line for a setting that was used, unless there is one for its location.
    pub(crate) fn add_used(&mut self, location: &ConfigLocation, text: impl Into<String>) {
        if !self.locations.contains(location) {
            self.add(ImportVerdict::Taken, location, text);
        }
    }

    /// Checks whether a line, for this location or another, reports the outcome of a statement of this name that is not
    /// converted.
    pub(crate) fn has_line_of(&self, statement: &str) -> bool {
        let mut notes = self.notes.iter();
        notes.any(|note| {
            let rest = note.text.strip_prefix(statement);
            note.verdict != ImportVerdict::Taken && rest.is_some_and(|rest| rest.starts_with(':'))
        })
    }

    /// Returns the lines in file order.
    pub fn notes(&self) -> Vec<&ImportNote> {
        let mut notes: Vec<&ImportNote> = self.notes.iter().collect();
        let mut files: Vec<&str> = Vec::new();
        for note in &self.notes {
            if !files.contains(&&*note.location.file) {
                files.push(&note.location.file);
            }
        }
        let rank: HashMap<&str, usize> = files.into_iter().zip(0..).collect();
        notes.sort_by_key(|note| (rank[&*note.location.file], note.location.line));
        notes
    }

    /// Returns the number of lines with a verdict.
    pub fn count(&self, verdict: ImportVerdict) -> usize {
        let notes = self.notes.iter();
        notes.filter(|note| note.verdict == verdict).count()
    }
}
