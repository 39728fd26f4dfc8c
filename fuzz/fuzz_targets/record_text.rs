//! Fuzzes `nameward_wire::fuzzing::record_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_wire::fuzzing::record_text(data));
