//! Fuzzes `nameward_import::bind::fuzzing::bind_files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_import::bind::fuzzing::bind_files(data));
