//! Fuzzes PROXY headers, of datagrams and of streams that arrive octet by octet. No panic, no header longer than its
//! data, and progress towards a bound while one is incomplete.
#![no_main]

use nameward_serve::proxy::{HEADER_MAX, NoHeader, read_datagram, read_stream};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(header) = read_datagram(data) {
        assert!(header.len <= data.len());
        assert_eq!(read_stream(data), Ok(header));
    }
    let whole = read_stream(data);
    for len in 0..=data.len().min(300) {
        match read_stream(&data[..len]) {
            Ok(header) => {
                assert!(header.len <= len);
                assert_eq!(whole, Ok(header));
                break;
            }
            Err(NoHeader::Incomplete(needed)) => assert!(needed > len && needed <= HEADER_MAX),
            Err(NoHeader::Malformed) => {
                assert_eq!(whole, Err(NoHeader::Malformed));
                break;
            }
        }
    }
});
