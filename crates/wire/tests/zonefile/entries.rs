//! Owners, TTLs, classes, quotes, escapes and origins of entries.

use super::*;

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
fn ttl_and_class_may_be_in_either_order_or_missing() {
    let all = records(
        "$TTL 9\na 5 IN A 1.1.1.1\na IN 5 A 1.1.1.1\na 5 A 1.1.1.1\na IN A 1.1.1.1\na A 1.1.1.1\na in 1h30m a 1.1.1.1\na CLASS1 A 1.1.1.1\n",
    );
    let ttls: Vec<&str> = all.iter().map(|l| l.split(' ').nth(1).unwrap()).collect();
    assert_eq!(ttls, ["5", "5", "5", "9", "9", "5400", "9"]);
}

#[test]
fn a_missing_ttl_comes_from_the_directive_then_the_record_before_then_the_soa() {
    // RFC 2308 section 4 takes precedence over RFC 1035 section 5.1.
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
    assert!(messages[0].starts_with("zone:1:3: warning: expected a TTL of at most 2147483647"));
    assert!(messages[1].starts_with("zone:2:6: warning: expected a TTL of at most 2147483647"));
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
            "zone:{line}:1: warning: the owner has non-ASCII octets: expected the A-label form (xn--...) of an \
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
