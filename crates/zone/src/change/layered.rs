//! A version for some views that has only the names that differ from the common version of its zone.
//!
//! The served version has the RRsets of both: an RRset of the version replaces the one with its name and type, all others
//! are those of the common version. A HIDE record names types of the common version that do not exist at its name. The
//! result shares everything else with the common version, so that it costs the names of the version, whatever the size of
//! the zone; signing, denial of existence and transfers see one zone.
//!
//! The serial is the sum of both serials (RFC 1982 section 3.1): it increases whenever one of them does, needs no memory
//! of what was served before, and is the same on all servers that have both versions.

use super::editor::Editor;
use super::{ChangeError, set_soa_serial, soa_serial};
use crate::draft::Draft;
use crate::node::{Node, flags};
use crate::serial::Serial;
use crate::zone::Zone;
use nameward_wire::Type;
use nameward_wire::rdata::bitmap_types;
use nameward_wire::zonefile::RecordLocation;
use std::borrow::Cow;
use std::sync::Arc;

/// Why a version cannot be served over the common version of its zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// The common version is not in memory, and is not expected to be.
    #[error(
        "base needs the common version in memory, and it is looked up in a database; set mode = \"resident\" there"
    )]
    LiveBase,
    /// The version itself is not in memory.
    #[error(
        "base needs the version in memory, and it is looked up in a database; set mode = \"resident\" there"
    )]
    Live,
    /// One of them has signatures among its records, which do not fit the other's.
    #[error(
        "base needs unsigned contents, and the {0} version has signatures among its records: sign it here"
    )]
    Presigned(&'static str),
    /// The result is not a valid zone.
    #[error(transparent)]
    Invalid(#[from] ChangeError),
}

impl Zone {
    /// Returns the version to serve if this one has only the names that differ from the common version. It has the name
    /// and the signing of this one.
    pub fn layered_over(self: &Arc<Self>, common: &Arc<Zone>) -> Result<Zone, LayerError> {
        if common.live().is_some() {
            return Err(LayerError::LiveBase);
        }
        if self.is_stub() {
            return Err(LayerError::Live);
        }
        let common = common.unsigned();
        for (zone, which) in [(&common, "common"), (self, "view's")] {
            if zone.signing().is_signed() && zone.signing().online().is_none() {
                return Err(LayerError::Presigned(which));
            }
        }
        let mut editor = Editor::new(&common);
        let mut owners = Vec::new();
        for (_, node) in self.nodes() {
            let broken = node.flags() & flags::ANY_BROKEN;
            if node.is_empty() && broken == 0 {
                continue;
            }
            let mut draft = self.layered_draft(node, &common);
            editor.replace(node.name(), &mut draft)?;
            if broken != 0 {
                editor.mark_broken(
                    node.name(),
                    node.flags() & (flags::ANY_BROKEN | flags::CUT | flags::DNAME),
                );
            }
            owners.push(node.name());
        }
        let mut version = editor.finish(&common);
        version.follow_chain(&common, owners.into_iter());
        version.set_rank(self.rank());
        version.set_id(self.id());
        version.set_resident_signing(self.signing().online().cloned());
        version.set_stored(Arc::clone(self));
        Ok(version)
    }

    /// Returns the records at a name: those of this version, and of the common one what they do not replace or hide.
    fn layered_draft(&self, own: Node<'_>, common: &Zone) -> Draft {
        let (name, mut draft) = (own.name(), Draft::default());
        let is_apex = name == common.apex_name();
        let hidden = HiddenTypes::at(own, is_apex);
        let has_cname = own.rrset(Type::CNAME).is_some();
        let has_data = own.rrsets().any(|rrset| rrset.rtype() != Type::HIDE);
        let made = common.signing().online().filter(|_| is_apex);
        let made = made
            .map(|signing| signing.apex_records())
            .unwrap_or_default();
        let common_node = common.node_of(name);
        for rrset in common_node.into_iter().flat_map(|node| node.rrsets()) {
            let rtype = rrset.rtype();
            // RFC 2181 section 10.1: a CNAME has no other data beside it.
            let is_replaced = has_cname
                || own.rrset(rtype).is_some()
                || rtype == Type::CNAME && has_data
                || hidden.contains(rtype);
            // A digest of the common version is none of the result (RFC 8976 section 4).
            if is_replaced || rtype == Type::ZONEMD && is_apex {
                continue;
            }
            for record in rrset.records() {
                let is_made = |(made_type, made_data): &(Type, Vec<u8>)| {
                    *made_type == rtype && &made_data[..] == record.rdata
                };
                if !made.iter().any(is_made) {
                    draft.push(rtype, rrset.ttl(), record.rdata, RecordLocation::NONE);
                }
            }
        }
        for rrset in own.rrsets() {
            for record in rrset.records() {
                let rdata = match rrset.rtype() {
                    Type::HIDE => continue,
                    Type::SOA => with_sum(record.rdata, common),
                    _ => record.rdata.into(),
                };
                draft.push(rrset.rtype(), rrset.ttl(), &rdata, RecordLocation::NONE);
            }
        }
        draft
    }

    /// Creates the placeholder for a version that cannot be served over the common version now, and keeps its contents.
    pub fn without_base(self: &Arc<Self>) -> Zone {
        let mut zone = Zone::not_ready(self.id());
        zone.set_rank(self.rank());
        let mut zone = Editor::new(&Arc::new(zone)).finish(self);
        zone.set_not_ready();
        zone.set_signing(None);
        zone.set_stored(Arc::clone(self));
        zone
    }

    /// Returns the version that the zone's storage has: without what signing adds, and only its own names if it is served
    /// over the common version.
    pub fn stored(self: &Arc<Self>) -> Arc<Zone> {
        let layered = self.changes().and_then(|changes| changes.stored.clone());
        layered.unwrap_or_else(|| self.unsigned())
    }

    /// Checks whether the version is served over the common version of its zone.
    pub fn is_layered(&self) -> bool {
        self.changes()
            .is_some_and(|changes| changes.stored.is_some())
    }
}

/// Returns SOA data with the sum of both serials.
fn with_sum<'r>(soa: &'r [u8], common: &Zone) -> Cow<'r, [u8]> {
    let Some(own) = soa_serial(soa) else {
        return soa.into();
    };
    let serial = own.0.wrapping_add(common.serial().0);
    let mut soa = soa.to_vec();
    set_soa_serial(&mut soa, Serial(serial));
    soa.into()
}

/// The types of the common version that a version hides at a name.
struct HiddenTypes {
    types: Vec<Type>,
    /// A zone always has a SOA and name servers.
    is_apex: bool,
}

impl HiddenTypes {
    fn at(node: Node<'_>, is_apex: bool) -> Self {
        let records = node.rrset(Type::HIDE).into_iter();
        let records = records.flat_map(|rrset| rrset.records());
        HiddenTypes {
            types: records
                .flat_map(|record| bitmap_types(record.rdata))
                .collect(),
            is_apex,
        }
    }

    fn contains(&self, rtype: Type) -> bool {
        let is_needed = self.is_apex && matches!(rtype, Type::SOA | Type::NS);
        let mut types = self.types.iter();
        !is_needed && types.any(|hidden| *hidden == rtype || *hidden == Type::ANY)
    }
}
