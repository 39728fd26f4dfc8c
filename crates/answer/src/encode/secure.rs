//! Writes records of signed zones with their signatures, and the records that prove an answer.
//!
//! [`online`] proves a claim with records made for the one answer, [`chain`] with the records of a chain over all names,
//! which are stored in the zone or made here, and [`listed`] with the records of a chain over names that were listed
//! before the answer was looked up.

mod chain;
mod listed;
mod online;

use super::{Encoder, Stop};
use crate::alias::is_alias;
use crate::claim::has_nsec;
use crate::computed::script_types;
use crate::hints::has_auto_hints;
use crate::plan::{Data, PlanEntry, Section};
use crate::view::ZoneView;
use chain::ProofChain;
use nameward_dnssec::{Making, Nsec3, Nsec3Hash};
use nameward_wire::message::OwnerForm;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::node::flags;
use nameward_zone::{Find, NameKey, Node, Rrset, SigningState};

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
                    self.queried_nsec((owner, name), (entry, claim), signing)
                }
                SigningState::Chained(chained) if entry.section == Section::Answer => {
                    let name = Name::from_valid_wire(self.spelled(entry.owner, made));
                    if name == entry.node.name() {
                        self.proof_of_chain(entry, (claim, name), chained.as_ref().into())
                    } else {
                        self.queried_nsec((owner, name), (entry, claim), &chained.signing)
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
                    match listed.chain().filter(|chain| has_nsec(chain, name)) {
                        Some(chain) if name == entry.node.name() => {
                            self.listed_nsec((entry, claim), name, (&chain, &listed.signing))
                        }
                        _ => self.queried_nsec((owner, name), (entry, claim), &listed.signing),
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

    /// Hashes a name. If that takes many iterations, it is left to the signing threads, like signatures.
    fn hashed(&self, hashing: &Nsec3, name: Name<'_>) -> Result<Nsec3Hash, Stop> {
        match (hashing.known_hash(name), self.making) {
            (Some(hash), _) => Ok(hash),
            (None, Making::Now { .. }) => Ok(hashing.kept_hash(name)),
            (None, Making::Never) => Err(Stop::NotSigned),
        }
    }
}

/// Returns the types that a proof lists. A name with an ALIAS can have addresses at any time, so no address type is
/// denied except the queried type if it is `absent` (RFC 8198: a resolver answers other queries from the proof). The
/// same holds for the types that LUA records compute.
fn types(node: Node<'_>, absent: Option<Type>) -> impl Iterator<Item = Type> {
    let is_cut = node.has(flags::CUT);
    let of_alias = [Type::A, Type::AAAA]
        .into_iter()
        .filter(move |&rtype| !is_cut && is_alias(node) && absent != Some(rtype));
    let of_node = node.types_of_denial();
    let of_node = of_node.filter(|rtype| !rtype.is_server_internal());
    let of_scripts = script_types(node).filter(move |&rtype| {
        // RFC 6840 section 4.3: a proof with CNAME among the types denies none.
        let is_denied = rtype == Type::CNAME && absent.is_some();
        !is_cut && absent != Some(rtype) && !is_denied
    });
    of_node.chain(of_alias).chain(of_scripts)
}
