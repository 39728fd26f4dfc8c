//! Owns reading fields of JSON objects, with the error texts of PowerDNS.

use serde_json::Value;

use crate::response::{ApiError, ApiResult};

/// Elements of one list.
pub const LIST_MAX: usize = 1_000_000;

/// A string that must be there.
pub fn string<'v>(object: &'v Value, key: &str) -> ApiResult<&'v str> {
    object
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| ApiError::invalid(format!("Key '{key}' not present or not a String")))
}

/// A string that may be missing or null.
pub fn optional_string<'v>(object: &'v Value, key: &str) -> ApiResult<Option<&'v str>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => string(object, key).map(Some),
    }
}

/// A boolean that may be missing or null.
pub fn optional_bool(object: &Value, key: &str) -> ApiResult<Option<bool>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(ApiError::invalid(format!(
            "Key '{key}' not present or not a Bool"
        ))),
    }
}

/// A boolean that must be there.
pub fn boolean(object: &Value, key: &str) -> ApiResult<bool> {
    optional_bool(object, key)?
        .ok_or_else(|| ApiError::invalid(format!("Key '{key}' not present or not a Bool")))
}

/// A list that may be missing or null.
pub fn optional_list<'v>(object: &'v Value, key: &str) -> ApiResult<Option<&'v [Value]>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) if list.len() <= LIST_MAX => Ok(Some(list)),
        Some(Value::Array(_)) => Err(ApiError::invalid(format!(
            "'{key}' has more than {LIST_MAX} elements"
        ))),
        Some(_) => Err(ApiError::invalid(format!("'{key}' is not an array"))),
    }
}

/// A list of strings that may be missing or null.
pub fn optional_strings(object: &Value, key: &str) -> ApiResult<Option<Vec<String>>> {
    let Some(list) = optional_list(object, key)? else {
        return Ok(None);
    };
    let strings = list.iter().map(|item| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| ApiError::invalid(format!("'{key}' must be strings")))
    });
    strings.collect::<ApiResult<Vec<_>>>().map(Some)
}

/// A number of 0 to `max`, as a number or as digits: Ansible sends TTLs as strings.
pub fn unsigned(object: &Value, key: &str, max: u64) -> ApiResult<u64> {
    let number = match object.get(key) {
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        None | Some(_) => {
            return Err(ApiError::invalid(format!(
                "Key '{key}' not an Integer or not present"
            )));
        }
    };
    number.filter(|number| *number <= max).ok_or_else(|| {
        ApiError::invalid(format!(
            "Key '{key}' is not a valid number: expected an Integer from 0 to {max}"
        ))
    })
}

/// A name with its final dot, as PowerDNS requires names in bodies.
pub fn canonical_name<'v>(object: &'v Value, key: &str) -> ApiResult<&'v str> {
    check_canonical(string(object, key)?)
}

/// Refuses a name without its final dot. The name of a zone version has its variant after two dots.
pub fn check_canonical(name: &str) -> ApiResult<&str> {
    if name.ends_with('.') || name.contains("..") {
        Ok(name)
    } else {
        Err(ApiError::invalid(format!(
            "DNS Name '{name}' is not canonical"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_fields_are_named() {
        let body =
            json!({ "ttl": -1, "text": "300", "float": 1.5, "name": 5, "on": "x", "list": {} });
        for (error, text) in [
            (string(&body, "name").unwrap_err(), "'name'"),
            (unsigned(&body, "ttl", 9).unwrap_err(), "'ttl'"),
            (unsigned(&body, "float", 9).unwrap_err(), "'float'"),
            (unsigned(&body, "none", 9).unwrap_err(), "'none'"),
            (unsigned(&body, "text", 9).unwrap_err(), "'text'"),
            (boolean(&body, "on").unwrap_err(), "'on'"),
            (optional_list(&body, "list").unwrap_err(), "'list'"),
        ] {
            assert_eq!(error.status(), 422);
            assert!(format!("{error:?}").contains(text), "{error:?}");
        }
        assert_eq!(unsigned(&body, "text", 300), Ok(300));
        assert_eq!(optional_list(&body, "none"), Ok(None));
    }
}
