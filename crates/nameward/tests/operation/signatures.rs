//! Stored signatures in zone files: their faults are logged, reported by `check` and counted.

use nameward_testkit::TestServer;

use super::ask::{answered_data, eventually};

fn text_of(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn signatures_that_have_ended_are_reported_by_the_log_by_check_and_by_a_number() {
    let rrsig =
        |rtype: &str| format!("@ RRSIG {rtype} 13 2 300 20200201000000 20200101000000 1 @ AAAA\n");
    let text = format!(
        "$TTL 300\n@ SOA ns host 1 2 3 4 60\n@ NS ns.other.\n@ NSEC @ NS SOA RRSIG NSEC\n{}{}{}",
        rrsig("SOA"),
        rrsig("NS"),
        rrsig("NSEC")
    );
    let server = TestServer::start("", &[("one.example", &text)]);
    let fault = "zone one.example.: expired signatures: one.example. NS and 2 more";
    assert!(server.wait_for_log(fault), "{}", server.log());
    let stats = server.command(&["stats", "stored-signatures-*"]);
    let numbers = text_of(&stats);
    assert!(
        numbers.contains("broken") && numbers.contains('1'),
        "{numbers}"
    );
    let status = || text_of(&server.command(&["status"]));
    let refused = "signatures_broken: Invalid signatures in a presigned zone: zone one.example.";
    let status = eventually(status, |text| text.contains(refused));
    assert!(status.contains(refused), "{status}");
    let config = server.dir().join("nameward.toml");
    let check = server.command(&["check", "--config", config.to_str().unwrap()]);
    assert!(text_of(&check).contains(fault), "{check:?}");
    // The signer has signed it again.
    server.write_zone(
        "one.example",
        &text
            .replace("20200201", "20600201")
            .replace("host 1", "host 2"),
    );
    assert!(server.command(&["reload"]).status.success());
    let number = || text_of(&server.command(&["stats", "stored-signatures-broken"]));
    let number = eventually(number, |text| text.contains(" 0"));
    assert!(number.contains(" 0"), "{number}\n{}", server.log());
}

#[test]
fn automatic_hints_of_a_zone_signed_elsewhere_are_sent_as_they_were_signed() {
    let rrsig =
        |rtype: &str| format!("@ RRSIG {rtype} 13 2 300 20600201000000 20200101000000 1 @ AAAA\n");
    let text = format!(
        "$TTL 300\n@ SOA ns host 1 2 3 4 60\n@ NS ns.other.\n@ HTTPS 1 . ipv4hint=auto\n@ A 192.0.2.1\n@ NSEC @ A NS SOA RRSIG NSEC HTTPS\n{}",
        ["SOA", "NS", "NSEC", "A", "HTTPS"].map(rrsig).concat()
    );
    let server = TestServer::start("[server]\nany = \"all\"\n", &[("one.example", &text)]);
    // Priority 1, the owner itself, ipv4hint without a value.
    let signed = vec![0, 1, 0, 0, 4, 0, 0];
    for rtype in ["HTTPS", "ANY"] {
        let data = answered_data(server.address(), "one.example", rtype);
        assert!(data.contains(&signed), "{rtype} {data:?}");
    }
}
