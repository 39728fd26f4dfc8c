//! Sends requests of commands to a remote server through its HTTP API (`--server`), with the replies of the control socket.
//!
//! One request is one POST to `/operations`; the reply has the lines of the control socket, so that output and exit codes are the
//! same. The request is HTTP/1.0, so that a proxy sends the reply as it is, without chunks, and closes the connection at its end; a
//! client library would bring a runtime into commands that block on purpose. HTTPS certificates are always verified, with the authorities of the system or those of `--ca-file`. Plain HTTP is for
//! loopback addresses only: the key would be readable on the way.

use std::{
    env, fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use clap::Args;
use nameward_control::operations::{
    ControlRequest, ErrorKind, ListedItem, OperationError, OperationResult, Outcome, ReplyLine,
};
use nameward_sql::authorities::{SYSTEM_AUTHORITIES, read_authorities};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, StreamOwned, crypto::aws_lc_rs::default_provider,
    pki_types::ServerName,
};

use crate::command_error::{CommandError, CommandResult};

/// The endpoint for requests of the control socket.
const PATH: &str = "/api/v1/servers/localhost/operations";
/// Timeout for connecting, and for each read of a reply: a reload reads every changed zone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REPLY_TIMEOUT: Duration = Duration::from_secs(3600);
/// Maximum size of a key file, of a line of the head, and of a line of the reply, in octets.
const KEY_MAX: u64 = 4096;
const HEAD_LINE_MAX: u64 = 16 << 10;
const HEAD_LINES_MAX: usize = 100;
const LINE_MAX: u64 = 16 << 20;

/// The arguments that select a remote server.
#[derive(Args)]
pub struct ApiTargetArguments {
    /// Run the command on a remote server, through its HTTP API: https://HOST[:PORT] [env: NAMEWARD_SERVER]
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// API key for --server; visible in the process list, unlike --api-key-file [env: NAMEWARD_API_KEY]
    #[arg(long, global = true, value_name = "KEY")]
    api_key: Option<String>,
    /// File with the API key for --server
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "api_key")]
    api_key_file: Option<PathBuf>,
    /// PEM file with the CAs that verify the certificate of --server [default: those of the system] [env:
    /// NAMEWARD_CA_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// A remote server.
struct ApiTarget {
    host: String,
    port: u16,
    has_tls: bool,
    key: String,
    authorities: PathBuf,
}

impl fmt::Display for ApiTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// The server of this process, from its command line.
static SERVER: OnceLock<ApiTarget> = OnceLock::new();

/// Sets the server that the commands of this process are for.
pub fn select(arguments: ApiTargetArguments) -> Outcome<()> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let Some(url) = arguments.server.or_else(|| variable("NAMEWARD_SERVER")) else {
        return Ok(());
    };
    let (has_tls, host, port) = parse_url(&url).ok_or_else(|| {
        OperationError::invalid(format!(
            "--server: expected https://HOST[:PORT], found {url:?}"
        ))
    })?;
    let is_loopback =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !has_tls && !is_loopback {
        return Err(OperationError::invalid(
            "--server: http sends the API key in the clear and is for loopback addresses only: use https",
        ));
    }
    let key = match &arguments.api_key_file {
        Some(path) => read_key(path)?,
        None => {
            let key = arguments.api_key.or_else(|| variable("NAMEWARD_API_KEY"));
            key.ok_or_else(|| {
                OperationError::invalid(
                    "--server needs an API key: NAMEWARD_API_KEY or --api-key-file",
                )
            })?
        }
    };
    if key.is_empty() || !key.bytes().all(|octet| (b'!'..=b'~').contains(&octet)) {
        return Err(OperationError::invalid(
            "the API key must be printable ASCII without spaces",
        ));
    }
    let _ = SERVER.set(ApiTarget {
        host,
        port,
        has_tls,
        key,
        authorities: arguments
            .ca_file
            .or_else(|| variable("NAMEWARD_CA_FILE").map(PathBuf::from))
            .unwrap_or_else(|| SYSTEM_AUTHORITIES.into()),
    });
    Ok(())
}

/// Returns whether commands are for a remote server.
pub fn is_selected() -> bool {
    SERVER.get().is_some()
}

fn read_key(path: &Path) -> Outcome<String> {
    let mut text = String::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(KEY_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(OperationError::invalid(format!(
            "--api-key-file {}: {error}",
            path.display()
        ))),
    }
}

fn parse_url(url: &str) -> Option<(bool, String, u16)> {
    let (has_tls, rest) = match url.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, url.strip_prefix("http://")?),
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').map_or(Some(""), Some)?)
        }
        None => rest.split_once(':').unwrap_or((rest, "")),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || !host.chars().all(is_name) {
        return None;
    }
    let port = match port {
        "" if has_tls => 443,
        "" => 80,
        port => port.parse().ok()?,
    };
    Some((has_tls, host.to_owned(), port))
}

/// Sends a request to the selected server, passes the items of a listing on and returns the result.
pub fn send(
    request: &ControlRequest,
    each: &mut dyn FnMut(ListedItem),
) -> CommandResult<OperationResult> {
    let Some(server) = SERVER.get() else {
        return Err(CommandError::Interrupted);
    };
    let broken = |error: io::Error| {
        let text = format!("{server}: no response: {error}");
        CommandError::Operation(OperationError::new(ErrorKind::NotRunning, text))
    };
    let mut reader = BufReader::new(server.connect().map_err(|error| {
        let text = format!("cannot connect to {server}: {error}");
        CommandError::Operation(OperationError::new(ErrorKind::NotRunning, text))
    })?);
    server.send(reader.get_mut(), request).map_err(broken)?;
    let status = read_head(&mut reader).map_err(broken)?;
    if status != 200 {
        return Err(server.refusal(status).into());
    }
    loop {
        let mut line = Vec::new();
        let mut limited = reader.by_ref().take(LINE_MAX);
        limited.read_until(b'\n', &mut line).map_err(broken)?;
        if !line.ends_with(b"\n") {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let line = serde_json::from_slice(&line).map_err(|error| broken(error.into()))?;
        match line {
            ReplyLine::Item(item) => each(item),
            ReplyLine::Done(result) => return Ok(result),
            ReplyLine::Failed(error) => return Err(error.into()),
        }
    }
}

trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// Says what to do about a certificate that operators often make and that no client accepts: `openssl req -x509` makes one of an
/// authority by default.
fn explained(error: io::Error, authorities: &Path) -> io::Error {
    let text = error.to_string();
    if text.contains("CaUsedAsEndEntity") {
        io::Error::other(
            "the server's own certificate is that of an authority (CA:TRUE): make one for the server with `openssl req -x509 \
             -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:HOST ...`, or sign one with that authority",
        )
    } else if text.contains("UnknownIssuer") {
        io::Error::other(format!(
            "the server's certificate is not signed by an authority in {}: use --ca-file",
            authorities.display()
        ))
    } else {
        error
    }
}

impl ApiTarget {
    fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
                    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
                    return if self.has_tls {
                        Ok(Box::new(self.secure(stream)?))
                    } else {
                        Ok(Box::new(stream))
                    };
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn secure(&self, stream: TcpStream) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let other = |error: &dyn fmt::Display| io::Error::other(error.to_string());
        let path = &self.authorities;
        let roots = read_authorities(path)
            .map_err(|error| other(&format_args!("{}: {error}", path.display())))?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| other(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).map_err(|error| other(&error))?;
        let connection =
            ClientConnection::new(Arc::new(config), name).map_err(|error| other(&error))?;
        let mut stream = StreamOwned::new(connection, stream);
        // The handshake, so that an untrusted certificate is an error of connecting.
        stream.flush().map_err(|error| explained(error, path))?;
        Ok(stream)
    }

    fn send(&self, stream: &mut dyn Connection, request: &ControlRequest) -> io::Result<()> {
        let body = serde_json::to_vec(request)?;
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        let head = format!(
            "POST {PATH} HTTP/1.0\r\nHost: {host}\r\nX-API-Key: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&body)?;
        stream.flush()
    }

    fn refusal(&self, status: u16) -> OperationError {
        let (kind, reason) = match status {
            401 => (ErrorKind::Forbidden, "the API key is wrong or has expired"),
            404 => (
                ErrorKind::Refused,
                "the server has no API for commands: it runs another version",
            ),
            413 => (ErrorKind::Refused, "the request is too large"),
            429 => (
                ErrorKind::Forbidden,
                "too many wrong API keys: try again later",
            ),
            503 => (ErrorKind::Refused, "the server is busy: try again"),
            _ => (ErrorKind::Internal, "unexpected reply"),
        };
        OperationError::new(kind, format!("{self}: {reason} (status {status})"))
    }
}

/// Reads the head of a reply and returns its status.
fn read_head(reader: &mut impl BufRead) -> io::Result<u16> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut status = None;
    for _ in 0..HEAD_LINES_MAX {
        let mut line = Vec::new();
        reader
            .by_ref()
            .take(HEAD_LINE_MAX)
            .read_until(b'\n', &mut line)?;
        let line = String::from_utf8_lossy(&line);
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            return status.ok_or_else(invalid);
        }
        if status.is_none() {
            let mut words = line.split(' ');
            let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
            let number = words.next().and_then(|word| word.trim().parse().ok());
            status = Some(number.filter(|_| is_http).ok_or_else(invalid)?);
        }
    }
    Err(invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_are_parsed() {
        for (url, expected) in [
            ("https://ns1.example", Some((true, "ns1.example", 443))),
            (
                "https://ns1.example:8443/",
                Some((true, "ns1.example", 8443)),
            ),
            (
                "https://[2001:db8::1]:8443",
                Some((true, "2001:db8::1", 8443)),
            ),
            ("https://[::1]", Some((true, "::1", 443))),
            ("http://127.0.0.1:8082", Some((false, "127.0.0.1", 8082))),
            ("ns1.example", None),
            ("ftp://ns1.example", None),
            ("https://", None),
            ("https://a b", None),
            ("https://a:b", None),
            ("https://user@host", None),
        ] {
            let expected = expected.map(|(tls, host, port)| (tls, host.to_owned(), port));
            assert_eq!(parse_url(url), expected, "{url}");
        }
    }

    #[test]
    fn heads_of_replies_are_read_within_limits() {
        let read = |text: &str| read_head(&mut BufReader::new(text.as_bytes()));
        assert_eq!(read("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody").unwrap(), 200);
        for text in [
            "",
            "\r\n",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 x\r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(1000));
        assert!(read(&endless).is_err());
    }
}
