//! `/search-data`: zones, records and comments by name or content.

use nameward_control::operations::{
    FoundRecord, ListedComment, ListedItem, OperationRequest, matches_pattern,
};
use serde_json::{Value, json};

use crate::content;
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

use super::zone_id;

/// Entries of one kind by default, as in PowerDNS, and the most there are.
const DEFAULT_MAX: usize = 100;
const MAX: usize = 100_000;

/// Finds matches of `q`, where `*` matches any text and `?` one character.
pub fn search(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let request = call.request;
    let pattern = request.parameter("q").unwrap_or_default().trim();
    if pattern.is_empty() {
        return Err(ApiError::invalid("Query q can't be blank"));
    }
    let max = match request.parameter("max") {
        None | Some("") => DEFAULT_MAX,
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::invalid(format!("Parameter 'max' is not a number: '{text}'")))?,
    };
    if max == 0 {
        return Err(ApiError::invalid("Maximum entries must be larger than 0"));
    }
    let max = max.min(MAX);
    let kind = request.parameter("object_type").unwrap_or("all");
    let (zones, records, comments) = match kind {
        "all" | "" => (true, true, true),
        "zone" => (true, false, false),
        "record" => (false, true, false),
        "comment" => (false, false, true),
        _ => {
            return Err(ApiError::invalid(
                "object_type must be one of the following options: all, zone, record, comment",
            ));
        }
    };
    let mut found = Vec::new();
    if zones {
        found.extend(find_zones(call, pattern, max)?);
    }
    if records {
        found.extend(find_records(call, pattern, max)?);
    }
    if comments {
        found.extend(find_comments(call, pattern, max)?);
    }
    Ok(ApiResponse::list(found))
}

fn find_zones(call: &Call<'_>, pattern: &str, max: usize) -> ApiResult<Vec<Value>> {
    let mut found = Vec::new();
    call.list(
        &OperationRequest::ZoneAttributes { zone: None },
        &mut |item| {
            if let ListedItem::Attributes(zone) = item
                && matches(pattern, &zone.name)
            {
                found.push(json!({
                    "name": zone.name,
                    "object_type": "zone",
                    "zone_id": zone_id(&zone.name),
                }));
            }
            found.len() < max
        },
    )?;
    Ok(found)
}

fn find_records(call: &Call<'_>, pattern: &str, max: usize) -> ApiResult<Vec<Value>> {
    let found = call.listed(&OperationRequest::RecordSearch {
        pattern: pattern.to_owned(),
        limit: max as u64,
    })?;
    let found = found.into_iter().map(|hit: FoundRecord| {
        let mut record = hit.record;
        json!({
            "content": content::shown(&mut record),
            "disabled": record.disabled,
            "name": record.name,
            "object_type": "record",
            "ttl": record.ttl,
            "type": record.rtype,
            "zone": hit.zone,
            "zone_id": zone_id(&hit.zone),
        })
    });
    Ok(found.collect())
}

fn find_comments(call: &Call<'_>, pattern: &str, max: usize) -> ApiResult<Vec<Value>> {
    let found = call.listed(&OperationRequest::CommentSearch {
        pattern: pattern.to_owned(),
        limit: max as u64,
    })?;
    let found = found.into_iter().map(|comment: ListedComment| {
        let zone = comment.zone.unwrap_or_default();
        json!({
            "content": comment.comment,
            "name": comment.name,
            "object_type": "comment",
            "type": comment.rtype,
            "zone": zone,
            "zone_id": zone_id(&zone),
        })
    });
    Ok(found.collect())
}

/// Returns the pattern for a search: a text without a wildcard is found anywhere in a name.
pub fn pattern_of(text: &str) -> String {
    if text.contains(['*', '?']) {
        text.to_owned()
    } else {
        format!("*{text}*")
    }
}

/// Whether a text matches a pattern, in any letter case and with or without a final dot.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern = pattern.trim_end_matches('.').to_ascii_lowercase();
    matches_pattern(&pattern, text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, text, expected) in [
            ("www*", "www.a.test.", true),
            ("*.a.test", "WWW.a.test.", true),
            ("a.test", "a.test.", true),
            ("a.tes?", "a.test.", true),
            ("a.tes", "a.test.", false),
            ("*b*c", "abbbc", true),
            ("*b*d", "abbbc", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
