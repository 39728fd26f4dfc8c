//! Fuzzes `nameward_import::migrate::fuzzing::geo_files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_import::migrate::fuzzing::geo_files(data));
