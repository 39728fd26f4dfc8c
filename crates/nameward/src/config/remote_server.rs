//! Servers in `primaries` and `also_notify`: address, TSIG key, and how connections to them are encrypted.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::BASE64;
use nameward_maintain::policy::{
    AlpnRule, ClientIdentity, PeerAuthentication, PeerTls, PeerTransport, RemoteServer,
};
use nameward_zone::SpkiPin;
use tokio_rustls::rustls::pki_types::ServerName;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    read::{Read, Wrong, keywords, parse, read_text},
    zone_values::{inline_table, name, setting},
};

/// The default port of a server.
const PORT: u16 = 53;
/// The default port of a server with TLS settings (RFC 7858).
const TLS_PORT: u16 = 853;
/// Maximum number of pins: the current key and its successors.
const PINS_MAX: usize = 16;

const KEYS: [&str; 11] = [
    "address",
    "key",
    "source",
    "quic",
    "tls",
    "tls_name",
    "tls_ca",
    "tls_pin",
    "tls_certificate",
    "tls_key",
    "tls_alpn",
];

keywords! {
    PeerAuthentication {
        "strict" => PeerAuthentication::Strict,
        "opportunistic" => PeerAuthentication::Opportunistic,
    }
}

keywords! {
    AlpnRule {
        "required" => AlpnRule::Required,
        "optional" => AlpnRule::Optional,
    }
}

impl Read for RemoteServer {
    const LIST: &'static str = "a list of servers such as { address = \"192.0.2.1:53\" }";

    fn expected() -> String {
        r#"a server such as { address = "192.0.2.1:53", key = "transfer.example." }"#.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let table = inline_table(value, &Self::expected(), &KEYS)?;
        let address = table.get("address");
        let address = address.ok_or_else(|| Wrong::new(value, "a server needs an address"))?;
        let tls = read_tls(table, value, base)?;
        let port = if tls.is_some() { TLS_PORT } else { PORT };
        Ok(Self {
            address: server_address(address, port)?,
            key: table.get("key").map(|key| name(key, base)).transpose()?,
            source: table.get("source").map(source_address).transpose()?,
            tls: tls.map(Arc::new),
        })
    }
}

fn read_tls(
    table: &DeTable<'_>,
    value: &Spanned<DeValue<'_>>,
    base: &Path,
) -> Result<Option<PeerTls>, Wrong> {
    let wrong = |message: &str| Wrong::new(value, message);
    let Some(mode) = table.get("tls") else {
        let mut others = table.iter().map(|(key, _)| key.get_ref());
        return match others.find(|key| key.starts_with("tls_") || **key == "quic") {
            // Otherwise the server would be contacted in plain text.
            Some(key) => Err(wrong(&format!(
                "{key} needs tls = \"strict\" or tls = \"opportunistic\""
            ))),
            None => Ok(None),
        };
    };
    let authentication = PeerAuthentication::read(mode, base)?;
    let alpn = setting(table, "tls_alpn", base);
    let path = |key| setting::<Option<PathBuf>>(table, key, base).map(Option::flatten);
    let identity = match (path("tls_certificate")?, path("tls_key")?) {
        (Some(certificate), Some(key)) => Some(ClientIdentity { certificate, key }),
        (None, None) => None,
        _ => return Err(wrong("tls_certificate and tls_key are set together")),
    };
    let tls = PeerTls {
        transport: if setting(table, "quic", base)?.unwrap_or(false) {
            PeerTransport::Quic
        } else {
            PeerTransport::Tls
        },
        authentication,
        name: table.get("tls_name").map(host_name).transpose()?,
        authorities: path("tls_ca")?,
        pins: table
            .get("tls_pin")
            .map(pins)
            .transpose()?
            .unwrap_or_default(),
        identity,
        alpn: alpn?.unwrap_or(AlpnRule::Required),
    };
    let has_credentials = tls.name.is_some() || tls.authorities.is_some() || !tls.pins.is_empty();
    match tls.authentication {
        // The authorities of the system issue certificates for addresses to anyone who controls one.
        PeerAuthentication::Strict if !has_credentials => Err(wrong(
            "tls = \"strict\" needs tls_name, tls_pin or tls_ca to verify the server",
        )),
        PeerAuthentication::Opportunistic if has_credentials => Err(wrong(
            "tls = \"opportunistic\" accepts any certificate; tls_name, tls_ca and tls_pin need tls = \"strict\"",
        )),
        _ => Ok(Some(tls)),
    }
}

/// Reads the name of a server: a DNS name or an address, as in a certificate.
fn host_name(value: &Spanned<DeValue<'_>>) -> Result<String, Wrong> {
    let expected = "the name in the server's certificate, such as \"ns1.example.org\"";
    let text = value.get_ref().as_str().unwrap_or_default();
    let name = text.strip_suffix('.').unwrap_or(text);
    match ServerName::try_from(name) {
        Ok(_) => Ok(name.to_ascii_lowercase()),
        Err(_) => Err(Wrong::expected(expected, value)),
    }
}

fn pins(value: &Spanned<DeValue<'_>>) -> Result<Vec<SpkiPin>, Wrong> {
    match value.get_ref().as_array() {
        Some(list) if list.is_empty() || list.len() > PINS_MAX => {
            Err(Wrong::expected(&format!("1 to {PINS_MAX} pins"), value))
        }
        Some(list) => list.iter().map(pin).collect(),
        None => pin(value).map(|pin| vec![pin]),
    }
}

fn pin(value: &Spanned<DeValue<'_>>) -> Result<SpkiPin, Wrong> {
    let expected = "a pin: SHA-256 of a public key (SPKI) in base64, 44 characters";
    read_text(value, expected, read_pin)
}

pub fn read_pin(text: &str) -> Option<SpkiPin> {
    BASE64.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress(pub SocketAddr);

impl Read for RemoteAddress {
    fn expected() -> String {
        SERVER_ADDRESS.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        server_address(value, PORT).map(Self)
    }
}

const SERVER_ADDRESS: &str = "an address such as \"192.0.2.1\" or \"[2001:db8::1]:5300\"";

fn server_address(value: &Spanned<DeValue<'_>>, port: u16) -> Result<SocketAddr, Wrong> {
    let text = value.get_ref().as_str();
    let with_port = text.and_then(|text| text.parse::<SocketAddr>().ok());
    let without = text.and_then(|text| text.parse::<IpAddr>().ok());
    let address = with_port.or_else(|| Some(SocketAddr::new(without?, port)));
    address
        .filter(|address| address.port() != 0 && !address.ip().is_unspecified())
        .ok_or_else(|| Wrong::expected(SERVER_ADDRESS, value))
}

fn source_address(value: &Spanned<DeValue<'_>>) -> Result<IpAddr, Wrong> {
    parse(value, "an address such as \"192.0.2.1\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RemoteServer, Wrong> {
        let text = format!("server = {text}");
        let document = DeTable::parse(&text).unwrap();
        let value = document.get_ref().get("server").unwrap();
        RemoteServer::read(value, Path::new("/etc/nameward"))
    }

    #[test]
    fn tls_settings_are_read_and_never_ignored() {
        let plain = read(r#"{ address = "192.0.2.1" }"#).unwrap();
        assert_eq!(plain, RemoteServer::plain("192.0.2.1:53".parse().unwrap()));
        let pin = BASE64.encode(&[7; 32]);
        let server = read(&format!(
            r#"{{ address = "192.0.2.1", tls = "strict", tls_name = "NS1.example.", tls_ca = "ca.pem", tls_pin = "{pin}",
                tls_certificate = "own.pem", tls_key = "/own.key", tls_alpn = "optional" }}"#
        ))
        .unwrap();
        assert_eq!(server.address, "192.0.2.1:853".parse().unwrap());
        let tls = PeerTls {
            transport: PeerTransport::Tls,
            authentication: PeerAuthentication::Strict,
            name: Some("ns1.example".into()),
            authorities: Some("/etc/nameward/ca.pem".into()),
            pins: vec![[7; 32]],
            identity: Some(ClientIdentity {
                certificate: "/etc/nameward/own.pem".into(),
                key: "/own.key".into(),
            }),
            alpn: AlpnRule::Optional,
        };
        assert_eq!(server.tls.as_deref(), Some(&tls));
        assert_eq!(server.to_string(), "192.0.2.1:853 (TLS)");
        let quic =
            read(r#"{ address = "192.0.2.1", quic = true, tls = "opportunistic" }"#).unwrap();
        assert_eq!(quic.to_string(), "192.0.2.1:853 (QUIC)");
        let any = read(r#"{ address = "192.0.2.1:5853", tls = "opportunistic" }"#).unwrap();
        assert_eq!(any.address.port(), 5853);
        assert!(!any.tls.unwrap().verifies_chain());
        for (settings, message) in [
            ("quic = true", "quic needs tls ="),
            (r#"tls = "yes""#, "expected \"strict\" or \"opportunistic\""),
            (r#"tls_name = "a.example""#, "tls_name needs tls ="),
            (r#"tls = "strict""#, "needs tls_name, tls_pin or tls_ca"),
            (
                r#"tls = "opportunistic", tls_ca = "ca.pem""#,
                "accepts any certificate",
            ),
            (r#"tls = "strict", tls_pin = "abcd""#, "expected a pin"),
            (r#"tls = "strict", tls_pin = []"#, "expected 1 to 16 pins"),
            (r#"tls = "strict", tls_name = "a b""#, "expected the name"),
            (
                r#"tls = "strict", tls_name = "a.example", tls_key = "k""#,
                "tls_certificate and tls_key are set together",
            ),
        ] {
            let error = read(&format!(r#"{{ address = "192.0.2.1", {settings} }}"#)).unwrap_err();
            let error = error.message;
            assert!(error.contains(message), "{settings}: {error}");
        }
    }
}
