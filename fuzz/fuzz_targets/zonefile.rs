//! Fuzzes `nameward_wire::fuzzing::zonefile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_wire::fuzzing::zonefile(data));
