//! The names and versions that scripts belong to: wildcards, ALIAS targets, zone versions of views.

use std::fs;

use nameward_testkit::Setup;

use super::{ask, status_of};
use crate::operation::secure::done;

const APEX: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n";

#[test]
fn a_failing_wildcard_script_is_one_fault_for_all_queried_names() {
    let zone = format!("{APEX}*.w LUA A \"nosuch()\"\n");
    let server = Setup::new()
        .config("[lua]\nrecords = true\n")
        .zone("wild.test", &zone)
        .start();
    for name in ["a.w.wild.test", "b.w.wild.test", "c.d.w.wild.test"] {
        assert_eq!(status_of(&server, name, "A").0, "SERVFAIL");
    }
    server.wait_until("the fault", || {
        done(&server, &["status"]).contains("1 LUA record failed: *.w.wild.test. A: ")
    });
    let fixed = zone.replace("nosuch()", "'192.0.2.1'");
    server.write_zone("wild.test", &fixed.replace(" 1 3600", " 2 3600"));
    done(&server, &["reload"]);
    assert_eq!(status_of(&server, "e.w.wild.test", "A").1, 1);
    server.wait_until("the end of the fault", || {
        !done(&server, &["status"]).contains("LUA record")
    });
}

#[test]
fn an_alias_to_a_script_has_the_results_of_the_script() {
    let zone = format!(
        "{APEX}@ 60 ALIAS www\nwww LUA A \"{{'192.0.2.1', '192.0.2.2'}}\"\nmixed ALIAS both\n\
         both A 192.0.2.3\nboth LUA A \"'192.0.2.4'\"\nfailing ALIAS bad\nbad LUA A \"nosuch()\"\n\
         far ALIAS cname\ncname CNAME www\nwho ALIAS client\nclient LUA A \"who:toString()\"\n"
    );
    let server = Setup::new()
        .config("[lua]\nrecords = true\n")
        .zone("alias.test", &zone)
        .start();
    let answers = |name: &str, rtype: &str| ask(server.address(), "127.0.0.1", &[name, rtype]);
    assert_eq!(
        answers("alias.test", "A").1,
        [
            "alias.test. 60 IN A 192.0.2.1",
            "alias.test. 60 IN A 192.0.2.2"
        ]
    );
    assert_eq!(answers("far.alias.test", "A").1.len(), 2);
    assert_eq!(answers("mixed.alias.test", "A").1.len(), 2);
    assert_eq!(
        answers("who.alias.test", "A").1,
        ["who.alias.test. 300 IN A 127.0.0.1"]
    );
    assert_eq!(answers("failing.alias.test", "A").0, "SERVFAIL");
    assert_eq!(
        answers("alias.test", "AAAA"),
        ("NOERROR".to_owned(), Vec::new())
    );
}

#[test]
fn a_version_of_a_view_has_its_own_setting() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("inside");
    let zone = format!("{APEX}www LUA A \"'192.0.2.1'\"\n");
    fs::write(&file, &zone).unwrap();
    let config = format!(
        "[lua]\nrecords = true\n[[view]]\nname = \"inside\"\nnetworks = [\"127.0.0.2\"]\n\
         zones = [{{ name = \"split.test\", file = {file:?}, lua_records = false }}]\n"
    );
    let server = Setup::new()
        .config(&config)
        .zone("split.test", &zone)
        .start();
    let count = |source: &str| {
        ask(server.address(), source, &["www.split.test", "A"])
            .1
            .len()
    };
    assert_eq!((count("127.0.0.1"), count("127.0.0.2")), (1, 0));
}
