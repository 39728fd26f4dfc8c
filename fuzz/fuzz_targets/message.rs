//! Fuzzes `nameward_wire::fuzzing::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_wire::fuzzing::message(data));
