//! The wall clock, as the seconds and milliseconds since 1970 that the rest of the server counts in.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time in seconds since 1970.
pub fn now_seconds() -> u64 {
    seconds_since_1970(SystemTime::now())
}

/// Returns the current time in milliseconds since 1970.
pub fn now_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let milliseconds = since.map_or(0, |since| since.as_millis());
    u64::try_from(milliseconds).unwrap_or(u64::MAX)
}

/// Returns the current time as RRSIG and SOA serials count it (RFC 4034 section 3.1.5): 32 bits, which wrap in 2106.
pub fn now_seconds_32() -> u32 {
    now_seconds() as u32
}

/// Returns a time in seconds since 1970; 0 for times before.
pub fn seconds_since_1970(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
