//! Fuzzes the whole path of a request, from packet to packet.
#![no_main]

#[path = "../../crates/serve/tests/request_fuzz.rs"]
mod request_fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| request_fuzz::request(data));
