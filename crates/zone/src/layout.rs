//! Where the names stand in the data of a type, for compression and for the additional section.

use crate::node::{Form, NO_TARGET};
use nameward_wire::Type;

pub(crate) struct Layout {
    pub(crate) form: Form,
    /// Offset of the name whose addresses belong into the additional section, or `NO_TARGET`.
    pub(crate) target: u8,
}

/// The layout of a type.
#[inline]
pub(crate) fn of(rtype: Type) -> Layout {
    let (form, target) = match rtype {
        Type::A | Type::AAAA => (Form::Opaque, NO_TARGET),
        Type::NS => (Form::NameAt(0), 0),
        Type::CNAME | Type::PTR => (Form::NameAt(0), NO_TARGET),
        Type::SOA => (Form::TwoNames, NO_TARGET),
        Type::MX => (Form::NameAt(2), 2),
        Type::SRV => (Form::Opaque, 6),
        Type::SVCB | Type::HTTPS => (Form::Opaque, 2),
        _ => (Form::Opaque, NO_TARGET),
    };
    Layout { form, target }
}
