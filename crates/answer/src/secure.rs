//! The records that make answers from a signed zone verifiable (RFC 4035 section 3.1).
//!
//! This module decides what an answer must prove; [`online`] proves it with records made for the one answer, [`chain`]
//! with the records of a chain over all names, which are stored in the zone or made here, and [`listed`] with the
//! records of a chain over names that were listed before the answer was looked up.
//!
//! | answer | NSEC (RFC 4035 section 3.1.3) | NSEC3 (RFC 5155 section 7.2) |
//! |---|---|---|
//! | type not there | types of the name | types of the name |
//! | name not there | next closer name, wildcard absent | types of the closest encloser; next closer name, wildcard absent |
//! | from a wildcard | next closer name absent | next closer name absent |
//! | type not at a wildcard | types of the wildcard, next closer name absent | the same, and types of the closest encloser |
//! | delegation without DS | types of the delegation | types of the delegation |
//!
//! Compact denial (RFC 9824) only proves the query name, as a name that exists; one that does not exist has the type
//! NXNAME.

mod chain;
mod listed;
mod online;

use crate::AnswerKind;
use crate::encode::{Encoder, Fit, Stop};
use crate::hints::has_auto_hints;
use crate::plan::{Current, Data, Owner, PlanEntry, Planner, Section, owner};
use crate::view::{ZoneView, Zones};
use chain::ProofChain;
use nameward_dnssec::Denial;
use nameward_wire::message::OwnerForm;
use nameward_wire::{Class, Name, NameBuf, Rcode, Type};
use nameward_zone::{Find, NameKey, Node, Rrset, SigningState, negative_ttl};

/// A fact that an answer has to prove about the node of its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The node exists and has these types.
    Types,
    /// The node, or the owner of the entry that it matches as a wildcard, exists and lacks the queried type.
    NoType,
    /// The owner of the entry does not exist, which its own NSEC record proves (RFC 9824 section 3.1).
    NoName,
    /// The node exists, and the owner of the entry, directly below it, does not.
    Absent,
    /// The node exists, and there is no wildcard directly below it.
    NoWildcard,
}

/// Returns the TTL of NSEC and NSEC3 records: that of negative answers (RFC 9077).
pub(crate) fn proof_ttl(zone: &impl ZoneView) -> u32 {
    zone.apex().rrset(Type::SOA).map_or(0, negative_ttl)
}

/// Checks whether a name represented by a node has an NSEC record, which is made when it is queried.
#[cold]
pub(crate) fn has_own_nsec(zone: &impl ZoneView, node: Node<'_>, name: Name<'_>) -> bool {
    let state = zone.signing();
    // In a chain, an empty non-terminal has none (RFC 4035 section 2.3).
    let is_left_out = match state {
        SigningState::Chained(_) => node.is_empty(),
        SigningState::Listed(listed) => name == node.name() && listed::is_left_out(node, listed),
        SigningState::Unsigned | SigningState::Online(_) | SigningState::Stored(_) => false,
    };
    let signing = state.online();
    signing.is_some_and(|signing| *signing.denial() == Denial::Nsec) && !is_left_out
}

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    fn prove(&mut self, claim: Claim, owner: Owner<'z>, (zone, node): (&'z Z::View, Node<'z>)) {
        // MAX_PROOFS covers the longest chain.
        let _ = self.plan.proofs.try_push(PlanEntry {
            section: Section::Authority,
            owner,
            data: Data::Proof(claim),
            ttl: proof_ttl(zone),
            zone,
            node,
        });
    }

    /// Proves that the type does not exist at the name.
    #[cold]
    pub(crate) fn prove_no_type(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        current: Current<'z>,
    ) {
        let state = zone.signing();
        if state.is_signed() {
            // RFC 9824 section 3.3: a name matched by a wildcard is presented as one that exists.
            let owner = if state.is_compact() {
                owner(current)
            } else {
                Owner::Name(node.name())
            };
            self.prove(Claim::NoType, owner, (zone, node));
        }
    }

    /// Proves that the name exists.
    fn prove_types(&mut self, zone: &'z Z::View, node: Node<'z>) {
        if zone.signing().is_signed() {
            self.prove(Claim::Types, Owner::Name(node.name()), (zone, node));
        }
    }

    /// Proves that the name does not exist, and that no wildcard matches it.
    #[cold]
    pub(crate) fn prove_missing(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
    ) {
        let Some(node) = signed_node(zone, key, encloser) else {
            return;
        };
        if zone.signing().is_compact() {
            return self.prove_no_name(zone, node, current);
        }
        if zone.signing().uses_nsec3() {
            self.prove_types(zone, node);
        }
        self.prove_absent(zone, (key, encloser), current, node);
        // A query for the wildcard itself has it as its next closer name.
        if !key.suffix(encloser + 1).is_wildcard() {
            self.prove(Claim::NoWildcard, Owner::Name(node.name()), (zone, node));
        }
    }

    /// Presents the name as one that exists and only has an NSEC record (RFC 9824 section 3.1).
    fn prove_no_name(&mut self, zone: &'z Z::View, node: Node<'z>, current: Current<'z>) {
        if !self.compact_ok {
            self.plan.rcode = Rcode::NoError;
        }
        match self.qtype {
            // It is the answer to a query for NSEC.
            Type::NSEC => {
                self.plan
                    .entries
                    .retain(|entry| entry.section != Section::Authority);
                let (section, data) = (Section::Answer, Data::Proof(Claim::NoName));
                self.push(section, owner(current), data, proof_ttl(zone), (zone, node));
            }
            _ => self.prove(Claim::NoName, owner(current), (zone, node)),
        }
    }

    /// Proves that a name matched by a wildcard does not exist itself.
    #[cold]
    pub(crate) fn prove_expansion(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
    ) {
        let Some(node) = signed_node(zone, key, encloser) else {
            return;
        };
        if zone.signing().is_compact() {
            return;
        }
        // RFC 5155 section 7.2.5: only a negative answer has to prove the closest encloser.
        if zone.signing().uses_nsec3() && self.plan.outcome == AnswerKind::NoData {
            self.prove_types(zone, node);
        }
        self.prove_absent(zone, (key, encloser), current, node);
    }

    fn prove_absent(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
        node: Node<'z>,
    ) {
        let skip = key.prefix_len(encloser + 1);
        let next_closer = match current {
            Current::Question => Owner::Question(skip),
            Current::Name(name) => Owner::Name(Name::from_valid_wire(&name.as_wire()[skip..])),
            Current::Made(index) => Owner::Made(index, skip),
        };
        self.prove(Claim::Absent, next_closer, (zone, node));
    }

    /// Adds the DS of a delegation, or the proof that it has none (RFC 4035 section 3.1.4).
    #[cold]
    pub(crate) fn prove_delegation(&mut self, zone: &'z Z::View, node: Node<'z>) {
        match node.rrset(Type::DS) {
            Some(ds) if zone.signing().is_signed() => {
                let _ = self.plan.proofs.try_push(PlanEntry {
                    section: Section::Authority,
                    owner: Owner::Name(node.name()),
                    data: Data::Rrset(ds),
                    ttl: ds.ttl(),
                    zone,
                    node,
                });
            }
            _ => self.prove_types(zone, node),
        }
    }
}

/// Returns the closest encloser in a signed zone.
fn signed_node<'z, V: ZoneView>(zone: &'z V, key: &NameKey, encloser: usize) -> Option<Node<'z>> {
    zone.node(key, encloser)
        .filter(|_| zone.signing().is_signed())
}

impl<'n> Encoder<'n, '_> {
    /// Writes an entry from a signed zone; returns the number of its records.
    #[cold]
    pub(crate) fn secure_entry<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        owner: OwnerForm<'n>,
        made: &'n [NameBuf],
    ) -> Result<u16, Stop> {
        let state = entry.zone.signing();
        self.signed_as = None;
        if state.is_compact() && entry.node.name().is_wildcard() {
            // RFC 9824 section 3.3: signed as a name of its own, so that nothing has to prove that no closer name
            // exists.
            self.signed_as = Some(Name::from_valid_wire(self.spelled(entry.owner, made)));
        }
        match entry.data {
            // RFC 4035 section 2.2: the NS records of a delegation are not signed.
            Data::Rrset(rrset) if entry.section == Section::Referral => {
                self.further_rrset(owner, rrset, entry.ttl)
            }
            Data::Rrset(rrset) => self.signed(owner, (rrset, entry.ttl), entry.node, state),
            Data::Hinted(rrset) => self.hinted(owner, rrset, (entry.node, entry.ttl), entry.zone),
            Data::All(node) => self.all_signed(owner, node, entry.zone),
            // RFC 6672 section 5.3.1: it follows from the DNAME, which is signed.
            Data::MadeCname(index, ttl) => self.made_cname(owner, &made[index], ttl),
            Data::Addresses => self.foreign_addresses(owner, (entry.node, entry.ttl), state),
            Data::Computed(index, number) => {
                self.computed(owner, (index, number), (entry.node, entry.ttl), state)
            }
            Data::Prepared(rtype, octets) => {
                self.prepared(owner, (rtype, octets), (entry.node, entry.ttl), state)
            }
            Data::Proof(claim) => match state {
                SigningState::Unsigned => Ok(0),
                SigningState::Online(signing) if entry.section == Section::Answer => {
                    let name = Name::from_valid_wire(self.spelled(entry.owner, made));
                    self.asked_nsec((owner, name), (entry, claim), signing)
                }
                SigningState::Chained(chained) if entry.section == Section::Answer => {
                    let name = Name::from_valid_wire(self.spelled(entry.owner, made));
                    if name == entry.node.name() {
                        self.proof_of_chain(entry, (claim, name), chained.as_ref().into())
                    } else {
                        self.asked_nsec((owner, name), (entry, claim), &chained.signing)
                    }
                }
                SigningState::Online(signing) => {
                    let next_closer = Name::from_valid_wire(self.spelled(entry.owner, made));
                    self.made_proof(entry, (claim, next_closer), signing)
                }
                SigningState::Chained(chained) => {
                    let next_closer = Name::from_valid_wire(self.spelled(entry.owner, made));
                    let chain = ProofChain::from(&**chained);
                    self.proof_of_chain(entry, (claim, next_closer), chain)
                }
                SigningState::Listed(listed) if entry.section == Section::Answer => {
                    let name = Name::from_valid_wire(self.spelled(entry.owner, made));
                    match listed.chain().filter(|chain| listed::has(chain, name)) {
                        Some(chain) if name == entry.node.name() => {
                            self.listed_nsec((entry, claim), name, (&chain, &listed.signing))
                        }
                        _ => self.asked_nsec((owner, name), (entry, claim), &listed.signing),
                    }
                }
                SigningState::Listed(listed) => {
                    let next_closer = Name::from_valid_wire(self.spelled(entry.owner, made));
                    self.proof_with_list(entry, (claim, next_closer), listed)
                }
                SigningState::Stored(index) => {
                    let next_closer = Name::from_valid_wire(self.spelled(entry.owner, made));
                    let chain = ProofChain::Stored(index);
                    self.proof_of_chain(entry, (claim, next_closer), chain)
                }
            },
        }
    }

    /// Writes every RRset of a node. Stored RRSIG records accompany the RRsets they cover.
    fn all_signed<V: ZoneView>(
        &mut self,
        owner: OwnerForm<'n>,
        node: Node<'n>,
        zone: &V,
    ) -> Result<u16, Stop> {
        let state = zone.signing();
        let is_stored = matches!(state, SigningState::Stored(_));
        let mut count = 0;
        for rrset in node.rrsets() {
            let rtype = rrset.rtype();
            if !is_stored && has_auto_hints(rrset) {
                count += self.hinted(owner, rrset, (node, rrset.ttl()), zone)?;
            } else if !rtype.is_server_internal() && (rtype != Type::RRSIG || !self.dnssec_ok) {
                count += self.signed(owner, (rrset, rrset.ttl()), node, state)?;
            }
        }
        Ok(count)
    }

    /// Writes an RRset and its signatures, both or neither. `node` is its node in the zone; `ttl` is the one in the
    /// answer.
    fn signed(
        &mut self,
        owner: OwnerForm<'n>,
        (rrset, ttl): (Rrset<'n>, u32),
        node: Node<'n>,
        state: &SigningState,
    ) -> Result<u16, Stop> {
        match state {
            SigningState::Online(signing) => self.signed_online(owner, (rrset, ttl), node, signing),
            SigningState::Chained(chained) => {
                self.signed_online(owner, (rrset, ttl), node, &chained.signing)
            }
            SigningState::Listed(listed) => {
                self.signed_online(owner, (rrset, ttl), node, &listed.signing)
            }
            SigningState::Stored(_) if self.dnssec_ok => {
                self.with_stored_signatures(owner, (rrset, ttl), node)
            }
            SigningState::Stored(_) | SigningState::Unsigned => {
                self.further_rrset(owner, rrset, ttl)
            }
        }
    }

    pub(crate) fn rrsig(&mut self, rdata: &[u8], ttl: u32) -> Fit {
        let length_at = self.writer.fixed(Type::RRSIG, Class::IN, ttl)?;
        self.writer.bytes(rdata)?;
        self.writer.set_length(length_at);
        Ok(())
    }

    /// Returns how the records of a host in the additional section are signed: glue is not.
    #[inline]
    pub(crate) fn signing_of_host<'v, V: ZoneView>(
        &self,
        zone: &'v V,
        node: Node<'_>,
    ) -> Option<&'v SigningState> {
        let state = zone.signing();
        if !state.is_signed() || !self.dnssec_ok {
            return None;
        }
        let is_ours = matches!(zone.find(&NameKey::new(node.name())), Find::Exact(_));
        is_ours.then_some(state)
    }

    /// Writes an RRset of the additional section.
    #[inline]
    pub(crate) fn maybe_signed(
        &mut self,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
        node: Node<'n>,
        state: Option<&SigningState>,
    ) -> Result<u16, Stop> {
        self.signed_as = None;
        match state {
            Some(state) => self.signed(owner, (rrset, rrset.ttl()), node, state),
            None => self.further_rrset(owner, rrset, rrset.ttl()),
        }
    }
}

/// Returns the wildcard directly below a name; `None` if `*` does not fit in front of it, so that it cannot exist.
fn wildcard_below(name: Name<'_>) -> Option<NameBuf> {
    NameBuf::join(b"\x01*", name).ok()
}
