//! The report of a move: what became of each setting of the other server, with file and line.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

/// A line of a file of the other server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigPlace {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The end of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MoveVerdict {
    /// It means the same here.
    Taken,
    /// It is taken, with another meaning that the note describes.
    Changed,
    /// Nothing here depends on it.
    NotNeeded,
    /// There is nothing like it here; the server does its work without it.
    NotPossible,
    /// There is nothing like it here, and a zone would leak or break without it.
    Breaks,
}

impl MoveVerdict {
    /// Every verdict, in the order of the closing line.
    pub const ALL: [Self; 5] = [
        Self::Taken,
        Self::Changed,
        Self::NotNeeded,
        Self::NotPossible,
        Self::Breaks,
    ];

    /// The words of the report.
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

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveNote {
    /// Where the setting stands first.
    pub place: ConfigPlace,
    /// Its end.
    pub verdict: MoveVerdict,
    /// The setting, and what becomes of it.
    pub text: String,
    /// How often it stands there.
    pub count: usize,
}

impl fmt::Display for MoveNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, words, text) = (&self.place, self.verdict.words(), &self.text);
        write!(f, "{place}: {words}: {text}")?;
        match self.count {
            0 | 1 => Ok(()),
            2 => write!(f, " (here and once more)"),
            count => write!(f, " (here and {} times more)", count - 1),
        }
    }
}

/// All lines: equal ones once, with the place of the first.
#[derive(Debug, Default)]
pub struct MoveReport {
    notes: Vec<MoveNote>,
    known: HashMap<(MoveVerdict, String), usize>,
    /// Every place that a line was added for, those of equal lines too.
    places: HashSet<ConfigPlace>,
}

impl MoveReport {
    /// Adds a line.
    pub fn add(&mut self, verdict: MoveVerdict, place: &ConfigPlace, text: impl Into<String>) {
        let text = text.into();
        self.places.insert(place.clone());
        let next = self.notes.len();
        match *self.known.entry((verdict, text.clone())).or_insert(next) {
            at if at < next => self.notes[at].count += 1,
            _ => self.notes.push(MoveNote {
                place: place.clone(),
                verdict,
                text,
                count: 1,
            }),
        }
    }

    /// Adds a line for a setting that was made use of, unless there is one for its place.
    pub(crate) fn add_used(&mut self, place: &ConfigPlace, text: impl Into<String>) {
        if !self.places.contains(place) {
            self.add(MoveVerdict::Taken, place, text);
        }
    }

    /// Whether a line, for this place or another, says what becomes of a statement of this name that is not taken.
    pub(crate) fn has_line_of(&self, statement: &str) -> bool {
        let mut notes = self.notes.iter();
        notes.any(|note| {
            let rest = note.text.strip_prefix(statement);
            note.verdict != MoveVerdict::Taken && rest.is_some_and(|rest| rest.starts_with(':'))
        })
    }

    /// The lines in the order of the files.
    pub fn notes(&self) -> Vec<&MoveNote> {
        let mut notes: Vec<&MoveNote> = self.notes.iter().collect();
        let mut files: Vec<&str> = Vec::new();
        for note in &self.notes {
            if !files.contains(&&*note.place.file) {
                files.push(&note.place.file);
            }
        }
        let rank: HashMap<&str, usize> = files.into_iter().zip(0..).collect();
        notes.sort_by_key(|note| (rank[&*note.place.file], note.place.line));
        notes
    }

    /// How many lines have a verdict.
    pub fn count(&self, verdict: MoveVerdict) -> usize {
        let notes = self.notes.iter();
        notes.filter(|note| note.verdict == verdict).count()
    }
}
