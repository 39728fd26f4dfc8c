//! The names whose rows a lookup requests. Their octets are stored together, because a buffer for the longest name
//! would take more than ten times what most need, and lookups are moved around in large batches.

use super::super::row::append_name;
use nameward_wire::Name;
use std::ops::{Index, IndexMut, Range};

/// A name whose rows a lookup requests.
pub(super) struct RequestedName {
    wire: Range<usize>,
    text: Range<usize>,
    /// Its rows have been requested.
    pub(super) is_requested: bool,
    pub(super) has_rows: bool,
    /// PowerDNS has marked it as an empty non-terminal.
    pub(super) has_empty_row: bool,
    /// It has more rows than are fetched.
    pub(super) is_oversized: bool,
    /// Bits of [`super::need`].
    pub(super) needs: u16,
}

/// The names of one lookup; the first is the zone apex.
#[derive(Default)]
pub(super) struct RequestedNames {
    list: Vec<RequestedName>,
    wires: Vec<u8>,
    /// The names as stored in the database.
    texts: String,
}

impl RequestedNames {
    /// Returns an empty list with room for the names of most lookups.
    pub(super) fn with_room() -> Self {
        RequestedNames {
            list: Vec::with_capacity(4),
            wires: Vec::with_capacity(96),
            texts: String::with_capacity(96),
        }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.wires.clear();
        self.texts.clear();
    }

    /// Returns the size of its largest buffer.
    pub(super) fn octets_max(&self) -> usize {
        let list = self.list.capacity() * size_of::<RequestedName>();
        list.max(self.wires.capacity()).max(self.texts.capacity())
    }

    /// Adds a name unless it is present; returns its index.
    pub(super) fn add(&mut self, name: Name<'_>) -> usize {
        if let Some(at) = self.position(name) {
            return at;
        }
        let (wire, text) = (self.wires.len(), self.texts.len());
        self.wires.extend_from_slice(name.as_wire());
        append_name(name, &mut self.texts);
        self.list.push(RequestedName {
            wire: wire..self.wires.len(),
            text: text..self.texts.len(),
            is_requested: false,
            has_rows: false,
            has_empty_row: false,
            is_oversized: false,
            needs: 0,
        });
        self.list.len() - 1
    }

    /// Applies the case used in the database.
    pub(super) fn respell(&mut self, at: usize, name: Name<'_>) {
        let wire = self.list[at].wire.clone();
        self.wires[wire].copy_from_slice(name.as_wire());
    }

    /// Finds a name, ignoring case.
    pub(super) fn position(&self, name: Name<'_>) -> Option<usize> {
        (0..self.list.len()).find(|&at| self.name(at) == name)
    }

    /// Finds the name that is stored as this text in the database.
    pub(super) fn position_of_text(&self, text: &[u8]) -> Option<usize> {
        (0..self.list.len()).find(|&at| self.text(at).as_bytes() == text)
    }

    pub(super) fn name(&self, at: usize) -> Name<'_> {
        Name::from_valid_wire(&self.wires[self.list[at].wire.clone()])
    }

    /// Returns the name as stored in the database.
    pub(super) fn text(&self, at: usize) -> &str {
        &self.texts[self.list[at].text.clone()]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RequestedName> {
        self.list.iter()
    }
}

impl Index<usize> for RequestedNames {
    type Output = RequestedName;

    fn index(&self, at: usize) -> &RequestedName {
        &self.list[at]
    }
}

impl IndexMut<usize> for RequestedNames {
    fn index_mut(&mut self, at: usize) -> &mut RequestedName {
        &mut self.list[at]
    }
}
