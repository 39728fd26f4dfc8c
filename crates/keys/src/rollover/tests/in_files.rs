//! The same simulation with keys in files of a directory.

use super::*;
use std::os::unix::fs::PermissionsExt;

impl Life {
    /// Reads the keys in the state store.
    pub(super) fn keys(&self) -> Vec<ZoneKey> {
        let keys = self.keeper().local_keys();
        keys.keys(self.zone.as_name()).unwrap()
    }
}

fn in_files(policy: KeyPlan) -> Life {
    let keys = tempfile::tempdir().unwrap();
    let mut life = Life::new(policy);
    life.key_directory = Some(keys);
    life.start();
    life
}

fn key_files(life: &Life) -> Vec<String> {
    let directory = life.key_directory.as_ref().unwrap();
    let files = std::fs::read_dir(directory.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".private")).collect();
    names.sort();
    names
}

/// Lets BIND create a pair for the zone; returns the name of its files without extensions.
fn make_pair(directory: &Path, times: &[&str]) -> String {
    let output = Command::new("dnssec-keygen")
        .args(["-q", "-a", "13", "-K"])
        .arg(directory)
        .args(times)
        .arg("example")
        .output()
        .unwrap_or_else(|error| panic!("dnssec-keygen: {error}: run scripts/install-deps"));
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

#[test]
fn a_policy_rolls_keys_in_files_and_continues_from_the_files_alone() {
    let split = [
        (KeyRole::KeySigning, 13, 60),
        (KeyRole::ZoneSigning, 13, 30),
    ];
    let mut life = in_files(policy(&split));
    life.live_until(BEGIN + 150 * DAY);
    assert!(life.dnskeys() > 6, "{}", life.dnskeys());
    let keys = life.keys();
    assert_eq!(key_files(&life).len(), keys.len());
    for key in &keys {
        let PrivateKeyLocation::Files { path, .. } = &key.location else {
            panic!("{key:?}");
        };
        let private = format!("{}.private", path.display());
        let mode = std::fs::metadata(&private).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // BIND finds the times of the policy in them.
        let output = Command::new("dnssec-settime")
            .args(["-up", "all", &private])
            .output()
            .unwrap_or_else(|error| panic!("dnssec-settime: {error}: run scripts/install-deps"));
        let times = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && times.contains("Created: 18"),
            "{times}"
        );
        assert!(!times.contains("\nPublish: UNSET"), "{times}");
    }
    let over = keys.iter().filter(|key| !key.usage.published).count();
    // The state store is lost: the files show which keys are in use, and the policy adopts them.
    let shown = life.rrset(Type::DNSKEY);
    life.directory = tempfile::tempdir().unwrap();
    life.versions.clear();
    life.start();
    assert_eq!(life.rrset(Type::DNSKEY), shown);
    life.verify();
    life.live_until(life.now + 90 * DAY);
    assert!(life.rrset(Type::DNSKEY) != shown);
    // The policy is removed, and finally the files, except those of keys that were retired when the store was lost.
    life.policy = None;
    life.start();
    life.live_until(life.now + 60 * DAY);
    assert!(life.parent.is_empty() && key_files(&life).len() == over);
    assert!(!life.served().signing().is_signed());
}

#[test]
fn a_key_placed_in_the_directory_of_a_policy_is_the_next_one() {
    let mut life = in_files(policy(&[
        (KeyRole::KeySigning, 13, 0),
        (KeyRole::ZoneSigning, 13, 0),
    ]));
    life.live_until(BEGIN + 20 * DAY);
    let stem = make_pair(life.key_directory.as_ref().unwrap().path(), &[]);
    let tag: u16 = stem.rsplit('+').next().unwrap().parse().unwrap();
    let (before, far) = (life.rrset(Type::DNSKEY), life.now + 30 * DAY);
    life.live_until(far);
    let keys = life.keys();
    let active = |key: &&ZoneKey| key.usage.signs_zone;
    let signing: Vec<u16> = keys
        .iter()
        .filter(active)
        .map(|key| key.key().unwrap().tag())
        .collect();
    assert_eq!(signing, [tag]);
    assert!(life.rrset(Type::DNSKEY) != before);
}

#[test]
fn a_directory_that_cannot_be_read_or_written_leaves_the_keys_as_they_are() {
    let mut life = in_files(policy(&[(KeyRole::Combined, 13, 0)]));
    life.live_until(BEGIN + 20 * DAY);
    let (zone, now) = (life.zone, life.now);
    let zone = zone.as_name();
    let before = life.rrset(Type::DNSKEY);
    let (place, aside) = (
        life.key_directory.as_ref().unwrap().path().to_path_buf(),
        life.directory.path().join("aside"),
    );
    std::fs::rename(&place, &aside).unwrap();
    let error = life
        .keeper()
        .take_due_steps(zone, now)
        .unwrap_err()
        .to_string();
    assert!(error.contains("No such file"), "{error}");
    assert!(life.keeper().roll(zone, None, now).is_err());
    assert_eq!(life.rrset(Type::DNSKEY), before);
    // A server that starts without it does not serve the zone unsigned.
    life.start();
    let served = life.served();
    assert!(served.signing().online().unwrap().is_broken());
    std::fs::rename(&aside, &place).unwrap();
    life.keeper().take_due_steps(zone, now).unwrap();
    assert_eq!(life.rrset(Type::DNSKEY), before);
}

#[test]
fn a_public_file_alone_is_no_key() {
    // As left by a server that was killed before the private file was written, or whose private file is elsewhere.
    let directory = tempfile::tempdir().unwrap();
    let stem = make_pair(directory.path(), &[]);
    std::fs::remove_file(directory.path().join(format!("{stem}.private"))).unwrap();
    let mut life = Life::new(policy(&[(KeyRole::Combined, 13, 0)]));
    life.key_directory = Some(directory);
    life.start();
    assert!(!life.served().signing().is_signed());
    life.live_until(BEGIN + DAY);
    assert_eq!(life.rrset(Type::DNSKEY).len(), 1);
    assert!(!key_files(&life).contains(&format!("{stem}.private")));
}

#[test]
fn a_future_key_without_its_private_file_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let later = ["-P", "20500101000000", "-A", "20500101000000"];
    let stem = make_pair(directory.path(), &later);
    let private = directory.path().join(format!("{stem}.private"));
    let mut life = Life::new(policy(&[]));
    life.policy = None;
    life.key_directory = Some(directory);
    life.start();
    assert_eq!(life.keys().len(), 1);
    // As left by a server that is killed while the pair is removed.
    std::fs::remove_file(private).unwrap();
    life.start();
    assert!(!life.served().signing().is_signed());
    assert!(life.keys().is_empty());
}
