//! Fuzzes `nameward_peers::transfer_in::fuzzing::transfer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_peers::transfer_in::fuzzing::transfer(data));
