//! Fuzzes the parser of web requests: no panic, and what it takes is what the log and the router may trust.
#![no_main]

use nameward_control::web::request::{find_head_end, cannot_be_request, parse};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = cannot_be_request(data);
    let head = find_head_end(data).map_or(data, |end| &data[..end]);
    if let Ok(request) = parse(head) {
        assert!(request.path.bytes().all(|b| b.is_ascii_graphic()));
        assert!(request.method_text.bytes().all(|b| b.is_ascii_graphic()));
        assert!(!cannot_be_request(head));
        let _ = (request.parameter("ring"), request.parameter("token"));
        let _ = request.accepts_only("text/plain");
    }
});
