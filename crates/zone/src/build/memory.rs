//! The memory that a zone takes while it is built: its limits, and the final size of its table and arena.
//!
//! A zone that has reached a limit accepts no further records; it is rejected with the line at which it was full.

use super::{PlacedNode, ZoneBuilder};
use crate::capacity::{ZoneFull, ZoneLimits};
use crate::packed::{put_slot, slots_for};
use nameward_wire::zonefile::RecordLocation;

/// A table sized from an estimate gets this fraction (1/32) of the names as headroom.
const ROOM_SHARE: usize = 32;

impl ZoneBuilder {
    /// Sets the limits of the zone.
    pub fn set_limits(&mut self, limits: ZoneLimits) {
        self.limits = limits;
    }

    /// Returns the octets the zone takes, not counting the current owner.
    fn octets(&self) -> u64 {
        let lists = (self.deep.len() + self.with_targets.len()) * size_of::<PlacedNode>();
        let places = self.late_of.len() + self.connected.len();
        let late = self.late.octets() + places * size_of::<u32>();
        (self.arena.len() + self.slots.len() * size_of::<u64>() + lists + late) as u64
    }

    /// Returns the octets of memory the zone takes so far, including the temporary cost of growing: a buffer that grows
    /// is copied.
    pub fn memory(&self) -> u64 {
        let copied = self.arena.len() + self.slots.len() * size_of::<u64>() / 2;
        self.octets() + (self.current.octets() + copied) as u64
    }

    /// Checks whether the zone reached one of its limits and accepts no further records.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Checks whether the zone was rejected because the system has no memory for it.
    pub fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    /// Checks the size of the zone, and computes how much the next owner may take.
    pub(crate) fn check_octets(&mut self) -> Result<(), ZoneFull> {
        match self.limits.octets.checked_sub(self.octets()) {
            None => Err(ZoneFull::Octets(self.limits.octets)),
            Some(left) => {
                self.octets_left = usize::try_from(left).unwrap_or(usize::MAX);
                Ok(())
            }
        }
    }

    /// Rejects the zone: it is full, and a record on this line would exceed the limit.
    #[cold]
    pub(crate) fn refuse(&mut self, full: ZoneFull, from: RecordLocation) {
        self.is_full = true;
        self.lacks_memory |= full == ZoneFull::Memory;
        self.findings.error(from, format_args!("{full}"));
    }

    /// Makes room in the slot table for `more` names.
    pub(crate) fn reserve_slots(&mut self, more: usize) -> Result<(), ZoneFull> {
        // At most three quarters full, so that probe sequences stay short.
        let mut size = self.slots.len();
        while (self.names + more) * 4 > size * 3 {
            size *= 2;
        }
        if size == self.slots.len() {
            return Ok(());
        }
        let larger = zeroes(self.expected_slots(more).unwrap_or(size))?;
        let old = std::mem::replace(&mut self.slots, larger);
        // Slots are ordered by hash, so this writes the new table front to back.
        old.into_iter()
            .filter(|&slot| slot != 0)
            .for_each(|slot| put_slot(&mut self.slots, (slot >> 32) as u32, slot as u32));
        Ok(())
    }

    /// Estimates the final size of the table, assuming the rest of the text resembles the text read so far. Growing to
    /// that size at once saves the last doubling and the final fitting, which are most of the work; where the estimate
    /// would be far off, the table doubles.
    fn expected_slots(&self, more: usize) -> Option<usize> {
        let (read, of) = self.text_read?;
        let names = (self.names as u128 * u128::from(of)).checked_div(u128::from(read))?;
        let most = self.slots.len() * 4;
        let names = usize::try_from(names).ok().filter(|names| *names < most)?;
        let expected = slots_for(names + names / ROOM_SHARE);
        let least = slots_for((self.names + more) * 17 / 16);
        (least..=most).contains(&expected).then_some(expected)
    }
}

fn zeroes(count: usize) -> Result<Vec<u64>, ZoneFull> {
    let mut list = Vec::new();
    list.try_reserve_exact(count)
        .map_err(|_| ZoneFull::Memory)?;
    list.resize(count, 0);
    Ok(list)
}

/// Shrinks the table to its final size: growth by doubling leaves up to two thirds of it empty.
pub(crate) fn fitting_slots(slots: &mut Vec<u64>, names: usize) -> Result<Box<[u64]>, ZoneFull> {
    let slot_count = slots_for(names);
    if (slot_count..=slot_count + slot_count / ROOM_SHARE * 2).contains(&slots.len()) {
        return Ok(std::mem::take(slots).into_boxed_slice());
    }
    let mut fitting = zeroes(slot_count)?.into_boxed_slice();
    slots
        .drain(..)
        .filter(|&slot| slot != 0)
        .for_each(|slot| put_slot(&mut fitting, (slot >> 32) as u32, slot as u32));
    Ok(fitting)
}

/// Shrinks the arena to its final size. Allocators do not reclaim the tail of a small block that shrinks, so small
/// arenas are copied: a hundred thousand small zones would otherwise waste a quarter of their memory. An arena less
/// than half full would be copied by the allocator anyway, so it is copied here; others shrink in place.
pub(crate) fn fitting_arena(arena: &mut Vec<u8>) -> Result<Box<[u8]>, ZoneFull> {
    const SMALL: usize = 64 << 10;
    if arena.len() >= SMALL && arena.len() >= arena.capacity() / 2 {
        return Ok(std::mem::take(arena).into_boxed_slice());
    }
    let mut fitting = Vec::new();
    fitting
        .try_reserve_exact(arena.len())
        .map_err(|_| ZoneFull::Memory)?;
    fitting.extend_from_slice(arena);
    Ok(fitting.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::zonefile::{Record, Sink};
    use nameward_wire::{NameBuf, Type};

    const NAMES: u32 = 50_000;

    /// Builds a zone with many names; `of` is the text size announced to the sink, for a text with ten octets per name.
    fn slots_of(of: u64) -> (usize, Vec<usize>) {
        let apex: NameBuf = "example.".parse().unwrap();
        let mut builder = ZoneBuilder::new(apex.as_name());
        let mut sizes = Vec::new();
        builder.add(&Record::new(apex.as_name(), Type::SOA, 1, &[0; 22]));
        for n in 0..NAMES {
            let name: NameBuf = format!("n{n}.example.").parse().unwrap();
            builder.add(&Record::new(name.as_name(), Type::A, 1, &[192, 0, 2, 1]));
            if n % 1000 == 999 {
                builder.progress(u64::from(n + 1) * 10, of);
            }
            if sizes.last() != Some(&builder.slots.len()) {
                sizes.push(builder.slots.len());
            }
        }
        let fitted = fitting_slots(&mut builder.slots.clone(), builder.names + 1).unwrap();
        let zone = builder.finish().0.unwrap();
        for n in 0..NAMES {
            let name: NameBuf = format!("n{n}.example.").parse().unwrap();
            assert!(zone.node_of(name.as_name()).is_some(), "{name}");
        }
        (fitted.len(), sizes)
    }

    #[test]
    fn a_table_grows_to_what_the_rest_of_the_text_will_need() {
        let slot_count = slots_for(NAMES as usize + 1);
        let (count, sizes) = slots_of(u64::from(NAMES) * 10);
        // The table was never larger than necessary, and keeps its size at the end.
        assert_eq!(sizes.last(), Some(&count), "{sizes:?}");
        assert!(
            (slot_count..slot_count + slot_count / 16).contains(&count),
            "{sizes:?}"
        );
    }

    #[test]
    fn a_table_is_right_however_wrong_the_size_of_the_text_is() {
        let slot_count = slots_for(NAMES as usize + 1);
        for of in [0, 1, 100_000, 470_000, 600_000, 2_000_000, u64::MAX] {
            let (count, sizes) = slots_of(of);
            assert!(
                (slot_count..slot_count + slot_count / 16).contains(&count),
                "{of}: {count}"
            );
            let steps = sizes.windows(2).map(|pair| pair[1] as f64 / pair[0] as f64);
            assert!(steps.fold(0., f64::max) <= 4., "{of}: {sizes:?}");
        }
    }
}
