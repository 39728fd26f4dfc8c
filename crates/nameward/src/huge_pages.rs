//! Huge pages for memory that is in use anyway.
//!
//! A query for a random name of large contents reads memory anywhere in tens of megabytes, and with pages of 4 KiB each access is
//! also a miss in the processor's table of pages: with 100,000 zones an answer takes 0.87 us instead of 0.76. If the kernel handed
//! out huge pages for new memory, however, blocks that are never filled would occupy most of them: 2,000 zones under load took 167
//! MiB instead of 42. So all memory starts in small pages, and a thread moves those ranges into huge pages in which nearly every small
//! page is in use. The server's memory grows by at most a fifteenth, usually by far less.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::ops::Range;
use std::time::Duration;

use nameward_base::worker::{self, panic_guard};

/// The size of a huge page, where the kernel's pages have 4 KiB.
const HUGE: usize = 2 << 20;
/// The size of a page.
const PAGE: usize = 4 << 10;
/// Small pages of a range that may be unused: the allocator leaves some at the end of each of its blocks.
const UNUSED_MAX: usize = HUGE / PAGE / 16;
/// Interval at which the thread checks whether the memory has changed.
const INTERVAL: Duration = Duration::from_secs(2);
/// Change of the resident memory, in pages, after which ranges are moved.
const CHANGE: usize = 4 * HUGE / PAGE;
/// Intervals after which they are moved without such a change: old memory may have been freed and other memory used.
const UNCHANGED: u32 = 30;
/// Linux 6.1. The bindings have it for glibc only.
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: libc::c_int = 25;

/// The allocator's variable: with 0 it turns huge pages off for the process, with 1 the policy of the system applies.
const ALLOW_HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP";

/// Keeps the kernel from giving huge pages to new memory, as it does where its policy is `always`. Must be called before there
/// are threads.
///
/// Before Linux 6.18 a process can only renounce them altogether.
pub fn restrict() {
    if std::env::var_os(ALLOW_HUGE_PAGES).is_some() || !policy_is_always() {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        /// Linux 6.18.
        const PR_THP_DISABLE_EXCEPT_ADVISED: libc::c_ulong = 1 << 1;
        let disable = |flags: libc::c_ulong| {
            let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
            // SAFETY: the call takes numbers only and affects future page faults of this process.
            unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, flags, unused, unused) == 0 }
        };
        // A kernel without the facility gives no huge pages.
        let _ = disable(PR_THP_DISABLE_EXCEPT_ADVISED) || disable(0);
    }
}

/// Checks whether the kernel gives huge pages to any memory. The policy in force is in brackets.
fn policy_is_always() -> bool {
    let policy = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    policy.is_ok_and(|policy| policy.contains("[always]"))
}

/// Starts the thread that moves ranges into huge pages.
pub fn start() -> io::Result<()> {
    if std::env::var_os(ALLOW_HUGE_PAGES).is_some_and(|value| value == "0") {
        return Ok(());
    }
    worker::start("huge-pages", || {
        let (mut moved_at, mut unchanged) = (0, 0);
        loop {
            std::thread::sleep(INTERVAL);
            panic_guard("moving memory into huge pages", || {
                let resident = resident_pages();
                unchanged += 1;
                if resident.abs_diff(moved_at) >= CHANGE || unchanged >= UNCHANGED {
                    move_used_ranges();
                    (moved_at, unchanged) = (resident, 0);
                }
            });
        }
    })?;
    Ok(())
}

/// Returns the number of pages in memory.
fn resident_pages() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let field = text.split_whitespace().nth(1);
    field.and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

/// A mapping without a file.
struct AnonymousMapping {
    addresses: Range<usize>,
    /// Octets in huge pages.
    huge: usize,
}

/// Moves all ranges that are in use. Fails silently: without free huge pages, on a kernel before Linux 6.1, or if the
/// process must not use them, memory stays where it is.
///
/// The advice is about the pages as they are now. Unlike `MADV_HUGEPAGE` it leaves no mark on the address range, which the
/// allocator uses for other blocks later.
fn move_used_ranges() {
    let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for mapping in anonymous_mappings(&text) {
        let spans = used_spans(&mapping.addresses);
        let used: usize = spans.iter().map(ExactSizeIterator::len).sum();
        if mapping.huge >= used {
            continue;
        }
        for span in spans {
            collapse(span);
        }
    }
}

/// Returns the mappings that can hold a huge page, from the text of `smaps`.
fn anonymous_mappings(text: &str) -> Vec<AnonymousMapping> {
    let mut mappings: Vec<AnonymousMapping> = Vec::new();
    let mut is_listed = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some(kib) = first.strip_suffix(':').map(|_| words.next()) {
            if is_listed && first == "AnonHugePages:" {
                let kib: usize = kib.and_then(|kib| kib.parse().ok()).unwrap_or(0);
                if let Some(mapping) = mappings.last_mut() {
                    mapping.huge = kib << 10;
                }
            }
            continue;
        }
        let addresses = address_range(first);
        let is_writable = words.next().is_some_and(|mode| mode.starts_with("rw"));
        // Offset, device, inode; then a path, which a mapping of memory lacks or has in brackets.
        let is_anonymous = words.nth(3).is_none_or(|path| path.starts_with("[anon"));
        is_listed = false;
        if let Some(addresses) = addresses.filter(|range| range.len() >= HUGE) {
            is_listed = is_writable && is_anonymous;
            if is_listed {
                let huge = 0;
                mappings.push(AnonymousMapping { addresses, huge });
            }
        }
    }
    mappings
}

fn address_range(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

/// Returns the ranges of a mapping in which nearly every small page is in memory, neighbours together, in whole huge pages.
fn used_spans(addresses: &Range<usize>) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut pages = [0_u8; HUGE / PAGE];
    let mut start = addresses.start.next_multiple_of(HUGE);
    while start + HUGE <= addresses.end {
        let address = std::ptr::without_provenance_mut(start);
        // SAFETY: the call reads the process's page table, whatever is mapped there, and writes one octet for each page.
        let known = unsafe { libc::mincore(address, HUGE, pages.as_mut_ptr().cast()) } == 0;
        let unused = pages.iter().filter(|page| *page & 1 == 0).count();
        if known && unused <= UNUSED_MAX {
            match spans.last_mut() {
                Some(last) if last.end == start => last.end = start + HUGE,
                _ => spans.push(start..start + HUGE),
            }
        }
        start += HUGE;
    }
    spans
}

/// Moves a range into huge pages; returns whether the kernel has done it.
#[cfg(target_os = "linux")]
fn collapse(span: Range<usize>) -> bool {
    let address = std::ptr::without_provenance_mut(span.start);
    // SAFETY: the kernel copies pages, and readers and writers see the same octets at the same addresses before, during and after.
    // If the range was unmapped in the meantime, the call fails, or moves what is mapped there instead, with the same promise.
    // Nothing is accessed through this pointer here.
    unsafe { libc::madvise(address, span.len(), MADV_COLLAPSE) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn collapse(_span: Range<usize>) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_memory_are_found_and_those_of_files_are_not() {
        let text = "55d0a0000000-55d0a4000000 r-xp 00000000 fe:00 131 /usr/bin/nameward\nAnonHugePages:         0 kB\n\
                    55d0b0000000-55d0b4000000 rw-p 00000000 00:00 0 [heap]\nAnonHugePages:         0 kB\n\
                    7f0000000000-7f0040000000 rw-p 00000000 00:00 0 \nRss:             9000 kB\nAnonHugePages:      4096 kB\n\
                    7f0050000000-7f0050100000 rw-p 00000000 00:00 0 \nAnonHugePages:         0 kB\n\
                    7f0060000000-7f0060400000 rw-p 00000000 00:00 0 [anon: blocks]\nVmFlags: rd wr\n";
        let found = anonymous_mappings(text);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.addresses.start, one.huge))
            .collect();
        assert_eq!(found, [(0x7f00_0000_0000, 4 << 20), (0x7f00_6000_0000, 0)]);
    }

    #[test]
    fn memory_in_use_moves_with_its_contents_and_other_memory_does_not() {
        let values: Vec<u32> = (0..(8 << 20)).collect();
        // Requested, but not used.
        let unused: Vec<u8> = Vec::with_capacity(32 << 20);
        let range = |start: usize, size: usize| start..start + size;
        let (used, unused) = (
            range(values.as_ptr().addr(), 32 << 20),
            range(unused.as_ptr().addr(), 32 << 20),
        );
        let moved: usize = used_spans(&used).iter().map(ExactSizeIterator::len).sum();
        assert!(moved >= 30 << 20, "{moved}");
        let before = resident_pages();
        move_used_ranges();
        assert!(values.iter().copied().eq(0..(8 << 20)));
        let span = used_spans(&used).remove(0);
        // A kernel before 6.1, or one without free huge pages, refuses.
        if collapse(span.clone()) {
            let text = fs::read_to_string("/proc/self/smaps").unwrap();
            let mappings = anonymous_mappings(&text);
            let mut holding = mappings
                .iter()
                .filter(|one| one.addresses.contains(&span.start));
            assert!(holding.any(|one| one.huge >= 30 << 20));
        }
        assert!(used_spans(&unused).is_empty());
        let grown = resident_pages().saturating_sub(before);
        assert!(grown <= 4 * HUGE / PAGE, "{grown} pages");
    }
}
