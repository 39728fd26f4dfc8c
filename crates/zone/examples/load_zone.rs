//! Reads one zone file like the server does and reports the cost: `load_zone APEX FILE`.

use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_file};
use nameward_zone::ZoneBuilder;
use std::path::Path;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, apex, file] = &arguments[..] else {
        panic!("expected APEX FILE")
    };
    let origin: NameBuf = apex.parse().expect("a name");
    let bytes = std::fs::metadata(file).map_or(0, |data| data.len());
    let started = Instant::now();
    let mut builder = ZoneBuilder::with_capacity(origin.as_name(), bytes as usize);
    let report = parse_file(Path::new(file), &Options::new(origin), &mut builder);
    let parsed = started.elapsed();
    let (zone, findings) = builder.finish();
    let zone = zone.unwrap_or_else(|| panic!("{:?} {findings:?}", report.diagnostics));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory: Vec<&str> = status
        .lines()
        .filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS"))
        .collect();
    println!(
        "{} records, {} names, {} MB packed, parsed in {parsed:?}, ready in {:?}, {memory:?}",
        report.records,
        zone.name_count(),
        zone.heap_bytes() / 1_000_000,
        started.elapsed(),
    );
}
