//! Fuzzes `nameward_store::file::named_conf::fuzzing::named_conf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_store::file::named_conf::fuzzing::named_conf(data));
