//! Transfers of zones with ALIAS records: unchanged, or with the addresses of the targets instead.

use super::alias::{recursor, resolver, with_shop};
use crate::recursion::scripted::{ScriptedResolver, reply};
use nameward_testkit::mesh::{
    KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, wait_for_serial,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::wire::{Client, Transport};
use nameward_testkit::{Setup, TestServer};
use std::net::SocketAddr;
use std::process::Command;

const SHOP: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.10\n\
    @ ALIAS target.elsewhere.test.\nhere ALIAS www\nabove ALIAS here\nother ALIAS www.own.test.\n\
    *.wild ALIAS target.elsewhere.test.\nboth ALIAS target.elsewhere.test.\nboth A 192.0.2.20\n\
    lost ALIAS no.own.test.\nsub NS ns.sub\nns.sub A 192.0.2.40\nsub AAAA 2001:db8::1\nbelow.sub ALIAS no.recursor.test.\n";
const OWN: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.30\n";
const ALLOWED: &str = "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n";

/// The output of a tool that must be there.
fn output(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}: run scripts/install-deps"));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

/// The records that `dig` prints for a transfer, one per line with single spaces.
fn transfer(server: &TestServer, qtype: &str) -> Vec<String> {
    let port = server.address().port().to_string();
    let (_, text) = output(
        "dig",
        &[
            "@127.0.0.1",
            "-p",
            &port,
            "+tries=1",
            "+time=60",
            "+noall",
            "+answer",
            "+nosplit",
            "shop.test",
            qtype,
        ],
    );
    let words = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    words.filter(|line| line.contains(" IN ")).collect()
}

/// The types of a name in a transfer.
fn types_of<'l>(lines: &'l [String], name: &str) -> Vec<&'l str> {
    let words = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
    let of_name = words.filter(|words| words[0] == name);
    of_name
        .map(|words| words[3])
        .filter(|rtype| {
            !matches!(
                *rtype,
                "SOA" | "NS" | "RRSIG" | "NSEC" | "DNSKEY" | "NSEC3PARAM"
            )
        })
        .collect()
}

fn check_expanded(lines: &[String], what: &str) {
    for (line, name, types) in [
        ("shop.test. 5 IN A 192.0.2.100", "shop.test.", &["A"][..]),
        (
            "here.shop.test. 60 IN A 192.0.2.10",
            "here.shop.test.",
            &["A"],
        ),
        (
            "above.shop.test. 60 IN A 192.0.2.10",
            "above.shop.test.",
            &["A"],
        ),
        (
            "other.shop.test. 60 IN A 192.0.2.30",
            "other.shop.test.",
            &["A"],
        ),
        (
            "*.wild.shop.test. 5 IN A 192.0.2.100",
            "*.wild.shop.test.",
            &["A"],
        ),
        (
            "both.shop.test. 60 IN A 192.0.2.20",
            "both.shop.test.",
            &["A"],
        ),
    ] {
        assert!(
            lines.iter().any(|known| known == line),
            "{what}: no {line}: {lines:#?}"
        );
        assert_eq!(types_of(lines, name), types, "{what}: {name}");
    }
    // A name whose target has no addresses is kept, as in answers; nothing below a delegation is served.
    assert_eq!(types_of(lines, "lost.shop.test."), ["TYPE65401"], "{what}");
    assert_eq!(
        types_of(lines, "below.sub.shop.test."),
        ["TYPE65401"],
        "{what}"
    );
}

#[test]
fn alias_records_are_transferred_unchanged_or_as_addresses_as_configured() {
    for mode in ["live", "resident"] {
        for expand in [false, true] {
            let (resolver, _) = resolver();
            let setup = Setup::new().zone("own.test", OWN);
            let (setup, backend) = with_shop(setup, SHOP, mode, None);
            let recursor = recursor(&resolver);
            let config = format!("{recursor}{ALLOWED}expand_alias = {expand}\n{backend}");
            let server = setup.config(&config).start();
            let lines = transfer(&server, "AXFR");
            if expand {
                check_expanded(&lines, mode);
                assert_eq!(resolver.questions(), 2, "{mode}: A and AAAA, each once");
            } else {
                let aliases = lines.iter().filter(|line| line.contains("TYPE65401"));
                assert_eq!(aliases.count(), 8, "{mode}: {lines:#?}");
                assert_eq!(resolver.questions(), 0, "{mode}");
            }
        }
    }
}

#[test]
fn a_signed_transfer_with_addresses_of_alias_records_verifies() {
    for (mode, nsec3) in [("live", ""), ("resident", ""), ("resident", "1 0 0 -")] {
        let (resolver, _) = resolver();
        let setup = Setup::new().zone("own.test", OWN);
        let (setup, backend) = with_shop(setup, SHOP, mode, Some(nsec3));
        let recursor = recursor(&resolver);
        let server = setup
            .config(&format!(
                "{recursor}{ALLOWED}expand_alias = true\n{backend}"
            ))
            .start();
        let lines = transfer(&server, "AXFR");
        check_expanded(&lines, mode);
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("shop.test. 5 IN RRSIG A "))
        );
        let file = server.dir().join("transferred");
        // The second SOA ends the transfer and is no record of the zone.
        std::fs::write(&file, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
        let file = file.display().to_string();
        let (verified, said) = output(
            "dnssec-verify",
            &["-z", "-o", "shop.test.", "-E", "", &file],
        );
        assert!(verified, "{mode} {nsec3:?}: {said}\n{lines:#?}");
    }
}

#[test]
fn a_target_that_cannot_be_resolved_fails_the_transfer_and_addresses_that_are_known_do_not() {
    let (resolver, _) = resolver();
    resolver.change(|query, _| vec![reply(query, 2, &[])]);
    let setup = Setup::new().zone("own.test", OWN);
    let (setup, backend) = with_shop(setup, SHOP, "resident", None);
    let recursor = recursor(&resolver);
    let config = format!("{recursor}{ALLOWED}expand_alias = true\n{backend}");
    let server = setup.config(&config).start();
    assert_eq!(transfer(&server, "AXFR"), [""; 0]);
    let failure = "failed after 0 records: expand_alias: target.elsewhere.test. has no cached ";
    assert!(server.wait_for_log(failure), "{}", server.log());
    resolver.change(answers);
    let begun = std::time::Instant::now();
    while transfer(&server, "AXFR").is_empty() {
        assert!(begun.elapsed().as_secs() < 60, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    check_expanded(&transfer(&server, "AXFR"), "back");
    // Known addresses are used while the resolver fails, even after they have expired.
    resolver.change(|query, _| vec![reply(query, 2, &[])]);
    std::thread::sleep(std::time::Duration::from_secs(6));
    check_expanded(&transfer(&server, "AXFR"), "stale");
}

fn answers(query: &[u8], _: Transport) -> Vec<Vec<u8>> {
    let is_a = query[query.len() - 15..query.len() - 11] == [0, 1, 0, 1];
    let records = [(1, vec![192, 0, 2, 100])];
    vec![reply(query, 0, if is_a { &records } else { &[] })]
}

/// A server with a zone file and a journal.
fn journalled(resolver: &ScriptedResolver, text: &str) -> TestServer {
    let recursor = recursor(resolver);
    let config =
        format!("[server]\nstate_directory = \"state\"\n{recursor}{ALLOWED}expand_alias = true\n");
    let setup = Setup::new().watched().zone("shop.test", text);
    setup.config(&config).start()
}

fn file(serial: u32, rest: &str) -> String {
    format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 60\n@ NS ns\nns A 127.0.0.1\n{rest}")
}

#[test]
fn differences_are_sent_only_where_no_alias_is_in_them_or_in_the_zone() {
    let (resolver, _) = resolver();
    let server = journalled(&resolver, &file(1, "www A 192.0.2.1\n"));
    let change = |serial: u32, rest: &str| {
        server.write_zone("shop.test", &file(serial, rest));
        wait_for_serial(server.address(), "shop.test", serial).expect("it is served");
    };
    // An IXFR starts with two SOAs, a whole zone with one.
    let is_whole = |since: u32| {
        let lines = transfer(&server, &format!("IXFR={since}"));
        assert!(lines.len() > 2, "{lines:#?}\n{}", server.log());
        (!lines[1].contains(" SOA "), lines)
    };
    change(2, "www A 192.0.2.2\n");
    assert!(!is_whole(1).0, "no ALIAS anywhere");
    change(3, "www A 192.0.2.2\n@ ALIAS target.elsewhere.test.\n");
    let (whole, lines) = is_whole(2);
    assert!(whole, "{lines:#?}");
    assert_eq!(types_of(&lines, "shop.test."), ["A"]);
    change(4, "www A 192.0.2.4\n");
    assert!(
        is_whole(3).0,
        "the client has addresses that no difference removes"
    );
    change(5, "www A 192.0.2.5\n");
    assert!(!is_whole(4).0, "no ALIAS since then");
}

fn secondary_answers(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let (resolver, _) = resolver();
    let [ours, theirs]: [SocketAddr; 2] = [0; 2].map(|_| free_address().expect("a free port"));
    let recursor = recursor(&resolver);
    let text = file(7, "@ ALIAS target.elsewhere.test.\n");
    let server = Setup::new()
        .listen(&[&ours.to_string()])
        .without_web()
        .zone("shop.test", &text)
        .config(&format!(
            "{recursor}[[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
             [[zone]]\nname = \"shop.test\"\nallow_transfer = [\"key:{KEY_NAME}\"]\nexpand_alias = true\n"
        ))
        .start();
    let setup = MeshSetup {
        kind,
        role: MeshRole::Secondary,
        zone: "shop.test",
        address: theirs,
        other: ours,
    };
    let peer = MeshPeer::start(&setup, "").unwrap_or_else(|error| panic!("{kind}: {error}"));
    wait_for_serial(theirs, "shop.test", 7)
        .unwrap_or_else(|there| panic!("{there:?}\n{}\n{}", peer.log_tail(), server.log()));
    let answer = Client::new("127.0.0.1", theirs).ask(Transport::Udp, "shop.test", "A");
    assert_eq!(answer.answer.len(), 1, "{kind}: {answer:?}");
    assert_eq!(answer.answer[0].data, [192, 0, 2, 100], "{kind}");
}

#[test]
fn nsd_answers_at_the_apex_with_the_addresses_that_it_got() {
    secondary_answers(PeerKind::Nsd);
}

#[test]
fn knot_answers_at_the_apex_with_the_addresses_that_it_got() {
    secondary_answers(PeerKind::Knot);
}
