//! The text form of a ring: every entry, drawn piece by piece while the client takes it.

use std::fmt::Write as _;

use nameward_stats::{RankedPlace, RankedRing, RingView};

use super::Mnemonic;
use super::outgoing_replies::PIECE_BYTES;
use super::page::percentage;

/// A text that is being read.
pub struct RingText {
    ranked: RankedRing,
    mnemonic: Mnemonic,
    length: usize,
    place: RingTextPlace,
}

/// A place between two lines of the text.
#[derive(Clone, Copy, Default)]
struct RingTextPlace {
    row: RankedPlace,
    is_at_end: bool,
}

impl RingText {
    /// Ranks all entries of a ring, and draws them once for the length: a reply states it before it begins.
    pub fn new(view: &RingView, mnemonic: Mnemonic) -> Self {
        let mut text = RingText {
            ranked: view.ranked(usize::MAX),
            mnemonic,
            length: 0,
            place: RingTextPlace::default(),
        };
        let mut piece = String::new();
        loop {
            piece.clear();
            text.draw(&mut piece);
            if piece.is_empty() {
                break;
            }
            text.length += piece.len();
        }
        text.place = RingTextPlace::default();
        text
    }

    /// Octets of the whole text.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Octets of memory that are held while it is read: the ranking, and a piece and the line that goes beyond it.
    pub fn held_bytes(&self) -> usize {
        self.ranked.held_bytes() + 2 * PIECE_BYTES
    }

    /// The next lines, about [`PIECE_BYTES`] of them; empty at the end.
    pub fn next_piece(&mut self) -> Vec<u8> {
        let mut piece = String::with_capacity(PIECE_BYTES + 4096);
        self.draw(&mut piece);
        piece.into_bytes()
    }

    /// Draws lines `count, percentage, entry` from the place on; the total last.
    fn draw(&mut self, piece: &mut String) {
        let mut entry = String::new();
        while piece.len() < PIECE_BYTES && !self.place.is_at_end {
            let total = self.ranked.total();
            entry.clear();
            let row = &mut self.place.row;
            let _ = match self.ranked.next(row, &self.mnemonic, &mut entry) {
                Some(count) => writeln!(piece, "{count}\t{}\t{entry}", percentage(count, total)),
                None => {
                    self.place.is_at_end = true;
                    writeln!(piece, "{total}\t100%\tTotal:")
                }
            };
        }
    }
}
