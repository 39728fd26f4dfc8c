//! Reset, resize, one ring, plain text.

use std::net::{IpAddr, Ipv4Addr};

use nameward_stats::{Outcome, Ring};

use super::client::{CLIENT, Server, ask_now, plain, rows, value};

fn with_traffic() -> Server {
    let server = Server::start();
    for n in 0..40u8 {
        ask_now(
            &server.stats,
            b"\x01a\x07example\0",
            Outcome::NoData,
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, n)),
        );
    }
    server
}

fn size(server: &Server, ring: Ring) -> usize {
    server.stats.snapshot().ring(ring).size()
}

#[test]
fn a_filter_searches_the_whole_ring() {
    let server = Server::start();
    for n in 0..200u8 {
        let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, n));
        ask_now(
            &server.stats,
            b"\x03WwW\x07example\0",
            Outcome::Answer,
            client,
        );
    }
    let page = server.get("/?filter=2.137").text();
    let table = rows(&page, "ring-remotes");
    assert_eq!(
        table,
        [
            ["192.0.2.137", "1", "0.5%"],
            ["Rest:", "199", "99.5%"],
            ["Total:", "200", "100%"]
        ]
    );
    // In any letter case; a ring without a match shows its sums.
    let page = server.get("/?ring=queries&filter=www.EXAMPLE/a").text();
    assert_eq!(
        rows(&page, "ring-queries")[0][..2],
        ["WwW.example/A", "100"]
    );
    let page = server.get("/?ring=queries&filter=%22%3Cnone%3E").text();
    assert_eq!(rows(&page, "ring-queries")[0][0], "Rest:");
    assert!(page.contains("value=\"&#34;&#60;none&#62;\""), "{page}");
}

#[test]
fn a_reset_with_the_token_empties_its_ring_and_leads_back() {
    let server = with_traffic();
    let token = server.token();
    let reply = server.get(&format!("/?resetring=noerror-queries&token={token}"));
    assert_eq!((reply.status(), reply.header("location")), (302, Some("/")));
    assert!(reply.body().len() < 100);
    assert_eq!(size(&server, Ring::NoerrorQueries), 0);
    assert_eq!(size(&server, Ring::Remotes), 40);
    let html = server.get("/").text();
    assert_eq!(
        rows(&html, "ring-noerror-queries"),
        [["Total:", "0", "100%"]]
    );
    assert_eq!(value(&html, "noerror-packets"), 40);
}

#[test]
fn a_reset_without_the_right_token_or_ring_changes_nothing() {
    let server = with_traffic();
    let token = server.token();
    let short = &token[1..];
    for (target, status) in [
        ("/?resetring=remotes".to_owned(), 403),
        ("/?resetring=remotes&token=".to_owned(), 403),
        (format!("/?resetring=remotes&token={short}"), 403),
        (format!("/?resetring=remotes&token={token}x"), 403),
        ("/?resetring=unknown".to_owned(), 403),
        (format!("/?resetring=unknown&token={token}"), 404),
        (format!("/?resetring=&token={token}"), 404),
    ] {
        assert_eq!(server.get(&target).status(), status, "{target}");
        assert_eq!(size(&server, Ring::Remotes), 40);
    }
    let target = format!("/?resetring=remotes&token={token}");
    assert_eq!(server.request("HEAD", &target, "").status(), 302);
    assert_eq!(server.request("POST", &target, "").status(), 405);
    assert_eq!(size(&server, Ring::Remotes), 40);
}

#[test]
fn a_resize_keeps_the_newest_and_shows_on_the_page() {
    let server = with_traffic();
    let token = server.token();
    let reply = server.get(&format!("/?resizering=remotes&size=7&token={token}"));
    assert_eq!((reply.status(), reply.header("location")), (302, Some("/")));
    let html = server.get("/").text();
    assert_eq!(value(&html, "ring-remotes-capacity"), 7);
    assert_eq!(value(&html, "ring-remotes-size"), 7);
    let rows = rows(&html, "ring-remotes");
    assert_eq!(rows[0][0], "192.0.2.33");
    assert_eq!(rows[7], ["Total:", "7", "100%"]);
    assert!(html.contains("<option value=\"7\" selected>7</option>"));
}

#[test]
fn a_bad_size_changes_nothing() {
    let server = with_traffic();
    let token = server.token();
    for bad in [
        "",
        "0",
        "-1",
        "500001",
        "ten",
        "99999999999999999999",
        "1.5",
    ] {
        let target = format!("/?resizering=remotes&size={bad}&token={token}");
        assert_eq!(server.get(&target).status(), 400, "{bad}");
    }
    assert_eq!(
        server
            .get(&format!("/?resizering=remotes&token={token}"))
            .status(),
        400
    );
    assert_eq!(server.get("/?resizering=remotes&size=10").status(), 403);
    assert_eq!(
        server
            .get(&format!("/?resizering=nothing&size=0&token={token}"))
            .status(),
        404
    );
    assert_eq!(
        server.stats.snapshot().ring(Ring::Remotes).capacity(),
        10_000
    );
    assert_eq!(
        server
            .get(&format!("/?resizering=remotes&size=500000&token={token}"))
            .status(),
        302
    );
}

#[test]
fn one_ring_has_the_header_and_up_to_a_hundred_rows() {
    let server = with_traffic();
    let html = server.get("/?ring=remotes").text();
    let text = plain(&html);
    assert!(text.contains("Total queries: 40"));
    assert!(!text.contains("Variables") && !text.contains("Log Messages"));
    assert_eq!(rows(&html, "ring-remotes").len(), 41);
    for n in 0..120u8 {
        ask_now(
            &server.stats,
            b"\0",
            Outcome::Answer,
            IpAddr::V4(Ipv4Addr::new(198, 51, 100, n)),
        );
    }
    let rows = rows(&server.get("/?ring=remotes").text(), "ring-remotes");
    assert_eq!(rows.len(), 102);
    assert_eq!(rows[100], ["Rest:", "60", "37.5%"]);
    assert_eq!(server.get("/?ring=unknown").status(), 404);
    assert_eq!(server.get("/?ring=unknown&format=text").status(), 404);
}

#[test]
fn the_text_form_lists_every_entry_and_the_total_last() {
    let server = with_traffic();
    ask_now(
        &server.stats,
        b"\x01a\x07example\0",
        Outcome::NoData,
        CLIENT,
    );
    for reply in [
        server.get("/?ring=remotes&format=text"),
        server.request("GET", "/?ring=remotes", "Accept: text/plain\r\n"),
    ] {
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
        let text = reply.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 41);
        assert_eq!(lines[0], "2\t4.9%\t192.0.2.1");
        assert_eq!(lines[40], "41\t100%\tTotal:");
        assert!(!text.contains("Rest:"));
    }
    let empty = server.get("/?ring=servfail-queries&format=text").text();
    assert_eq!(empty, "0\t100%\tTotal:\n");
    let html = server.request("GET", "/?ring=remotes", "Accept: text/html, text/plain\r\n");
    assert_eq!(
        html.header("content-type"),
        Some("text/html; charset=utf-8")
    );
}

#[test]
fn the_text_form_of_the_log_lists_far_more_than_ten() {
    let server = Server::start();
    for _ in 0..60 {
        server.get("/nothing");
    }
    let text = server.get("/?ring=logmessages&format=text").text();
    assert_eq!(text.lines().count(), 61);
}
