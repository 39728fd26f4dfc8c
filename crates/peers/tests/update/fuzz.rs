//! A short run of the fuzz target: messages with octets turned over.

use super::cases::CASES;
use super::text::message;
use crate::common::Random;
use nameward_peers::update::fuzzing::update;
use nameward_wire::NameBuf;

#[test]
fn no_message_does_more_than_change_the_zone_or_be_refused() {
    let apex: NameBuf = "example.".parse().unwrap();
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..20_000usize {
        let case = &CASES[round % CASES.len()];
        let mut octets = message(case.1, &apex);
        for _ in 0..random.below(4) {
            let at = random.below(octets.len() as u64) as usize;
            octets[at] = random.below(256) as u8;
        }
        octets.truncate(octets.len() - random.below(3) as usize);
        update(&octets);
    }
}
