//! The names of a statement, and the lookups of each row it returns.

use crate::row::{name_text, read_name};
use nameward_wire::NameBuf;

/// Number of names behind that of the previous row among which the name of a row is searched first.
const NEAR: usize = 4;

/// The names that a statement requests, each with the lookups that need it.
#[derive(Default)]
pub(super) struct NameList {
    text: String,
    /// Range of each name in `text`, and the requesting lookup; sorted by name.
    entries: Vec<(u32, u32, u32)>,
}

impl NameList {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
    }

    pub(super) fn push(&mut self, name: &str, lookup: u32) {
        let start = self.text.len() as u32;
        self.text.push_str(name);
        self.entries.push((start, self.text.len() as u32, lookup));
    }

    fn name(&self, entry: (u32, u32, u32)) -> &str {
        &self.text[entry.0 as usize..entry.1 as usize]
    }

    pub(super) fn sort(&mut self) {
        let text = &self.text;
        self.entries.sort_unstable_by(|a, b| {
            text[a.0 as usize..a.1 as usize].cmp(&text[b.0 as usize..b.1 as usize])
        });
    }

    pub(super) fn unique(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.entries.iter().map(|entry| self.name(*entry)).collect();
        names.dedup();
        names
    }

    /// Calls `each` with every lookup that needs the name of a row. `last` is the place of the previous row's name, and
    /// becomes that of this one: most databases return rows in the order of their names.
    pub(super) fn for_lookups_of(
        &self,
        (text, last): (&[u8], &mut usize),
        mut each: impl FnMut(u32),
    ) {
        if self.with_name((text, last), &mut each) {
            return;
        }
        // Returned by a collation that ignores case, or more.
        let mut name = NameBuf::root();
        if read_name(text, &mut name).is_ok() {
            let text = name_text(name.as_name());
            self.with_name((text.as_bytes(), last), &mut each);
        }
    }

    /// Returns the place of the first entry whose name is not less than `text`.
    fn place_of(&self, text: &[u8], last: usize) -> usize {
        let order = |entry: &(u32, u32, u32)| self.name(*entry).as_bytes().cmp(text);
        let near = self.entries[last..].iter().take(NEAR);
        match near.enumerate().find(|(_, entry)| order(entry).is_ge()) {
            Some((0, entry)) if order(entry).is_gt() => {}
            Some((steps, _)) => return last + steps,
            None => {}
        }
        self.entries.partition_point(|entry| order(entry).is_lt())
    }

    fn with_name(&self, (text, last): (&[u8], &mut usize), each: &mut impl FnMut(u32)) -> bool {
        let first = self.place_of(text, *last);
        *last = first;
        let same = self.entries[first..]
            .iter()
            .take_while(|entry| self.name(**entry).as_bytes() == text);
        let mut any = false;
        for entry in same {
            any = true;
            each(entry.2);
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_find_their_lookups_in_any_order() {
        let mut names = NameList::default();
        for (lookup, name) in ["d", "b", "a", "b", "f", "e", "g", "h", "i"]
            .iter()
            .enumerate()
        {
            names.push(name, lookup as u32);
        }
        names.sort();
        let mut last = 0;
        let mut lookups_of = |name: &str| {
            let mut found: Vec<u32> = Vec::new();
            names.for_lookups_of((name.as_bytes(), &mut last), |lookup| found.push(lookup));
            found.sort_unstable();
            found
        };
        // In order, repeated, with a name that is not listed, far ahead, and back.
        assert_eq!(lookups_of("a"), [2]);
        assert_eq!(lookups_of("b"), [1, 3]);
        assert_eq!(lookups_of("b"), [1, 3]);
        assert!(lookups_of("c").is_empty());
        assert_eq!(lookups_of("d"), [0]);
        assert_eq!(lookups_of("i"), [8]);
        assert!(lookups_of("z").is_empty());
        assert_eq!(lookups_of("a"), [2]);
        assert_eq!(lookups_of("H"), [7]);
    }
}
