//! Faults that are allowed for now: a rule, a subject, and a maximum.

use crate::sources::root;
use std::collections::BTreeMap;
use std::fs;

const PATH: &str = "crates/testkit/tests/tidy/exceptions.txt";

/// The list of exceptions.
pub struct Exceptions(BTreeMap<(String, String), usize>);

impl Exceptions {
    pub fn read() -> Self {
        let text = fs::read_to_string(root().join(PATH)).expect("the list of exceptions is there");
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let (Some(rule), Some(subject), Some(bound), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                panic!("{PATH}: {line:?} is no exception");
            };
            let bound = bound.parse().expect("a bound is a number");
            ((rule.to_string(), subject.to_string()), bound)
        };
        Exceptions(lines.map(entry).collect())
    }

    /// A line for each fault that is new or has grown, and for each exception that is not needed any more.
    pub fn judge(mut self, rule: &str, found: &[(String, usize)]) -> Vec<String> {
        let mut complaints = Vec::new();
        let found: BTreeMap<&str, usize> = found.iter().map(|(s, n)| (s.as_str(), *n)).collect();
        for (subject, number) in &found {
            match self.0.get(&(rule.to_string(), subject.to_string())) {
                Some(bound) if number <= bound => {}
                Some(bound) => complaints.push(format!("{subject}: {number}, at most {bound}")),
                None => complaints.push(format!("{subject}: {number}")),
            }
        }
        let is_stale =
            |(r, subject): &&(String, String)| r == rule && !found.contains_key(subject.as_str());
        let stale: Vec<_> = self.0.keys().filter(is_stale).cloned().collect();
        if std::env::var_os("UPDATE_TIDY").is_some() {
            self.shrink(rule, &found, &stale);
        } else {
            let line = |(rule, subject): &(String, String)| {
                format!(
                    "{rule} {subject} is no fault any more: UPDATE_TIDY=1 takes it out of the list"
                )
            };
            complaints.extend(stale.iter().map(line));
        }
        complaints
    }

    /// Takes out what is not needed and lowers what has become less. Tests that run beside each other would write over
    /// each other, so this is for one test thread.
    fn shrink(&mut self, rule: &str, found: &BTreeMap<&str, usize>, stale: &[(String, String)]) {
        self.0.retain(|key, _| !stale.contains(key));
        for ((r, subject), bound) in &mut self.0 {
            if let (true, Some(number)) = (r == rule, found.get(subject.as_str())) {
                *bound = (*bound).min(*number);
            }
        }
        let mut text = String::from(
            "# Faults that were there before the rules: rule, subject, bound. This list may only shrink.\n\
             # UPDATE_TIDY=1 cargo test -p nameward-testkit --test tidy -- --test-threads=1\n",
        );
        for ((rule, subject), bound) in &self.0 {
            text.push_str(&format!("{rule} {subject} {bound}\n"));
        }
        fs::write(root().join(PATH), text).expect("the list can be written");
    }
}
