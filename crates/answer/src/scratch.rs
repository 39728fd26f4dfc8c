//! Owns the room that plans of answers need, kept between questions so that nothing is allocated for one.

use crate::alias::AliasScratch;
use crate::plan::MAX_CHAIN;
use arrayvec::ArrayVec;
use nameward_dnssec::Making;
use nameward_wire::NameBuf;
use nameward_zone::NameKey;

/// Room for names that a chain makes, kept between questions so that planning does not allocate; the time, and what
/// was signed.
pub struct Scratch {
    pub(crate) key: NameKey,
    pub(crate) made: ArrayVec<NameBuf, MAX_CHAIN>,
    pub(crate) now: u32,
    pub(crate) making: Making,
    pub(crate) alias: AliasScratch,
}

impl Scratch {
    /// After [`crate::AnswerKind::Pending`]: the name at which a chain needs contents that are not here, unless it is the
    /// question's own.
    pub fn pending(&self) -> &NameKey {
        match self.alias.is_pending {
            true => &self.alias.key,
            false => &self.key,
        }
    }

    /// Sets the time, in seconds since 1970: signatures begin and end by it.
    #[inline]
    pub fn set_now(&mut self, now: u32) {
        self.now = now;
    }

    /// Returns whether signatures that are not in the cache are made. Where they are not, an answer that needs one is
    /// [`crate::AnswerKind::Unsigned`].
    #[inline]
    pub fn set_making(&mut self, making: Making) {
        self.making = making;
    }

    /// How many signatures were made since the last call.
    #[inline]
    pub fn take_signatures(&mut self) -> u32 {
        self.making.take_made()
    }

    /// Whether the answer has names that were made from the question's by a DNAME, letter case included.
    pub fn has_made_names(&self) -> bool {
        !self.made.is_empty()
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            key: NameKey::default(),
            made: ArrayVec::new(),
            now: 0,
            making: Making::NOW,
            alias: AliasScratch::default(),
        }
    }
}
