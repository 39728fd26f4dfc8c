//! Working memory for answers, kept between queries so that planning does not allocate.

use crate::alias::{AliasAddresses, AliasScratch};
use crate::computed::{ComputedName, ComputedScratch, NeededScripts};
use crate::plan::MAX_CHAIN;
use arrayvec::ArrayVec;
use nameward_dnssec::{Making, RecentSignatures};
use nameward_wire::{Name, NameBuf};
use nameward_zone::NameKey;
use std::sync::Arc;

/// Names that a chain synthesises, kept between queries so that planning does not allocate; the current time, and the
/// count of signatures made.
pub struct Scratch {
    pub(crate) key: NameKey,
    pub(crate) made: ArrayVec<NameBuf, MAX_CHAIN>,
    pub(crate) now: u32,
    pub(crate) making: Making,
    pub(crate) alias: AliasScratch,
    /// The leading bits of the client's address that the answer depends on, if it depends on the client.
    client_bits: Option<u8>,
    pub(crate) computed: ComputedScratch,
    pub(crate) recent: RecentSignatures,
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

    /// Returns the time.
    #[inline]
    pub fn now(&self) -> u32 {
        self.now
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

    /// Begins an answer that does not depend on the client so far.
    #[inline]
    pub fn forget_client(&mut self) {
        self.client_bits = None;
    }

    /// Notes that the answer depends on this many leading bits of the address of its [`crate::EffectiveClient`], whether
    /// they matched something or not: the scope of the reply covers them (RFC 7871 section 7.2.1), and the answer is
    /// not cached.
    pub fn note_client_bits(&mut self, bits: u8) {
        self.client_bits = Some(self.client_bits.unwrap_or(0).max(bits));
    }

    /// Checks whether the answer depends on the client.
    pub fn depends_on_client(&self) -> bool {
        self.client_bits.is_some()
    }

    /// Returns how many leading bits of the client's address the answer depends on.
    pub(crate) fn client_bits(&self) -> u8 {
        let addresses = self.alias.known.as_ref().filter(|_| self.alias.is_used);
        let resolved_for = addresses.and_then(|addresses| addresses.client_bits);
        let computed = self.computed.known.iter();
        let computed_for = computed.filter_map(|name| name.client_bits).max();
        let computed_for = computed_for.filter(|_| self.computed.is_used);
        let bits = self.client_bits.max(resolved_for).max(computed_for);
        bits.unwrap_or(0).max(self.computed.prepared_bits)
    }

    /// Checks whether the answer has names that a DNAME synthesised from the query name, including its case.
    pub fn has_made_names(&self) -> bool {
        !self.made.is_empty()
    }

    /// Returns the name whose addresses are needed, after [`crate::AnswerKind::Resolving`].
    pub fn unresolved(&self) -> Option<Name<'_>> {
        self.alias.unresolved.as_ref().map(NameBuf::as_name)
    }

    /// Sets the addresses that a resolver returned for a target; `None` clears them.
    pub fn set_addresses(&mut self, known: Option<Arc<AliasAddresses>>) {
        self.alias.known = known;
    }

    /// Checks whether the answer depends on the addresses of an external name, present or not: it is only valid as long
    /// as they are.
    pub fn has_foreign_addresses(&self) -> bool {
        self.alias.is_used
    }

    /// Returns the scripts that are needed, after [`crate::AnswerKind::Computing`].
    pub fn needed_scripts(&mut self) -> Option<NeededScripts> {
        self.computed.needed.take()
    }

    /// Adds what the needed scripts returned.
    pub fn add_computed(&mut self, computed: ComputedName) {
        self.computed.known.push(computed);
    }

    /// Forgets what was computed: every query has its own answer.
    #[inline]
    pub fn clear_computed(&mut self) {
        self.computed.known.clear();
    }

    /// Checks whether the answer depends on a script or pool, so that it holds for this query alone.
    pub fn has_computed(&self) -> bool {
        self.computed.is_used
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
            client_bits: None,
            computed: ComputedScratch::default(),
            recent: RecentSignatures::default(),
        }
    }
}
