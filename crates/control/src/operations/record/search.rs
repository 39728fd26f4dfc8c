//! Searches the records of all zones, by owner or data.

use nameward_sql::write::StoredRecord;
use serde::{Deserialize, Serialize};

use super::{data_text, listed, served_record};
use crate::operations::{
    ItemSink, ListedComment, ListedItem, ListedRecord, OperationError, OperationResult, Operations,
    Outcome,
};

/// Maximum number of results.
pub(crate) const RESULTS_MAX: u64 = 100_000;

/// A record found by a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRecord {
    /// The zone.
    pub zone: String,
    /// The record.
    #[serde(flatten)]
    pub record: ListedRecord,
}

impl Operations {
    /// Finds records of all zones by a pattern for their owners or data: `*` matches anything, `?` one character.
    pub fn search(&self, pattern: &str, limit: u64, items: ItemSink<'_>) -> Outcome {
        let limit = limit.clamp(1, RESULTS_MAX);
        let pattern = pattern.trim_end_matches('.').to_ascii_lowercase();
        if pattern.trim_matches(['*', '?']).is_empty() {
            return Err(OperationError::invalid(
                "a pattern needs a letter or digit; use `nameward record list ZONE` to list all records",
            ));
        }
        let (mut found, mut is_open) = (0, true);
        for database in &self.databases {
            let left = limit - found;
            if !is_open || left == 0 {
                break;
            }
            let like = like_pattern(&pattern);
            let mut take = |zone: String, record: StoredRecord| {
                found += 1;
                let zone = format!("{}.", zone.trim_end_matches('.'));
                let record = listed(record);
                is_open = items(ListedItem::Found(FoundRecord { zone, record }));
                is_open
            };
            let searching = database.backend.search_records(&like, left, &mut take);
            self.wait(database, searching)?;
        }
        let table = self.commits.table().load();
        let resident = table.zones().filter(|zone| {
            zone.is_ready() && zone.live().is_none() && !self.is_database(zone.rank())
        });
        'zones: for zone in resident {
            let zone = zone.stored();
            for node in zone.nodes_in_order() {
                let name = node.name().to_string();
                let is_named = matches_pattern(&pattern, name.trim_end_matches('.'));
                for rrset in node.rrsets() {
                    for record in rrset.records() {
                        let (rtype, ttl) = (rrset.rtype(), rrset.ttl());
                        let content = data_text(rtype, record.rdata);
                        if !is_named && !matches_pattern(&pattern, content.trim_end_matches('.')) {
                            continue;
                        }
                        if found >= limit || !is_open {
                            break 'zones;
                        }
                        found += 1;
                        is_open = items(ListedItem::Found(FoundRecord {
                            zone: zone.id().to_string(),
                            record: served_record(node.name(), ttl, rtype, record.rdata),
                        }));
                    }
                }
            }
        }
        Ok(OperationResult::Listed { items: found })
    }

    /// Finds comments of all database zones by a pattern for their owners or texts, with one query for each database.
    pub fn search_comments(&self, pattern: &str, limit: u64, items: ItemSink<'_>) -> Outcome {
        let limit = limit.clamp(1, RESULTS_MAX);
        let like = like_pattern(pattern.trim_end_matches('.'));
        let mut found = 0;
        for database in &self.databases {
            if found == limit {
                break;
            }
            let searching = database.backend.search_comments(&like, limit - found);
            for (zone, comment) in self.wait(database, searching)? {
                found += 1;
                let mut comment = ListedComment::from(comment);
                comment.zone = Some(format!("{}.", zone.trim_end_matches('.')));
                if !items(ListedItem::Comment(comment)) {
                    return Ok(OperationResult::Listed { items: found });
                }
            }
        }
        Ok(OperationResult::Listed { items: found })
    }
}

/// Converts a pattern for LIKE with the escape `|`.
fn like_pattern(pattern: &str) -> String {
    let mut like = String::new();
    for c in pattern.chars() {
        match c {
            '*' => like.push('%'),
            '?' => like.push('_'),
            '%' | '_' | '|' => like.extend(['|', c]),
            c => like.push(c),
        }
    }
    like
}

/// Checks whether a text matches a lower-case pattern: `*` matches anything, `?` one character. Costs at most the
/// product of their lengths.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t].to_ascii_lowercase() => {
                p += 1;
                t += 1;
            }
            _ => match star {
                // The last star takes one more octet.
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_shell_patterns() {
        for (pattern, text, is_match) in [
            ("www.*", "WWW.example.org", true),
            ("*.example.*", "a.example.org", true),
            ("*example*", "example.org", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("example", "example.org", false),
            ("*a*b*c", "xaxbxc", true),
            ("*a*b*c", "xaxbx", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), is_match, "{pattern} {text}");
        }
        assert_eq!(like_pattern("a*_b?%|"), "a%|_b_|%||");
    }
}
