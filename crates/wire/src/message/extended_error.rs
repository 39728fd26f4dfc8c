//! Extended error codes (RFC 8914 section 4) that this server sends.

/// No other code fits.
pub const OTHER: u16 = 0;
/// The contents have not been loaded yet, or have expired.
pub const NOT_READY: u16 = 14;
/// The client is not allowed to request this.
pub const PROHIBITED: u16 = 18;
/// The zone is not served here.
pub const NOT_AUTHORITATIVE: u16 = 20;
/// This server does not implement the request.
pub const NOT_SUPPORTED: u16 = 21;
/// A server that the answer depends on cannot be reached.
pub const NETWORK_ERROR: u16 = 23;
/// The query type is not one a client may send (RFC 9824 section 3.5).
pub const INVALID_QUERY_TYPE: u16 = 30;
