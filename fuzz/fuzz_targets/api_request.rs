//! Fuzzes requests to the HTTP API: paths, queries and JSON bodies. No panic, no 500, and every error is JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nameward_api::fuzzing::check_request(data));
