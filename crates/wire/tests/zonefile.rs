//! Zone files: a test for each rule of the format, and the place of each error.

use std::fs;
use std::path::{Path, PathBuf};

use nameward_wire::zonefile::{
    GENERATED_FACTOR, Options, Record, Report, Severity, Sink, SinkRefusal, parse_bytes, parse_file,
};
use nameward_wire::{Name, NameBuf, Type};

/// Records as `owner ttl type data`.
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

/// Records of a text without errors.
#[track_caller]
fn records(text: &str) -> Vec<String> {
    let (lines, report) = read(text);
    assert!(report.diagnostics.is_empty(), "{:#?}", report.diagnostics);
    assert_eq!(report.records as usize, lines.len());
    lines
}

/// Messages about a text.
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

#[test]
fn owners_are_relative_absolute_origin_or_blank() {
    assert_eq!(
        records("$TTL 5\n@ A 1.2.3.4\nwww A 1.2.3.5\n\tA 1.2.3.6\nw.other. A 1.2.3.7\n"),
        [
            "example. 5 1 1.2.3.4",
            "www.example. 5 1 1.2.3.5",
            "www.example. 5 1 1.2.3.6",
            "w.other. 5 1 1.2.3.7"
        ]
    );
}

#[test]
fn the_sink_learns_that_an_owner_is_the_one_before() {
    let mut same = Vec::new();
    let text =
        b"$TTL 1\na A 1.1.1.1\n  A 1.1.1.2\na A 1.1.1.3\nb A 1.1.1.4\n$ORIGIN x.\nb A 1.1.1.5\n";
    parse_bytes("zone", text, &options(), &mut |record: &Record<'_>| {
        same.push(record.same_owner);
        Ok(())
    });
    assert_eq!(same, [false, true, true, false, false]);
}

#[test]
fn ttl_and_class_stand_in_either_order_and_either_may_be_missing() {
    let all = records(
        "$TTL 9\na 5 IN A 1.1.1.1\na IN 5 A 1.1.1.1\na 5 A 1.1.1.1\na IN A 1.1.1.1\na A 1.1.1.1\na in 1h30m a 1.1.1.1\na CLASS1 A 1.1.1.1\n",
    );
    let ttls: Vec<&str> = all.iter().map(|l| l.split(' ').nth(1).unwrap()).collect();
    assert_eq!(ttls, ["5", "5", "5", "9", "9", "5400", "9"]);
}

#[test]
fn a_missing_ttl_comes_from_the_directive_then_the_record_before_then_the_soa() {
    // RFC 2308 section 4 before RFC 1035 section 5.1.
    assert_eq!(
        records("$TTL 7\na 5 A 1.1.1.1\nb A 1.1.1.1\n$TTL 1d\nc A 1.1.1.1\n"),
        [
            "a.example. 5 1 1.1.1.1",
            "b.example. 7 1 1.1.1.1",
            "c.example. 86400 1 1.1.1.1"
        ]
    );
    assert_eq!(
        records("a 5 A 1.1.1.1\nb A 1.1.1.1\n"),
        ["a.example. 5 1 1.1.1.1", "b.example. 5 1 1.1.1.1"]
    );
    assert_eq!(
        records("@ SOA n. h. 1 2 3 4 77\nb A 1.1.1.1\n"),
        ["example. 77 6 26 octets", "b.example. 77 1 1.1.1.1"]
    );
    assert_eq!(
        one_message("a A 1.1.1.1\n"),
        "zone:1:3: error: expected a TTL before the type, or $TTL before the record, found 'A'"
    );
    let mut lines = Lines::default();
    let with_default = Options {
        default_ttl: Some(300),
        ..options()
    };
    parse_bytes("zone", b"a A 1.1.1.1", &with_default, &mut lines);
    assert_eq!(lines.0, ["a.example. 300 1 1.1.1.1"]);
}

#[test]
fn a_ttl_above_the_maximum_of_rfc_2181_is_zero_with_a_warning() {
    assert_eq!(
        records("a 2147483647 A 1.1.1.1\n"),
        ["a.example. 2147483647 1 1.1.1.1"]
    );
    let (lines, report) = read("a 2147483648 A 1.1.1.1\n$TTL 4294967295\nb A 1.1.1.1\n");
    assert_eq!(lines, ["a.example. 0 1 1.1.1.1", "b.example. 0 1 1.1.1.1"]);
    assert!(!report.has_errors());
    let messages: Vec<String> = report.diagnostics.iter().map(ToString::to_string).collect();
    assert!(messages[0].starts_with("zone:1:3: warning: a TTL of at most 2147483647"));
    assert!(messages[1].starts_with("zone:2:6: warning: a TTL of at most 2147483647"));
    assert!(one_message("$TTL 4294967296\n").starts_with("zone:1:6: error: expected a TTL"));
    assert!(one_message("$TTL 1x\n").starts_with("zone:1:6: error: expected a TTL"));
}

#[test]
fn parentheses_comments_and_blank_lines_only_separate() {
    let text = "$TTL 1\n\n   \n; comment\n   ; comment\n@ SOA n. h. ( 1 ; serial (\n 2\n3 4 ; )\n5 )\n@ ( NS\n a ) ; x\n";
    assert_eq!(
        records(text),
        ["example. 1 6 26 octets", "example. 1 2 a.example."]
    );
}

#[test]
fn line_ends_may_be_crlf_and_the_last_may_be_missing() {
    assert_eq!(
        records("$TTL 1\r\n\r\na A 1.1.1.1\r\n; c\r\nb (\r\n A\r\n 1.1.1.2 )\r\nc A 1.1.1.3"),
        [
            "a.example. 1 1 1.1.1.1",
            "b.example. 1 1 1.1.1.2",
            "c.example. 1 1 1.1.1.3"
        ]
    );
    assert_eq!(records("a 1 TXT \"x\""), ["a.example. 1 16 \\x01x"]);
    assert_eq!(records("a 1 TXT x ; c"), ["a.example. 1 16 \\x01x"]);
}

#[test]
fn quoted_words_keep_blanks_and_special_characters() {
    assert_eq!(
        records("a 1 TXT \"a b;(c)d\" e\n"),
        ["a.example. 1 16 \\x08a b;(c)d\\x01e"]
    );
    assert_eq!(
        one_message("a 1 TXT \"abc\nb 1 A 1.1.1.1\n"),
        "zone:1:9: error: expected a closing quote, found the end of the line"
    );
    assert_eq!(read("a 1 TXT \"abc\nb 1 A 1.1.1.1\n").0.len(), 1);
}

#[test]
fn escapes_hide_the_meaning_of_a_character() {
    assert_eq!(
        records("a\\.b\\;\\032\\(\\\"c 1 NS \\$x.y\\\\\n"),
        [r#"a\.b\;\032\(\"c.example. 1 2 \$x.y\\.example."#]
    );
    assert_eq!(
        one_message("a 1 NS b\\\nc 1 A 1.1.1.1\n"),
        "zone:1:9: error: expected a character after the backslash, found the end of the line"
    );
    assert!(one_message("a\\300 1 A 1.1.1.1\n").starts_with("zone:1:1: error: expected an owner"));
}

#[test]
fn raw_bytes_above_ascii_are_kept() {
    let mut lines = Lines::default();
    let text = b"\xc3\xa4 1 TXT \xff\"\xfe \xe4\"\n";
    parse_bytes("zone", text, &options(), &mut lines);
    assert_eq!(lines.0, [r"\195\164.example. 1 16 \x01\xff\x03\xfe \xe4"]);
}

#[test]
fn owners_outside_ascii_are_warned_of_once_where_they_are_not_escaped() {
    let text = "a 1 TXT \u{e4}\n\u{e4}pfel 1 A 1.1.1.1\n 1 A 1.1.1.2\n\\195\\164 1 A 1.1.1.1\n\u{e4}pfel 1 TXT ( a\n b )\n";
    let place = |line| {
        format!(
            "zone:{line}:1: warning: the owner has octets outside ASCII: expected the form xn--... of an \
             internationalized name"
        )
    };
    assert_eq!(messages(text), [place(2), place(5)]);
}

#[test]
fn odd_entries_are_read_as_bind_reads_them() {
    // Each line was compared with `named-checkzone -D`.
    for (entry, expected) in [
        ("( a A 1.1.1.1 )", &["a.example. 1 1 1.1.1.1"][..]),
        ("c ((A (1.1.1.3)))", &["c.example. 1 1 1.1.1.3"]),
        ("b ( A ) 1.1.1.2", &["b.example. 1 1 1.1.1.2"]),
        ("a TXT \"b\"c", &["a.example. 1 16 \\x01b\\x01c"]),
        ("a TXT b\"c\"", &["a.example. 1 16 \\x01b\\x01c"]),
        ("a TXT \"b\"\"c\"", &["a.example. 1 16 \\x01b\\x01c"]),
        ("a TXT b\\;c ;d", &["a.example. 1 16 \\x03b;c"]),
        ("a TXT \"\"", &["a.example. 1 16 \\x00"]),
        ("\\000x A 1.1.1.3", &["\\000x.example. 1 1 1.1.1.3"]),
        ("x\\ y A 1.1.1.4", &["x\\032y.example. 1 1 1.1.1.4"]),
        ("@x A 1.1.1.1", &["\\@x.example. 1 1 1.1.1.1"]),
        ("\\@ NS @", &["\\@.example. 1 2 example."]),
        ("c NS \\@", &["c.example. 1 2 \\@.example."]),
        ("A A 1.1.1.1", &["A.example. 1 1 1.1.1.1"]),
        ("IN IN A 1.1.1.1", &["IN.example. 1 1 1.1.1.1"]),
        ("5 5 A 1.1.1.1", &["5.example. 5 1 1.1.1.1"]),
        ("a IN IN A 1.1.1.1", &[]),
        ("a 5 5 A 1.1.1.1", &[]),
        ("a 1h30 A 1.1.1.1", &[]),
        ("a TXT", &[]),
        ("(\n A 1.1.1.1 )", &[]),
        ("$b A 1.1.1.2", &[]),
    ] {
        let (lines, report) = read(&format!("$TTL 1\n{entry}\n"));
        assert_eq!(lines, expected, "{entry}");
        assert_eq!(report.has_errors(), expected.is_empty(), "{entry}");
    }
}

#[test]
fn a_byte_order_mark_is_left_out_with_a_warning() {
    let (lines, report) = read("\u{feff}a 1 A 1.1.1.1\n");
    assert_eq!(lines, ["a.example. 1 1 1.1.1.1"]);
    assert!(!report.has_errors() && report.diagnostics.len() == 1);
}

#[test]
fn origin_may_be_relative_and_changes_what_follows() {
    assert_eq!(
        records("$TTL 1\na NS b\n$ORIGIN sub\na NS b\n$origin x.\n@ NS @\n"),
        [
            "a.example. 1 2 b.example.",
            "a.sub.example. 1 2 b.sub.example.",
            "x. 1 2 x."
        ]
    );
}

#[test]
fn errors_say_where_and_what_and_reading_goes_on() {
    let text = "$TTL 1\na A 1.2.3\nb FOO x\nc A 1.1.1.1 extra\n$FOO\nd.. A 1.1.1.1\n  A 1.1.1.2\ne CH A 1.1.1.1\nf ANY x\ng\nh )\n\"i\" A 1.1.1.1\nok A 1.1.1.1\n";
    let (_, report) = read(text);
    let places: Vec<_> = report
        .diagnostics
        .iter()
        .map(|diagnostic| (diagnostic.line, diagnostic.column))
        .collect();
    assert_eq!(
        places,
        [
            (2, 5),
            (3, 3),
            (4, 13),
            (5, 1),
            (6, 1),
            (8, 3),
            (9, 3),
            (10, 2),
            (11, 3),
            (12, 1)
        ]
    );
    assert_eq!(report.records, 1);
    assert_eq!(
        one_message("$TTL 1\nb FOO x\n"),
        "zone:2:3: error: expected a TTL, a class or a type, found 'FOO'"
    );
    assert_eq!(
        one_message("$TTL 1\nc A 1.1.1.1 extra\n"),
        "zone:2:13: error: expected the end of the record, found 'extra'"
    );
}

#[test]
fn a_record_whose_owner_could_not_be_read_does_not_go_to_the_owner_before() {
    let (lines, _) = read("$TTL 1\na A 1.1.1.1\nb.. A 1.1.1.2\n A 1.1.1.3\nc A 1.1.1.4\n");
    assert_eq!(lines, ["a.example. 1 1 1.1.1.1", "c.example. 1 1 1.1.1.4"]);
}

#[test]
fn a_blank_owner_needs_an_owner_before() {
    assert_eq!(
        one_message("$TTL 1\n A 1.1.1.1\n"),
        "zone:2:2: error: expected an owner at the start of the first record, found 'A'"
    );
}

#[test]
fn twenty_errors_are_reported_then_reading_stops() {
    let text = "x FOO\n".repeat(30) + "a 1 A 1.1.1.1\n";
    let (lines, report) = read(&text);
    assert!(lines.is_empty());
    assert_eq!(report.diagnostics.len(), 21);
    assert_eq!(
        report.diagnostics[20].to_string(),
        "zone:20: error: 20 errors: the rest of the zone was not read"
    );
}

#[test]
fn a_parenthesis_that_is_not_closed_is_named_and_hides_little() {
    let text = "$TTL 1\n@ SOA n. h. ( 1 2\n  3 4\n  5\nwww A 1.1.1.1\nmail A 1.1.1.\n";
    let (lines, report) = read(text);
    let messages: Vec<String> = report.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages[0],
        "zone:2:13: error: expected a ')' for this '(', found none"
    );
    assert!(messages[1].starts_with("zone:6:8: error:"), "{messages:?}");
    assert_eq!(messages.len(), 2);
    assert_eq!(lines, ["www.example. 1 1 1.1.1.1"]);
    // Closed by another entry: the message says where it was opened.
    let text = "$TTL 1\n@ SOA n. h. ( 1 2 3 4 5\nwww A 1.1.1.1\n a NS b )\nmail A 1.1.1.1\n";
    assert_eq!(
        one_message(text),
        "zone:3:1: error: expected the end of the record, found 'www' (inside the parenthesis opened at 2:13)"
    );
}

#[test]
fn an_error_of_the_sink_stands_at_the_line_of_the_record() {
    let mut refuse = |_: &Record<'_>| Err(SinkRefusal::Record("no room".to_string()));
    let report = parse_bytes("zone", b"\n\na 1 A (\n1.1.1.1 )\n", &options(), &mut refuse);
    assert_eq!(report.diagnostics[0].to_string(), "zone:3: error: no room");
    assert_eq!(report.diagnostics[0].severity, Severity::Error);
    assert!(report.has_errors());
    assert_eq!(report.records, 0);
}

#[test]
fn no_default_alpn_without_alpn_is_served_with_a_warning() {
    for (params, warned) in [
        ("no-default-alpn", true),
        ("alpn=h2 no-default-alpn", false),
    ] {
        let (lines, report) = read(&format!("a 5 HTTPS 1 . {params}\n"));
        assert_eq!(lines.len(), 1, "{params}");
        assert!(!report.has_errors());
        let said: Vec<String> = report.diagnostics.iter().map(ToString::to_string).collect();
        let warning =
            "zone:1:5: warning: no-default-alpn without alpn: clients will ignore the record";
        assert_eq!(said, if warned { vec![warning] } else { vec![] });
    }
}

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
fn generate_has_bounds_and_says_what_is_wrong() {
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

/// Counts records and what they take, and wants no more at some time.
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
fn what_all_generate_lines_make_together_is_bounded() {
    // A line within every bound of its own, several times: 250 MB of strings from 3 KB of text.
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
fn a_sink_that_wants_no_more_ends_the_reading_without_a_message() {
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

#[test]
fn an_included_file_has_its_own_origin_and_gives_back_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let main = write(
        directory.path(),
        "main.zone",
        "$TTL 1\na A 1.1.1.1\n$INCLUDE sub/one.zone sub\n A 1.1.1.3\nb A 1.1.1.4\n$INCLUDE \"sub/two.zone\"\n$INCLUDE sub/two.zone two\n",
    );
    let one = "x A 1.1.1.2\n$INCLUDE two.zone\n$ORIGIN elsewhere.\n";
    write(directory.path(), "sub/one.zone", one);
    write(directory.path(), "sub/two.zone", "y A 1.1.1.9");
    let mut lines = Lines::default();
    let report = parse_file(&main, &options(), &mut lines);
    assert!(report.diagnostics.is_empty(), "{:?}", report.diagnostics);
    assert_eq!(
        lines.0,
        [
            "a.example. 1 1 1.1.1.1",
            "x.sub.example. 1 1 1.1.1.2",
            "y.sub.example. 1 1 1.1.1.9",
            "a.example. 1 1 1.1.1.3",
            "b.example. 1 1 1.1.1.4",
            "y.example. 1 1 1.1.1.9",
            "y.two.example. 1 1 1.1.1.9"
        ]
    );
    assert_eq!(report.files.len(), 3);
}

#[test]
fn files_that_cannot_be_included_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let main = write(
        directory.path(),
        "main.zone",
        "$INCLUDE missing\n$INCLUDE sub\n$INCLUDE sub/loop.zone\n$INCLUDE /dev/zero\n$INCLUDE deep0\n",
    );
    let back = "\n$INCLUDE ../main.zone\n";
    write(directory.path(), "sub/loop.zone", back);
    for i in 0..30 {
        let next = format!("$INCLUDE deep{}\n", i + 1);
        write(directory.path(), &format!("deep{i}"), &next);
    }
    let report = parse_file(&main, &options(), &mut Lines::default());
    let expected = [
        (
            "main.zone",
            1,
            "expected a file that can be read, found 'missing'",
        ),
        ("main.zone", 2, "it is a directory"),
        (
            "loop.zone",
            2,
            "expected a file that does not include itself",
        ),
        ("main.zone", 4, "it is not a regular file"),
        ("deep15", 1, "at most 16 deep"),
    ];
    assert_eq!(report.diagnostics.len(), expected.len());
    for (diagnostic, (file, line, message)) in report.diagnostics.iter().zip(expected) {
        assert!(diagnostic.file.ends_with(file), "{diagnostic}");
        assert_eq!((diagnostic.line, diagnostic.column), (line, 10));
        assert!(diagnostic.message.contains(message), "{diagnostic}");
    }
    let report = parse_file(directory.path(), &options(), &mut Lines::default());
    let message = report.diagnostics[0].to_string();
    assert!(message.ends_with(": error: cannot be read: it is a directory"));
    assert!(one_message("$INCLUDE /etc/passwd\n").contains("text that is not in a file"));
}

#[test]
fn a_file_larger_than_a_block_reads_like_text() {
    let directory = tempfile::tempdir().unwrap();
    let mut text = String::from("$TTL 1\n@ SOA n. h. 1 2 3 4 5\n");
    for i in 0..40_000 {
        text += &match i % 7 {
            0 => format!("host{i} A 10.0.{}.{}\n", i >> 8, i & 255),
            1 => format!("  A ( 10.0.{}.{}\n ) ; comment\n", i >> 8, i & 255),
            2 => "\n; comment\n".to_string(),
            3 => format!("$ORIGIN o{i}.example.\n"),
            4 => format!("t{i} TXT \"some text; {i}\" more\r\n"),
            5 => format!("$TTL {i}\n"),
            _ => format!("n{i} 5 NS (\n\n n{i}.{}\n)\n", "x".repeat(i % 50 + 1)),
        };
        if i % 9_000 == 8_999 {
            text += "wrong A 1.2.3\n";
        }
    }
    let path = write(directory.path(), "zone", &text);
    let (expected, expected_report) = read(&text);
    let mut lines = Lines::default();
    let report = parse_file(&path, &options(), &mut lines);
    assert!(lines.0 == expected);
    assert_eq!(report.records, expected_report.records);
    let places = |report: &Report| -> Vec<(u32, u32, String)> {
        let list = report.diagnostics.iter();
        list.map(|d| (d.line, d.column, d.message.clone()))
            .collect()
    };
    assert_eq!(places(&report).len(), 4);
    assert_eq!(places(&report), places(&expected_report));
}

#[test]
fn an_entry_without_end_costs_a_bounded_buffer() {
    let directory = tempfile::tempdir().unwrap();
    let filler = "www A 1.1.1.1\n".repeat(200_000);
    let text = format!("$TTL 1\n@ TXT ( open\n  still open\n{filler}");
    let path = write(directory.path(), "open.zone", &text);
    let mut count = 0;
    let report = parse_file(&path, &options(), &mut |_: &Record<'_>| {
        count += 1;
        Ok(())
    });
    assert_eq!(report.diagnostics.len(), 1, "{:?}", report.diagnostics);
    let place = (report.diagnostics[0].line, report.diagnostics[0].column);
    assert_eq!(place, (2, 7));
    assert_eq!(count, 200_000);

    let long = format!("a 1 TXT {}\nb 1 A 1.1.1.1\n", "x".repeat(3_000_000));
    let path = write(directory.path(), "long.zone", &long);
    let mut lines = Lines::default();
    let report = parse_file(&path, &options(), &mut lines);
    assert_eq!(report.diagnostics.len(), 1, "{:?}", report.diagnostics);
    assert!(report.diagnostics[0].message.contains("a line of at most"));
    assert_eq!(lines.0, ["b.example. 1 1 1.1.1.1"]);
}
