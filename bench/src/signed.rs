//! Signed zones in a database: keys, metadata and the order of names as PowerDNS requires them, and the queries.

use nameward_testkit::wire::QuestionEdns;

use crate::queries::{Expected, Queries};
use crate::scenario::{Scenario, absent_label};

const TYPE_A: u16 = 1;
/// Queries for names that do not exist: as many as labels of the scenarios are unique, so that each is new.
const ABSENT: usize = 1_000_000;

/// The key of RFC 6605 section 6.1.
pub const P256: &str = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
                    PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";
const RSA_2048: &str = include_str!("../../crates/serve/tests/rsa2048.private");

/// The algorithm of a zone's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchKey {
    /// ECDSA P-256.
    P256,
    /// RSA of 2048 bits.
    Rsa,
}

/// A signed zone and what it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct SignedCase {
    /// Its key.
    pub key: BenchKey,
    /// Items of its metadata.
    pub metadata: &'static [(&'static str, &'static str)],
    /// Names that do not exist are asked for, each once.
    pub is_absent: bool,
}

impl SignedCase {
    /// The statements that sign the zone of `small`: all its names are right below the apex.
    pub fn sql(&self) -> String {
        let key = match self.key {
            BenchKey::P256 => P256,
            BenchKey::Rsa => RSA_2048,
        };
        let mut sql = format!(
            "INSERT INTO cryptokeys (domain_id, flags, active, published, content) VALUES (1, 257, 1, 1, '{key}');\n\
             UPDATE records SET auth = 1, ordername = CASE name WHEN 'small.test' THEN '' \
             ELSE substr(name, 1, length(name) - length('.small.test')) END;\n"
        );
        for (kind, content) in self.metadata {
            sql.push_str(&format!(
                "INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, '{kind}', '{content}');\n"
            ));
        }
        sql
    }

    /// The queries. With CO a compact denial has the response code of others.
    pub fn queries(&self) -> Queries {
        if !self.is_absent {
            return Scenario::Small.queries(QuestionEdns::Dnssec);
        }
        let mut queries = Queries::with_capacity(ABSENT, QuestionEdns::Compact);
        for index in 0..ABSENT {
            let name = format!("{}.small.test", absent_label(index));
            queries.push(&name, TYPE_A, Expected::NxDomain);
        }
        queries
    }
}
