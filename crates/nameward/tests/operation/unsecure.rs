//! The end of signing: refused while the parent has a DS for the zone, or while this cannot be determined.

use nameward_testkit::{Setup, TestServer};

use super::apply::{done, failed};
use super::ask::has_record;

const CHILD: &str = "$TTL 60\n@ SOA ns h 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\n";

fn parent(ds: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns h 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\nchild NS ns.child\nns.child A 192.0.2.1\n{ds}"
    )
}

const DS: &str =
    "child DS 4711 13 2 0000000000000000000000000000000000000000000000000000000000000000\n";

fn signed(setup: Setup) -> TestServer {
    let state = "[server]\nstate_directory = \"state\"\n";
    let setup = setup.without_web().config(state);
    let server = setup.zone("child.test", CHILD).start();
    done(&server, &["zone", "secure", "child.test"]);
    server
}

#[test]
fn a_zone_whose_parent_here_has_a_ds_stays_signed_without_force() {
    let server = signed(Setup::new().zone("test", &parent(DS)));
    let (code, said) = failed(&server, &["zone", "unsecure", "child.test"]);
    assert!(code == 7 && said.contains("key tag 4711"), "{said}");
    assert!(has_record(server.address(), "child.test", "DNSKEY"));
    done(&server, &["record", "delete", "test", "child", "DS"]);
    done(&server, &["zone", "unsecure", "child.test"]);
    assert!(!has_record(server.address(), "child.test", "DNSKEY"));
}

#[test]
fn the_parent_is_queried_through_the_recursor() {
    let resolver = Setup::new().without_web().zone("test", &parent(DS)).start();
    let recursor = format!("[recursor]\naddress = \"{}\"\n", resolver.address());
    let server = signed(Setup::new().config(&recursor));
    let (code, said) = failed(&server, &["zone", "unsecure", "child.test"]);
    assert!(
        code == 7 && said.contains("its parent has a DS (key tag 4711)"),
        "{said}"
    );
    resolver.write_zone("test", &parent("").replace("h 1 ", "h 2 "));
    done(&resolver, &["reload"]);
    done(&server, &["zone", "unsecure", "child.test"]);
    assert!(!has_record(server.address(), "child.test", "DNSKEY"));
    // Without an answer the state is unknown.
    done(&server, &["zone", "secure", "child.test"]);
    resolver.write_zone("test", "broken");
    resolver.remove_zone("test");
    done(&resolver, &["reload"]);
    let (code, said) = failed(&server, &["zone", "unsecure", "child.test"]);
    assert!(
        code == 7 && said.contains("no server answered for the parent zone"),
        "{said}"
    );
}

#[test]
fn without_servers_for_the_parent_signing_ends_only_by_force() {
    let server = signed(Setup::new());
    let (code, said) = failed(&server, &["zone", "unsecure", "child.test"]);
    assert!(
        code == 7 && said.contains("no [recursor] is configured"),
        "{said}"
    );
    let (code, _) = failed(&server, &["zone", "unsecure", "none.test"]);
    assert_eq!(code, 4);
    done(&server, &["zone", "unsecure", "child.test", "--force"]);
    assert!(!has_record(server.address(), "child.test", "DNSKEY"));
}

#[test]
fn a_key_that_signs_a_part_of_an_unsigned_zone_is_refused_without_force() {
    let state = "[server]\nstate_directory = \"state\"\n";
    let setup = Setup::new().without_web().config(state);
    let server = setup.zone("child.test", CHILD).start();
    for role in ["ksk", "zsk"] {
        let (code, said) = failed(&server, &["key", "add", "child.test", "--role", role]);
        assert!(code == 7 && said.contains("is not signed"), "{said}");
    }
    done(
        &server,
        &["key", "add", "child.test", "--role", "ksk", "--inactive"],
    );
    done(
        &server,
        &["key", "add", "child.test", "--role", "zsk", "--force"],
    );
    done(&server, &["key", "activate", "child.test", "1"]);
    assert!(has_record(server.address(), "child.test", "DNSKEY"));
}
