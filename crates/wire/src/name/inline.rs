//! Names that are stored in large numbers, most of them short.

use super::Name;

/// A name in wire form, stored in place if it has at most `N` octets.
#[derive(Debug, Clone)]
pub struct InlineName<const N: usize>(Octets<N>);

#[derive(Debug, Clone)]
enum Octets<const N: usize> {
    Short { len: u8, wire: [u8; N] },
    Long(Box<[u8]>),
}

impl<const N: usize> InlineName<N> {
    /// Returns the name.
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        Name::from_valid_wire(match &self.0 {
            Octets::Short { len, wire } => &wire[..usize::from(*len)],
            Octets::Long(wire) => wire,
        })
    }

    /// Returns the size of its own heap block.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Octets::Short { .. } => 0,
            Octets::Long(wire) => wire.len(),
        }
    }
}

/// Ignores case, like [`Name`].
impl<const N: usize> PartialEq for InlineName<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_name() == other.as_name()
    }
}

impl<const N: usize> Eq for InlineName<N> {}

impl<const N: usize> From<Name<'_>> for InlineName<N> {
    fn from(name: Name<'_>) -> Self {
        let octets = name.as_wire();
        let mut wire = [0; N];
        InlineName(match wire.get_mut(..octets.len()) {
            Some(short) => {
                short.copy_from_slice(octets);
                let len = octets.len() as u8;
                Octets::Short { len, wire }
            }
            None => Octets::Long(octets.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameBuf;

    #[test]
    fn names_of_every_length_come_back() {
        for len in 1..=63 {
            let text = format!("{}.example.", "x".repeat(len));
            let name: NameBuf = text.parse().unwrap();
            let inline: InlineName<38> = name.as_name().into();
            assert_eq!(inline.as_name().as_wire(), name.as_name().as_wire());
            let octets = len + 10;
            let heap = if octets > 38 { octets } else { 0 };
            assert_eq!(inline.heap_bytes(), heap, "{octets}");
        }
        assert_eq!(size_of::<InlineName<38>>(), 40);
        assert_eq!(InlineName::<38>::from(Name::ROOT).as_name(), Name::ROOT);
    }
}
