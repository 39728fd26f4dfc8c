//! Owns the text form of record data at the API: what is accepted and what is shown.
//!
//! PowerDNS accepts data only in the form in which it shows it, so that a client reads back what it sent. The same rule holds here;
//! letter case does not count, and neither does the form of addresses.

use nameward_control::operations::{
    ItemSink, ListedItem, ListedRecord, OperationRequest, OperationResult,
};
use nameward_sql::split_long_strings;
use nameward_sql::write::{keeps_text, powerdns_text};
use nameward_wire::rdata::{parse_text, write_text};
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type};

use crate::response::{ApiError, ApiResult, REPLY_MAX};

/// Takes the data of a record in the form of PowerDNS: as the client sent it where the database has that, else in standard form.
pub fn shown(record: &mut ListedRecord) -> String {
    if let Some(text) = record.text.take() {
        return text;
    }
    let content = std::mem::take(&mut record.content);
    match Type::from_text(record.rtype.as_bytes()) {
        Some(rtype) => powerdns_text(rtype, content),
        None => content,
    }
}

/// Returns the served records of a zone as a zone file; `None` if it does not fit into a reply. `list` lists records.
pub fn zone_file<E>(
    zone: &str,
    list: impl FnOnce(&OperationRequest, ItemSink<'_>) -> Result<OperationResult, E>,
) -> Result<Option<String>, E> {
    let mut text = String::new();
    let request = OperationRequest::RecordList {
        zone: zone.to_owned(),
        name: None,
        rtype: None,
    };
    list(&request, &mut |item| {
        if let ListedItem::Record(mut record) = item
            && !record.disabled
        {
            let data = shown(&mut record);
            let (name, ttl, rtype) = (record.name, record.ttl, record.rtype);
            text.push_str(&format!("{name}\t{ttl}\tIN\t{rtype}\t{data}\n"));
        }
        text.len() <= REPLY_MAX
    })?;
    Ok(Some(text).filter(|text| text.len() <= REPLY_MAX))
}

/// Checks data that a client sent, and returns it as the operations take it.
pub fn accepted(owner: &str, rtype: Type, content: &str) -> ApiResult<String> {
    let refused =
        |reason: &str| ApiError::invalid(format!("Record {owner}/{rtype} '{content}': {reason}"));
    let text = content;
    if text.contains(['\n', '\r', '\0']) {
        return Err(refused("Not in expected format: it has more than one line"));
    }
    let mut rdata = Vec::new();
    parse_text(
        rtype,
        &mut Fields::new(&if keeps_text(rtype) {
            split_long_strings(text.as_bytes())
        } else {
            text.as_bytes().into()
        }),
        Name::ROOT,
        &mut rdata,
    )
    .map_err(|error| refused(&error.message.to_string()))?;
    let mut parsed = String::new();
    write_text(rtype, &rdata, &mut parsed).map_err(|error| refused(&error.to_string()))?;
    let parsed = powerdns_text(rtype, parsed);
    let is_expected = match rtype {
        Type::AAAA => true,
        // Unchanged: a client that reads it back finds no difference.
        rtype if keeps_text(rtype) => text.starts_with('"') && text.ends_with('"'),
        _ => parsed.eq_ignore_ascii_case(text),
    };
    if is_expected {
        Ok(text.to_owned())
    } else {
        Err(refused(&format!(
            "Not in expected format (parsed as '{parsed}')"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rtype: &str, content: &str) -> ApiResult<String> {
        let rtype = Type::from_text(rtype.as_bytes()).unwrap();
        accepted("x.test.", rtype, content)
    }

    #[test]
    fn data_is_accepted_only_in_the_form_of_powerdns() {
        for (rtype, content) in [
            ("A", "192.0.2.1"),
            ("AAAA", "2001:DB8:0::1"),
            ("MX", "10 Mail.example.org."),
            ("TXT", "\"v=spf1 -all\""),
            ("TXT", "\"a\" \"b\""),
            ("TXT", "\"semi;colon \\\"quoted\\\"\""),
            ("HTTPS", "1 . alpn=h2 ipv4hint=192.0.2.1"),
            ("CAA", "0 issue \"ca.example\""),
            ("SRV", "1 2 443 a.example."),
            (
                "DS",
                "12345 13 2 000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            ),
            ("TYPE65534", "\\# 2 ABCD"),
        ] {
            assert!(
                check(rtype, content).is_ok(),
                "{rtype} {content}: {:?}",
                check(rtype, content)
            );
        }
        for (rtype, content, reason) in [
            ("A", "1.2.3", "x.test./A"),
            ("MX", "10 mail.x", "parsed as '10 mail.x.'"),
            ("MX", "10  mail.x.", "parsed as '10 mail.x.'"),
            ("TXT", "abc", "Not in expected format"),
            ("HTTPS", "1 . alpn=\"h2\"", "parsed as '1 . alpn=h2'"),
            ("A", "192.0.2.1\n192.0.2.2", "more than one line"),
        ] {
            let error = format!("{:?}", check(rtype, content).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn strings_stay_as_they_were_sent() {
        for text in [
            format!("\"{}\"", "x".repeat(300)),
            format!("\"{}\"", "\\065".repeat(256)),
            "\"caf\u{e9}\"".to_owned(),
            "\"semi\\;colon\"".to_owned(),
        ] {
            assert_eq!(check("TXT", &text), Ok(text.clone()));
        }
    }
}
