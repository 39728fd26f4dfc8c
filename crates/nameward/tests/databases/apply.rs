//! Batches over several zones, of a database and of a file.

use super::operation::{ask, zone};
use super::rows::Sqlite;
use nameward_testkit::Setup;

const NXDOMAIN: u8 = 3;

#[test]
fn a_batch_over_zones_is_checked_as_a_whole_before_the_first_change() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        database.add(&zone("sec.test", "192.0.2.11"));
        database.run(
            "UPDATE domains SET type = 'SLAVE', master = '192.0.2.53' WHERE name = 'sec.test'",
        );
        let (path, state) = (database.path.display(), setup.dir().join("state"));
        let config = format!(
            "[server]\nstate_directory = {state:?}\n\
             [[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"{mode}\"\n"
        );
        let server = setup
            .config(&config)
            .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
            .start();
        let batch = server.dir().join("batch");
        let run = |text: &str, more: &[&str]| {
            std::fs::write(&batch, text).unwrap();
            let path = batch.display().to_string();
            let output = server.command(&[&["apply", &path], more].concat());
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            (output.status.code(), said)
        };
        let both = "$TTL 60\nzone one.test\n+new A 192.0.2.1\nzone file.test\n+new A 192.0.2.2\n";
        // The last zone cannot be changed, so none is.
        let (code, said) = run(&format!("{both}zone sec.test\n+new A 192.0.2.3\n"), &[]);
        assert!(
            code == Some(7) && said.contains("change it at its primary"),
            "{said}"
        );
        let (code, said) = run(both, &["--dry-run"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("+new.one.test. 60 IN A 192.0.2.1\n"),
            "{said}"
        );
        assert!(
            said.contains("+new.file.test. 60 IN A 192.0.2.2\n"),
            "{said}"
        );
        for name in ["new.one.test.", "new.file.test."] {
            assert_eq!(ask(&server, name).map(|answer| answer.0), Some(NXDOMAIN));
        }
        let (code, said) = run(both, &[]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
        assert_eq!(ask(&server, "new.one.test."), Some((0, 1)), "{mode}");
        assert_eq!(ask(&server, "new.file.test."), Some((0, 2)), "{mode}");
        let (code, said) = run("zone one.test\n-new TXT\n", &[]);
        assert!(code == Some(5) && said.contains("no such record"), "{said}");
        let (code, said) = run("zone one.test\n-new A\n+www 60 A 192.0.2.7\n", &[]);
        assert_eq!(code, Some(0), "{said}");
        let answer = ask(&server, "new.one.test.");
        assert_eq!(answer.map(|answer| answer.0), Some(NXDOMAIN));
    }
}

#[test]
fn a_zone_file_becomes_a_zone_of_a_database_and_mistakes_are_reported() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let path = database.path.display();
    let config = format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\n");
    let server = setup.config(&config).start();
    let file = server.dir().join("new.zone");
    std::fs::write(&file, zone("new.test", "192.0.2.9").file_text()).unwrap();
    let file = file.display().to_string();
    let run = |arguments: &[&str]| {
        let output = server.command(arguments);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = run(&["zone", "import", "new.test", &file, "--dry-run"]);
    assert!(code == Some(0) && said.contains("+www.new.test."), "{said}");
    let (code, said) = run(&["zone", "import", "new.test", &file]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(ask(&server, "www.new.test."), Some((0, 9)));
    let (code, said) = run(&["zone", "diff", "new.test", &file]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    // Its first version is not a change.
    let (code, said) = run(&["zone", "history", "new.test"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let (code, said) = run(&["zone", "create", "a.test", "--ns", "ns1"]);
    assert!(
        code == Some(6) && said.contains("did you mean ns1.a.test."),
        "{said}"
    );
    let mailbox = ["--hostmaster", "joe.smith@a.test"];
    let create = ["zone", "create", "a.test", "--ns", "ns.new.test"];
    let (code, said) = run(&[&create[..], &mailbox].concat());
    assert_eq!(code, Some(0), "{said}");
    let (_, said) = run(&["record", "list", "a.test", "@", "SOA"]);
    assert!(said.contains(" joe\\.smith.a.test. "), "{said}");
}
