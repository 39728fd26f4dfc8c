//! The host names in requests for the page (RFC 9110 section 7.2).
//!
//! A foreign site whose name resolves to our address can read the page and press its buttons through its visitors'
//! browsers (DNS rebinding). Such requests contain the foreign name, so without a password only our own names are
//! served.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the host of an authority `host[:port]` in lower case, without the final dot and the brackets of an IPv6
/// address; `None` if it is not a valid authority. The port is ignored: a tunnel may have another one.
pub fn parse_authority(authority: &str) -> Option<String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at(end);
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
            if host.is_empty() || !host.bytes().all(is_name) {
                return None;
            }
            (host.strip_suffix('.').unwrap_or(host), port)
        }
    };
    let digits = match port {
        "" => "",
        port => port.strip_prefix(':')?,
    };
    let is_port = digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit());
    is_port.then(|| host.to_ascii_lowercase())
}

/// Checks for `localhost`, the address that the client has connected to, and the configured names.
pub fn is_ours(host: &str, local: Option<IpAddr>, configured: &[String]) -> bool {
    if let Ok(address) = host.parse::<IpAddr>()
        && local.is_some_and(|local| local.to_canonical() == address.to_canonical())
    {
        return true;
    }
    let is_same = |name: &String| {
        let name = name.strip_suffix('.').unwrap_or(name);
        name.eq_ignore_ascii_case(host)
    };
    host == "localhost" || configured.iter().any(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_authority_is_parsed_and_garbage_has_none() {
        for (text, host) in [
            ("localhost", "localhost"),
            ("LOCALHOST:8081", "localhost"),
            ("ns1.Example.org.:80", "ns1.example.org"),
            ("127.0.0.1:8081", "127.0.0.1"),
            ("[::1]:8081", "::1"),
            ("[2001:DB8::1]", "2001:db8::1"),
            ("a:", "a"),
        ] {
            assert_eq!(parse_authority(text).as_deref(), Some(host), "{text}");
        }
        for text in [
            "", ":80", "a b", "a@b", "a/b", "[::1", "[::1]x", "[x]", "::1", "a:b", "a:1:2",
            "a:123456", "a,b",
        ] {
            assert_eq!(parse_authority(text), None, "{text}");
        }
    }

    #[test]
    fn own_names_are_the_address_localhost_and_configured_names() {
        let local: Option<IpAddr> = "::ffff:192.0.2.1".parse().ok();
        let configured = ["Status.example.".to_owned(), "2001:db8::1".to_owned()];
        for host in ["localhost", "192.0.2.1", "status.example", "2001:db8::1"] {
            assert!(is_ours(host, local, &configured), "{host}");
        }
        for host in ["127.0.0.1", "192.0.2.10", "example", "localhost.example"] {
            assert!(!is_ours(host, local, &configured), "{host}");
        }
        assert!(!is_ours("192.0.2.1", None, &[]));
    }
}
