//! Cache of zone fragments that answer for more than one name, kept briefly so that the next name need not fetch, parse
//! and build them again.
//!
//! Two kinds do not depend on the query name: the fragment for names below a delegation, and the fragment for names
//! without records of their own (the closest encloser, its wildcard and everything that the wildcard's records lead
//! to). A wildcard with thousands of addresses then only costs the first name the work, and the others next to nothing.
//! Fragments are dropped when their zone is known to have changed, and after a few seconds in any case.
//!
//! Names with more rows than any answer could hold are remembered too, so that their rows are not read again for each
//! query.

use super::empty_nonterminals::Same;
use nameward_base::sync::Mutex;
use nameward_wire::Name;
use nameward_zone::{NameKey, Zone};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a fragment is used.
const MAX_AGE: Duration = Duration::from_secs(5);
/// How long a name counts as oversized if changes come without notifications.
const OVERSIZED_AGE: Duration = Duration::from_secs(30);
/// Memory for fragments over all zones, in octets; when it is exceeded, all are dropped, which costs each one fetch.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of fragments and of oversized names, for the same reason.
const MAX_FRAGMENTS: usize = 20_000;
/// Labels below the apex within which fragments are searched: a query with a hundred labels costs no more than others.
const MAX_DEPTH: usize = 8;

/// The names that a fragment answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FragmentKind {
    /// All names below a delegation.
    Delegation,
    /// Names below a closest encloser that have no records of their own.
    Encloser,
}

/// A cached fragment.
#[derive(Clone)]
pub(crate) struct SharedFragment {
    pub(crate) kind: FragmentKind,
    /// Label count of the delegation or the closest encloser.
    pub(crate) labels: usize,
    pub(crate) zone: Arc<Zone>,
}

struct CachedFragment {
    name: Box<[u8]>,
    fragment: SharedFragment,
    is_signed: bool,
    since: Instant,
}

type ZoneFragments = HashMap<u64, CachedFragment, BuildHasherDefault<Same>>;

/// The fragments of all zones.
#[derive(Default)]
pub(crate) struct SharedFragments {
    inner: Mutex<FragmentLists>,
    has_oversized: AtomicBool,
}

#[derive(Default)]
struct FragmentLists {
    zones: HashMap<i64, ZoneFragments>,
    count: usize,
    bytes: usize,
    /// Counts calls of [`SharedFragments::forget`].
    generation: u64,
    /// Names as stored in the database, and until when they are not fetched.
    oversized: HashMap<Box<str>, Instant>,
}

impl SharedFragments {
    /// Returns the generation to pass to [`SharedFragments::insert`].
    pub(crate) fn generation(&self) -> u64 {
        self.inner.lock().generation
    }

    /// Finds the fragment of the deepest delegation or closest encloser above a name.
    pub(crate) fn find(
        &self,
        zone: i64,
        (name, apex_labels): (&NameKey, usize),
        is_signed: bool,
    ) -> Option<SharedFragment> {
        let inner = self.inner.lock();
        let fragments = inner.zones.get(&zone)?;
        let deepest = name.labels().min(apex_labels + MAX_DEPTH);
        let mut cached = (apex_labels..deepest)
            .rev()
            .filter_map(|labels| Some((labels, fragments.get(&name.hash(labels))?)));
        let (_, cached) = cached.find(|(labels, cached)| {
            cached.is_signed == is_signed
                && *cached.name == *name.suffix(*labels).as_wire()
                && cached.since.elapsed() < MAX_AGE
        })?;
        Some(cached.fragment.clone())
    }

    /// Caches a fragment fetched after `generation` was read, unless anything has changed since.
    pub(crate) fn insert(
        &self,
        zone: i64,
        name: &NameKey,
        (fragment, is_signed): (SharedFragment, bool),
        generation: u64,
    ) {
        let mut inner = self.inner.lock();
        if inner.generation != generation {
            return;
        }
        let bytes = fragment.zone.heap_bytes();
        if inner.count >= MAX_FRAGMENTS || inner.bytes + bytes > MAX_BYTES {
            inner.drop_parts();
        }
        let labels = fragment.labels;
        let cached = CachedFragment {
            name: name.suffix(labels).as_wire().into(),
            fragment,
            is_signed,
            since: Instant::now(),
        };
        let fragments = inner.zones.entry(zone).or_default();
        let before = fragments.insert(name.hash(labels), cached);
        inner.bytes += bytes;
        match before {
            Some(before) => inner.bytes -= before.fragment.zone.heap_bytes(),
            None => inner.count += 1,
        }
    }

    /// Records that a name has more rows than are fetched.
    pub(crate) fn note_oversized(&self, name: &str) {
        let mut inner = self.inner.lock();
        if inner.oversized.len() >= MAX_FRAGMENTS {
            inner.oversized.clear();
        }
        inner
            .oversized
            .insert(name.into(), Instant::now() + OVERSIZED_AGE);
        self.has_oversized.store(true, Ordering::Relaxed);
    }

    /// Checks whether a name has more rows than are fetched.
    pub(crate) fn is_oversized(&self, name: &str) -> bool {
        if !self.has_oversized.load(Ordering::Relaxed) {
            return false;
        }
        let inner = self.inner.lock();
        let until = inner.oversized.get(name);
        until.is_some_and(|until| Instant::now() < *until)
    }

    /// Drops the fragments of a zone that changed; `None`: of all zones.
    pub(crate) fn forget(&self, zone: Option<i64>) {
        let mut inner = self.inner.lock();
        inner.generation += 1;
        // A name may be in more than one zone.
        inner.oversized.clear();
        self.has_oversized.store(false, Ordering::Relaxed);
        match zone {
            Some(zone) => {
                for cached in inner.zones.remove(&zone).unwrap_or_default().values() {
                    inner.bytes -= cached.fragment.zone.heap_bytes();
                    inner.count -= 1;
                }
            }
            None => inner.drop_parts(),
        }
    }
}

impl FragmentLists {
    fn drop_parts(&mut self) {
        self.zones.clear();
        self.count = 0;
        self.bytes = 0;
    }
}

/// Returns the message about a name with more rows than are fetched.
pub(crate) fn too_many_rows(name: Name<'_>, most: usize) -> String {
    format!("{name} has more than {most} records, too many for any response")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    fn key(name: &str) -> NameKey {
        let name: NameBuf = name.parse().unwrap();
        NameKey::new(name.as_name())
    }

    fn fragment(kind: FragmentKind, labels: usize) -> SharedFragment {
        let apex: NameBuf = "example.org".parse().unwrap();
        let zone = Arc::new(Zone::stub(apex.as_name(), 0, 1));
        SharedFragment { kind, labels, zone }
    }

    #[test]
    fn the_deepest_part_above_a_name_is_found_and_none_after_a_change() {
        let fragments = SharedFragments::default();
        let keep = |name: &str, kind, labels| {
            let generation = fragments.generation();
            fragments.insert(1, &key(name), (fragment(kind, labels), false), generation);
        };
        keep("x.example.org", FragmentKind::Encloser, 2);
        keep("y.sub.example.org", FragmentKind::Delegation, 3);
        let find = |name: &str| {
            let fragment = fragments.find(1, (&key(name), 2), false)?;
            Some((fragment.kind, fragment.labels))
        };
        assert_eq!(find("a.example.org"), Some((FragmentKind::Encloser, 2)));
        assert_eq!(
            find("a.SUB.example.org"),
            Some((FragmentKind::Delegation, 3))
        );
        // The delegation itself is not below it.
        assert_eq!(find("sub.example.org"), Some((FragmentKind::Encloser, 2)));
        assert_eq!(find("example.org"), None);
        assert!(
            fragments
                .find(1, (&key("a.example.org"), 2), true)
                .is_none()
        );
        assert!(
            fragments
                .find(2, (&key("a.example.org"), 2), false)
                .is_none()
        );
        let early = fragments.generation();
        fragments.forget(Some(1));
        assert_eq!(find("a.example.org"), None);
        let late = fragment(FragmentKind::Encloser, 2);
        fragments.insert(1, &key("x.example.org"), (late, false), early);
        assert_eq!(find("a.example.org"), None, "fetched before the change");
        let inner = fragments.inner.lock();
        assert_eq!((inner.count, inner.bytes), (0, 0));
    }

    #[test]
    fn the_number_of_parts_is_bounded() {
        let fragments = SharedFragments::default();
        for i in 0..MAX_FRAGMENTS + 10 {
            let (name, generation) = (key(&format!("n{i}.example.org")), fragments.generation());
            let fragment = fragment(FragmentKind::Delegation, 3);
            fragments.insert(1, &name, (fragment, false), generation);
            fragments.note_oversized(&format!("n{i}.example.org"));
        }
        assert!(fragments.inner.lock().count <= MAX_FRAGMENTS);
        assert!(fragments.inner.lock().oversized.len() <= MAX_FRAGMENTS);
        assert!(fragments.is_oversized("n20005.example.org"));
        fragments.forget(None);
        assert!(!fragments.is_oversized("n20005.example.org"));
    }
}
