//! Asks by DNS, now and then, whether this version of the server has known security problems.
//!
//! The question is for the TXT record `auth-<version>.security-status.<suffix>`, and the answer is a digit and a message:
//! 0 unknown, 1 no known problem, 2 upgrade recommended, 3 upgrade mandatory. A poll that fails takes nothing back that
//! was bad: 2 and 3 stay, 1 becomes unknown. It runs beside everything else, and nothing waits for it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nameward_stats::{Gauge, Stats};
use nameward_wire::message::{Message, MessageSection};
use nameward_wire::{Name, NameBuf, NameError, Type};

use crate::recursor::{ResolverSettings, Resolvers, Unanswered, UpstreamQuestion, UpstreamReply};

/// The file that names the resolvers of the system.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// As many of them as resolver libraries ask (resolv.conf(5)).
const SYSTEM_RESOLVERS_MAX: usize = 3;
/// How long the system's resolvers are waited for.
const SYSTEM_TIMEOUT: Duration = Duration::from_secs(10);
/// Characters of a message that are shown.
const MESSAGE_MAX: usize = 400;

/// Knowledge about the security of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecurityStatus {
    /// Nothing.
    #[default]
    Unknown = 0,
    /// No problem is known.
    Ok = 1,
    /// There are problems that an upgrade mends.
    UpgradeRecommended = 2,
    /// There are problems that must not wait.
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

    /// Returns the status after a poll that failed.
    fn after_failure(self) -> Self {
        match self {
            SecurityStatus::Ok => SecurityStatus::Unknown,
            other => other,
        }
    }
}

/// Why a poll brought no status; shown in the place of the response code.
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

/// Settings of the poll.
pub struct PollSettings {
    /// The version that is asked about.
    pub version: &'static str,
    /// The domain below which is asked.
    pub suffix: String,
    /// Time between two polls.
    pub interval: Duration,
}

impl PollSettings {
    /// Returns the name that is polled.
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
    /// The resolvers of the configuration; without any those of the system are asked.
    resolvers: Option<Arc<Resolvers>>,
    stats: Arc<Stats>,
    status: SecurityStatus,
}

impl SecurityPoller {
    /// Makes a poller; fails if the suffix makes no name.
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

    /// Takes over the status that a poller before this one knows, if it asked the same question.
    pub fn follow(&mut self, before: &SecurityPoller) {
        if self.name == before.name {
            self.status = before.status;
        }
    }

    /// Shows that nothing is known any more: nobody asks.
    pub fn forget(&self) {
        self.stats.set_gauge(Gauge::SecurityStatus, 0);
    }

    /// Polls at once and then at intervals, without an end. What was learnt stays when it is dropped.
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
        let question = UpstreamQuestion::new(self.name.as_name(), Type::TXT);
        let answer = resolvers.ask(question).await;
        let answer = answer.map_err(PollFailure::Unanswered);
        match answer.and_then(|reply| read_status(&reply)) {
            Ok((status, message)) => self.take(status, &message),
            Err(failure) => self.take_failure(failure),
        }
        let status = self.status as u64;
        self.stats.set_gauge(Gauge::SecurityStatus, status);
    }

    fn take(&mut self, status: SecurityStatus, message: &str) {
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

    fn take_failure(&mut self, failure: PollFailure) {
        let (version, name) = (self.version, &self.name);
        tracing::warn!(
            "Failed to retrieve security status update for '{version}' on '{name}': RCODE was {failure}"
        );
        self.status = self.status.after_failure();
    }
}

/// Reads the status and its message from the answer.
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

/// The resolvers of this machine, as they are now.
async fn system_resolvers() -> Resolvers {
    let text = tokio::task::spawn_blocking(|| std::fs::read_to_string(RESOLV_CONF)).await;
    let text = text.ok().and_then(Result::ok).unwrap_or_default();
    Resolvers::new(&ResolverSettings {
        addresses: read_resolv_conf(&text),
        timeout: SYSTEM_TIMEOUT,
        randomize_case: false,
    })
}

/// Reads the `nameserver` lines of resolv.conf(5); without any it is the resolver of this machine.
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
    fn a_failure_takes_back_what_is_good_and_nothing_that_is_bad() {
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
    fn strings_of_a_record_are_joined_and_bad_lengths_refused() {
        assert_eq!(read_text(b"\x022 \x03now").as_deref(), Some(&b"2 now"[..]));
        assert_eq!(read_text(b""), Some(Vec::new()));
        assert_eq!(read_text(b"\x05abc"), None);
    }
}
