//! Names for minimally covering NSEC records (RFC 4470): directly before a name and directly after it.
//!
//! The denied name is the next closer name, whose descendants do not exist either, so the record covers the name with
//! everything below it and nothing else. The owner is the very last name that can precede it, because a sibling of the
//! name may exist, and so may names below the sibling; if nothing is known to exist there, it is the sibling itself,
//! which is shorter. Validators derive the closest encloser from the labels that both ends share with the query name;
//! below a sibling these are the same as at the sibling.
//!
//! The name that ends the range is part of what is signed, in the case in which it is written (RFC 6840 section 5.1). It is in
//! lower case, however the query spells its name: so all spellings share one signature.

use arrayvec::ArrayVec;
use nameward_wire::name::{MAX_LABEL, MAX_NAME};
use nameward_wire::{Name, NameBuf};

/// A label without its length octet.
type Label = ArrayVec<u8, MAX_LABEL>;
/// Labels with their length octets.
type Wire = ArrayVec<u8, MAX_NAME>;

/// Pads octets to a length with the highest value.
fn fill_up<const N: usize>(octets: &mut ArrayVec<u8, N>, len: usize) {
    while octets.len() < len && octets.try_push(0xff).is_ok() {}
}

fn with_length(label: &[u8]) -> Wire {
    let mut wire = Wire::new();
    wire.push(label.len() as u8);
    wire.extend(label.iter().copied().take(MAX_LABEL));
    wire
}

/// Returns the last possible name before `name`, which is below the apex; `None` if that is its parent, which exists. A
/// sibling that `is_free`, including everything below it, is used instead.
pub(crate) fn before(name: Name<'_>, is_free: impl Fn(Name<'_>) -> bool) -> Option<NameBuf> {
    let (mut label, parent) = split(name)?;
    match label.pop()? {
        0 if label.is_empty() => return None,
        // The sibling without the zero octet.
        0 => {}
        last => {
            // Upper-case letters count as lower-case ones, which sort elsewhere.
            label.push(if last == b'[' { b'@' } else { last - 1 });
            fill_up(
                &mut label,
                MAX_LABEL.min(MAX_NAME - parent.as_wire().len() - 1),
            );
        }
    }
    let sibling = NameBuf::join(&with_length(&label), parent).ok()?;
    if is_free(sibling.as_name()) {
        Some(sibling)
    } else {
        Some(last_below(sibling.as_name()))
    }
}

/// Returns the last name that can exist below a name.
fn last_below(name: Name<'_>) -> NameBuf {
    let mut wire = Wire::new();
    fill(MAX_NAME - name.as_wire().len(), &mut wire);
    // It fills the available room.
    NameBuf::join(&wire, name).unwrap_or_else(|_| name.into())
}

/// Returns the first name after `name` and everything that could exist below it, in lower case; the apex if there is none.
pub(crate) fn after(name: Name<'_>, apex: Name<'_>) -> NameBuf {
    let mut name = name;
    while name.as_wire().len() > apex.as_wire().len() {
        let Some((mut label, parent)) = split(name) else {
            break;
        };
        if label.len() < MAX_LABEL && name.as_wire().len() < MAX_NAME {
            label.push(0);
            return made(&label, parent, apex);
        }
        // No sibling is longer: the next one differs in an octet.
        while let Some(last) = label.pop() {
            if last < 0xff {
                label.push(if last == b'@' { b'[' } else { last + 1 });
                return made(&label, parent, apex);
            }
        }
        name = parent;
    }
    apex.into()
}

/// Returns the first name that could exist below `name`, which is its successor, in lower case.
pub(crate) fn below(name: Name<'_>, apex: Name<'_>) -> NameBuf {
    let below = NameBuf::join(b"\x01\x00", name);
    below.map_or_else(|_| after(name, apex), lower_case)
}

fn made(label: &[u8], parent: Name<'_>, apex: Name<'_>) -> NameBuf {
    // Callers ensure that the lengths fit.
    let made = NameBuf::join(&with_length(label), parent);
    made.map_or_else(|_| apex.into(), lower_case)
}

fn lower_case(mut name: NameBuf) -> NameBuf {
    name.make_lowercase();
    name
}

/// Splits off the first label, in lower case.
fn split(name: Name<'_>) -> Option<(Label, Name<'_>)> {
    let parent = name.parent()?;
    let end = name.as_wire().len() - parent.as_wire().len();
    let mut label = Label::new();
    label.try_extend_from_slice(&name.as_wire()[1..end]).ok()?;
    label.make_ascii_lowercase();
    Some((label, parent))
}

/// Writes labels of the highest octet value that fill this much room, the longer ones closer to the root: the last of
/// all names.
fn fill(room: usize, out: &mut Wire) {
    let full = MAX_LABEL + 1;
    let label = |len: usize, out: &mut Wire| {
        out.push(len as u8);
        let end = out.len() + len;
        fill_up(out, end);
    };
    if room % full >= 2 {
        label(room % full - 1, out);
    }
    (0..room / full).for_each(|_| label(MAX_LABEL, out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn label() -> impl Strategy<Value = Vec<u8>> {
        let octet = prop_oneof![
            Just(0u8),
            Just(1),
            Just(b'@'),
            Just(b'['),
            Just(b'*'),
            Just(b'a'),
            Just(b'Z'),
            Just(255),
            any::<u8>()
        ];
        let len = prop_oneof![Just(1usize), Just(2), 1..64usize, Just(62), Just(63)];
        len.prop_flat_map(move |len| proptest::collection::vec(octet.clone(), len))
    }

    fn name(labels: &[Vec<u8>], apex: Name<'_>) -> Option<NameBuf> {
        let mut name: NameBuf = apex.into();
        for label in labels {
            let mut wire = vec![label.len() as u8];
            wire.extend_from_slice(label);
            name = NameBuf::join(&wire, name.as_name()).ok()?;
        }
        Some(name)
    }

    /// Returns a label whose last octet is increased or decreased.
    fn changed(label: &[u8], by: i8) -> Vec<u8> {
        let mut label = label.to_vec();
        if let Some(last) = label.last_mut() {
            *last = last.wrapping_add_signed(by);
        }
        label
    }

    #[test]
    fn the_owner_is_the_last_name_below_the_decremented_sibling() {
        let long = |last: &str| format!("{}{last}.example.org.", "x".repeat(62));
        let queried: NameBuf = long("b").parse().unwrap();
        let sibling: NameBuf = long("a").parse().unwrap();
        let owner = before(queried.as_name(), |_| false).unwrap();
        assert!(owner.as_name().is_at_or_below(sibling.as_name()));
        let below = &owner.as_name().as_wire()[..owner.as_name().as_wire().len() - 77];
        assert_eq!((below.len(), below[0]), (178, 49));
        assert!(below[1..].iter().all(|octet| matches!(octet, 63 | 0xff)));
        let owner = before(queried.as_name(), |free| free == sibling.as_name());
        assert_eq!(owner, Some(sibling));
    }

    #[test]
    fn the_end_of_the_range_does_not_depend_on_the_case_of_the_query() {
        let name: NameBuf = "no.SUCH.Example.".parse().unwrap();
        let apex: NameBuf = "example.".parse().unwrap();
        for end in [after, below].map(|end| end(name.as_name(), apex.as_name())) {
            let octets = end.as_name().as_wire();
            assert!(!octets.iter().any(u8::is_ascii_uppercase), "{end}");
        }
    }

    proptest! {
        #[test]
        fn only_the_name_and_its_descendants_are_covered(
            labels in proptest::collection::vec(label(), 1..6),
            sibling in label(),
            child in label(),
            apex in proptest::sample::select(&[".", "example.org."][..]),
        ) {
            let apex: NameBuf = apex.parse().unwrap();
            let apex = apex.as_name();
            let Some(denied) = name(&labels, apex) else { return Ok(()) };
            let denied = denied.as_name();
            let (denied_label, _) = split(denied).unwrap();
            let first = before(denied, |_| false);
            let start = match &first {
                Some(made) => made.as_name(),
                None => denied.parent().unwrap(),
            };
            let end = after(denied, apex);
            let end = end.as_name();
            let is_last = end == apex;
            let within = |name: Name<'_>| {
                start.canonical_cmp(name) == Ordering::Less
                    && (is_last || name.canonical_cmp(end) == Ordering::Less)
            };
            prop_assert!(within(denied), "{start} {denied} {end}");
            if let Some(child) = name(std::slice::from_ref(&child), denied) {
                prop_assert!(within(child.as_name()));
            }
            // A sibling with other letters is not denied, nor are names below it, however close it sorts.
            let near = [sibling, changed(&denied_label, -1), changed(&denied_label, 1)];
            for other in near.into_iter().filter(|other| !other.is_empty()) {
                let Some(other) = name(&[other], denied.parent().unwrap()) else { continue };
                let below = [name(std::slice::from_ref(&child), other.as_name()), Some(last_below(other.as_name()))];
                for other in below.into_iter().flatten().chain([other]) {
                    prop_assert!(other.as_name().is_at_or_below(denied) || !within(other.as_name()), "{start} {other} {end}");
                }
            }
            let next = below(denied, apex);
            prop_assert!(next.as_name() == apex || denied.canonical_cmp(next.as_name()) == Ordering::Less);
        }
    }
}
