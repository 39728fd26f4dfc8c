//! Working memory for answers, kept between queries so that planning does not allocate.

use crate::alias::AliasScratch;
use crate::plan::MAX_CHAIN;
use arrayvec::ArrayVec;
use nameward_dnssec::Making;
use nameward_wire::NameBuf;
use nameward_zone::NameKey;

/// Names that a chain synthesises, kept between queries so that planning does not allocate; the current time, and the
/// count of signatures made.
pub struct Scratch {
    pub(crate) key: NameKey,
    pub(crate) made: ArrayVec<NameBuf, MAX_CHAIN>,
    pub(crate) now: u32,
    pub(crate) making: Making,
    pub(crate) alias: AliasScratch,
}

impl Scratch {
    /// Returns the name at which a chain needs contents that are not here, unless it is the query name, after
    /// [`crate::AnswerKind::Pending`].
    pub fn pending(&self) -> &NameKey {
        if self.alias.is_pending {
            &self.alias.key
        } else {
            &self.key
        }
    }

    /// Sets the time, in seconds since 1970, which determines the validity of signatures.
    #[inline]
    pub fn set_now(&mut self, now: u32) {
        self.now = now;
    }

    /// Sets whether signatures that are not cached are made. If not, an answer that needs one is
    /// [`crate::AnswerKind::Unsigned`].
    #[inline]
    pub fn set_making(&mut self, making: Making) {
        self.making = making;
    }

    /// Returns the number of signatures made since the last call.
    #[inline]
    pub fn take_signatures(&mut self) -> u32 {
        self.making.take_made()
    }

    /// Checks whether the answer has names that a DNAME synthesised from the query name, including its case.
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
