//! Limits on the size of a zone, and failed allocations: an error with its line, never a crash.

use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, Report, Severity, parse_bytes};
use nameward_zone::{Finding, Zone, ZoneBuilder, ZoneLimits};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;

/// Allocations of at least this size can be made to fail: messages and similar are not affected.
const LARGE: usize = 16 << 10;

thread_local! {
    /// Number of large allocations of this thread that succeed before one fails.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Fails one large allocation of a thread and all after it, if the test requests it.
struct Failing;

fn fails(size: usize) -> bool {
    let left = LEFT.try_with(|left| {
        if size >= LARGE && left.get() < u64::MAX {
            left.set(left.get().saturating_sub(1));
        }
        left.get()
    });
    size >= LARGE && left == Ok(0)
}

// SAFETY: every call is passed to the system allocator unchanged, or returns null, which signals that there is no
// memory.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && fails(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

const HEAD: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

fn build(text: &str, limits: ZoneLimits) -> (Report, Option<Zone>, Vec<Finding>) {
    let apex: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    builder.set_limits(limits);
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(apex), &mut builder);
    let (zone, findings) = builder.finish();
    (report, zone, findings)
}

fn errors(findings: &[Finding]) -> Vec<(u32, &str)> {
    let errors = findings.iter().filter(|f| f.severity == Severity::Error);
    errors
        .map(|f| (f.location.line_and_file().0, f.message.as_str()))
        .collect()
}

#[test]
fn names_of_many_labels_take_a_bounded_multiple_of_their_text() {
    let mut text = HEAD.to_string();
    for n in 0..300 {
        let labels = format!("{n:03}").repeat(36);
        let labels: Vec<String> = labels.chars().map(String::from).collect();
        writeln!(text, "{} A 192.0.2.1", labels.join(".")).unwrap();
    }
    let (_, zone, _) = build(&text, ZoneLimits::default());
    let zone = zone.unwrap();
    let factor = zone.heap_bytes() as f64 / text.len() as f64;
    // It was 68 when every empty non-terminal had a name of its own.
    assert!(
        factor < 14.0,
        "{factor} times the text for {} names",
        zone.name_count()
    );
}

#[test]
fn a_zone_with_too_many_records_is_refused_at_the_line_of_the_first_too_many() {
    let text = format!("{HEAD}a A 1.1.1.1\nb A 1.1.1.1\nc A 1.1.1.1\nwrong\n");
    let limits = |records| ZoneLimits {
        records,
        ..ZoneLimits::default()
    };
    let (report, zone, findings) = build(&text, limits(4));
    assert!(zone.is_none());
    assert_eq!(
        errors(&findings),
        [(6, "the zone has more than 4 records (zone_records_max)")]
    );
    // Nothing after it is read.
    assert!(report.diagnostics.is_empty(), "{:?}", report.diagnostics);
    let (_, zone, _) = build(&text.replace("wrong\n", ""), limits(6));
    assert!(zone.is_some());
}

#[test]
fn a_zone_that_needs_too_much_memory_is_refused_at_its_line() {
    let limits = ZoneLimits {
        octets: 1 << 20,
        ..ZoneLimits::default()
    };
    let string = "\"0123456789abcdef0123456789abcdef\" ".repeat(30);
    // Records of many owners, of one owner, of owners that reappear, and names without records.
    let many: String = (0..2000).map(|n| format!("a{n} TXT {string}\n")).collect();
    let one: String = (0..2000).map(|n| format!("a TXT {n} {string}\n")).collect();
    let late: String = (0..2000)
        .map(|n| format!("a{} TXT {n} {string}\n", n % 2))
        .collect();
    let deep: String = (0..2000)
        .map(|n| {
            format!(
                "{}{n} A 1.1.1.1\n",
                "a.".repeat(100) + &format!("{n}.").repeat(10)
            )
        })
        .collect();
    for (what, lines) in [("many", many), ("one", one), ("late", late), ("deep", deep)] {
        let (_, zone, findings) = build(&format!("{HEAD}{lines}"), limits);
        assert!(zone.is_none(), "{what}");
        let [(line, message)] = errors(&findings)[..] else {
            panic!("{what}: {findings:?}")
        };
        assert_eq!(
            message,
            "the zone needs more than 1 MiB of memory (zone_max_mb)"
        );
        assert!((100..1999).contains(&line), "{what}: line {line}");
    }
}

#[test]
fn memory_that_is_not_there_is_an_error_of_the_zone() {
    let string = "\"0123456789abcdef\" ".repeat(5);
    let mut text = HEAD.to_string();
    for n in 0..1200 {
        writeln!(
            text,
            "a{n} MX 1 b{n}\nb{n} TXT {string}\nx.y{n} A 1.1.1.1\n*.z{n} NS ns"
        )
        .unwrap();
        writeln!(text, "many TXT {n} {string}").unwrap();
    }
    let (_, zone, _) = build(&text, ZoneLimits::default());
    assert!(zone.is_some());
    let mut failed = 0;
    for succeeding in 1.. {
        LEFT.set(succeeding);
        let (_, zone, findings) = build(&text, ZoneLimits::default());
        let is_reached = LEFT.replace(u64::MAX) == 0;
        if !is_reached {
            assert!(zone.is_some());
            break;
        }
        if zone.is_none() {
            failed += 1;
            let found = errors(&findings);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].1, "out of memory");
        }
    }
    assert!(failed > 20, "{failed}");
}
