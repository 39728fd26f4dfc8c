//! Positions of names in record data, per type, for compression and for the additional section.
//!
//! Both are derived from the type table in `wire`.

use crate::node::{CompressibleNames, NO_TARGET};
use nameward_wire::Type;
use nameward_wire::rdata::{Field, describe};
use std::cmp::Ordering;
use std::sync::LazyLock;

#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) form: CompressibleNames,
    /// Offset of the name whose addresses belong in the additional section, or `NO_TARGET`.
    pub(crate) target: u8,
}

const OPAQUE: Layout = Layout {
    form: CompressibleNames::Opaque,
    target: NO_TARGET,
};

/// No type above 255 has names that matter here.
static LAYOUTS: LazyLock<[Layout; 256]> =
    LazyLock::new(|| std::array::from_fn(|n| derive(Type(n as u16))));

#[inline]
pub(crate) fn layout(rtype: Type) -> Layout {
    LAYOUTS.get(rtype.0 as usize).copied().unwrap_or(OPAQUE)
}

impl CompressibleNames {
    /// Returns the positions of compressible names in the data of a type.
    pub fn for_type(rtype: Type) -> CompressibleNames {
        layout(rtype).form
    }
}

/// Compares data of one type in canonical order (RFC 4034 section 6.3). If a type ends in a name, the name is compared
/// case-insensitively (section 6.2), so that records differing only in case are the same.
pub(crate) fn compare(rtype: Type, a: &[u8], b: &[u8]) -> Ordering {
    let layout = layout(rtype);
    let name_at = match layout.form {
        CompressibleNames::NameAt(offset) => offset,
        // SVCB and HTTPS have more data after the name.
        CompressibleNames::Opaque if rtype == Type::SRV => layout.target,
        _ => return a.cmp(b),
    } as usize;
    let (head, tail) = (name_at.min(a.len()), name_at.min(b.len()));
    a[..head].cmp(&b[..tail]).then_with(|| {
        // A length octet is at most 63, below `A`, so case folding does not change it.
        let (a, b) = (a[head..].iter(), b[tail..].iter());
        a.map(u8::to_ascii_lowercase)
            .cmp(b.map(u8::to_ascii_lowercase))
    })
}

/// Derives the layout from the fields of a type, as far as they have a fixed offset.
fn derive(rtype: Type) -> Layout {
    let fields = describe(rtype).map_or(&[][..], |info| info.fields);
    let mut layout = OPAQUE;
    if let [Field::Name(first), Field::Name(second), ..] = fields
        && first.compress
        && second.compress
    {
        layout.form = CompressibleNames::TwoNames;
    }
    let mut offset = 0;
    for (i, field) in fields.iter().enumerate() {
        match field {
            Field::U8 | Field::Code8(_) => offset += 1,
            Field::U16 | Field::Code16(_) | Field::RrType => offset += 2,
            Field::U32 | Field::Period | Field::Time | Field::Ipv4 => offset += 4,
            Field::Name(name) => {
                if name.compress
                    && i + 1 == fields.len()
                    && layout.form == CompressibleNames::Opaque
                {
                    layout.form = CompressibleNames::NameAt(offset);
                }
                if name.additional {
                    layout.target = offset;
                }
                break;
            }
            _ => break,
        }
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_data_compare_without_case_and_the_rest_with_it() {
        let mx = |text: &[u8]| [&[0, 10, text.len() as u8], text, &[0]].concat();
        assert!(compare(Type::MX, &mx(b"NS1"), &mx(b"ns1")).is_eq());
        assert!(compare(Type::MX, &mx(b"a"), &mx(b"B")).is_lt());
        assert!(compare(Type::TXT, b"\x01A", b"\x01a").is_lt());
        assert!(compare(Type::SRV, b"\0\0\0\0\0A\x01x\0", b"\0\0\0\0\0a\x01x\0").is_lt());
    }

    #[test]
    fn layouts_are_those_of_the_rfcs() {
        let of = |rtype| (layout(rtype).form, layout(rtype).target);
        assert_eq!(of(Type::A), (CompressibleNames::Opaque, NO_TARGET));
        assert_eq!(of(Type::NS), (CompressibleNames::NameAt(0), 0));
        assert_eq!(of(Type::CNAME), (CompressibleNames::NameAt(0), NO_TARGET));
        assert_eq!(of(Type::MX), (CompressibleNames::NameAt(2), 2));
        assert_eq!(of(Type::SOA), (CompressibleNames::TwoNames, NO_TARGET));
        // RFC 2782 and RFC 9460: not compressed, but with additional data.
        assert_eq!(of(Type::SRV), (CompressibleNames::Opaque, 6));
        assert_eq!(of(Type::HTTPS), (CompressibleNames::Opaque, 2));
        // RFC 6672 section 2.5: DNAME is not compressed.
        assert_eq!(of(Type::DNAME), (CompressibleNames::Opaque, NO_TARGET));
        assert_eq!(of(Type(65401)), (CompressibleNames::Opaque, NO_TARGET));
    }
}
