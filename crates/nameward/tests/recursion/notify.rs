//! NOTIFY to name servers whose addresses are outside our zones: resolved by the recursor, or not at all without one.

use nameward_testkit::Setup;

use super::scripted::{ScriptedResolver, reply};

/// A primary zone whose name servers are external, except for the one in its SOA.
fn primary(recursor: &str) -> Setup {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ NS ns1.elsewhere.test.\n@ NS ns2.elsewhere.test.\nns A 192.0.2.1\n";
    let setup = Setup::new().without_web().zone("example", zone);
    let state = setup.dir().join("state");
    setup.config(&format!(
        "[server]\nstate_directory = {state:?}\n{recursor}[[zone]]\nname = \"example\"\nkind = \"primary\"\n"
    ))
}

#[test]
fn external_name_servers_are_resolved_through_the_recursor() {
    let resolver = ScriptedResolver::start(|query, _| {
        // The letter case of the question is random.
        let is_first = query[12..16].eq_ignore_ascii_case(b"\x03ns1");
        // The type precedes the class at the end of the question; an OPT record follows.
        let is_address = query.windows(5).any(|octets| octets == [0, 0, 1, 0, 1]);
        match (is_first, is_address) {
            (true, true) => vec![reply(query, 0, &[(1, vec![127, 0, 0, 53])])],
            (true, false) => vec![reply(query, 0, &[])],
            (false, _) => vec![reply(query, 3, &[])],
        }
    });
    let recursor = format!("[recursor]\naddress = \"{}\"\n", resolver.address);
    let server = primary(&recursor).start();
    assert!(
        server.wait_for_log("sending notifies to 127.0.0.53:53 (addresses from the recursor)"),
        "{}",
        server.log()
    );
    assert!(server.wait_for_log("cannot send NOTIFY to name server ns2.elsewhere.test."));
}

#[test]
fn without_a_recursor_servers_that_are_not_notified_are_logged_once() {
    let server = primary("").start();
    let text = "cannot send NOTIFY to name server ns1.elsewhere.test.: its address is not in a zone of this server";
    assert!(server.wait_for_log(text), "{}", server.log());
    assert!(
        server
            .command(&["zone", "notify", "example"])
            .status
            .success()
    );
    server.write_zone(
        "example",
        "$TTL 60\n@ SOA ns h 2 2 3 4 5\n@ NS ns1.elsewhere.test.\n@ NS ns3.elsewhere.test.\n",
    );
    assert!(server.command(&["reload"]).status.success());
    assert!(server.wait_for_log("cannot send NOTIFY to name server ns3.elsewhere.test."));
    assert_eq!(server.log().matches(text).count(), 1);
}
