//! Errors and warnings with their locations.

use super::*;

#[test]
fn errors_have_a_location_and_reading_continues() {
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
fn a_record_with_an_unreadable_owner_is_not_given_the_previous_one() {
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
        "zone:20: error: 20 errors: stopped reading the zone"
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
fn an_error_of_the_sink_has_the_line_of_the_record() {
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
