//! A server whose lease has ended has a successor, which continues with the keys as they are.

use super::*;
use nameward_sql::write::{LeaseTask, SeenLeases};

impl StoredLife {
    /// Ends the lease of the server, and starts the other one in its place.
    fn succeed(&mut self) {
        self.keeper = None;
        self.sql("DELETE FROM nameward_leases");
        let [state, other, aside] =
            ["state", "other", "aside"].map(|name| self.directory.path().join(name));
        std::fs::create_dir_all(&other).unwrap();
        std::fs::rename(&state, &aside).unwrap();
        std::fs::rename(&other, &state).unwrap();
        std::fs::rename(&aside, &other).unwrap();
        self.start();
    }
}

#[test]
fn successors_continue_rollovers_wherever_they_are_and_answers_stay_valid() {
    let mut life = StoredLife::new(split(13));
    let zone: NameBuf = "example.".parse().unwrap();
    life.live_until(BEGIN + 10 * DAY);
    for hours in [0, 1, 5, 30, 60, 200] {
        let keeper = Arc::clone(life.keeper.as_ref().unwrap());
        keeper.roll(zone.as_name(), None, life.now).unwrap();
        drop(keeper);
        life.load();
        life.note_version();
        life.live_until(life.now + hours * HOUR);
        life.succeed();
        life.live_until(life.now + 2 * HOUR);
    }
    // The last rollover ends; the next one by age may be under way at any fixed time.
    let end = life.now + 120 * DAY;
    while life.rrset(Type::DNSKEY).len() != 2 {
        assert!(life.now < end, "{:?}", life.keys());
        life.live_until(life.now + DAY);
    }
    assert!(life.made() > 4, "{}", life.made());
    life.verify();
}

#[test]
fn a_server_without_the_lease_leaves_the_keys_alone() {
    let mut life = StoredLife::new(split(13));
    life.look().unwrap();
    let storages = life.keeper.as_ref().unwrap().storages();
    let server = storages.server_name().unwrap();
    let mut seen = SeenLeases::default();
    let renewed = life
        .backend
        .renew_leases(&server, &[LeaseTask::Keys], &mut seen);
    life.runtime.block_on(renewed).unwrap();
    let other = life.keeper_in(&life.directory.path().join("other"));
    let zone: NameBuf = "example.".parse().unwrap();
    let refused = other.take_due_steps(zone.as_name(), life.now);
    let expected = RolloverError::Keys(ZoneKeysError::Refused(KeyRefusal::OtherServer));
    assert_eq!(refused, Err(expected));
    // Without the table the metadata decides, forever.
    life.sql("DROP TABLE nameward_leases");
    assert!(
        other
            .take_due_steps(zone.as_name(), life.now + DAY)
            .is_err()
    );
    life.look().unwrap();
}
