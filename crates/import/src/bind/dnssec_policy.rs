//! Conversion of `dnssec-policy` statements in named.conf to `[[dnssec_policy]]` settings.

use super::{
    Spot,
    syntax::{ConfItem, ConfStatement, Word},
};
use crate::migrate::{ImportRefusal, ImportedValue, PolicySettings, signing_algorithm};

/// Seconds per day.
const DAY: u64 = 86_400;

pub(super) struct PolicyStatement {
    pub spot: Spot,
    pub name: String,
    /// The converted settings, or why zones cannot be signed this way.
    pub settings: Result<PolicySettings, ImportRefusal>,
    /// Differences from BIND.
    pub changes: Vec<String>,
}

/// Returns the built-in policy `default` of BIND, from which a policy takes everything it does not
/// set.
pub(super) fn built_in() -> PolicySettings {
    vec![
        ("signature_refresh", (5 * DAY).into()),
        ("propagation_delay", 300.into()),
    ]
}

/// Reads `dnssec-policy NAME { ... };`; `None` if it is not one.
pub(super) fn read(
    keyword: &Word<'_>,
    statement: &ConfStatement<'_>,
    file: usize,
) -> Option<PolicyStatement> {
    let (words, block) = statement.words_and_block().ok()?;
    let mut policy = PolicyReader {
        settings: built_in(),
        changes: Vec::new(),
        refusal: None,
    };
    for inner in block {
        if let Some(word) = inner.keyword() {
            policy.statement(&word.string().to_ascii_lowercase(), inner);
        }
    }
    Some(PolicyStatement {
        spot: (file, keyword.location),
        name: words.first()?.string(),
        settings: match policy.refusal {
            Some(reason) => Err(reason.into()),
            None => Ok(policy.settings),
        },
        changes: policy.changes,
    })
}

struct PolicyReader {
    settings: PolicySettings,
    changes: Vec<String>,
    refusal: Option<String>,
}

impl PolicyReader {
    fn set(&mut self, key: &'static str, value: impl Into<ImportedValue>) {
        self.settings.retain(|(known, _)| *known != key);
        self.settings.push((key, value.into()));
    }

    fn statement(&mut self, word: &str, statement: &ConfStatement<'_>) {
        let key = match word {
            "keys" => return self.keys(statement),
            "nsec3param" => return self.nsec3(statement),
            "dnskey-ttl" => "dnskey_ttl",
            "signatures-refresh" => "signature_refresh",
            "signatures-validity" => "signature_validity",
            "max-zone-ttl" => "zone_ttl_max",
            "zone-propagation-delay" => "propagation_delay",
            "parent-ds-ttl" => "parent_ds_ttl",
            "parent-propagation-delay" => "parent_propagation_delay",
            "publish-safety" | "retire-safety" => "safety_margin",
            "purge-keys" => "purge_after",
            "signatures-jitter" => "signature_jitter",
            "cdnskey" | "cds-digest-types" | "inline-signing" | "manual-mode" => return,
            other => {
                return self.changes.push(format!("{other}: no equivalent"));
            }
        };
        match value_words(statement)
            .first()
            .and_then(|text| seconds(text))
        {
            Some(seconds) => self.set(key, seconds),
            None => self.changes.push(format!("{word}: the default is used")),
        }
    }

    /// Reads `keys { ksk lifetime P1Y algorithm 13; ... };`.
    fn keys(&mut self, statement: &ConfStatement<'_>) {
        let Some(ConfItem::Block(_, block)) = statement.items().get(1) else {
            return;
        };
        let mut algorithms: Vec<&'static str> = Vec::new();
        let mut has_combined = false;
        for line in block {
            let words = words(line);
            let role = words.first().map(|word| word.to_ascii_lowercase());
            let after = |key| value_after(&words, key);
            let lifetime = after("lifetime").and_then(seconds);
            let lifetime = lifetime.unwrap_or(0);
            match role.as_deref() {
                Some("csk") => {
                    has_combined = true;
                    self.set("ksk_lifetime", lifetime);
                }
                Some("ksk") => self.set("ksk_lifetime", lifetime),
                Some("zsk") => self.set("zsk_lifetime", lifetime),
                _ => continue,
            }
            let Some(name) = after("algorithm") else {
                continue;
            };
            match signing_algorithm(name) {
                Some(name) if !algorithms.contains(&name) => algorithms.push(name),
                Some(_) => {}
                None => self.refusal = Some(format!("unsupported algorithm {name}")),
            }
            let at = words.iter().position(|word| word == name);
            let bits = at.and_then(|at| words.get(at + 1)?.parse::<u64>().ok());
            match bits {
                Some(bits @ (2048 | 3072 | 4096)) => self.set("rsa_bits", bits),
                Some(bits) => self
                    .changes
                    .push(format!("new RSA keys have 2048 bits instead of {bits}")),
                None => {}
            }
        }
        let scheme = if has_combined { "csk" } else { "ksk+zsk" };
        self.set("keys", scheme);
        match algorithms[..] {
            [] => {}
            [name] => self.set("algorithm", name),
            _ => self.refusal = Some("keys of more than one algorithm".into()),
        }
    }

    /// Reads `nsec3param iterations 0 optout no salt-length 0;`.
    fn nsec3(&mut self, statement: &ConfStatement<'_>) {
        let words = value_words(statement);
        let after = |key| value_after(&words, key);
        let is_opt_out = matches!(after("optout"), Some("yes" | "true" | "1"));
        let denial = if is_opt_out { "nsec3-opt-out" } else { "nsec3" };
        self.set("denial", denial);
        // BIND 9.18: five iterations and a salt of eight octets by default.
        if after("iterations") != Some("0") || after("salt-length") != Some("0") {
            let text = "NSEC3 without salt and extra iterations (RFC 9276)";
            self.changes.push(text.into());
        }
    }
}

fn words(statement: &ConfStatement<'_>) -> Vec<String> {
    let words = statement.items().iter().filter_map(|item| match item {
        ConfItem::Word(word) => Some(word.string()),
        ConfItem::Block(..) => None,
    });
    words.collect()
}

fn value_after<'w>(words: &'w [String], keyword: &str) -> Option<&'w str> {
    let is_it = |word: &String| word.eq_ignore_ascii_case(keyword);
    let at = words.iter().position(is_it)?;
    words.get(at + 1).map(String::as_str)
}

fn value_words(statement: &ConfStatement<'_>) -> Vec<String> {
    words(statement).split_off(1)
}

/// Parses a duration: `3600`, `1h30m`, `P1Y2M10DT2H30M`, `unlimited` (0).
fn seconds(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    if text == "UNLIMITED" {
        return Some(0);
    }
    let (date, time) = match text.strip_prefix('P') {
        Some(iso) => iso.split_once('T').unwrap_or((iso, "")),
        None => ("", &*text),
    };
    let date = sum(date, |unit| match unit {
        'Y' => Some(365 * DAY),
        'M' => Some(31 * DAY),
        'W' => Some(7 * DAY),
        'D' => Some(DAY),
        _ => None,
    })?;
    let time = sum(time, |unit| match unit {
        'W' => Some(7 * DAY),
        'D' => Some(DAY),
        'H' => Some(3600),
        'M' => Some(60),
        'S' => Some(1),
        _ => None,
    })?;
    date.checked_add(time)
}

/// Adds up numbers with units; a number without a unit is in seconds.
fn sum(text: &str, unit: impl Fn(char) -> Option<u64>) -> Option<u64> {
    let (mut total, mut digits) = (0_u64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let number: u64 = digits.parse().ok()?;
        digits.clear();
        total = total.checked_add(number.checked_mul(unit(c)?)?)?;
    }
    if digits.is_empty() {
        Some(total)
    } else {
        total.checked_add(digits.parse().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_are_read_as_bind_reads_them() {
        for (text, expected) in [
            ("3600", Some(3600)),
            ("1h30m", Some(5400)),
            ("P30D", Some(2_592_000)),
            ("PT1H", Some(3600)),
            ("P1YT1S", Some(31_536_001)),
            ("unlimited", Some(0)),
            ("soon", None),
            ("P99999999999999999999D", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
