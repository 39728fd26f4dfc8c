//! The lines on stdout that show a person (and a test) where the server listens.

use nameward_base::text::{counted, listed};
use std::{
    fmt::Write as _,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::ports::Ports;
use crate::config::Config;

/// Prints the listen addresses, each with its transports.
pub fn started(ports: &Ports, config: &Config, has_tls: bool) {
    let mut text = concat!("Nameward ", env!("CARGO_PKG_VERSION"), "\n").to_string();
    for listener in ports.plain_listeners(config) {
        let (address, transports) = (listener.address, listed(listener.transports));
        let _ = writeln!(text, "listening on {address} ({transports})");
    }
    for (transport, address) in ports.encrypted.addresses() {
        let _ = writeln!(text, "DNS over {transport} on {address}");
    }
    if let Some(address) = ports.web_address() {
        let _ = writeln!(text, "web page at http://{address}/");
    }
    if let Some(address) = ports.api_address(config) {
        let scheme = if has_tls { "https" } else { "http" };
        let _ = writeln!(text, "API at {scheme}://{address}/api/v1");
    }
    print(&text);
}

/// Prints that the zones are loaded; `question` is an example query.
pub fn ready(zones: usize, addresses: &[SocketAddr], question: Option<&str>) {
    let mut text = format!("ready: {}\n", counted(zones, "zone"));
    if let (Some(address), Some(question)) = (addresses.first(), question) {
        let _ = writeln!(text, "try: {}", dig(*address, question));
    }
    print(&text);
}

/// Returns a command line that queries this server.
fn dig(address: SocketAddr, question: &str) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    match address.port() {
        53 => format!("dig @{host} {question}"),
        port => format!("dig @{host} -p {port} {question}"),
    }
}

/// Prints to stdout, ignoring errors: a closed stdout is not a reason to stop.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_to_try_names_a_host_that_answers() {
        let line = |address: &str| dig(address.parse().unwrap(), "a.example A");
        assert_eq!(line("127.0.0.1:5300"), "dig @127.0.0.1 -p 5300 a.example A");
        assert_eq!(line("0.0.0.0:53"), "dig @127.0.0.1 a.example A");
        assert_eq!(line("[::]:53"), "dig @::1 a.example A");
    }
}
