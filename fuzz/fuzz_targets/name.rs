//! Fuzzes `nameward_wire::fuzzing::name`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_wire::fuzzing::name(data));
