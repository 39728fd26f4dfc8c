//! The signing of database zones in `zone show` and `zone status`: looked up or in memory, with keys of our commands.

use super::operation::wait_for_code;
use super::powerdns::{Store, ZONE};
use super::zone_keys::{NAME, listed, load_zone, run};

#[test]
fn zone_show_and_zone_status_show_how_a_database_zone_is_signed() {
    for mode in ["live", "resident"] {
        let directory = tempfile::tempdir().unwrap();
        let Some(store) = Store::new(None, directory.path()) else {
            return;
        };
        load_zone(&store, directory.path(), ZONE);
        let server = store.nameward(mode);
        wait_for_code(&server, "ns1.keys.test.", 0);
        let show = || run(&server, &["zone", "show", NAME]);
        assert!(show().ends_with("signed no\n"), "{mode}: {}", show());
        let status = || run(&server, &["zone", "status", NAME]);
        assert!(!status().contains("signed"), "{mode}: {}", status());
        for denial in ["nsec", "nsec3", "nsec3-opt-out", "white-lies", "compact"] {
            let printed = run(&server, &["zone", "secure", NAME, "--denial", denial]);
            let ds = printed.split(" IN DS ").nth(1).unwrap().trim().to_owned();
            let [(number, tag, _)] = &listed(&server)[..] else {
                panic!("{mode}: one key");
            };
            let key = format!("{number} {tag} csk active");
            let expected =
                format!("signed database\ndenial {denial}\nkey {key}\nds {ds}\nsignatures-end 20");
            assert!(
                show().contains(&expected),
                "{mode}: {} lacks {expected}",
                show()
            );
            let expected =
                format!("signed (database), keys: {key}, DS {ds}, first signature expires 20");
            let said = status();
            assert!(said.contains(&expected), "{mode}: {said} lacks {expected}");
            run(&server, &["zone", "unsecure", NAME, "--force"]);
        }
        // By default a looked-up zone uses white lies, and one in memory the chain.
        run(&server, &["zone", "secure", NAME]);
        run(
            &server,
            &["key", "add", NAME, "--role", "zsk", "--inactive"],
        );
        let denial = match mode {
            "live" => "denial white-lies\n",
            _ => "denial nsec\n",
        };
        let shown = show();
        assert!(shown.contains(denial), "{mode}: {shown}");
        assert!(shown.contains(" zsk published\n"), "{mode}: {shown}");
        assert_eq!(shown.matches("\nds ").count(), 1, "{mode}: {shown}");
    }
}
