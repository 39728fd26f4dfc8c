//! Operations on records: list, set, add, delete.

pub(super) mod advice;
pub(super) mod batch;
pub(super) mod change;
pub(super) mod comments;
pub(super) mod rrset_step;
pub(super) mod rrsets;
pub(super) mod search;
pub(super) mod text;

use std::sync::Arc;

use nameward_sql::write::StoredRecord;
use nameward_wire::rdata::{parse_text, write_text};
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::{ChangeAuthor, Edit, RrsetData};
use nameward_zone::{Node, Zone};

use super::zone::location::ZoneLocation;
use super::{
    ItemSink, ListedItem, ListedRecord, OperationError, OperationResult, Operations, Outcome,
    RecordTemplate, check_ascii, zone_name,
};
use batch::BatchRecords;
use change::{ChangeMode, OperatorChange};

const SPF: Type = Type(99);

impl Operations {
    /// Lists the records of a zone, of an owner, or of an owner and type, as stored or in memory.
    pub fn list_records(
        &self,
        zone: &str,
        name: Option<&str>,
        rtype: Option<&str>,
        items: ItemSink<'_>,
    ) -> Outcome {
        let location = self.location(&zone_name(zone)?)?;
        let owner = name.map(|text| owner(text, &location.name())).transpose()?;
        let rtype = rtype.map(read_type).transpose()?;
        let (database, row) = match &location {
            ZoneLocation::Database(database, row) => (database, row),
            ZoneLocation::Memory(zone) => {
                return Ok(list_in_memory(&zone.version, owner, rtype, items));
            }
        };
        let mut count = 0;
        let mut take = |record: StoredRecord| {
            let is_it = |rtype| Type::from_text(record.rtype.as_bytes()) == Some(rtype);
            if !rtype.is_none_or(is_it) {
                return true;
            }
            count += 1;
            items(ListedItem::Record(listed(record)))
        };
        let owner = owner.as_ref().map(NameBuf::as_name);
        let listing = database.backend.stored_records(row, owner, &mut take);
        self.wait(database, listing)?;
        Ok(OperationResult::Listed { items: count })
    }

    /// Makes one step in a zone.
    pub(super) fn change_records(
        &self,
        zone: &str,
        author: Option<&Arc<ChangeAuthor>>,
        edit: impl FnOnce(&NameBuf) -> Outcome<Edit>,
    ) -> Outcome {
        let location = self.location(&zone_name(zone)?)?;
        let apex = location.name();
        let change = OperatorChange {
            author: author.cloned(),
            ..OperatorChange::new(apex, vec![edit(&apex)?])
        };
        let outcome = self.make_change(&location, &change, ChangeMode::Make)?;
        Ok(outcome.result())
    }
}

/// Lists records of a version in memory in zone file order: the SOA, the apex, then other names in canonical order.
fn list_in_memory(
    zone: &Zone,
    owner: Option<NameBuf>,
    rtype: Option<Type>,
    items: ItemSink<'_>,
) -> OperationResult {
    let mut count = 0;
    let mut take = |node: Node<'_>, is_it: &dyn Fn(Type) -> bool| {
        let rrsets = node.rrsets();
        let rrsets = rrsets.filter(|rrset| is_it(rrset.rtype()));
        let mut rrsets = rrsets.filter(|rrset| rtype.is_none_or(|rtype| rtype == rrset.rtype()));
        rrsets.all(|rrset| {
            rrset.records().all(|record| {
                let (rtype, ttl) = (rrset.rtype(), rrset.ttl());
                count += 1;
                items(served_record(node.name(), ttl, rtype, record.rdata).into())
            })
        })
    };
    match owner {
        Some(owner) => {
            if let Some(node) = zone.node_of(owner.as_name()) {
                take(node, &|_| true);
            }
        }
        // The apex is the first in canonical order.
        None => {
            if take(zone.apex(), &|rtype| rtype == Type::SOA) {
                zone.nodes_in_order().all(|node| {
                    let is_apex = node.name() == zone.apex_name();
                    take(node, &|rtype| !is_apex || rtype != Type::SOA)
                });
            }
        }
    }
    OperationResult::Listed { items: count }
}

/// Returns the data of a record that was parsed before, as in a zone file.
pub fn data_text(rtype: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    // The data of a zone is valid.
    let _ = write_text(rtype, rdata, &mut text);
    text
}

/// Makes a list item of a record that no database has.
pub(super) fn served_record(name: Name<'_>, ttl: u32, rtype: Type, rdata: &[u8]) -> ListedRecord {
    ListedRecord {
        id: None,
        name: name.to_string(),
        ttl,
        rtype: rtype.to_string(),
        content: data_text(rtype, rdata),
        text: None,
        disabled: false,
        problem: None,
    }
}

/// Converts a stored record to a list item.
pub(super) fn listed(record: StoredRecord) -> ListedRecord {
    ListedRecord {
        id: Some(record.id),
        name: record.name,
        ttl: record.ttl,
        rtype: record.rtype,
        text: record.text.filter(|text| *text != record.content),
        content: record.content,
        disabled: record.disabled,
        problem: record.problem,
    }
}

impl RecordTemplate {
    pub(super) fn read(&self, apex: &NameBuf) -> Outcome<RrsetData> {
        let owner_and_type = (self.name.as_str(), self.rtype.as_str());
        read_records(owner_and_type, self.ttl, &self.content, apex)
    }
}

/// Reads the records of a step.
pub(super) fn read_rrset(records: &BatchRecords, apex: &NameBuf) -> Outcome<RrsetData> {
    let owner_and_type = (records.name.as_str(), records.rtype.as_str());
    read_records(owner_and_type, records.ttl, &records.content, apex)
}

fn read_records(
    (name, rtype): (&str, &str),
    ttl: u32,
    content: &[String],
    apex: &NameBuf,
) -> Outcome<RrsetData> {
    let rtype = read_type(rtype)?;
    let record = |text: &String| Ok(read_content(rtype, text)?.into());
    let records = content.iter().map(record);
    let records = records.collect::<Outcome<Vec<_>>>()?;
    if records.is_empty() {
        return Err(OperationError::invalid("missing record data"));
    }
    Ok(RrsetData {
        name: owner(name, apex)?,
        rtype,
        ttl,
        records,
    })
}

/// Reads a deletion: of an owner, of an RRset, or of some records of it.
pub(super) fn read_deletion(
    name: &str,
    rtype: Option<&str>,
    contents: &[String],
    apex: &NameBuf,
) -> Outcome<Edit> {
    let name = owner(name, apex)?;
    let Some(rtype) = rtype.map(read_type).transpose()? else {
        if name.as_name() == apex.as_name().zone() {
            return Err(OperationError::invalid(format!(
                "{name} is the zone apex: specify a type, or use `nameward zone delete`"
            )));
        }
        return Ok(Edit::DeleteName { name });
    };
    let rdata = contents.iter().map(|text| read_content(rtype, text));
    Ok(if contents.is_empty() {
        Edit::DeleteRrset { name, rtype }
    } else {
        Edit::DeleteRecords {
            name,
            rtype,
            rdata: rdata.collect::<Result<_, _>>()?,
        }
    })
}

/// Reads the owner of a record: `@` is the zone, a name that ends like the zone is absolute, others are relative to
/// it.
pub(super) fn owner(text: &str, apex: &NameBuf) -> Outcome<NameBuf> {
    let wrong = |error| OperationError::invalid(format!("invalid name {text:?}: {error}"));
    let apex = NameBuf::from(apex.as_name().zone());
    if text == "@" {
        return Ok(apex);
    }
    check_ascii(text)?;
    let absolute = NameBuf::from_text(text.as_bytes(), Name::ROOT).map_err(wrong)?;
    if absolute.as_name().is_at_or_below(apex.as_name()) {
        Ok(absolute)
    } else {
        // With a final dot it stays absolute, and is refused as outside the zone.
        NameBuf::from_text(text.as_bytes(), apex.as_name()).map_err(wrong)
    }
}

pub(super) fn read_type(text: &str) -> Outcome<Type> {
    Type::from_text(text.as_bytes()).ok_or_else(|| {
        OperationError::invalid(format!(
            "unknown record type {text:?}; expected a type such as A, AAAA, MX or TYPE65280"
        ))
    })
}

/// Reads the data of one record. Names in it must be absolute: it is unclear whether `mail` is meant to be in the
/// zone.
pub(super) fn read_content(rtype: Type, text: &str) -> Outcome<Vec<u8>> {
    // A shell removes the quotes; one string is meant, not one for each word.
    let quoted;
    let text = if matches!(rtype, Type::TXT | SPF) && !text.contains('"') {
        quoted = format!("\"{text}\"");
        &quoted
    } else {
        text
    };
    if text.contains('\n') {
        return Err(OperationError::invalid(format!(
            "{rtype} record data has more than one line"
        )));
    }
    if has_comment(text) {
        return Err(OperationError::invalid(format!(
            "a ; outside quotes starts a comment in {text:?}: put the text in double quotes"
        )));
    }
    let parse = |origin: Name<'_>| {
        let mut rdata = Vec::new();
        parse_text(rtype, &mut Fields::new(text.as_bytes()), origin, &mut rdata)
            .map(|_| rdata)
            .map_err(|error| {
                OperationError::invalid(format!(
                    "invalid {rtype} record data {text:?}: {}; pass each record as one argument, in quotes if it has \
                     spaces",
                    error.message
                ))
            })
    };
    let rdata = parse(Name::ROOT)?;
    // Relative names differ below another origin.
    match parse(Name::from_valid_wire(b"\x09elsewhere\x07invalid\0")) {
        Ok(other) if other == rdata => Ok(rdata),
        _ => Err(OperationError::invalid(format!(
            "a name in {text:?} has no trailing dot: write it in full, such as mail.example.org."
        ))),
    }
}

/// Checks whether text after a semicolon would be ignored.
fn has_comment(text: &str) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    text.bytes().any(|byte| {
        quoted ^= byte == b'"' && !escaped;
        let begins = byte == b';' && !quoted && !escaped;
        escaped = byte == b'\\' && !escaped;
        begins
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_relative_absolute_or_the_zone() {
        let apex: NameBuf = "example.org.".parse().unwrap();
        for (text, expected) in [
            ("@", "example.org."),
            ("www", "www.example.org."),
            ("a.b", "a.b.example.org."),
            ("www.example.org", "www.example.org."),
            ("www.example.org.", "www.example.org."),
            ("www.example.net.", "www.example.net."),
            ("example.org", "example.org."),
            ("*", "*.example.org."),
        ] {
            assert_eq!(
                owner(text, &apex).unwrap(),
                expected.parse().unwrap(),
                "{text}"
            );
        }
        assert!(owner("a..b", &apex).is_err());
        assert!(owner("bücher", &apex).unwrap_err().message.contains("xn--"));
        assert!(owner("", &apex).is_err());
    }

    #[test]
    fn names_in_data_must_be_absolute() {
        assert!(read_content(Type::MX, "10 mail.example.org.").is_ok());
        let error = read_content(Type::MX, "10 mail.example.org").unwrap_err();
        assert!(error.message.contains("no trailing dot"), "{error}");
        assert!(read_content(Type::CNAME, "@").is_err());
        assert!(read_content(Type::A, "192.0.2.1").is_ok());
        let error = read_content(Type::MX, "10").unwrap_err();
        assert!(error.message.contains("one argument"), "{error}");
    }

    #[test]
    fn text_without_quotes_is_one_string() {
        let expected = b"\x0bv=spf1 -all".to_vec();
        assert_eq!(read_content(Type::TXT, "v=spf1 -all"), Ok(expected.clone()));
        assert_eq!(read_content(Type::TXT, "\"v=spf1 -all\""), Ok(expected));
        assert_eq!(
            read_content(Type::TXT, "\"a\" \"b\""),
            Ok(b"\x01a\x01b".to_vec())
        );
        assert!(read_content(Type::TXT, "a\nb").is_err());
        assert_eq!(read_content(Type::TXT, "a;b"), Ok(b"\x03a;b".to_vec()));
        for lossy in ["a ; \"b\"", "\"a\" ;b"] {
            let error = read_content(Type::TXT, lossy).unwrap_err();
            assert!(error.message.contains("comment"), "{error}");
        }
    }
}
