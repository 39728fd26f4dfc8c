//! Fuzzes `nameward_peers::update::fuzzing::update`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_peers::update::fuzzing::update(data));
