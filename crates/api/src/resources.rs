//! The resources of the API, one file each.

pub mod actions;
pub mod audit;
pub mod autoprimaries;
pub mod cache;
pub mod changes;
pub mod conditional;
pub mod config;
pub mod cryptokeys;
pub mod events;
pub mod history;
pub mod metadata;
pub mod operations;
pub mod paging;
pub mod rrsets;
pub mod search;
pub mod servers;
pub mod statistics;
pub mod tsigkeys;
pub mod views;
pub mod zone_views;
pub mod zones;

use std::borrow::Cow;

use crate::response::{ApiError, ApiResult};

/// The path of the server.
pub const SERVER: &str = "/api/v1/servers/localhost";

/// Reads the id of a zone: its name with or without a final dot, with octets as `=2F`.
pub fn zone_name(id: &str) -> ApiResult<String> {
    let mut name = String::with_capacity(id.len());
    let mut rest = id;
    while let Some(at) = rest.find('=') {
        let code = rest.get(at + 1..at + 3);
        let octet = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        let Some(octet) = octet.filter(u8::is_ascii) else {
            break;
        };
        name.push_str(&rest[..at]);
        name.push(char::from(octet));
        rest = &rest[at + 3..];
    }
    name.push_str(rest);
    if nameward_control::operations::zone_name(&name).is_err() {
        return Err(ApiError::invalid(format!(
            "Unable to parse DNS Name '{name}'"
        )));
    }
    Ok(name)
}

/// The id of a zone: its name with a final dot; characters that a path gives a meaning as `=2F`.
pub fn zone_id(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name == "." {
        return "=2E".into();
    }
    if name.chars().all(is_plain) {
        return name.into();
    }
    let mut id = String::with_capacity(name.len());
    for c in name.chars() {
        if is_plain(c) {
            id.push(c);
        } else {
            id.push_str(&format!("={:02X}", u32::from(c)));
        }
    }
    id.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_zones_are_read_in_every_form_that_clients_send() {
        for (id, name) in [
            ("example.org.", "example.org."),
            ("example.org", "example.org"),
            ("0=2F25.2.0.192.in-addr.arpa.", "0/25.2.0.192.in-addr.arpa."),
            ("0/25.2.0.192.in-addr.arpa.", "0/25.2.0.192.in-addr.arpa."),
            ("=2E", "."),
        ] {
            assert_eq!(zone_name(id).unwrap(), name);
        }
        assert_eq!(zone_name("a..b.c").unwrap_err().status(), 422);
        assert_eq!(zone_name("=ZZ").unwrap(), "=ZZ");
        assert_eq!(zone_id("0/25.arpa."), "0=2F25.arpa.");
        assert_eq!(zone_id("."), "=2E");
    }
}
