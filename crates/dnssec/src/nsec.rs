//! Names for minimally covering NSEC records (RFC 4470): right before a name and right after it.
//!
//! What is denied is the next closer name, whose descendants do not exist either, so the record covers the name with
//! all that stands below it and nothing else. Owners are chosen among the siblings of the name, because validators take
//! the closest encloser from the labels that both ends share with the question.

use nameward_wire::name::{MAX_LABEL, MAX_NAME};
use nameward_wire::{Name, NameBuf};

/// The last name before `name`, which is below the apex; `None` if that is its parent, which exists.
pub(crate) fn before(name: Name<'_>) -> Option<NameBuf> {
    let (label, parent) = split(name)?;
    let (&last, head) = label.split_last()?;
    if last == 0 && head.is_empty() {
        return None;
    }
    let mut wire = Vec::with_capacity(MAX_NAME);
    if last == 0 {
        // The sibling without the zero, and all that could stand below it.
        fill(
            MAX_NAME - parent.as_wire().len() - head.len() - 1,
            &mut wire,
        );
        wire.push(head.len() as u8);
        wire.extend_from_slice(head);
    } else {
        let most = MAX_LABEL.min(MAX_NAME - parent.as_wire().len() - 1);
        wire.push(most as u8);
        wire.extend_from_slice(head);
        // Upper-case letters count as lower-case ones, which stand elsewhere in the order.
        wire.push(if last == b'[' { b'@' } else { last - 1 });
        wire.resize(1 + most, 0xff);
    }
    NameBuf::join(&wire, parent).ok()
}

/// The first name after `name` and all that could stand below it; the apex if there is none.
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

/// The first name that could stand below `name`, which is the one after it.
pub(crate) fn below(name: Name<'_>, apex: Name<'_>) -> NameBuf {
    NameBuf::join(b"\x01\x00", name).unwrap_or_else(|_| after(name, apex))
}

fn made(label: &[u8], parent: Name<'_>, apex: Name<'_>) -> NameBuf {
    let mut wire = vec![label.len() as u8];
    wire.extend_from_slice(label);
    // Callers see to the lengths.
    NameBuf::join(&wire, parent).unwrap_or_else(|_| apex.into())
}

/// The first label in lower case, and the rest.
fn split(name: Name<'_>) -> Option<(Vec<u8>, Name<'_>)> {
    let parent = name.parent()?;
    let end = name.as_wire().len() - parent.as_wire().len();
    Some((name.as_wire()[1..end].to_ascii_lowercase(), parent))
}

/// Labels of the highest octet that fill this much room, the longer ones nearer to the root: the last of all names.
fn fill(room: usize, out: &mut Vec<u8>) {
    let full = MAX_LABEL + 1;
    let label = |len: usize, out: &mut Vec<u8>| {
        out.push(len as u8);
        out.resize(out.len() + len, 0xff);
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

    proptest! {
        #[test]
        fn a_name_and_all_below_it_stand_in_between_and_no_sibling(
            labels in proptest::collection::vec(label(), 1..6),
            sibling in label(),
            child in label(),
            apex in proptest::sample::select(&[".", "example.org."][..]),
        ) {
            let apex: NameBuf = apex.parse().unwrap();
            let apex = apex.as_name();
            let Some(denied) = name(&labels, apex) else { return Ok(()) };
            let denied = denied.as_name();
            let first = before(denied);
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
            if let Some(child) = name(&[child], denied) {
                prop_assert!(within(child.as_name()));
            }
            // A sibling with other letters is not denied, nor what is below it.
            if let Some(other) = name(&[sibling], denied.parent().unwrap())
                && other.as_name() != denied
                && other.as_name() != start
            {
                prop_assert!(!within(other.as_name()), "{start} {other} {end}");
            }
            let next = below(denied, apex);
            prop_assert!(next.as_name() == apex || denied.canonical_cmp(next.as_name()) == Ordering::Less);
        }
    }
}
