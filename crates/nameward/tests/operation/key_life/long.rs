//! A double-DS rollover in real time, which takes minutes. `dnssec` and `maintain` test its steps with a clock of their own.

use super::*;

#[test]
#[ignore = "scripts/long-tests"]
fn a_ksk_rolls_by_double_ds_with_a_real_parent_through_kill_9() {
    let home = tempfile::tempdir().unwrap();
    let parent = Parent::start(home.path());
    let keys_at = home.path().join("keys");
    fs::create_dir(&keys_at).unwrap();
    let mut chain = Chain {
        home,
        parent,
        policy: "ksk_rollover = \"double-ds\"\n",
    };
    // And with keys in files.
    let with_policy = format!("dnssec_policy = \"quick\"\nkey_directory = {keys_at:?}\n");
    let server = chain.server(&with_policy);
    chain.look_until(&server, |ds, keys| ds.len() == 1 && keys.len() == 2);
    let at = server.address();
    let is_settled = || !done(&server, &["zone", "status", "one.test"]).contains("next: ");
    assert!(eventually(is_settled, |settled| *settled));
    let first_ds = chain.parent.ds();
    let first_keys = records(at, "one.test", "DNSKEY");
    done(&server, &["key", "rollover", "one.test", "--role", "ksk"]);
    // Both DS are requested, and shown to the operator who submits them. The zone has only the old key.
    let cds = eventually(|| records(at, "one.test", "CDS"), |cds| cds.len() == 2);
    assert!(cds.len() == 2 && cds.contains(&first_ds[0]), "{cds:?}");
    assert_eq!(records(at, "one.test", "CDNSKEY").len(), 2);
    assert_eq!(records(at, "one.test", "DNSKEY"), first_keys);
    let printed = done(&server, &["zone", "ds", "one.test"]);
    let of_type = |word: &str| printed.lines().filter(|line| line.contains(word)).count();
    let counts = [" IN DS ", " IN CDS ", " IN CDNSKEY ", " IN DNSKEY "].map(of_type);
    assert_eq!(counts, [4, 2, 2, 2], "{printed}");
    let status = done(&server, &["zone", "status", "one.test"]);
    assert!(status.contains("waiting for the DS"), "{status}");
    server.signal("KILL");
    assert!(!server.wait().success());

    let server = chain.server(&with_policy);
    let at = server.address();
    assert_eq!(records(at, "one.test", "CDS"), cds);
    assert_eq!(records(at, "one.test", "DNSKEY"), first_keys);
    chain.validate_at_rest(&server);
    // The parent accepts both: the key is replaced in one step, and then the old DS is no longer requested.
    chain.parent.follow(at);
    assert_eq!(chain.parent.ds(), cds);
    let is_replaced = |keys: &Vec<String>| *keys != first_keys;
    let keys = eventually(|| records(at, "one.test", "DNSKEY"), is_replaced);
    let kept = keys.iter().filter(|key| first_keys.contains(key)).count();
    assert_eq!((keys.len(), kept), (2, 1), "{}", server.log());
    let cds = eventually(|| records(at, "one.test", "CDS"), |cds| cds.len() == 1);
    assert!(cds.len() == 1 && cds != first_ds, "{cds:?}");
    chain.validate_at_rest(&server);
    chain.look_until(&server, |ds, _| ds == cds);
    let is_over = || done(&server, &["key", "list", "one.test"]).lines().count() == 2;
    assert!(eventually(is_over, |is_over| *is_over), "{}", server.log());
    assert_eq!(records(at, "one.test", "DNSKEY"), keys);
    chain.validate_at_rest(&server);
    assert_eq!(fs::read_dir(&keys_at).unwrap().count(), 4);
}
