//! Reads zone files into an empty sink and says how fast: `parse_zone ORIGIN FILE...`, or prints
//! their records with `parse_zone --print ORIGIN FILE...`.

use std::path::PathBuf;
use std::time::Instant;

use nameward_wire::NameBuf;
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
    for file in files.iter().map(PathBuf::from) {
        let size = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
        let start = Instant::now();
        let report = parse_file(&file, &options, &mut |record: &Record<'_>| {
            if print {
                println!(
                    "{} {} {:?} {:?} {:02x?}",
                    record.owner, record.ttl, record.class, record.rtype, record.rdata
                );
            }
            Ok(())
        });
        let seconds = start.elapsed().as_secs_f64();
        for diagnostic in &report.diagnostics {
            eprintln!("{diagnostic}");
        }
        eprintln!(
            "{}: {} records, {:.3} s, {:.0} MB/s, {:.0} ns a record",
            file.display(),
            report.records,
            seconds,
            size as f64 / 1e6 / seconds,
            seconds * 1e9 / report.records.max(1) as f64,
        );
    }
}
