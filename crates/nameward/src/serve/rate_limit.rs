//! Response rate limiting in a running server: applies the configuration, and logs which prefixes are being limited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_base::text::counted;
use nameward_control::operations::{LimitedNetwork, RateLimitStatus};
use nameward_serve::{
    pipeline::ServingState,
    rate_limit::{LimitChange, RateLimiter},
};
use tokio::sync::watch;

use crate::config::{Config, rate_limit_settings::rate_limit};

/// Interval at which changes are logged.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of lines per minute: a flood with forged senders has any number of prefixes.
const LINES_PER_MINUTE: usize = 20;
/// Maximum number of prefixes in the status.
const LISTED_MAX: usize = 10;

/// Applies a configuration. Unchanged settings leave the limiter and its buckets as they are.
pub fn apply(shared: &ServingState, config: &Config) {
    let settings = rate_limit(config);
    let current = shared.rate_limiter.load();
    if current
        .as_ref()
        .is_none_or(|limiter| *limiter.settings() != settings)
    {
        shared
            .rate_limiter
            .store(RateLimiter::new(settings).map(Arc::new));
    }
}

/// Returns the state of the limiter, if rate limiting is on.
pub fn status(shared: &ServingState) -> Option<RateLimitStatus> {
    let limiter = shared.rate_limiter.load_full()?;
    let limited = limiter.limited().into_iter().take(LISTED_MAX);
    Some(RateLimitStatus {
        is_log_only: limiter.settings().log_only,
        limited: limited
            .map(|one| LimitedNetwork {
                network: one.to_string(),
                responses: one.answers,
            })
            .collect(),
    })
}

/// Logs which prefixes are limited, until `stopping` is true.
pub async fn report(shared: Arc<ServingState>, mut stopping: watch::Receiver<bool>) {
    let mut seconds = tokio::time::interval(INTERVAL);
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut lines = LineBudget::default();
    loop {
        tokio::select! {
            _ = seconds.tick() => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        let limiter = shared.rate_limiter.load_full();
        let Some(limiter) = limiter else { continue };
        let is_dry = limiter.settings().log_only;
        for change in limiter.changes() {
            if lines.spend(Instant::now()) {
                log(change, is_dry);
            }
        }
        if let Some(suppressed) = lines.suppressed() {
            tracing::warn!("rate limit: {} not logged", counted(suppressed, "change"));
        }
    }
}

fn log(change: LimitChange, is_dry: bool) {
    match change {
        LimitChange::Started(one) if is_dry => {
            tracing::warn!("rate limit: would limit responses to {}", one);
        }
        LimitChange::Started(one) => {
            tracing::warn!("rate limit: limiting responses to {}", one);
        }
        LimitChange::Stopped(one) => tracing::info!(
            "rate limit: stopped limiting responses to {} after {}",
            one,
            counted(one.answers as usize, "response")
        ),
    }
}

/// The lines that may still be logged within the current minute.
#[derive(Default)]
struct LineBudget {
    minute: Option<Instant>,
    spent: usize,
    suppressed: usize,
    is_over: bool,
}

impl LineBudget {
    fn spend(&mut self, now: Instant) -> bool {
        let is_current = self
            .minute
            .is_some_and(|start| now.duration_since(start) < Duration::from_secs(60));
        if !is_current {
            self.is_over = self.suppressed > 0;
            (self.minute, self.spent) = (Some(now), 0);
        }
        self.spent += 1;
        let is_within = self.spent <= LINES_PER_MINUTE;
        self.suppressed += usize::from(!is_within);
        is_within
    }

    /// Returns the number of suppressed lines, once the minute in which they were suppressed is over.
    fn suppressed(&mut self) -> Option<usize> {
        let was_over = std::mem::take(&mut self.is_over);
        was_over.then(|| std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_a_bounded_number_of_lines_and_the_rest_is_counted() {
        let (mut lines, start) = (LineBudget::default(), Instant::now());
        let logged = (0..1000).filter(|_| lines.spend(start)).count();
        assert_eq!(logged, LINES_PER_MINUTE);
        assert_eq!(lines.suppressed(), None);
        assert!(lines.spend(start + Duration::from_secs(61)));
        assert_eq!(lines.suppressed(), Some(1000 - LINES_PER_MINUTE));
        assert_eq!(lines.suppressed(), None);
    }
}
