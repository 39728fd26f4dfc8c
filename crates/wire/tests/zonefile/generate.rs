//! `$GENERATE`, and sinks that stop accepting records.

use super::*;

#[test]
fn generate_makes_a_record_for_each_number() {
    assert_eq!(
        records("$TTL 1\n$GENERATE 1-5/2 h$ A 10.0.0.$\n"),
        [
            "h1.example. 1 1 10.0.0.1",
            "h3.example. 1 1 10.0.0.3",
            "h5.example. 1 1 10.0.0.5"
        ]
    );
    assert_eq!(
        records(
            "$TTL 1\n$GENERATE 10-11 ${0,3}.${-9}.${1,4,x} 7 IN NS n${0,3,o}-${250,0,X}.\\$.$$ ; c\n"
        ),
        [
            r"010.1.000b.example. 7 2 n012-104.\$.\$.example.",
            r"011.2.000c.example. 7 2 n013-105.\$.\$.example."
        ]
    );
    assert_eq!(
        records("$TTL 1\n$GENERATE 1-1 h$ MX \"10 m$\"\n"),
        ["h1.example. 1 15 14 octets"]
    );
}

#[test]
fn generate_writes_nibbles_whose_width_counts_the_dots() {
    assert_eq!(
        records("$TTL 1\n$GENERATE 26-26 ${0,0,n}.a NS ${0,7,N}\n$GENERATE 26-26 ${0,4,n}b NS x\n"),
        [
            "a.1.a.example. 1 2 A.1.0.0.example.",
            "a.1.b.example. 1 2 x.example."
        ]
    );
}

#[test]
fn generate_is_bounded_and_its_errors_are_described() {
    for (text, column) in [
        ("$GENERATE 5-1 a$ A 1.1.1.$", 11),
        ("$GENERATE 1-5/0 a$ A 1.1.1.$", 11),
        ("$GENERATE +1-5 a$ A 1.1.1.$", 11),
        ("$GENERATE 0-2147483647 a$ A 1.1.1.$", 11),
        ("$GENERATE 0-99999999999999999999 a$ A 1.1.1.$", 11),
        ("$GENERATE 1-2 a${0,999} A 1.1.1.$", 15),
        ("$GENERATE 1-2 a${-5} 5 A 1.1.1.$", 1),
        ("$GENERATE 1-2 a${1 A 1.1.1.$", 15),
        ("$GENERATE 1-2 a$", 17),
        ("$GENERATE 1-2 a$ 5", 18),
        ("$GENERATE 254-257 a$ 5 A 1.1.1.$", 1),
    ] {
        let message = one_message(text);
        let place = format!("zone:1:{column}: error:");
        assert!(message.starts_with(&place), "{text}: {message}");
    }
    let message = one_message("$GENERATE 254-257 a$ 5 A 1.1.1.$\n");
    assert!(message.contains("in the entry for 256: expected"));
}

/// Counts records and their octets, and stops accepting records at a limit.
#[derive(Default)]
struct Tally {
    records: usize,
    octets: usize,
    most: usize,
}

impl Sink for Tally {
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal> {
        if self.records == self.most {
            return Err(SinkRefusal::Stop);
        }
        self.records += 1;
        self.octets += record.owner.as_wire().len() + record.rdata.len();
        Ok(())
    }
}

fn unlimited() -> Tally {
    Tally {
        most: usize::MAX,
        ..Tally::default()
    }
}

#[test]
fn the_entry_after_a_wrong_generate_has_its_own_owner() {
    // The generated owner is longer than the whole file.
    let message = one_message("$GENERATE 1-2 ${0,63}.${0,63} MX x\na 1 A 1.1.1.1\n");
    assert!(message.contains("in the entry for 1"), "{message}");
    // It has as many octets as the first owner of the file, and so has the one after it.
    let (lines, _) = read("aa 1 A 1.1.1.1\n$GENERATE 1-2 b$ MX x\naa 1 A 1.1.1.2\n");
    assert_eq!(
        lines,
        ["aa.example. 1 1 1.1.1.1", "aa.example. 1 1 1.1.1.2"]
    );
}

#[test]
fn the_output_of_all_generate_lines_is_bounded() {
    // A line within each individual limit, repeated: 250 MB of strings from 3 KB of text.
    let strings = "\"0123456789\" ".repeat(50);
    let line = format!("$GENERATE 0-65535 h$ 5 TXT {strings}\n");
    let text = line.repeat(4);
    let options = Options {
        generated_octets: 1 << 20,
        ..options()
    };
    let mut tally = unlimited();
    let report = parse_bytes("zone", text.as_bytes(), &options, &mut tally);
    let most = (text.len() as u64 * GENERATED_FACTOR).max(1 << 20) as usize;
    assert!(tally.octets <= most + 4096, "{} > {most}", tally.octets);
    let first = report.diagnostics[0].to_string();
    assert!(
        first.starts_with("zone:1:1: error: in the entry for "),
        "{first}"
    );
    assert!(
        first.contains("octets from $GENERATE (generated_max_mb"),
        "{first}"
    );
}

#[test]
fn a_reverse_zone_is_generated_whatever_the_size_of_its_file() {
    let text = "$GENERATE 0-65535 $ 5 PTR host-$.customers.example.net.\n";
    let mut tally = unlimited();
    let report = parse_bytes("zone", text.as_bytes(), &options(), &mut tally);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    assert_eq!(tally.records, 65_536);
}

#[test]
fn a_sink_that_stops_ends_the_reading_without_a_message() {
    let text = "a 5 A 1.1.1.1\n$GENERATE 1-1000 b$ 5 A 1.1.1.1\nc 5 A 1.1.1.1\nwrong\n";
    for most in [0, 5] {
        let mut tally = Tally {
            most,
            ..Tally::default()
        };
        let report = parse_bytes("zone", text.as_bytes(), &options(), &mut tally);
        assert_eq!((tally.records, report.records), (most, most as u64));
        assert!(report.diagnostics.is_empty(), "{:?}", report.diagnostics);
    }
}
