//! Failures of connections to other servers, worded for the log: what is wrong with the certificate, not which
//! function of the TLS library noticed.

use std::io;
use std::path::PathBuf;

use nameward_base::calendar::UtcTime;
use nameward_maintain::policy::{PeerTls, RemoteServer};
use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectFailure {
    #[error("the connection timed out")]
    TimedOut,
    #[error("cannot connect: {0}")]
    Network(#[from] io::Error),
    /// No encrypted connection.
    #[error("{0}")]
    Tls(#[from] TlsFailure),
}

/// Why there is no encrypted connection to a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsFailure {
    #[error("cannot use {0} {path}: {2}", path = .1.display())]
    File(&'static str, PathBuf, String),
    /// The certificate was rejected.
    #[error("{0}")]
    Certificate(String),
    #[error("TLS handshake failed: {0}")]
    Handshake(String),
    #[error(
        "the server selects no ALPN protocol (RFC 9103 requires \"dot\"); set tls_alpn = \"optional\" to accept this"
    )]
    NoAlpn,
}

/// Explains why a handshake failed.
pub(super) fn explain(error: &io::Error, tls: &PeerTls) -> TlsFailure {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(Error::InvalidCertificate(error)) => {
            TlsFailure::Certificate(certificate_text(error, tls))
        }
        Some(Error::AlertReceived(alert)) => TlsFailure::Handshake(alert_text(*alert)),
        Some(Error::InvalidMessage(_)) => {
            TlsFailure::Handshake("the server does not speak TLS on this port".into())
        }
        Some(other) => TlsFailure::Handshake(other.to_string()),
        None if error.kind() == io::ErrorKind::UnexpectedEof => TlsFailure::Handshake(
            "the server closed the connection; check that it speaks TLS on this port".into(),
        ),
        None => TlsFailure::Handshake(error.to_string()),
    }
}

fn certificate_text(error: &CertificateError, tls: &PeerTls) -> String {
    let date = |time: &UnixTime| UtcTime::from_unix(time.as_secs());
    match error {
        CertificateError::Expired => "certificate expired".into(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("certificate expired on {}", date(not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("certificate is not valid before {}", date(not_before))
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let presented = match &presented[..] {
                [] => "no name".into(),
                names => names
                    .iter()
                    .map(|name| bare(name))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            format!(
                "certificate is for {presented}, not for {}",
                name_text(expected)
            )
        }
        CertificateError::UnknownIssuer => format!(
            "certificate was not issued by an authority in {}",
            tls.authorities_path().display()
        ),
        CertificateError::Other(other) => format!("certificate rejected: {other}"),
        other => format!("certificate rejected: {other:?}"),
    }
}

/// Strips the library's notation from a certificate name: `DnsName("a.example")`,
/// `IpAddress(192.0.2.1)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner);
    inner.trim_end_matches(')').trim_matches('"')
}

/// Returns why a server ended an encrypted connection, if it sent an alert: with TLS 1.3 it rejects
/// a client certificate, or its absence, after the handshake is complete for the client.
pub(super) fn refusal(error: &io::Error) -> Option<String> {
    let cause = error.get_ref()?;
    if let Some(Error::AlertReceived(alert)) = cause.downcast_ref() {
        return Some(alert_text(*alert));
    }
    match cause.downcast_ref()? {
        quinn::ReadError::ConnectionLost(lost) => closed_by_alert(lost),
        _ => None,
    }
}

/// Returns the alert with which a server closed a QUIC connection, as text.
pub(super) fn closed_by_alert(lost: &quinn::ConnectionError) -> Option<String> {
    match lost {
        quinn::ConnectionError::ConnectionClosed(frame) => alert_code(frame.error_code),
        _ => None,
    }
    .map(|code| alert_text(AlertDescription::from(code)))
}

/// Returns the TLS alert of a QUIC error code (RFC 9001 section 4.8).
pub(super) fn alert_code(code: quinn::TransportErrorCode) -> Option<u8> {
    let code = u64::from(code);
    (0x100..0x200).contains(&code).then_some(code as u8)
}

/// Describes the loss of an encrypted connection that the server closed without a reason.
pub(super) fn explain_loss(error: io::Error, server: &RemoteServer) -> io::Error {
    if server.tls.is_none() {
        return error;
    }
    if error.get_ref().is_some_and(|cause| cause.is::<Error>())
        || error.kind() != io::ErrorKind::UnexpectedEof
    {
        return error;
    }
    let text = if server.lacks_identity() {
        "closed by the server; it may require a client certificate (tls_certificate)"
    } else {
        "closed by the server"
    };
    io::Error::new(error.kind(), text)
}

fn name_text(name: &ServerName<'_>) -> String {
    match name {
        ServerName::IpAddress(address) => std::net::IpAddr::from(*address).to_string(),
        name => name.to_str().into_owned(),
    }
}

fn alert_text(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "the server requires a client certificate; set tls_certificate and tls_key".into()
        }
        AlertDescription::ProtocolVersion => "the server does not support TLS 1.3".into(),
        AlertDescription::NoApplicationProtocol => {
            "the server does not support DNS over TLS (ALPN \"dot\")".into()
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired => {
            format!("the server rejected the client certificate: {alert:?}")
        }
        other => format!("the server sent the alert {other:?}"),
    }
}
