//! A line of the query log, for people, for programs, or for the journal.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use nameward_base::calendar::UtcTime;
use nameward_wire::{Name, Type, rcode_name};

use super::LoggedAnswer;

/// The format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryLogFormat {
    /// For people: the time, then names and values.
    Text,
    /// One JSON object per line.
    Json,
    /// Like text, without the time and with the level prefix of sd-daemon(3).
    Journal,
}

impl QueryLogFormat {
    /// Appends the line for a response.
    pub(super) fn write(self, answer: &LoggedAnswer, line: &mut String) {
        let LoggedAnswer {
            client,
            rtype,
            octets,
            ..
        } = answer;
        // The sink accepts valid names only.
        let name = Name::from_wire(&answer.name).unwrap_or(Name::ROOT);
        let name = name.verbatim();
        let (rtype, protocol) = (Type(*rtype), answer.protocol.name());
        let rcode = rcode_name((answer.flags & 15) as u8);
        let is_truncated = answer.flags & 0x0200 != 0;
        let (address, port) = (client.ip(), client.port());
        match self {
            QueryLogFormat::Json => {
                let time = Timestamp(answer.at);
                // In presentation format only quotes and backslashes need escaping for JSON; everything else is
                // escaped already.
                let name = name.to_string().replace('\\', "\\\\").replace('"', "\\\"");
                let subnet = answer.subnet.map_or_else(String::new, |subnet| {
                    let scope = subnet.scope();
                    format!(",\"client_subnet\":\"{subnet}\",\"scope\":{scope}")
                });
                let view = answer.view.as_ref();
                let view = view.map_or_else(String::new, |view| format!(",\"view\":\"{view}\""));
                let _ = writeln!(
                    line,
                    "{{\"time\":\"{time}\",\"event\":\"query\",\"client\":\"{address}\",\"port\":{port},\
                     \"transport\":\"{protocol}\",\"name\":\"{name}\",\"type\":\"{rtype}\",\"rcode\":\"{rcode}\",\
                     \"octets\":{octets},\"truncated\":{is_truncated}{view}{subnet}}}"
                );
            }
            QueryLogFormat::Text | QueryLogFormat::Journal => {
                let _ = match self {
                    QueryLogFormat::Journal => line.write_str("<6>"),
                    _ => write!(line, "{} ", Timestamp(answer.at)),
                };
                let tc = if is_truncated { " TC" } else { "" };
                let subnet = answer.subnet.map_or_else(String::new, |subnet| {
                    format!(" for {subnet} scope {}", subnet.scope())
                });
                let view = answer.view.as_ref();
                let view = view.map_or_else(String::new, |view| format!(" in view {view}"));
                let _ = writeln!(
                    line,
                    "query {name} {rtype} from {address} port {port}{view}{subnet} over {protocol}: {rcode}{tc}, {octets} \
                     octets"
                );
            }
        }
    }
}

/// A time with milliseconds, in RFC 3339 format.
struct Timestamp(SystemTime);

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let text = UtcTime::from_unix(since.as_secs()).to_string();
        write!(
            f,
            "{}.{:03}Z",
            text.trim_end_matches('Z'),
            since.subsec_millis()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_stats::Protocol;
    use nameward_wire::NameBuf;
    use nameward_wire::message::ClientSubnet;
    use std::time::Duration;

    fn line(format: QueryLogFormat, name: &str) -> String {
        line_for(format, name, None)
    }

    fn line_for(format: QueryLogFormat, name: &str, subnet: Option<ClientSubnet>) -> String {
        let name: NameBuf = name.parse().unwrap();
        let answer = LoggedAnswer {
            at: UNIX_EPOCH + Duration::from_millis(951_782_400_007),
            client: "[2001:db8::1]:53000".parse().unwrap(),
            protocol: Protocol::Udp,
            name: name.as_name().as_wire().into(),
            rtype: 28,
            flags: 0x8703,
            octets: 77,
            view: subnet.map(|_| "internal".into()),
            subnet,
        };
        let mut line = String::new();
        format.write(&answer, &mut line);
        line
    }

    #[test]
    fn lines_have_the_requested_format() {
        let text =
            "query WWW.a.test. AAAA from 2001:db8::1 port 53000 over udp: NXDOMAIN TC, 77 octets\n";
        let written = line(QueryLogFormat::Text, "WWW.a.test.");
        assert_eq!(written, format!("2000-02-29T00:00:00.007Z {text}"));
        assert_eq!(
            line(QueryLogFormat::Journal, "WWW.a.test."),
            format!("<6>{text}")
        );
        let json = line(QueryLogFormat::Json, "a\\\"b\\010.test.");
        assert_eq!(
            json,
            "{\"time\":\"2000-02-29T00:00:00.007Z\",\"event\":\"query\",\"client\":\"2001:db8::1\",\"port\":53000,\
             \"transport\":\"udp\",\"name\":\"a\\\\\\\"b\\\\010.test.\",\"type\":\"AAAA\",\"rcode\":\"NXDOMAIN\",\
             \"octets\":77,\"truncated\":true}\n"
        );
    }

    #[test]
    fn lines_name_the_view_and_the_client_subnet() {
        let mut subnet = ClientSubnet::parse(&[0, 1, 24, 0, 192, 0, 2]).unwrap();
        subnet.lengthen_scope(16);
        let text = line_for(QueryLogFormat::Journal, "a.test.", Some(subnet));
        let client =
            "from 2001:db8::1 port 53000 in view internal for 192.0.2.0/24 scope 16 over udp";
        assert!(text.contains(client), "{text}");
        let json = line_for(QueryLogFormat::Json, "a.test.", Some(subnet));
        let end = ",\"truncated\":true,\"view\":\"internal\",\"client_subnet\":\"192.0.2.0/24\",\"scope\":16}\n";
        assert!(json.ends_with(end), "{json}");
    }
}
