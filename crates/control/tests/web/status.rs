//! The contents of the page and their order.

use std::net::{IpAddr, Ipv4Addr};

use nameward_stats::{Gauge, MessageLevel, Outcome, Received, Ring, Stamp, Transport, VARIABLES};

use super::client::{CLIENT, Server, ask, ask_now, plain, rows, settings, value};

#[test]
fn the_header_has_every_item_in_order_and_in_its_format() {
    let server = Server::start();
    ask_now(&server.stats, b"\x01a\0", Outcome::Answer, CLIENT);
    let text = plain(&server.get("/").text());
    let items = [
        concat!("Nameward ", env!("CARGO_PKG_VERSION")),
        "Uptime: 0.0 days",
        "Queries/second, 1, 5, 10 minute averages: 0, 0, 0. Max queries/second: 0",
        "Cache hitrate, 1, 5, 10 minute averages: 0.0%, 0.0%, 0.0%",
        "Backend query cache hitrate, 1, 5, 10 minute averages: 0.0%, 0.0%, 0.0%",
        "Backend query load, 1, 5, 10 minute averages: 0, 0, 0. Max queries/second: 0",
        "Total queries: 1",
        "Question/answer latency: 0.000 ms",
    ];
    let mut from = 0;
    for item in items {
        let at = text[from..]
            .find(item)
            .unwrap_or_else(|| panic!("{item} is not in its place:\n{text}"));
        from += at + item.len();
    }
    assert!(from < text.find("Log Messages").expect("tables"));
}

#[test]
fn every_page_and_its_title_start_with_the_state() {
    let server = Server::start();
    for target in ["/", "/?ring=remotes", "/?zones="] {
        let html = server.get(target).text();
        assert!(html.contains("<title>All is well – "), "{html}");
        let text = plain(&html[html.find("<body>").expect("a body")..]);
        let state = text.find("All is well").expect("a state");
        assert!(state < text.find("Status").expect("a heading"), "{text}");
        let title = text.find("Nameward ");
        assert!(title.is_none_or(|title| state < title), "{text}");
    }
}

#[test]
fn a_server_without_a_live_database_notes_that_its_caches_are_unused() {
    let backend = |mode: &str| nameward_control::operations::BackendStatus {
        backend: 1,
        engine: "file".into(),
        address: "zones".into(),
        mode: mode.into(),
        is_up: true,
        since: 0,
        last_error: None,
        last_error_at: None,
        zones: 1,
        is_lost: false,
        unseen_changes: None,
        failed_servers: Vec::new(),
        lag: None,
    };
    for (mode, notes, charts) in [("resident", 3, 4), ("live", 0, 5)] {
        let status = nameward_control::operations::ServerStatus {
            backends: vec![backend(mode)],
            ..Default::default()
        };
        let status = std::sync::Arc::new(status);
        let stats = nameward_stats::Stats::new(nameward_stats::RingCapacities::default());
        let show = move || std::sync::Arc::clone(&status);
        let web = nameward_control::web::Web::with_status(stats.clone(), settings(), show);
        let server = Server::run(stats, web.expect("settings"));
        let html = server.get("/").text();
        assert_eq!(
            html.matches("Not used: all zones are in memory.").count(),
            notes
        );
        assert_eq!(html.matches("<figure>").count(), charts, "{mode}");
        // The specified items are still there.
        let text = plain(&html);
        assert!(
            text.contains("Cache hitrate, 1, 5, 10 minute averages: 0.0%, 0.0%, 0.0%"),
            "{text}"
        );
    }
}

#[test]
fn rates_and_latency_of_the_header_are_those_of_the_statistics() {
    let server = Server::start();
    server.stats.tick(Stamp(1_000_000_000));
    let mut recorder = server.stats.recorder();
    for _ in 0..1200 {
        ask(&mut recorder, b"\x01a\0", Outcome::Answer, CLIENT);
    }
    let timing = nameward_stats::Timing {
        received: 1200,
        answered: 1200,
        receive_ns: Some(0),
        answer_ns: 1_234_000,
        send_ns: Some(0),
    };
    recorder.flush(Stamp(1), Some(timing));
    server.stats.tick(Stamp(2_000_000_000));
    let html = server.get("/").text();
    let text = plain(&html);
    assert!(
        text.contains("averages: 20, 4, 2. Max queries/second: 1200"),
        "{text}"
    );
    assert!(text.contains("Question/answer latency: 1.234 ms"), "{text}");
    assert_eq!(value(&html, "latency"), 1234);
    assert!(text.contains("Total queries: 1200"));
    assert_eq!(value(&html, "udp-queries"), 1200);
}

#[test]
fn the_header_counts_encrypted_queries_beside_the_total() {
    let server = Server::start();
    let shown = || plain(&server.get("/").text());
    let text = shown();
    assert!(
        text.contains("Total queries: 0 over UDP; 0 over TCP"),
        "{text}"
    );
    assert!(!text.contains("over TCP; "), "{text}");
    let mut recorder = server.stats.recorder();
    for transport in Transport::ALL {
        recorder.received(&Received {
            transport,
            client: CLIENT,
            qname: b"\x01a\0",
            qtype: 1,
            rd: false,
            dnssec_ok: false,
            cookie: false,
        });
    }
    recorder.flush(Stamp(1), None);
    // One query for each IP version.
    let text = shown();
    let expected = "Total queries: 2 over UDP; 2 over TCP; 6 encrypted";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn tables_are_in_order_with_titles_and_reset_buttons() {
    let server = Server::start();
    let html = server.get("/").text();
    let text = plain(&html);
    let mut from = 0;
    for title in [
        "Log Messages",
        "Remote server IP addresses",
        "Remote hosts sending corrupt packets",
        "Remote hosts querying zones for which we are not auth",
        "Queries for existing records, but for type we don't have",
        "Queries for nonexistent records within existent zones",
        "UDP Queries Received",
        "Queries that could not be answered due to backend errors",
        "Queries for zones that we are not authoritative for",
    ] {
        assert_eq!(text.matches(&format!("\n{title}\n")).count(), 1, "{title}");
        from += text[from..]
            .find(title)
            .unwrap_or_else(|| panic!("{title} is not in its place"));
        from += text[from..].find("Total:").expect("a total");
        from += text[from..].find("Reset").expect("a reset control");
    }
    assert!(from < text.rfind("\nVariables\n").expect("variables"));
}

#[test]
fn an_empty_table_has_only_its_total_of_zero() {
    let server = Server::start();
    let html = server.get("/").text();
    for ring in Ring::ALL.iter().filter(|ring| **ring != Ring::Logmessages) {
        assert_eq!(
            rows(&html, &format!("ring-{}", ring.name())),
            [["Total:", "0", "100%"]]
        );
    }
}

#[test]
fn rows_are_sorted_cut_at_ten_and_summed_with_one_decimal() {
    let server = Server::start();
    let mut recorder = server.stats.recorder();
    for n in 1..=12u8 {
        for _ in 0..n {
            ask(
                &mut recorder,
                b"\x01a\0",
                Outcome::Answer,
                IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)),
            );
        }
    }
    recorder.flush(Stamp::now(), None);
    let html = server.get("/").text();
    let rows = rows(&html, "ring-remotes");
    assert_eq!(rows.len(), 12);
    assert_eq!(rows[0], ["192.0.2.12", "12", "15.4%"]);
    assert_eq!(rows[9], ["192.0.2.3", "3", "3.8%"]);
    assert_eq!(rows[10], ["Rest:", "3", "3.8%"]);
    assert_eq!(rows[11], ["Total:", "78", "100%"]);
    assert_eq!(value(&html, "ring-remotes-size"), 78);
}

#[test]
fn ten_entries_need_no_row_for_the_rest() {
    let server = Server::start();
    for n in 1..=10u8 {
        ask_now(
            &server.stats,
            b"\x01a\0",
            Outcome::Unauth,
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)),
        );
    }
    let rows = rows(&server.get("/").text(), "ring-remotes-unauth");
    assert_eq!(rows.len(), 11);
    assert_eq!(rows[10], ["Total:", "10", "100%"]);
}

#[test]
fn names_keep_their_case_and_hostile_ones_are_only_text() {
    let server = Server::start();
    for name in [
        &b"\x03www\x07example\0"[..],
        b"\x03WwW\x07example\0",
        b"\x19<script>alert(1)</script>\x07example\0",
        b"\x06\"'&`\x01\xff\0",
        b"\0",
    ] {
        ask_now(&server.stats, name, Outcome::NxDomain, CLIENT);
    }
    let html = server.get("/").text();
    assert!(!html.contains("<script>alert"), "markup from a name");
    let mut entries: Vec<String> = rows(&html, "ring-nxdomain-queries")
        .into_iter()
        .map(|mut row| row.remove(0))
        .collect();
    entries.sort();
    assert_eq!(
        entries,
        [
            "\"'&`\\001\\255/A",
            "./A",
            "<script>alert(1)</script>.example/A",
            "Total:",
            "WwW.example/A",
            "www.example/A"
        ]
    );
    let text = server.get("/?ring=nxdomain-queries&format=text");
    assert_eq!(
        text.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
}

#[test]
fn every_variable_is_in_order_with_its_description() {
    let server = Server::start();
    let html = server.get("/").text();
    let rows = rows(&html, "variables");
    assert_eq!(rows.len(), VARIABLES.len());
    for (row, variable) in rows.iter().zip(VARIABLES) {
        assert_eq!(row[0], variable.name);
        assert!(row[1].parse::<u64>().is_ok(), "{row:?}");
        assert_eq!(row[2], variable.description);
    }
    for (name, capacity) in [
        ("logmessages", 1000),
        ("noerror-queries", 1000),
        ("nxdomain-queries", 10),
        ("queries", 100),
        ("remotes", 10_000),
        ("remotes-corrupt", 1000),
        ("remotes-limited", 1000),
        ("remotes-unauth", 500_000),
        ("servfail-queries", 100),
        ("unauth-queries", 10),
    ] {
        assert_eq!(value(&html, &format!("ring-{name}-capacity")), capacity);
    }
}

#[test]
fn the_page_loads_nothing_external_and_has_no_inline_code() {
    let server = Server::start();
    let html = server.get("/").text();
    assert!(!html.contains("style=") && !html.contains("<style") && !html.contains("onclick"));
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("src=\"//"));
    assert_eq!(html.matches("<script").count(), 1);
    for asset in ["/style.css", "/script.js", "/icon.svg"] {
        assert!(html.contains(asset));
        assert_eq!(server.get(asset).status(), 200);
    }
}

#[test]
fn known_security_problems_are_between_the_summary_and_the_tables() {
    let server = Server::start();
    for (status, notice) in [
        (0, None),
        (1, None),
        (
            2,
            Some("Security: an upgrade of this server is recommended."),
        ),
        (3, Some("Security: an upgrade of this server is mandatory.")),
    ] {
        server.stats.set_gauge(Gauge::SecurityStatus, status);
        for target in ["/", "/?ring=remotes"] {
            let text = plain(&server.get(target).text());
            assert_eq!(text.contains("Security:"), notice.is_some(), "{status}");
            if let Some(notice) = notice {
                let at = text.find(notice).expect(notice);
                assert!(at > text.find("Question/answer latency").unwrap());
                assert!(at < text.find("Total:").unwrap());
            }
        }
    }
}

#[test]
fn repeated_messages_add_to_their_count() {
    let server = Server::start();
    for _ in 0..3 {
        server.stats.log("Failed to retrieve security status update for '0.1.0' on 'auth-0.1.0.x': RCODE was Refused");
    }
    let rows = rows(&server.get("/").text(), "ring-logmessages");
    assert_eq!(rows[0][1], "3");
    assert!(rows[0][0].ends_with("'auth-0.1.0.x': RCODE was Refused"));
}

#[test]
fn an_error_stays_in_the_log_table_however_often_the_page_is_viewed() {
    let server = Server::start();
    server.stats.log("older warning");
    server
        .stats
        .log_at(MessageLevel::Error, "zone example.org: not <loaded>\n");
    for _ in 0..100 {
        server.get("/");
    }
    let page = server.get("/").text();
    let table = rows(&page, "ring-logmessages");
    assert_eq!(
        table[0],
        ["zone example.org: not <loaded>\\010", "1", "1.0%"]
    );
    // Three cells, as specified: the stylesheet puts level and time above the text. The ring's own page has columns.
    let noted = "<td class=\"entry\" data-level=\"error\" data-last=\"2";
    assert!(
        page.contains(noted) && !page.contains("class=\"level"),
        "{page}"
    );
    let style = server.get("/style.css").text();
    assert!(style.contains("::before { content: attr(data-level) \" \" attr(data-last);"));
    let own = rows(&server.get("/?ring=logmessages").text(), "ring-logmessages");
    assert_eq!(
        own[0][..4],
        ["zone example.org: not <loaded>\\010", "1", "1.0%", "error"]
    );
    assert!(
        own[0][4].starts_with('2') && own[0][4].ends_with('Z'),
        "{own:?}"
    );
    assert_eq!(own[1][3], "info");
    assert_eq!(table[1][0], "older warning");
    assert!(table[2][0].starts_with("[webserver] "));
    assert_eq!(table[10], ["Rest:", "92", "90.2%"]);
    assert_eq!(table[11], ["Total:", "102", "100%"]);
}

#[test]
fn requests_do_not_push_an_error_out_of_a_full_ring() {
    let server = Server::start();
    server.stats.resize_ring(Ring::Logmessages, 20);
    server.stats.log("zone example.org: not loaded");
    for _ in 0..50 {
        server.get("/nothing");
    }
    let html = server.get("/").text();
    let table = rows(&html, "ring-logmessages");
    assert_eq!(table[0][0], "zone example.org: not loaded");
    assert_eq!(table[11], ["Total:", "20", "100%"]);
    assert_eq!(value(&html, "ring-logmessages-size"), 20);
    let messages = server.messages();
    let last = server.stats.snapshot().ring(Ring::Logmessages).size();
    assert_eq!((messages.len(), last), (20, 20));
    assert!(
        messages[19].contains("\"GET / HTTP/1.0\" 200"),
        "{messages:?}"
    );
}
