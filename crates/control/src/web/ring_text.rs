//! The text form of a ring: every entry, rendered chunk by chunk while clients read it.

use std::fmt::Write as _;
use std::sync::Arc;

use nameward_stats::{RankedPosition, RankedRing, RingView};

use super::mnemonic;
use super::outgoing_replies::{PIECE_BYTES, Room};
use super::page::percentage;

/// The ranking of a ring, and the length of its text.
pub struct RankedText {
    ranked: RankedRing,
    length: usize,
}

/// A text with its room, shared by all clients that it is sent to.
pub struct RingText {
    ranked: RankedText,
    /// Its room.
    pub room: Arc<Room>,
}

/// A position between two lines of the text, initially before its first line.
#[derive(Clone, Copy, Default)]
pub struct RingTextPosition {
    row: RankedPosition,
    /// True after the last line.
    pub is_at_end: bool,
}

impl RankedText {
    /// Ranks all entries of a ring, and renders them once to determine the length, which a reply states first.
    pub fn new(view: &RingView) -> Self {
        let mut text = RankedText {
            ranked: view.ranked(usize::MAX),
            length: 0,
        };
        let (mut piece, mut position) = (String::new(), RingTextPosition::default());
        while !position.is_at_end {
            piece.clear();
            position = text.draw(position, &mut piece);
            text.length += piece.len();
        }
        text
    }

    /// Returns the octets of memory held while it is sent: the ranking, and the two chunks rendered at the same time.
    pub fn held_bytes(&self) -> usize {
        self.ranked.held_bytes() + 2 * PIECE_BYTES
    }

    /// Renders lines `count, percentage, entry` from a position on, the total last, and returns the position after
    /// them.
    fn draw(&self, mut position: RingTextPosition, piece: &mut String) -> RingTextPosition {
        let (total, mut entry) = (self.ranked.total(), String::new());
        while piece.len() < PIECE_BYTES && !position.is_at_end {
            entry.clear();
            let row = self.ranked.next(&mut position.row, &mnemonic, &mut entry);
            let _ = match row {
                Some(count) => writeln!(piece, "{count}\t{}\t{entry}", percentage(count, total)),
                None => {
                    position.is_at_end = true;
                    writeln!(piece, "{total}\t100%\tTotal:")
                }
            };
        }
        position
    }
}

impl RingText {
    /// Puts a ranking into its room.
    pub fn new(ranked: RankedText, room: Arc<Room>) -> Self {
        RingText { ranked, room }
    }

    /// Returns the length of the whole text in octets.
    pub fn len(&self) -> usize {
        self.ranked.length
    }

    /// Returns the lines from a position on, about [`PIECE_BYTES`] of them, and the position after them.
    pub fn piece(&self, position: RingTextPosition) -> (Vec<u8>, RingTextPosition) {
        let mut piece = String::with_capacity(PIECE_BYTES + 4096);
        let behind = self.ranked.draw(position, &mut piece);
        (piece.into_bytes(), behind)
    }
}
