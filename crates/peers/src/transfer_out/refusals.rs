//! Rate limit for logging refused requests: per client and zone, and in total.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nameward_maintain::table::lower_case;
use nameward_wire::Name;

/// Interval at which the same refusal is logged again.
const LOG_INTERVAL: Duration = Duration::from_secs(3600);
/// Maximum number of different refusals logged per interval: a flood of names must not fill the log.
const LOGGED_MAX: usize = 1000;

/// The refusals logged in the current interval.
#[derive(Default)]
pub(crate) struct LoggedRefusals {
    logged: HashSet<(IpAddr, Box<[u8]>)>,
    since: Option<Instant>,
}

impl LoggedRefusals {
    /// Decides whether to log that a client was refused a zone.
    pub(crate) fn admit(&mut self, client: IpAddr, zone: Name<'_>, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= LOG_INTERVAL {
            self.logged.clear();
            self.since = Some(now);
        }
        if self.logged.len() >= LOGGED_MAX {
            return false;
        }
        self.logged.insert((client, lower_case(zone)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    #[test]
    fn each_client_and_zone_is_logged_once_per_interval_up_to_a_limit() {
        let (mut log, now) = (LoggedRefusals::default(), Instant::now());
        let client: IpAddr = [192, 0, 2, 1].into();
        let zone: NameBuf = "Example.org.".parse().unwrap();
        let same: NameBuf = "example.ORG.".parse().unwrap();
        assert!(log.admit(client, zone.as_name(), now));
        assert!(!log.admit(client, same.as_name(), now));
        assert!(log.admit([192, 0, 2, 2].into(), zone.as_name(), now));
        let flood = (0..5000u32).filter(|n| {
            let name: NameBuf = format!("n{n}.example.").parse().unwrap();
            log.admit(client, name.as_name(), now)
        });
        assert_eq!(flood.count(), LOGGED_MAX - 2);
        assert!(log.admit(client, zone.as_name(), now + LOG_INTERVAL));
    }
}
