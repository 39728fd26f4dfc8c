//! Differential tests: the same difficult zones in several servers, the same queries to all, and their answers
//! compared.
//!
//! [`zones`] generates the zones from a seed, [`queries`] the queries, [`answers`] sends them and normalises the
//! answers for comparison, and [`review`] knows every reviewed way in which the servers may differ.

pub mod answers;
pub mod queries;
mod random;
pub mod review;
pub mod zones;

use crate::TestFailure;
use answers::{Answer, Server};
use queries::TestQuery;
use random::Random;
use std::collections::BTreeMap;

/// The results for one seed.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of queries sent.
    pub queries: usize,
    /// How often each class in `tests/differential/reviewed.md` applied.
    pub reviewed: BTreeMap<&'static str, usize>,
    /// Differences that no class explains.
    pub unexplained: Vec<String>,
}

/// Returns the queries that a seed generates for the zones.
pub fn generate_queries(zones: &[zones::Zone], seed: u64) -> Vec<TestQuery> {
    queries::queries(zones, &mut Random::new(seed ^ 0x5eed))
}

/// Sends all queries that the seed generates to all `peers`, and to `ours` if given.
pub fn compare(
    zones: &[zones::Zone],
    seed: u64,
    peers: &mut [Server],
    mut ours: Option<&mut Server>,
) -> Result<Findings, TestFailure> {
    let mut findings = Findings::default();
    let apexes: Vec<String> = zones.iter().map(|zone| format!("{}.", zone.name)).collect();
    for query in generate_queries(zones, seed) {
        findings.queries += 1;
        let mut answers = Vec::new();
        for server in peers.iter_mut() {
            answers.push((server.name.clone(), server.ask(&query)?));
        }
        let own = ours.as_mut().map(|server| server.ask(&query)).transpose()?;
        let round = Round {
            query: &query,
            peers: &answers,
            ours: own.as_ref(),
        };
        round.judge(&apexes, &mut findings);
    }
    Ok(findings)
}

/// One query with all its answers.
struct Round<'a> {
    query: &'a TestQuery,
    peers: &'a [(String, Answer)],
    ours: Option<&'a Answer>,
}

impl Round<'_> {
    fn judge(&self, apexes: &[String], findings: &mut Findings) {
        let agree = self.peers.windows(2).all(|pair| pair[0].1.same(&pair[1].1));
        let like_one = self
            .ours
            .is_none_or(|own| self.peers.iter().any(|(_, answer)| own.same(answer)));
        let glue_lost = self
            .ours
            .is_some_and(|own| review::lacks_common_additional(own, self.peers));
        if agree && like_one && !glue_lost {
            return;
        }
        match review::class(self.query, self.peers, self.ours, apexes) {
            Some(class) if !glue_lost => *findings.reviewed.entry(class).or_default() += 1,
            _ => findings.unexplained.push(self.describe(glue_lost)),
        }
    }

    fn describe(&self, glue_lost: bool) -> String {
        let mut text = self.query.to_string();
        if glue_lost {
            text.push_str("  (additional data that all others give is missing)");
        }
        let mut shown: Vec<(String, &Answer)> = Vec::new();
        if let Some(own) = self.ours {
            shown.push(("ours".into(), own));
        }
        for (name, answer) in self.peers {
            match shown.iter_mut().find(|(_, other)| other.same(answer)) {
                Some((names, _)) => names.push_str(&format!(" {name}")),
                None => shown.push((name.clone(), answer)),
            }
        }
        for (names, answer) in shown {
            text.push_str(&format!("\n  {names}: {answer}"));
        }
        text
    }
}
