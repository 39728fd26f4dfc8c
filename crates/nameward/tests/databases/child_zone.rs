//! Records below a child zone: a change of the parent in a database reports that they are hidden.

use nameward_testkit::Setup;

use super::operation::{wait_for, zone};
use super::rows::Sqlite;

#[test]
fn a_record_added_below_a_child_zone_is_reported_as_hidden_in_both_modes() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        database.add(&zone("sub.one.test", "192.0.2.11"));
        let server = setup.config(&database.backend(mode)).start();
        wait_for(&server, "www.sub.one.test.", (0, 11));
        let warned = |name: &str| {
            let set = ["record", "set", "one.test", name, "A", "60", "192.0.2.12"];
            let output = server.command(&set);
            assert!(output.status.success(), "{mode}: {output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let said = warned("new.sub");
        assert!(
            said.contains("new.sub.one.test. A is hidden: sub.one.test. is a separate zone"),
            "{mode}: {said}"
        );
        assert_eq!(warned("new"), "", "{mode}");
        // The child answers, as the warning says.
        wait_for(&server, "www.sub.one.test.", (0, 11));
        assert_eq!(
            super::operation::ask(&server, "new.sub.one.test.").map(|reply| reply.0),
            Some(3),
            "{mode}"
        );
    }
}
