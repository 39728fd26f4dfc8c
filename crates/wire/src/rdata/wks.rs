//! WKS: well-known services (RFC 1035 section 3.4.2). The address is followed by the protocol
//! number and a bitmap of ports.

use super::RdataError;
use super::digits::decimal;
use super::words::Words;
use crate::text::TextError;
use core::fmt;

/// One bit for each of 65536 ports.
const MAX_BITMAP: usize = 8192;

/// IANA, Protocol Numbers.
const PROTOCOLS: &[(u8, &str)] = &[(1, "icmp"), (2, "igmp"), (6, "tcp"), (17, "udp")];

/// IANA, Service Names: the ones used in RFC 1010 and old zone files.
const SERVICES: &[(u16, &str)] = &[
    (5, "rje"),
    (7, "echo"),
    (9, "discard"),
    (11, "systat"),
    (11, "users"),
    (13, "daytime"),
    (15, "netstat"),
    (17, "qotd"),
    (17, "quote"),
    (19, "chargen"),
    (20, "ftp-data"),
    (21, "ftp"),
    (22, "ssh"),
    (23, "telnet"),
    (25, "smtp"),
    (37, "time"),
    (39, "rlp"),
    (42, "nameserver"),
    (43, "nicname"),
    (43, "whois"),
    (53, "domain"),
    (67, "bootps"),
    (68, "bootpc"),
    (69, "tftp"),
    (70, "gopher"),
    (79, "finger"),
    (80, "http"),
    (80, "www"),
    (88, "kerberos"),
    (95, "supdup"),
    (101, "hostname"),
    (101, "hostnames"),
    (109, "pop2"),
    (110, "pop3"),
    (111, "sunrpc"),
    (113, "auth"),
    (115, "sftp"),
    (117, "uucp-path"),
    (119, "nntp"),
    (123, "ntp"),
    (137, "netbios-ns"),
    (138, "netbios-dgm"),
    (139, "netbios-ssn"),
    (143, "imap"),
    (161, "snmp"),
    (162, "snmptrap"),
    (179, "bgp"),
    (194, "irc"),
    (389, "ldap"),
    (443, "https"),
    (512, "exec"),
    (513, "login"),
    (514, "shell"),
    (515, "printer"),
    (540, "uucp"),
];

/// Checks protocol and bitmap. A trailing zero octet has no meaning and would be lost in text.
pub(super) fn check(data: &[u8]) -> Result<(), RdataError> {
    match data {
        [] => Err(RdataError::Short),
        [_, bitmap @ ..] if bitmap.len() > MAX_BITMAP => Err(RdataError::Trailing),
        [_, .., 0] => Err(RdataError::Value("a port bitmap that ends in zero")),
        _ => Ok(()),
    }
}

/// Reads the protocol and any number of ports or services.
pub(super) fn parse(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let what = "a protocol, as tcp, udp or a number up to 255";
    let word = words.expect(what)?;
    let protocol = named(PROTOCOLS, word.text)
        .or_else(|| decimal(word.text, 255).map(|number| number as u8))
        .ok_or_else(|| word.error(what))?;
    out.push(protocol);
    let bitmap = out.len();
    while let Some(word) = words.next()? {
        let port = named(SERVICES, word.text)
            .or_else(|| decimal(word.text, 65_535).map(|number| number as u16))
            .ok_or_else(|| word.error("a port up to 65535 or a service's name"))?;
        let octet = bitmap + port as usize / 8;
        if out.len() <= octet {
            out.resize(octet + 1, 0);
        }
        out[octet] |= 0x80 >> (port % 8);
    }
    Ok(())
}

fn named<T: Copy>(names: &[(T, &str)], text: &[u8]) -> Option<T> {
    names
        .iter()
        .find(|(_, name)| text.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(number, _)| *number)
}

/// Writes protocol and ports as numbers.
pub(super) fn print(data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let [protocol, bitmap @ ..] = data else {
        return Err(fmt::Error);
    };
    write!(out, "{protocol}")?;
    for port in super::bitmap::types_of(bitmap) {
        write!(out, " {port}")?;
    }
    Ok(())
}
