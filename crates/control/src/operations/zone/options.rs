//! Changes of `domains.options`: JSON in which PowerDNS stores the catalog properties of a zone (RFC 9432 section
//! 4.4).

use serde_json::{Map, Value};

use crate::operations::{OperationError, Outcome, ZoneSettings};

impl ZoneSettings {
    /// Returns the options that replace the current ones.
    pub(crate) fn new_options(&self, before: &str) -> Outcome<String> {
        let read = |text: &str| match text.trim() {
            "" => Ok(Value::Object(Map::new())),
            text => serde_json::from_str::<Value>(text)
                .ok()
                .filter(Value::is_object)
                .ok_or_else(|| {
                    OperationError::invalid(format!(
                        "expected a JSON object of options, found {text:?}"
                    ))
                }),
        };
        let mut options = match &self.options {
            Some(text) => read(text)?,
            // Unreadable options are replaced.
            None => read(before).unwrap_or_else(|_| Value::Object(Map::new())),
        };
        if let Some(patch) = &self.options_patch {
            merge(&mut options, read(patch)?);
        }
        Ok(if options.as_object().is_some_and(Map::is_empty) {
            String::new()
        } else {
            options.to_string()
        })
    }
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(&key);
            }
            value => merge(target.entry(key).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_replaced_merged_and_removed() {
        let after = |before: &str, options: Option<&str>, patch: Option<&str>| {
            let terms = ZoneSettings {
                options: options.map(Into::into),
                options_patch: patch.map(Into::into),
                ..ZoneSettings::default()
            };
            terms.new_options(before)
        };
        let groups = r#"{"producer":{"group":["a"]}}"#;
        assert_eq!(after("", None, Some(groups)).as_deref(), Ok(groups));
        let with_label = after(groups, None, Some(r#"{"producer":{"unique":"u."}}"#));
        assert_eq!(
            with_label.as_deref(),
            Ok(r#"{"producer":{"group":["a"],"unique":"u."}}"#)
        );
        let without = after(groups, None, Some(r#"{"producer":{"group":null}}"#));
        assert_eq!(without.as_deref(), Ok(r#"{"producer":{}}"#));
        assert_eq!(after(groups, Some("{}"), None).as_deref(), Ok(""));
        assert!(after(groups, Some("[1]"), None).is_err());
        assert!(after(groups, Some("x"), None).is_err());
    }
}
