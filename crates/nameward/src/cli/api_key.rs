//! The command line of `nameward api-key`, and its conversion to requests.

use clap::Subcommand;
use nameward_base::calendar::UtcTime;
use nameward_base::time::now_seconds;
use nameward_control::operations::{ApiKeyTemplate, OperationRequest};

use super::target::{RemoteArguments, ServerRequest};

#[derive(Subcommand)]
pub enum ApiKeyCommand {
    /// Create a key and print it; only its hash is stored
    Create {
        /// Limit the key to zones at and below this name; may be repeated
        #[arg(long = "zone", value_name = "SUFFIX")]
        zones: Vec<String>,
        /// Allow no changes, and do not show secrets
        #[arg(long)]
        read_only: bool,
        /// Expiry: 2027-01-31, 2027-01-31T12:00:00Z, or a period such as 90d or 12h [default: never]
        #[arg(long, value_name = "TIME", value_parser = parse_expiry)]
        expires: Option<u64>,
        /// Purpose of the key, shown by `api-key list`
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true
        )]
        description: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// List all keys with their rights and expiry, without their secrets
    List(RemoteArguments),
    /// Delete a key; requests with it are refused from then on
    Delete {
        /// The ID of the key, or the key itself
        #[arg(value_name = "ID")]
        key: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

pub fn request(command: ApiKeyCommand) -> ServerRequest {
    match command {
        ApiKeyCommand::Create {
            zones,
            read_only,
            expires,
            description,
            remote,
        } => {
            let template = ApiKeyTemplate {
                zones,
                read_only,
                expires,
                description,
            };
            (OperationRequest::ApiKeyCreate(template), remote)
        }
        ApiKeyCommand::List(remote) => (OperationRequest::ApiKeyList, remote),
        ApiKeyCommand::Delete { key, remote } => {
            // Only the ID leaves this process.
            let id = key
                .strip_prefix("nw_")
                .and_then(|rest| rest.split_once('_'));
            let key = id.map_or(key.as_str(), |(id, _)| id).to_owned();
            (OperationRequest::ApiKeyDelete { key }, remote)
        }
    }
}

/// A time that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("expected a time such as 2027-01-31, 2027-01-31T12:00:00Z, 90d or 12h")]
pub struct BadTime;

fn parse_expiry(text: &str) -> Result<u64, BadTime> {
    parse_time(text, now_seconds(), i64::checked_add)
}

/// Parses a point in time: a date, a date with a time of day in UTC, or a period from `now`.
pub fn parse_time(
    text: &str,
    now: u64,
    shift: fn(i64, i64) -> Option<i64>,
) -> Result<u64, BadTime> {
    let unit = text.chars().last().ok_or(BadTime)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => {
            let time = UtcTime::from_rfc3339(text).and_then(UtcTime::to_unix);
            return time.ok_or(BadTime);
        }
    };
    let count: i64 = text[..text.len() - 1].parse().map_err(|_| BadTime)?;
    let period = count.checked_mul(seconds).filter(|period| *period >= 0);
    let now = i64::try_from(now).map_err(|_| BadTime)?;
    let time = period.and_then(|period| shift(now, period));
    time.and_then(|time| u64::try_from(time).ok())
        .ok_or(BadTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_periods() {
        let parse = |text| parse_time(text, 1000, i64::checked_add).ok();
        for (text, expected) in [
            ("90s", Some(1090)),
            ("2h", Some(8200)),
            ("1970-01-02", Some(86_400)),
            ("1970-01-02T00:00:01Z", Some(86_401)),
            ("1970-01-02T00:00:01", None),
            ("1970-13-02", None),
            ("-5d", None),
            ("d", None),
            ("", None),
            ("99999999999999999999d", None),
            ("tomorrow", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(parse_time("1h", 4000, i64::checked_sub).ok(), Some(400));
    }
}
