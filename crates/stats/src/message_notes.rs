//! Level and time of the last occurrence of each log message, kept next to the ring that has their texts.
//!
//! Texts are identified by a hash with a random key. There are at most twice as many notes as the ring has room; beyond
//! that, the older half is dropped, most of which is no longer in the ring.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

/// The importance of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageLevel {
    /// A fault that stops something from working.
    Error,
    /// An event that an operator should check.
    Warn,
    /// Start, reload, shutdown.
    Info,
    /// A detail for developers.
    Debug,
    /// Everything else.
    Trace,
}

impl MessageLevel {
    /// Returns the name, as in the log level setting.
    pub fn name(self) -> &'static str {
        match self {
            MessageLevel::Error => "error",
            MessageLevel::Warn => "warn",
            MessageLevel::Info => "info",
            MessageLevel::Debug => "debug",
            MessageLevel::Trace => "trace",
        }
    }
}

/// The last occurrence of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageNote {
    /// The level of the message.
    pub level: MessageLevel,
    /// The time of the message.
    pub last: SystemTime,
}

/// The notes on the messages of a ring.
#[derive(Default)]
pub(crate) struct MessageNotes {
    notes: HashMap<u64, (u64, MessageNote)>,
    keys: RandomState,
    /// Incremented by each message: clocks may go back.
    count: u64,
}

impl MessageNotes {
    /// Records an occurrence of a message in a ring with room for `capacity`.
    pub(crate) fn note(&mut self, text: &str, note: MessageNote, capacity: usize) {
        self.count += 1;
        let key = self.keys.hash_one(text);
        self.notes.insert(key, (self.count, note));
        if self.notes.len() > 2 * capacity {
            let mut counts: Vec<u64> = self.notes.values().map(|(count, _)| *count).collect();
            let middle = counts.len() / 2;
            let (_, oldest_kept, _) = counts.select_nth_unstable(middle);
            let oldest_kept = *oldest_kept;
            self.notes.retain(|_, (count, _)| *count >= oldest_kept);
        }
    }

    /// Returns the last occurrence of a message.
    pub(crate) fn get(&self, text: &str) -> Option<MessageNote> {
        let note = self.notes.get(&self.keys.hash_one(text));
        note.map(|(_, note)| *note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_occurrence_is_known_and_the_number_of_notes_is_bounded() {
        let mut notes = MessageNotes::default();
        let note = |level| MessageNote {
            level,
            last: SystemTime::UNIX_EPOCH,
        };
        for number in 0..10_000 {
            notes.note(&number.to_string(), note(MessageLevel::Info), 10);
            notes.note("again", note(MessageLevel::Warn), 10);
            assert!(notes.notes.len() <= 20);
        }
        assert_eq!(notes.get("again"), Some(note(MessageLevel::Warn)));
        // As many as the ring has room for are always available.
        for number in 9_991..10_000 {
            assert!(notes.get(&number.to_string()).is_some(), "{number}");
        }
        assert_eq!(notes.get("0"), None);
        notes.note("again", note(MessageLevel::Error), 10);
        assert_eq!(notes.get("again"), Some(note(MessageLevel::Error)));
    }
}
