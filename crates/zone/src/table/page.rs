//! One page of the zones in a table, in alphabetical order.
//!
//! The table is unordered, and a page of a hundred zones should not require sorting a million: one pass keeps the best
//! zones seen so far, so a page only needs memory for its own rows.

use super::ZoneTable;
use crate::zone::Zone;
use nameward_wire::{Name, NameBuf};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Where a page starts or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageStart {
    /// Starts at the first zone.
    First,
    /// Starts after a name.
    After(NameBuf),
    /// Ends before a name.
    Before(NameBuf),
}

/// A page of zones.
pub struct TablePage<'t> {
    /// The zones, in alphabetical order.
    pub zones: Vec<&'t Arc<Zone>>,
    /// Number of zones that match, on this page and all others.
    pub matching: usize,
    /// Whether there are zones before the first one on the page.
    pub has_earlier: bool,
    /// Whether there are zones after the last one on the page.
    pub has_later: bool,
}

/// Orders zones as people read names: label by label from the left, ignoring case.
struct ByName<'t>(&'t Arc<Zone>);

impl Ord for ByName<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        alphabetical(self.0.id(), other.0.id())
    }
}

impl PartialOrd for ByName<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByName<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ByName<'_> {}

fn alphabetical(a: Name<'_>, b: Name<'_>) -> Ordering {
    fn letters(label: &[u8]) -> impl Iterator<Item = u8> + '_ {
        label.iter().map(u8::to_ascii_lowercase)
    }
    // The versions of a zone follow its common one.
    let variants = a.variant().cmp(&b.variant());
    let (mut a, mut b) = (a.zone().labels(), b.zone().labels());
    loop {
        match (a.next(), b.next()) {
            (Some(one), Some(other)) if one.eq_ignore_ascii_case(other) => {}
            (Some(one), Some(other)) => return letters(one).cmp(letters(other)),
            (None, None) => return variants,
            (one, other) => return one.is_some().cmp(&other.is_some()),
        }
    }
}

/// The zones on one side of a name, of which the nearest are kept.
struct Nearest<T> {
    heap: BinaryHeap<T>,
    seen: usize,
    limit: usize,
}

impl<T: Ord> Nearest<T> {
    fn new(limit: usize) -> Self {
        Nearest {
            heap: BinaryHeap::with_capacity(limit + 1),
            seen: 0,
            limit,
        }
    }

    fn add(&mut self, zone: T) {
        self.seen += 1;
        if self.heap.len() < self.limit {
            self.heap.push(zone);
        } else if let Some(mut farthest) = self.heap.peek_mut()
            && zone < *farthest
        {
            *farthest = zone;
        }
    }
}

impl ZoneTable {
    /// Returns a page of at most `limit` matching zones.
    pub fn page(
        &self,
        start: &PageStart,
        limit: usize,
        mut matches: impl FnMut(&Zone) -> bool,
    ) -> TablePage<'_> {
        let mut later = Nearest::new(limit);
        let mut earlier = Nearest::new(limit);
        let mut matching = 0;
        for zone in self.zones().filter(|zone| matches(zone)) {
            matching += 1;
            let name = zone.id();
            match start {
                PageStart::First => later.add(ByName(zone)),
                PageStart::After(from) => match alphabetical(name, from.as_name()) {
                    Ordering::Greater => later.add(ByName(zone)),
                    _ => earlier.seen += 1,
                },
                PageStart::Before(to) => match alphabetical(name, to.as_name()) {
                    Ordering::Less => earlier.add(Reverse(ByName(zone))),
                    _ => later.seen += 1,
                },
            }
        }
        let kept_later = later.heap.into_sorted_vec().into_iter().map(|zone| zone.0);
        // Sorted with the nearest first, which is the last one on the page.
        let kept_earlier = earlier.heap.into_sorted_vec().into_iter().rev();
        let kept_earlier: Vec<_> = kept_earlier.map(|zone| zone.0.0).collect();
        let has_earlier = earlier.seen > kept_earlier.len();
        let zones: Vec<_> = kept_earlier.into_iter().chain(kept_later).collect();
        let kept = match start {
            PageStart::Before(_) => 0,
            _ => zones.len(),
        };
        TablePage {
            has_earlier,
            has_later: later.seen > kept,
            zones,
            matching,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(names: &[String]) -> ZoneTable {
        let mut table = ZoneTable::default();
        for name in names {
            let name: NameBuf = name.parse().unwrap();
            table.insert(Arc::new(Zone::not_ready(name.as_name())));
        }
        table
    }

    fn names(page: &TablePage<'_>) -> Vec<String> {
        let zones = page.zones.iter();
        zones.map(|zone| zone.apex_name().to_string()).collect()
    }

    #[test]
    fn pages_follow_each_other_forwards_and_backwards_without_gaps() {
        let all: Vec<String> = (0..25).map(|n| format!("z{n:02}.test.")).collect();
        let table = table(&all);
        let first = table.page(&PageStart::First, 10, |_| true);
        assert_eq!(names(&first), all[..10]);
        assert!(!first.has_earlier && first.has_later && first.matching == 25);
        let after = |name: &str| PageStart::After(name.parse().unwrap());
        let second = table.page(&after(&all[9]), 10, |_| true);
        assert_eq!(names(&second), all[10..20]);
        assert!(second.has_earlier && second.has_later);
        let third = table.page(&after(&all[19]), 10, |_| true);
        assert_eq!(names(&third), all[20..]);
        assert!(third.has_earlier && !third.has_later);
        let before = PageStart::Before(all[20].parse().unwrap());
        let back = table.page(&before, 10, |_| true);
        assert_eq!(names(&back), all[10..20]);
        assert!(back.has_earlier && back.has_later);
    }

    #[test]
    fn only_zones_that_match_are_counted_and_shown() {
        let all: Vec<String> = ["B.test.", "a.test.", "a.b.test.", "."]
            .map(Into::into)
            .into();
        let table = table(&all);
        let page = table.page(&PageStart::First, 10, |zone| zone.apex_labels() == 2);
        assert_eq!(names(&page), ["a.test.", "B.test."]);
        assert_eq!(page.matching, 2);
        let page = table.page(&PageStart::First, 10, |_| true);
        assert_eq!(names(&page), [".", "a.b.test.", "a.test.", "B.test."]);
    }

    proptest! {
        #[test]
        fn turning_all_pages_shows_every_zone_once(
            labels in proptest::collection::btree_set("[a-c]{1,3}", 0..40),
            limit in 1..7usize,
        ) {
            let all: Vec<String> = labels.iter().map(|label| format!("{label}.test.")).collect();
            let table = table(&all);
            let (mut shown, mut start) = (Vec::new(), PageStart::First);
            loop {
                let page = table.page(&start, limit, |_| true);
                shown.extend(names(&page));
                let Some(last) = page.zones.last().filter(|_| page.has_later) else {
                    break;
                };
                start = PageStart::After(last.id().into());
            }
            prop_assert_eq!(shown, all);
        }
    }
}
