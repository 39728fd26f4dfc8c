//! The port that the status page shares with the API: the first octets of a connection determine its handler.
//!
//! They are peeked at, not read, so that the API gets the complete connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::TcpStream;

/// Octets that are sufficient to decide: the longest method, a space, and the start of the path.
const DECISIVE: usize = 16;
/// Interval at which more octets are checked for.
const PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections whose first request is for the API.
pub struct ApiHandover {
    /// Clients that may use the API.
    pub allow_from: Vec<IpNet>,
    /// The first path segments of the API.
    pub paths: &'static [&'static str],
    /// Serves a connection.
    pub serve: Arc<dyn Fn(TcpStream, SocketAddr) + Send + Sync>,
}

/// Waits until the first octets of a connection show whether it is for the API.
pub(super) async fn is_for_api(stream: &TcpStream, paths: &[&str]) -> bool {
    let mut octets = [0; DECISIVE];
    loop {
        let Ok(length) = stream.peek(&mut octets).await else {
            return false;
        };
        match decide(&octets[..length], paths) {
            Some(decision) => return decision,
            None if length == 0 => return false,
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Decides by the start of a request; `None` if it is too short. HTTP/2 is for the API: the status page only speaks
/// HTTP/1.0.
fn decide(start: &[u8], paths: &[&str]) -> Option<bool> {
    let Some(at) = start.iter().position(|octet| *octet == b' ') else {
        return (start.len() >= DECISIVE).then_some(false);
    };
    if &start[..at] == b"PRI" {
        return Some(true);
    }
    let path = &start[at + 1..];
    let mut is_open = false;
    for prefix in paths.iter().map(|prefix| prefix.as_bytes()) {
        let common = path.len().min(prefix.len());
        if path[..common] != prefix[..common] {
            continue;
        }
        match path.get(prefix.len()) {
            Some(b'/' | b'?' | b' ') => return Some(true),
            Some(_) => {}
            None => is_open = true,
        }
    }
    (!is_open).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_octets_decide() {
        for (start, expected) in [
            ("GET /api/v1", Some(true)),
            ("OPTIONS /api HTT", Some(true)),
            ("GET /api?x", Some(true)),
            ("PRI * HTTP/2.0", Some(true)),
            ("GET /apiary", Some(false)),
            ("GET / HTTP/1.0", Some(false)),
            ("GET /me", Some(false)),
            ("GET /ap", None),
            ("GE", None),
            ("", None),
            ("xxxxxxxxxxxxxxxx", Some(false)),
            ("OPTIONS /admin/z", Some(true)),
            ("GET /admin HTTP", Some(true)),
            ("GET /a", None),
            ("GET /administer", Some(false)),
        ] {
            let paths = ["/api", "/admin"];
            assert_eq!(decide(start.as_bytes(), &paths), expected, "{start}");
        }
        assert_eq!(decide(b"GET /admin HTTP", &["/api"]), Some(false));
    }
}
