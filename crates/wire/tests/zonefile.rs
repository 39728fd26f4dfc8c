//! Zone files: a test for each rule of the format, and the location of each error.

mod entries;
mod errors;
mod files;
mod generate;

use std::fs;
use std::path::{Path, PathBuf};

use nameward_wire::zonefile::{
    GENERATED_FACTOR, Options, Record, Report, Severity, Sink, SinkRefusal, parse_bytes, parse_file,
};
use nameward_wire::{Name, NameBuf, Type};

/// Collects records as `owner ttl type data`.
#[derive(Default)]
struct Lines(Vec<String>);

impl Sink for Lines {
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal> {
        let data = match record.rtype {
            Type::NS | Type::PTR => Name::from_wire(record.rdata).unwrap().to_string(),
            Type::A => {
                let octets = record.rdata.iter().map(u8::to_string);
                octets.collect::<Vec<_>>().join(".")
            }
            Type::TXT => record.rdata.escape_ascii().to_string(),
            _ => format!("{} octets", record.rdata.len()),
        };
        let (owner, ttl, rtype) = (record.owner, record.ttl, record.rtype.0);
        self.0.push(format!("{owner} {ttl} {rtype} {data}"));
        Ok(())
    }
}

fn options() -> Options {
    Options::new("example.".parse::<NameBuf>().unwrap())
}

fn read(text: &str) -> (Vec<String>, Report) {
    let mut lines = Lines::default();
    let report = parse_bytes("zone", text.as_bytes(), &options(), &mut lines);
    (lines.0, report)
}

/// Returns the records of a text without errors.
#[track_caller]
fn records(text: &str) -> Vec<String> {
    let (lines, report) = read(text);
    assert!(report.diagnostics.is_empty(), "{:#?}", report.diagnostics);
    assert_eq!(report.records as usize, lines.len());
    lines
}

/// Returns the messages about a text.
fn messages(text: &str) -> Vec<String> {
    let (_, report) = read(text);
    report.diagnostics.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn one_message(text: &str) -> String {
    let messages = messages(text);
    assert_eq!(messages.len(), 1, "{messages:#?}");
    messages.into_iter().next().unwrap()
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}
