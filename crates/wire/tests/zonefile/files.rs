//! Included files and large files.

use super::*;

#[test]
fn an_included_file_has_its_own_origin_and_restores_the_previous_one() {
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
        ("main.zone", 2, "is a directory"),
        (
            "loop.zone",
            2,
            "expected a file that does not include itself",
        ),
        ("main.zone", 4, "not a regular file"),
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
    assert!(message.ends_with(": error: cannot be read: is a directory"));
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

/// Records how far the parser had progressed.
#[derive(Default)]
struct Progress {
    records: usize,
    seen: Vec<(u64, u64, usize)>,
}

impl Sink for Progress {
    fn record(&mut self, _record: &Record<'_>) -> Result<(), SinkRefusal> {
        self.records += 1;
        Ok(())
    }

    fn progress(&mut self, read: u64, of: u64) {
        self.seen.push((read, of, self.records));
    }
}

#[test]
fn a_sink_learns_how_much_of_a_large_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let lines: String = (0..40_000)
        .map(|n| format!("n{n:06} 300 A 192.0.2.1\n"))
        .collect();
    let included = write(directory.path(), "included", &lines);
    let outer = format!("$INCLUDE {}\n{lines}", included.display());
    let path = write(directory.path(), "zone", &outer);
    let mut progress = Progress::default();
    let report = parse_file(&path, &options(), &mut progress);
    assert!(!report.has_errors());
    assert_eq!(progress.records, 80_000);
    let (size, line) = (outer.len() as u64, 24);
    assert!(progress.seen.len() >= 3, "{:?}", progress.seen);
    for (read, of, records) in progress.seen {
        assert_eq!(of, size);
        // The unread rest consists of whole lines, and nothing of the included file.
        assert_eq!((size - read) % line, 0);
        assert_eq!(records as u64, 80_000 - (size - read) / line);
    }
}
