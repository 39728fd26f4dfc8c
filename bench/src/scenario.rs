//! The scenarios: which names exist, and which queries are sent.
//!
//! Zone files and queries both follow from [`label`], so neither has to read the other.

use std::fmt;

use nameward_testkit::wire::QuestionEdns;

use crate::queries::{Expected, Queries};
use crate::random::{Random, mix};

const TYPE_A: u16 = 1;
const TYPE_MX: u16 = 15;
const TYPE_TXT: u16 = 16;
const TYPE_AAAA: u16 = 28;

/// Queries prepared for a scenario of millions of names: enough that a run of some seconds rarely
/// starts again from the first, and little beside the memory of the server.
const MANY_QUERIES: usize = 2_000_000;

/// The zones that are served and the queries that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// One zone of 1,000 names, all of them hot in the processor's caches.
    Small,
    /// One zone of 1,000,000 names with an A record each, queried at random.
    Flat,
    /// 1,000,000 delegations with glue; 30% of the queried names do not exist.
    Tld,
    /// 100,000 zones of 8 records, found in a directory.
    Hosting,
    /// The same zones, listed in the configuration.
    Listed,
    /// The zone of `Small`, signed in its file.
    Signed,
    /// The zone of `Flat`, signed in its file.
    SignedFlat,
}

impl Scenario {
    /// Every scenario that is run unless another is named, in the order of the tables. Those that are signed are named: to
    /// sign a million names takes minutes, and PowerDNS would need a database for it.
    pub const ALL: [Self; 5] = [
        Self::Small,
        Self::Flat,
        Self::Tld,
        Self::Hosting,
        Self::Listed,
    ];

    /// How many names (or zones, for `Hosting` and `Listed`) are made.
    pub fn size(self) -> usize {
        match self {
            Self::Small | Self::Signed => 1_000,
            Self::Flat | Self::SignedFlat | Self::Tld => 1_000_000,
            Self::Hosting | Self::Listed => 100_000,
        }
    }

    /// The names of its zones, without a final dot.
    pub fn zone_names(self) -> Vec<String> {
        match self {
            Self::Small | Self::Flat | Self::Signed | Self::SignedFlat => {
                vec![format!("{self}.test")]
            }
            Self::Tld => vec!["tld".to_string()],
            Self::Hosting | Self::Listed => (0..self.size()).map(hosting_zone).collect(),
        }
    }

    /// One line for the heading of its table.
    pub fn description(self) -> &'static str {
        match self {
            Self::Small => "one zone, 1,000 names, hot",
            Self::Flat => "one zone, 1,000,000 A records, random",
            Self::Tld => "1,000,000 delegations with glue (3 million records), 30% NXDOMAIN",
            Self::Hosting => "100,000 zones of 8 records, random",
            Self::Listed => "the zones of hosting, listed in the configuration, random",
            Self::Signed => "one zone, 1,000 names, signed in its file (P-256), DO, hot",
            Self::SignedFlat => {
                "one zone, 1,000,000 A records, signed in its file (P-256), DO, random"
            }
        }
    }

    /// Whether the file of the zone has signatures.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::Signed | Self::SignedFlat)
    }

    /// The queries, the same in every run. Those for signed zones have DO.
    pub fn queries(self, edns: QuestionEdns) -> Queries {
        let edns = if self.is_signed() {
            QuestionEdns::Dnssec
        } else {
            edns
        };
        let mut random = Random::seeded(0x6e61_6d65_7761_7264);
        let size = self.size();
        let count = match self {
            Self::Small | Self::Signed => 64 * size,
            _ => MANY_QUERIES,
        };
        let mut queries = Queries::with_capacity(count, edns);
        for _ in 0..count {
            let index = random.below(size);
            let percent = random.below(100);
            match self {
                Self::Small | Self::Flat => {
                    let name = format!("{}.{self}.test", label(index));
                    queries.push(&name, TYPE_A, Expected::Data);
                }
                Self::Signed | Self::SignedFlat => {
                    let name = format!("{}.{self}.test", label(index));
                    queries.push(&name, TYPE_A, Expected::SignedData);
                }
                Self::Tld if percent < 30 => {
                    let name = format!("www.{}.tld", absent_label(index));
                    queries.push(&name, TYPE_A, Expected::NxDomain);
                }
                Self::Tld => {
                    let name = format!("www.{}.tld", label(index));
                    queries.push(&name, TYPE_A, Expected::Referral);
                }
                Self::Hosting | Self::Listed => push_hosting(&mut queries, index, percent),
            }
        }
        queries
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "small",
            Self::Flat => "flat",
            Self::Tld => "tld",
            Self::Hosting => "hosting",
            Self::Listed => "listed",
            Self::Signed => "signed",
            Self::SignedFlat => "signed-flat",
        })
    }
}

/// Adds a query for a hoster's zone: mostly web, some mail, some that is not there.
fn push_hosting(queries: &mut Queries, index: usize, percent: usize) {
    let zone = hosting_zone(index);
    match percent {
        0..50 => queries.push(&format!("www.{zone}"), TYPE_A, Expected::Data),
        50..70 => queries.push(&zone, TYPE_A, Expected::Data),
        70..85 => queries.push(&zone, TYPE_MX, Expected::Data),
        85..90 => queries.push(&zone, TYPE_TXT, Expected::Data),
        90..95 => queries.push(&format!("www.{zone}"), TYPE_AAAA, Expected::NoData),
        _ => queries.push(&format!("ftp.{zone}"), TYPE_A, Expected::NxDomain),
    }
}

/// The name of a zone of `Hosting`, without a final dot.
fn hosting_zone(index: usize) -> String {
    format!("{}.example", label(index))
}

/// The label of the name with this index: 6 to 14 letters, unique, in no order.
pub fn label(index: usize) -> String {
    letters(index, b"abcdefghijklm")
}

/// A label of the same look that no name has: it ends in a letter of the other half.
pub fn absent_label(index: usize) -> String {
    letters(index, b"nopqrstuvwxyz")
}

fn letters(index: usize, last: &[u8; 13]) -> String {
    let mut bits = mix(index as u64 + 1);
    let length = 6 + (bits % 9) as usize;
    bits /= 9;
    let mut text = String::with_capacity(length);
    // The index itself, scrambled within 20 bits by an odd factor, is in the first five letters:
    // 26^5 > 2^20, so labels are unique whatever the rest is.
    let mut unique = (index as u64).wrapping_mul(0x9_e375) & 0xf_ffff;
    for position in 0..length - 1 {
        let source = if position < 5 { &mut unique } else { &mut bits };
        text.push(char::from(b'a' + (*source % 26) as u8));
        *source /= 26;
    }
    text.push(char::from(last[(bits % 13) as usize]));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn labels_are_unique_and_absent_labels_are_absent() {
        let labels: HashSet<String> = (0..1_000_000).map(label).collect();
        assert_eq!(labels.len(), 1_000_000);
        assert!((0..1_000_000).all(|index| !labels.contains(&absent_label(index))));
    }

    #[test]
    fn queries_are_the_same_in_every_run() {
        let (first, second) = (
            Scenario::Small.queries(QuestionEdns::Plain),
            Scenario::Small.queries(QuestionEdns::Plain),
        );
        assert_eq!(first.len(), second.len());
        assert!((0..first.len()).all(|i| first.message(i) == second.message(i)));
    }
}
