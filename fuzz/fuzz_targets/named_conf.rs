//! Fuzzes `nameward_import::bind::fuzzing::named_conf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_import::bind::fuzzing::named_conf(data));
