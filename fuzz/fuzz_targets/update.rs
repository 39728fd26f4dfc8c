//! Fuzzes `nameward_maintain::update::fuzzing::update`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_maintain::update::fuzzing::update(data));
