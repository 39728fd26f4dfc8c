//! TLS for database connections: whether a URL requests it, which authorities to trust, and the connector for
//! PostgreSQL.
//!
//! `sslmode=require` (or `verify-ca`, `verify-full`) in a URL requests it. The server certificate is always verified,
//! including its name: encryption to an unknown server does not protect against an attacker who can modify the traffic.
//! `sslrootcert=FILE` names the trusted authorities, in PEM; by default those of the system are used. `sslcert=FILE` and
//! `sslkey=FILE` are the certificate and the key that this client shows.

use super::error::SqlError;
use crate::authorities::{SYSTEM_AUTHORITIES, read_authorities};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Inner;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// The TLS settings in a URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TlsUrlSettings {
    /// The URL without them.
    pub(crate) url: String,
    /// The authorities to trust, if TLS is requested.
    pub(crate) authorities: Option<PathBuf>,
    /// The client's certificate, if TLS is requested.
    pub(crate) identity: Option<ClientFiles>,
}

/// The files that identify a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl TlsUrlSettings {
    /// Extracts `sslmode`, `sslrootcert`, `sslcert` and `sslkey` from a URL.
    pub(crate) fn read(url: &str) -> Result<Self, SqlError> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut others, mut is_wanted, mut authorities) = (Vec::new(), false, None);
        let (mut certificate, mut key) = (None, None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", mode)) => {
                    is_wanted = match mode {
                        "disable" | "allow" | "prefer" => false,
                        "require" | "verify-ca" | "verify-full" => true,
                        other => {
                            return Err(SqlError::Address(format!(
                                "expected sslmode=disable or sslmode=require, found {other:?}"
                            )));
                        }
                    }
                }
                Some(("sslrootcert", path)) => authorities = Some(PathBuf::from(path)),
                Some(("sslcert", path)) => certificate = Some(PathBuf::from(path)),
                Some(("sslkey", path)) => key = Some(PathBuf::from(path)),
                _ => others.push(parameter),
            }
        }
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(ClientFiles { certificate, key }),
            (None, None) => None,
            _ => {
                let text = "expected both sslcert and sslkey, or neither";
                return Err(SqlError::Address(text.into()));
            }
        };
        if identity.is_some() && !is_wanted {
            let text = "sslcert and sslkey need sslmode=require";
            return Err(SqlError::Address(text.into()));
        }
        let mark = if others.is_empty() { "" } else { "?" };
        Ok(TlsUrlSettings {
            url: format!("{place}{mark}{}", others.join("&")),
            authorities: is_wanted
                .then(|| authorities.unwrap_or_else(|| SYSTEM_AUTHORITIES.into())),
            identity,
        })
    }
}

/// Makes TLS connections to PostgreSQL; `None` only if TLS is not requested.
#[derive(Clone)]
pub(crate) struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    pub(crate) fn new(
        authorities: Option<&Path>,
        identity: Option<&ClientFiles>,
    ) -> Result<Self, SqlError> {
        let Some(path) = authorities else {
            return Ok(Tls(None));
        };
        let roots = read_authorities(path).map_err(|error| unusable(path, &error))?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(path, &error))?
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(files) => {
                let (chain, key) = files.read()?;
                config
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| unusable(&files.certificate, &error))?
            }
        };
        Ok(Tls(Some(Arc::new(config))))
    }
}

impl ClientFiles {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), SqlError> {
        let certificates = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unusable(&self.certificate, &error))?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| unusable(&self.key, &error))?;
        Ok((certificates, key))
    }
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> SqlError {
    SqlError::Address(format!("{}: {error}", path.display()))
}

/// The connector for one connection to a host.
pub(crate) struct Connector {
    config: Option<Arc<ClientConfig>>,
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Connector;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connector> {
        // Also called for plain connections, which never use it.
        Ok(Connector {
            config: self.0.clone(),
            host: host.into(),
        })
    }
}

type Connecting<S> = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connector {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Connecting<S>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let config = self.config;
            let config = config.ok_or_else(|| io::Error::other("TLS is not configured"))?;
            let host = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let stream = TlsConnector::from(config).connect(host, stream).await?;
            Ok(Encrypted(stream))
        })
    }
}

pub(crate) struct Encrypted<S>(Inner<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate is verified; SCRAM works without channel binding.
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whether_to_encrypt_and_whom_to_trust() {
        let read = |url: &str| TlsUrlSettings::read(url).unwrap();
        let plain = TlsUrlSettings {
            url: "postgres://u@h/d".into(),
            authorities: None,
            identity: None,
        };
        assert_eq!(read("postgres://u@h/d"), plain);
        assert_eq!(read("postgres://u@h/d?sslmode=prefer"), plain);
        assert_eq!(
            read("postgres://u@h/d?sslmode=require").authorities,
            Some(SYSTEM_AUTHORITIES.into())
        );
        let all = read("mysql://u@h/d?a=1&sslmode=verify-full&sslrootcert=/ca.pem&b=2");
        assert_eq!(all.url, "mysql://u@h/d?a=1&b=2");
        assert_eq!(all.authorities, Some("/ca.pem".into()));
        assert!(TlsUrlSettings::read("postgres://u@h/d?sslmode=yes").is_err());
        let files = read("mysql://u@h/d?sslmode=require&sslcert=/c.pem&sslkey=/k.pem").identity;
        let expected = ClientFiles {
            certificate: "/c.pem".into(),
            key: "/k.pem".into(),
        };
        assert_eq!(files, Some(expected));
        for bad in [
            "sslmode=require&sslcert=/c.pem",
            "sslcert=/c.pem&sslkey=/k.pem",
        ] {
            assert!(
                TlsUrlSettings::read(&format!("mysql://u@h/d?{bad}")).is_err(),
                "{bad}"
            );
        }
    }
}
