//! Fuzzes `nameward_import::migrate::fuzzing::nsd_conf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_import::migrate::fuzzing::nsd_conf(data));
