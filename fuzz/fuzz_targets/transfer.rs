//! Fuzzes `nameward_maintain::fuzzing::transfer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_maintain::fuzzing::transfer(data));
