//! The checker of pool members and of targets in LUA records: TCP connections, HTTP requests and
//! DNS queries, many in parallel.
//!
//! Once a second the targets that are due are checked, each with its own timeout, at most [`PARALLEL_MAX`] at one time. A
//! response is read up to a limit, redirects are not followed, and certificates are verified against the authorities of the
//! system or of `health.tls_ca`.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nameward_sql::authorities::{SYSTEM_AUTHORITIES, read_authorities};
use nameward_steering::Steering;
use nameward_steering::health::{
    CheckFailure, CheckKind, CheckedTarget, HealthCheck, TargetHealth,
};
use nameward_wire::{NameBuf, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Maximum number of concurrent checks.
const PARALLEL_MAX: usize = 256;
/// Interval at which due targets are collected.
const TICK: Duration = Duration::from_secs(1);
/// Octets of a response that are read, unless a check has a lower limit.
const RESPONSE_MAX: usize = 1 << 20;

/// Checks targets until `stopping` is true.
pub async fn run(steering: Arc<Steering>, mut stopping: watch::Receiver<bool>) {
    let slots = Arc::new(Semaphore::new(PARALLEL_MAX));
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut running = JoinSet::new();
    let mut tls = TargetTls::default();
    let changed = Arc::new(Notify::new());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = changed.notified() => {
                // Pool answers are prepared once for all checks that have finished.
                steering.prepare_pools();
                continue;
            }
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        while running.try_join_next().is_some() {}
        let due = steering.health().take_due();
        if due.iter().any(|target| needs_tls(&target.check)) {
            tls.refresh(steering.health().authorities());
        }
        for target in due {
            let (slots, tls) = (Arc::clone(&slots), tls.config.clone());
            let changed = Arc::clone(&changed);
            running.spawn(async move {
                let _slot = slots.acquire_owned().await;
                if check_target(&target, tls).await {
                    changed.notify_one();
                }
            });
        }
    }
}

/// Checks a target; returns whether its health has changed.
async fn check_target(target: &CheckedTarget, tls: Option<Arc<ClientConfig>>) -> bool {
    let timeout = Duration::from_millis(target.check.timeout_ms);
    let result = match tokio::time::timeout(timeout, check(&target.check, tls)).await {
        Ok(result) => result,
        Err(_) => Err(CheckFailure::from("timed out")),
    };
    let error = result
        .as_ref()
        .err()
        .map(ToString::to_string)
        .unwrap_or_default();
    // Another server's result may have changed it while the check was running.
    let before = target.health();
    target.finish(result);
    let after = target.health();
    if before != after {
        let name = target.check.to_string();
        match after {
            TargetHealth::Up(_) => tracing::info!("health check {name}: up"),
            _ => tracing::warn!("health check {name}: down: {error}"),
        }
    }
    before != after
}

fn needs_tls(check: &HealthCheck) -> bool {
    matches!(&check.kind, CheckKind::Url { url, .. } if url.starts_with("https://"))
}

/// The TLS configuration for HTTPS checks, with the authority file that it was built from.
#[derive(Default)]
struct TargetTls {
    /// `None` while the file cannot be used: it is read again before the next checks.
    config: Option<Arc<ClientConfig>>,
    authorities: Option<Arc<PathBuf>>,
    has_warned: bool,
}

impl TargetTls {
    /// Builds the configuration again, if that failed before or the setting has changed.
    fn refresh(&mut self, authorities: Option<Arc<PathBuf>>) {
        if self.config.is_some() && self.authorities == authorities {
            return;
        }
        let path = authorities.as_ref().map(|path| path.as_path());
        let path = path.unwrap_or(Path::new(SYSTEM_AUTHORITIES));
        self.config = match read_authorities(path) {
            Ok(store) => client_config(store),
            Err(error) => {
                if !self.has_warned {
                    tracing::warn!("health checks: {}: {error}", path.display());
                }
                None
            }
        };
        self.has_warned = self.config.is_none();
        self.authorities = authorities;
    }
}

fn client_config(authorities: RootCertStore) -> Option<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    let builder = builder.with_root_certificates(authorities);
    Some(Arc::new(builder.with_no_client_auth()))
}

/// Runs one check; returns the weight of the target.
async fn check(check: &HealthCheck, tls: Option<Arc<ClientConfig>>) -> Result<u32, CheckFailure> {
    match &check.kind {
        CheckKind::Port(port) => {
            let address = check.address.ok_or("no address")?;
            connect(SocketAddr::new(address, *port), check.source).await?;
            Ok(1)
        }
        CheckKind::Dns { port, name } => {
            let address = check.address.ok_or("no address")?;
            query(SocketAddr::new(address, *port), name, check.source).await
        }
        CheckKind::Url { url, .. } => {
            let url = TargetUrl::parse(url)?;
            let address = match check.address {
                Some(address) => SocketAddr::new(address, url.port),
                None => resolve(&url.host, url.port).await?,
            };
            let stream = connect(address, check.source).await?;
            if !url.is_encrypted {
                return request(stream, check, &url).await;
            }
            let config = tls.ok_or("certificate authorities cannot be read")?;
            let name = ServerName::try_from(url.host.clone())
                .map_err(|error| CheckFailure(error.to_string()))?;
            let stream = TlsConnector::from(config).connect(name, stream).await;
            request(stream?, check, &url).await
        }
    }
}

async fn connect(to: SocketAddr, source: Option<IpAddr>) -> Result<TcpStream, CheckFailure> {
    let connected = async {
        let socket = if to.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if let Some(source) = source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        socket.connect(to).await
    };
    connected
        .await
        .map_err(|error: std::io::Error| error.into())
}

/// Sends a query for the SOA record of a name; a server that works answers without an error.
async fn query(to: SocketAddr, name: &str, source: Option<IpAddr>) -> Result<u32, CheckFailure> {
    let name: NameBuf = name.parse().map_err(|_| "invalid name")?;
    let id = (RandomState::new().hash_one(to) as u16).to_be_bytes();
    // One question; recursion is not desired.
    let mut message = vec![id[0], id[1], 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name.as_name().as_wire());
    message.extend_from_slice(&Type::SOA.0.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    let any = if to.is_ipv4() { "0.0.0.0" } else { "::" };
    let from = source.map_or_else(|| any.parse().ok(), Some);
    let socket = UdpSocket::bind((from.ok_or("no address")?, 0)).await?;
    socket.connect(to).await?;
    socket.send(&message).await?;
    let mut reply = [0; 512];
    loop {
        let length = socket.recv(&mut reply).await?;
        let is_reply = length >= 12 && reply[..2] == id && reply[2] & 0x80 != 0;
        if is_reply {
            return match reply[3] & 15 {
                0 => Ok(1),
                code => Err(CheckFailure(format!("response code {code}"))),
            };
        }
    }
}

async fn resolve(host: &str, port: u16) -> Result<SocketAddr, CheckFailure> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = tokio::net::lookup_host((bare, port)).await?;
    found
        .next()
        .ok_or_else(|| CheckFailure(format!("{host} has no address")))
}

/// The parts of a URL that a request needs.
struct TargetUrl {
    is_encrypted: bool,
    host: String,
    port: u16,
    path: String,
}

impl TargetUrl {
    fn parse(url: &str) -> Result<Self, CheckFailure> {
        let invalid = || CheckFailure(format!("invalid URL {url:?}"));
        let (is_encrypted, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://"))
        {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(invalid()),
        };
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let after_host = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[after_host..].rfind(':') {
            Some(at) => {
                let (host, port) = authority.split_at(after_host + at);
                (host, port[1..].parse().map_err(|_| invalid())?)
            }
            None => (authority, if is_encrypted { 443 } else { 80 }),
        };
        // No control characters or spaces: they could end the request line or the header early.
        if host.is_empty() || url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(invalid());
        }
        Ok(TargetUrl {
            is_encrypted,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }
}

/// Sends a request and checks the response.
async fn request(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    check: &HealthCheck,
    url: &TargetUrl,
) -> Result<u32, CheckFailure> {
    let CheckKind::Url {
        string_match,
        user_agent,
        bytes_limit,
        http_code,
        has_weight,
        ..
    } = &check.kind
    else {
        return Err(CheckFailure::from("not a URL"));
    };
    let agent: String = user_agent.chars().filter(|one| !one.is_control()).collect();
    let port = match (url.is_encrypted, url.port) {
        (true, 443) | (false, 80) => String::new(),
        (_, port) => format!(":{port}"),
    };
    let text = format!(
        "GET {} HTTP/1.1\r\nHost: {}{port}\r\nUser-Agent: {agent}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path, url.host
    );
    stream.write_all(text.as_bytes()).await?;
    let limit = match *bytes_limit {
        0 => RESPONSE_MAX,
        limit => limit.min(RESPONSE_MAX),
    };
    let mut response = Vec::new();
    let mut octets = [0; 8192];
    loop {
        let count = stream.read(&mut octets).await?;
        response.extend_from_slice(&octets[..count]);
        if count == 0 || body(&response).is_some_and(|body| body.is_complete(limit)) {
            break;
        }
        if response.len() > RESPONSE_MAX + 65_536 {
            return Err(CheckFailure::from("the response is too long"));
        }
    }
    weight_of_response(&response, (*http_code, string_match, *has_weight))
}

/// The body of a response as far as it was read.
struct ResponseBody<'r> {
    octets: &'r [u8],
    length: Option<usize>,
}

impl ResponseBody<'_> {
    fn is_complete(&self, limit: usize) -> bool {
        self.octets.len() >= self.length.unwrap_or(usize::MAX).min(limit)
    }
}

/// Finds the body of a response; `None` while the header is incomplete.
fn body(response: &[u8]) -> Option<ResponseBody<'_>> {
    let end = response
        .windows(4)
        .position(|window| window == b"\r\n\r\n")?;
    let header = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
    let mut lines = header.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    Some(ResponseBody {
        octets: &response[end + 4..],
        length,
    })
}

/// Returns the weight of a target with this response.
fn weight_of_response(
    response: &[u8],
    (code, text, has_weight): (u16, &str, bool),
) -> Result<u32, CheckFailure> {
    let body = body(response).ok_or("no HTTP response")?;
    let line = response
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let status = line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1));
    let status: u16 = status
        .and_then(|status| status.parse().ok())
        .ok_or("no HTTP response")?;
    if status != code {
        return Err(CheckFailure(format!("HTTP status {status}, not {code}")));
    }
    let is_found = |text: &[u8]| body.octets.windows(text.len()).any(|window| window == text);
    if !text.is_empty() && !is_found(text.as_bytes()) {
        return Err(CheckFailure(format!(
            "the response does not contain {text:?}"
        )));
    }
    if !has_weight {
        return Ok(1);
    }
    let weight = String::from_utf8_lossy(body.octets);
    let weight: u32 = weight
        .trim()
        .parse()
        .map_err(|_| "the response is not a weight")?;
    Ok(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_what_a_request_needs() {
        let parts = |url: &str| {
            let url = TargetUrl::parse(url)?;
            Ok::<_, CheckFailure>((url.is_encrypted, url.host, url.port, url.path))
        };
        assert_eq!(
            parts("http://a.test"),
            Ok((false, "a.test".into(), 80, "/".into()))
        );
        assert_eq!(
            parts("https://a.test:8443/x?y"),
            Ok((true, "a.test".into(), 8443, "/x?y".into()))
        );
        assert_eq!(
            parts("http://[::1]:81/"),
            Ok((false, "[::1]".into(), 81, "/".into()))
        );
        for bad in [
            "a.test",
            "ftp://a.test",
            "http://",
            "http://a test/",
            "http://a.test/\r\nX: y",
            "http://a:b/",
        ] {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_response_must_have_the_status_and_the_text() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n42\n";
        assert_eq!(weight_of_response(response, (200, "", false)), Ok(1));
        assert_eq!(weight_of_response(response, (200, "42", false)), Ok(1));
        assert_eq!(weight_of_response(response, (200, "", true)), Ok(42));
        assert!(weight_of_response(response, (200, "43", false)).is_err());
        assert!(weight_of_response(response, (204, "", false)).is_err());
        assert!(weight_of_response(b"SSH-2.0\r\n\r\n", (200, "", false)).is_err());
        assert!(body(response).is_some_and(|body| body.is_complete(100)));
        assert!(
            body(b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n42\n")
                .is_some_and(|body| !body.is_complete(100))
        );
    }
}
