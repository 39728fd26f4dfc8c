//! Parses zone files into an empty sink and reports the speed: `parse_zone ORIGIN FILE...`, or
//! prints their records with `parse_zone --print ORIGIN FILE...`.

use std::path::PathBuf;
use std::time::Instant;

use nameward_wire::NameBuf;
use nameward_wire::rdata::write_text;
use nameward_wire::zonefile::{Options, Record, parse_file};

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let print = arguments.first().is_some_and(|first| first == "--print");
    if print {
        arguments.remove(0);
    }
    let [origin, files @ ..] = arguments.as_slice() else {
        eprintln!("usage: parse_zone [--print] ORIGIN FILE...");
        std::process::exit(2);
    };
    let origin: NameBuf = origin.parse().expect("the origin is a name");
    let options = Options::new(origin);
    let (mut records, mut bytes) = (0, 0);
    let start = Instant::now();
    for file in files.iter().map(PathBuf::from) {
        let report = parse_file(&file, &options, &mut |record: &Record<'_>| {
            bytes += record.rdata.len() as u64;
            if print {
                show(record);
            }
            Ok(())
        });
        for diagnostic in &report.diagnostics {
            eprintln!("{diagnostic}");
        }
        records += report.records;
    }
    let seconds = start.elapsed().as_secs_f64();
    let size: u64 = files
        .iter()
        .filter_map(|file| std::fs::metadata(file).ok())
        .map(|metadata| metadata.len())
        .sum();
    eprintln!(
        "{} files, {records} records, {bytes} octets of data: {seconds:.3} s, {:.0} MB/s, {:.0} ns a record",
        files.len(),
        size as f64 / 1e6 / seconds,
        seconds * 1e9 / records.max(1) as f64,
    );
}

fn show(record: &Record<'_>) {
    let mut data = String::new();
    // Writing to a string cannot fail.
    let _ = write_text(record.rtype, record.rdata, &mut data);
    println!(
        "{} {} {} {} {data}",
        record.owner, record.ttl, record.class, record.rtype
    );
}
