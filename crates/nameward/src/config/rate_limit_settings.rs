//! The `[rate_limit]` table: response rate limiting over UDP.

use nameward_serve::rate_limit::{AnswerRates, RateLimitSettings};

use super::Config;
use super::clients::Peers;
use super::read::Count;
use super::setting::section;
use super::zone_values::InheritedSetting;

/// Answers per second.
pub type Rate = Count<0, 1_000_000>;

section! {
    /// Response rate limiting: how many answers a client network gets over UDP, where source addresses may be forged. TCP
    /// is never limited, nor are clients with a valid DNS cookie. Changes take effect on reload.
    RateLimit = "rate_limit" {
        /// Answers per second to one client network for one name; answers from one wildcard share the rate of their
        /// zone. 0 turns rate limiting off. 20 suits most servers; see docs/hardening.md for a dry run.
        responses_per_second: Rate = "0";
        /// NXDOMAIN answers per second to one client network for one zone; "" means `responses_per_second`.
        nxdomains_per_second: InheritedSetting<Rate> = r#""""#;
        /// Referrals per second to one client network for one zone; "" means `responses_per_second`.
        referrals_per_second: InheritedSetting<Rate> = r#""""#;
        /// Errors (REFUSED, SERVFAIL, FORMERR and others) per second to one client network; "" means
        /// `responses_per_second`.
        errors_per_second: InheritedSetting<Rate> = r#""""#;
        /// All answers per second to one client network, in addition to the other rates; 0 means no limit. If set, it
        /// must be several times the others: a large resolver queries many names.
        all_per_second: Rate = "0";
        /// Maximum time in seconds that a network above its rate must stay below it before it is answered normally again.
        /// 1 always sends as many answers as the rate allows.
        window: Count<1, 3600> = "15";
        /// One in this many answers over the limit is sent truncated and without records, so that clients whose address
        /// is not forged retry over TCP; the others are dropped. 1 truncates all, 0 drops all. Errors are always dropped.
        slip: Count<0, 10> = "2";
        /// Length of the IPv4 prefix that is one client network.
        ipv4_prefix: Count<1, 32> = "24";
        /// Length of the IPv6 prefix that is one client network.
        ipv6_prefix: Count<1, 64> = "56";
        /// Clients that are never limited, by address, by TSIG key or both (`"192.0.2.1 key:name."`). The first matching
        /// entry decides.
        exempt: Peers = r#"["127.0.0.0/8", "::1"]"#;
        /// Send all answers, and only count and log those that would be limited.
        log_only: bool = "false";
        /// Number of rates tracked at the same time, 8 octets each, allocated at start-up. When more are needed, the
        /// least used ones are replaced.
        table_size: Count<1024, 100_000_000> = "262144";
    }
}

/// Returns the settings of the limiter, with the rates of single zones.
pub fn rate_limit(config: &Config) -> RateLimitSettings {
    let limit = &config.rate_limit;
    let responses = limit.responses_per_second.get() as u32;
    let rate = |own: &InheritedSetting<Rate>| own.0.map_or(responses, |rate| rate.get() as u32);
    let zones = config.zones.iter();
    RateLimitSettings {
        rates: AnswerRates {
            responses,
            nxdomains: rate(&limit.nxdomains_per_second),
            referrals: rate(&limit.referrals_per_second),
            errors: rate(&limit.errors_per_second),
            all: limit.all_per_second.get() as u32,
        },
        zones: zones
            .filter_map(|zone| Some((zone.name.0, zone.responses_per_second.0?.get() as u32)))
            .collect(),
        slip: limit.slip.get() as u32,
        window_seconds: limit.window.get() as u32,
        ipv4_prefix: limit.ipv4_prefix.get() as u8,
        ipv6_prefix: limit.ipv6_prefix.get() as u8,
        exempt: limit.exempt.0.clone(),
        log_only: limit.log_only,
        table_size: limit.table_size.get(),
    }
}
