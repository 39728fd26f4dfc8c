//! Response rate limiting in a running server: applies the configuration, and logs which prefixes are being limited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_base::text::counted;
use nameward_control::operations::{LimitedNetwork, RateLimitStatus};
use nameward_serve::{
    pipeline::ServingState,
    rate_limit::{LimitChange, LimitedPrefix, RateLimiter},
};
use nameward_stats::LogThrottle;
use tokio::sync::watch;

use super::ticked;
use crate::config::{Config, rate_limit_settings::rate_limit};

/// Interval at which changes are logged.
const INTERVAL: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
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
    let mut throttle = LogThrottle::by_text(MINUTE, LINES_PER_MINUTE);
    while ticked(&mut seconds, &mut stopping).await {
        let limiter = shared.rate_limiter.load_full();
        let Some(limiter) = limiter else { continue };
        let is_dry = limiter.settings().log_only;
        for change in limiter.changes() {
            let admitted = throttle.admit(&prefix_of(change).to_string(), Instant::now());
            match admitted {
                Some(0) => log(change, is_dry),
                Some(suppressed) => {
                    let suppressed = counted(suppressed as usize, "change");
                    tracing::warn!("rate limit: {suppressed} not logged");
                    log(change, is_dry);
                }
                None => {}
            }
        }
    }
}

fn prefix_of(change: LimitChange) -> LimitedPrefix {
    match change {
        LimitChange::Started(prefix) | LimitChange::Stopped(prefix) => prefix,
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
