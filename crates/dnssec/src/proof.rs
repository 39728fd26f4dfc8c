//! NSEC and NSEC3 records, for a chain over all names and for single answers.

use crate::nsec;
use crate::nsec3::{self, Nsec3, Nsec3Hash};
use crate::policy::Denial;
use crate::reused::ReusableBytes;
use crate::signing::Signing;
use nameward_wire::rdata::BitmapBuilder;
use nameward_wire::{Name, NameBuf, Type};

/// A record that proves which names and types exist.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    /// The owner.
    pub owner: NameBuf,
    /// NSEC or NSEC3.
    pub rtype: Type,
    /// The record data.
    pub rdata: ReusableBytes,
}

impl Signing {
    /// Proves that a name exists and has these types; NSEC and RRSIG are added where they belong.
    pub fn matching(&self, name: Name<'_>, types: impl Iterator<Item = Type>) -> Option<Proof> {
        match self.denial() {
            Denial::Nsec => {
                let next = nsec::below(name, self.apex.as_name());
                Some(self.nsec_of_chain(name, next, types))
            }
            Denial::Nsec3(params) => {
                let hash = params.kept_hash(name);
                self.nsec3((params, 0), (&hash, &nsec3::next(&hash)), types)
            }
        }
    }

    /// Proves that a name does not exist. `parent` has the types of its parent, which exists; `is_free` tells whether
    /// nothing is known to exist at or below a sibling, and `types_at` returns the types of an owner that exists.
    pub fn covering<T: Iterator<Item = Type>>(
        &self,
        name: Name<'_>,
        parent: impl Iterator<Item = Type>,
        is_free: impl Fn(Name<'_>) -> bool,
        types_at: impl FnOnce(Name<'_>) -> Option<T>,
    ) -> Option<Proof> {
        match self.denial() {
            Denial::Nsec => {
                let next = nsec::after(name, self.apex.as_name());
                Some(match nsec::before(name, is_free) {
                    Some(owner) => match types_at(owner.as_name()) {
                        // If labels leave no room for a name in between, the owner is a name of the zone.
                        Some(types) => self.nsec_of_chain(owner.as_name(), next, types),
                        // It may still exist, or get types from a wildcard, a DNAME or a child zone. RFC 6840 section
                        // 4.1: a record with NS and without SOA denies no type there except DS.
                        None => {
                            let types = [Type::NS, Type::DS].into_iter();
                            self.nsec_of_chain(owner.as_name(), next, types)
                        }
                    },
                    None => self.nsec_of_chain(name.parent()?, next, parent),
                })
            }
            Denial::Nsec3(params) => {
                let hash = params.kept_hash(name);
                let (before, after) = (nsec3::previous(&hash), nsec3::next(&hash));
                self.nsec3((params, 0), (&before, &after), std::iter::empty())
            }
        }
    }

    /// Makes the NSEC record of a name with these types, in a chain over all names.
    pub fn nsec_of_chain(
        &self,
        owner: Name<'_>,
        next: NameBuf,
        types: impl Iterator<Item = Type>,
    ) -> Proof {
        let mut rdata = ReusableBytes::take();
        rdata.extend_from_slice(next.as_name().as_wire());
        let mut bitmap = BitmapBuilder::default();
        // RFC 4034 section 4.1.2: the record itself and its signature exist too.
        types
            .chain([Type::NSEC, Type::RRSIG])
            .for_each(|rtype| bitmap.add(rtype));
        bitmap.write(&mut rdata);
        Proof {
            owner: owner.into(),
            rtype: Type::NSEC,
            rdata,
        }
    }

    /// Makes the NSEC3 record of a name with these types, in a chain over all hashes; `None` if a hash does not fit in
    /// front of the zone name.
    pub fn nsec3_of_chain(
        &self,
        params: &Nsec3,
        links: (&Nsec3Hash, &Nsec3Hash),
        types: impl Iterator<Item = Type>,
    ) -> Option<Proof> {
        // RFC 5155 section 6: every record in the chain may have it, whether or not its span contains a delegation.
        let flags = if self.is_opt_out() { nsec3::OPT_OUT } else { 0 };
        self.nsec3((params, flags), links, types)
    }

    fn nsec3(
        &self,
        (params, flags): (&Nsec3, u8),
        (hash, next): (&Nsec3Hash, &Nsec3Hash),
        types: impl Iterator<Item = Type>,
    ) -> Option<Proof> {
        let mut rdata = ReusableBytes::take();
        params.put_parameters(flags, &mut rdata);
        rdata.push(nsec3::HASH as u8);
        rdata.extend_from_slice(next);
        let mut bitmap = BitmapBuilder::default();
        let mut has_signed = false;
        for rtype in types {
            // RFC 5155 section 7.1: RRSIG only if something is signed; the NS of a delegation alone is not.
            has_signed |= rtype != Type::NS;
            bitmap.add(rtype);
        }
        if has_signed {
            bitmap.add(Type::RRSIG);
        }
        bitmap.write(&mut rdata);
        Some(Proof {
            owner: nsec3::owner(hash, self.apex.as_name())?,
            rtype: Type::NSEC3,
            rdata,
        })
    }
}
