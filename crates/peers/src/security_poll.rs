//! Checks periodically by DNS whether this version of the server has known security problems.
//!
//! The query is for the TXT record `auth-<version>.security-status.<suffix>`, and the answer is a digit and a
//! message: 0 unknown, 1 no known problem, 2 upgrade recommended, 3 upgrade mandatory. A failed poll does not revoke
//! a bad status: 2 and 3 stay, 1 becomes unknown. Polling runs in the background and delays nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nameward_stats::{Gauge, Stats};
use nameward_wire::message::{Message, MessageSection};
use nameward_wire::{Name, NameBuf, NameError, Type};

use nameward_serve::recursor::{
    ResolverSettings, Resolvers, Unanswered, UpstreamMessage, UpstreamReply,
};

/// The file with the system's resolvers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The number of resolvers that resolver libraries use (resolv.conf(5)).
const SYSTEM_RESOLVERS_MAX: usize = 3;
/// Timeout for the system's resolvers.
const SYSTEM_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of characters of a message that are shown.
const MESSAGE_MAX: usize = 400;

/// The security status of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecurityStatus {
    /// No status is known.
    #[default]
    Unknown = 0,
    /// No known problem.
    Ok = 1,
    /// There are problems that an upgrade fixes.
    UpgradeRecommended = 2,
    /// There are problems that must be fixed now.
    UpgradeMandatory = 3,
}

impl SecurityStatus {
    fn from_digit(digit: u8) -> Option<Self> {
        Some(match digit {
            b'0' => SecurityStatus::Unknown,
            b'1' => SecurityStatus::Ok,
            b'2' => SecurityStatus::UpgradeRecommended,
            b'3' => SecurityStatus::UpgradeMandatory,
            _ => return None,
        })
    }

    /// Returns the status after a failed poll.
    fn after_failure(self) -> Self {
        match self {
            SecurityStatus::Ok => SecurityStatus::Unknown,
            other => other,
        }
    }
}

/// Why a poll returned no status; shown in place of the response code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollFailure {
    Code(u16),
    NoStatus,
    Unanswered(Unanswered),
}

impl std::fmt::Display for PollFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            PollFailure::Code(1) => "Format Error",
            PollFailure::Code(2) => "Server Failure",
            PollFailure::Code(3) => "Non-Existent domain",
            PollFailure::Code(4) => "Not Implemented",
            PollFailure::Code(5) => "Refused",
            PollFailure::Code(code) => return write!(f, "{code}"),
            PollFailure::NoStatus => "No Error, but there is no status in the answer",
            PollFailure::Unanswered(Unanswered::Timeout) => "Timeout",
            PollFailure::Unanswered(Unanswered::Failed) => "Unreachable",
        };
        f.write_str(text)
    }
}

/// Settings for the poll.
pub struct PollSettings {
    /// The version to check.
    pub version: &'static str,
    /// The domain below which the status is published.
    pub suffix: String,
    /// Time between two polls.
    pub interval: Duration,
}

impl PollSettings {
    /// Returns the name to query.
    pub fn name(&self) -> Result<NameBuf, NameError> {
        let suffix = self.suffix.trim_matches('.');
        let text = format!("auth-{}.security-status.{suffix}.", self.version);
        NameBuf::from_text(text.as_bytes(), Name::ROOT)
    }
}

/// Polls the security status of this version.
pub struct SecurityPoller {
    version: &'static str,
    name: NameBuf,
    interval: Duration,
    /// The configured resolvers; without any, the system's are used.
    resolvers: Option<Arc<Resolvers>>,
    stats: Arc<Stats>,
    status: SecurityStatus,
}

impl SecurityPoller {
    /// Creates a poller; fails if the suffix is not a valid name.
    pub fn new(
        settings: PollSettings,
        resolvers: Option<Arc<Resolvers>>,
        stats: Arc<Stats>,
    ) -> Result<Self, NameError> {
        Ok(SecurityPoller {
            version: settings.version,
            name: settings.name()?,
            interval: settings.interval,
            resolvers,
            stats,
            status: SecurityStatus::default(),
        })
    }

    /// Takes over the status of the previous poller if it queried the same name.
    pub fn inherit(&mut self, before: &SecurityPoller) {
        if self.name == before.name {
            self.status = before.status;
        }
    }

    /// Resets the status to unknown because polling was turned off.
    pub fn reset(&self) {
        self.stats.set_gauge(Gauge::SecurityStatus, 0);
    }

    /// Polls at once and then at intervals, forever. The last status stays when the poller is dropped.
    pub async fn run(&mut self) {
        loop {
            self.poll().await;
            tokio::time::sleep(self.interval).await;
        }
    }

    async fn poll(&mut self) {
        let resolvers = match &self.resolvers {
            Some(resolvers) => Arc::clone(resolvers),
            None => Arc::new(system_resolvers().await),
        };
        let query = UpstreamMessage::new(self.name.as_name(), Type::TXT);
        let answer = resolvers.resolve(query).await;
        let answer = answer.map_err(PollFailure::Unanswered);
        match answer.and_then(|reply| read_status(&reply)) {
            Ok((status, message)) => self.record_status(status, &message),
            Err(failure) => self.record_failure(failure),
        }
        let status = self.status as u64;
        self.stats.set_gauge(Gauge::SecurityStatus, status);
    }

    fn record_status(&mut self, status: SecurityStatus, message: &str) {
        let version = self.version;
        match status {
            SecurityStatus::UpgradeMandatory => tracing::error!(
                "security status of version '{version}': upgrade mandatory: {message}"
            ),
            SecurityStatus::UpgradeRecommended => tracing::warn!(
                "security status of version '{version}': upgrade recommended: {message}"
            ),
            SecurityStatus::Unknown | SecurityStatus::Ok if status != self.status => {
                tracing::info!("security status of version '{version}': {message}");
            }
            SecurityStatus::Unknown | SecurityStatus::Ok => {}
        }
        self.status = status;
    }

    fn record_failure(&mut self, failure: PollFailure) {
        let (version, name) = (self.version, &self.name);
        tracing::warn!(
            "Failed to retrieve security status update for '{version}' on '{name}': RCODE was {failure}"
        );
        self.status = self.status.after_failure();
    }
}

/// Reads the status and its message from the response.
fn read_status(reply: &UpstreamReply) -> Result<(SecurityStatus, String), PollFailure> {
    if reply.rcode() != 0 {
        return Err(PollFailure::Code(reply.rcode()));
    }
    let message = Message::parse(reply.octets()).map_err(|_| PollFailure::NoStatus)?;
    let mut records = message.records().map_while(Result::ok);
    let text = records
        .find(|record| record.section == MessageSection::Answer && record.rtype == Type::TXT)
        .and_then(|record| read_text(record.raw_data()))
        .ok_or(PollFailure::NoStatus)?;
    let (digit, rest) = text.split_first().ok_or(PollFailure::NoStatus)?;
    let status = SecurityStatus::from_digit(*digit)
        .filter(|_| matches!(rest, [] | [b' ', ..]))
        .ok_or(PollFailure::NoStatus)?;
    let message = String::from_utf8_lossy(rest);
    Ok((status, message.trim().chars().take(MESSAGE_MAX).collect()))
}

/// Joins the character strings of a TXT record (RFC 1035 section 3.3.14).
fn read_text(mut data: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while let Some((len, rest)) = data.split_first() {
        let (string, behind) = rest.split_at_checked(usize::from(*len))?;
        text.extend_from_slice(string);
        data = behind;
    }
    Some(text)
}

/// Returns the system's resolvers as currently configured.
async fn system_resolvers() -> Resolvers {
    let text = tokio::task::spawn_blocking(|| std::fs::read_to_string(RESOLV_CONF)).await;
    let text = text.ok().and_then(Result::ok).unwrap_or_default();
    Resolvers::new(&ResolverSettings {
        addresses: read_resolv_conf(&text),
        timeout: SYSTEM_TIMEOUT,
        randomize_case: false,
    })
}

/// Reads the `nameserver` lines of resolv.conf(5); without any, the resolver is on loopback.
fn read_resolv_conf(text: &str) -> Vec<SocketAddr> {
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())??;
        Some(SocketAddr::new(address.parse().ok()?, 53))
    });
    let mut addresses: Vec<_> = addresses.take(SYSTEM_RESOLVERS_MAX).collect();
    if addresses.is_empty() {
        addresses.push(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 53));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_revokes_a_good_status_and_keeps_a_bad_one() {
        use SecurityStatus::*;
        assert_eq!(Ok.after_failure(), Unknown);
        for status in [Unknown, UpgradeRecommended, UpgradeMandatory] {
            assert_eq!(status.after_failure(), status);
        }
    }

    #[test]
    fn resolv_conf_is_read_as_the_system_does() {
        let text = "# nameserver 192.0.2.9\nsearch a.test\nnameserver 192.0.2.1\n nameserver\t2001:db8::1 # two\n\
                    nameserver not-an-address\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"];
        let expected: Vec<SocketAddr> = expected.map(|text| text.parse().unwrap()).into();
        assert_eq!(read_resolv_conf(text), expected);
        assert_eq!(read_resolv_conf(""), ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn strings_of_a_record_are_joined_and_invalid_lengths_refused() {
        assert_eq!(read_text(b"\x022 \x03now").as_deref(), Some(&b"2 now"[..]));
        assert_eq!(read_text(b""), Some(Vec::new()));
        assert_eq!(read_text(b"\x05abc"), None);
    }
}
