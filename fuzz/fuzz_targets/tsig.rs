//! Fuzzes `nameward_dnssec::fuzzing::tsig`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_dnssec::fuzzing::tsig(data));
