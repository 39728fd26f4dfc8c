//! Owns operations on records: list, set, add, delete.

use std::time::SystemTime;

use nameward_store::sql::write::StoredRecord;
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::SerialRule;
use nameward_zone::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};

use super::{
    ListedItem, ListedRecord, OperationError, OperationResult, Operations, RecordTemplate,
    TakeItem, check_ascii, zone_name,
};

const SPF: Type = Type(99);

impl Operations {
    /// Lists the stored records of a zone, of an owner, or of an owner and type, as they come from the database.
    pub fn list_records(
        &self,
        zone: &str,
        name: Option<&str>,
        rtype: Option<&str>,
        items: TakeItem<'_>,
    ) -> Result<OperationResult, OperationError> {
        let (database, row) = self.locate(&zone_name(zone)?)?;
        let owner = name.map(|text| owner(text, &row.name)).transpose()?;
        let wanted = rtype.map(read_type).transpose()?;
        let mut count = 0;
        let mut take = |record: StoredRecord| {
            let is_it = |wanted| Type::from_text(record.rtype.as_bytes()) == Some(wanted);
            if !wanted.is_none_or(is_it) {
                return true;
            }
            count += 1;
            items(ListedItem::Record(listed(record)))
        };
        let asked = owner.as_ref().map(NameBuf::as_name);
        let listing = database.backend.stored_records(&row, asked, &mut take);
        let result = self.runtime.block_on(listing);
        result.map_err(|error| database.error(&error))?;
        Ok(OperationResult::Listed { items: count })
    }

    /// Replaces the RRset of an owner and type.
    pub fn set_records(
        &self,
        template: &RecordTemplate,
    ) -> Result<OperationResult, OperationError> {
        self.change(&template.zone, |apex| {
            Ok(Edit::Replace(template.read(apex)?))
        })
    }

    /// Adds records to the RRset of an owner and type.
    pub fn add_records(
        &self,
        template: &RecordTemplate,
    ) -> Result<OperationResult, OperationError> {
        self.change(&template.zone, |apex| Ok(Edit::Add(template.read(apex)?)))
    }

    /// Deletes an owner, an RRset, or some records of it.
    pub fn delete_records(
        &self,
        zone: &str,
        name: &str,
        rtype: Option<&str>,
        contents: &[String],
    ) -> Result<OperationResult, OperationError> {
        self.change(zone, |apex| {
            let name = owner(name, apex)?;
            let Some(rtype) = rtype.map(read_type).transpose()? else {
                if name == *apex {
                    return Err(OperationError::invalid(format!(
                        "{name} is the zone itself: name a type, or use `nameward zone delete`"
                    )));
                }
                return Ok(Edit::DeleteName { name });
            };
            Ok(match contents.is_empty() {
                true => Edit::DeleteRrset { name, rtype },
                false => Edit::DeleteRecords {
                    name,
                    rtype,
                    rdata: contents
                        .iter()
                        .map(|text| read_content(rtype, text))
                        .collect::<Result<_, _>>()?,
                },
            })
        })
    }

    fn change(
        &self,
        zone: &str,
        edit: impl FnOnce(&NameBuf) -> Result<Edit, OperationError>,
    ) -> Result<OperationResult, OperationError> {
        let (database, row) = self.locate(&zone_name(zone)?)?;
        let change = ZoneChange {
            edits: vec![edit(&row.name)?],
            origin: ChangeOrigin::Operator,
            now: SystemTime::now(),
            serial: SerialRule::default(),
        };
        let committed = self
            .runtime
            .block_on(database.backend.commit(row.id, &change))
            .map_err(|error| database.error(&error))?;
        if !committed.is_changed {
            let zone = row.name.to_string();
            return Ok(OperationResult::NoChange { zone });
        }
        let warnings = self.publish(database, &committed)?;
        let serial = committed.serial;
        tracing::info!("zone {}: changed, serial {serial}", row.name);
        let changed = database.changed(&committed, warnings);
        Ok(OperationResult::ZoneChanged(changed))
    }
}

fn listed(record: StoredRecord) -> ListedRecord {
    ListedRecord {
        id: record.id,
        name: record.name,
        ttl: record.ttl,
        rtype: record.rtype,
        content: record.content,
        disabled: record.disabled,
        problem: record.problem,
    }
}

impl RecordTemplate {
    fn read(&self, apex: &NameBuf) -> Result<RrsetData, OperationError> {
        let rtype = read_type(&self.rtype)?;
        let records = self.content.iter().map(|text| {
            Ok(NewRecord {
                rdata: read_content(rtype, text)?,
                disabled: false,
            })
        });
        let records = records.collect::<Result<Vec<_>, OperationError>>()?;
        if records.is_empty() {
            return Err(OperationError::invalid("expected the data of a record"));
        }
        Ok(RrsetData {
            name: owner(&self.name, apex)?,
            rtype,
            ttl: self.ttl,
            records,
        })
    }
}

/// The owner of a record: `@` is the zone, a name that ends like the zone is absolute, others are relative to it.
fn owner(text: &str, apex: &NameBuf) -> Result<NameBuf, OperationError> {
    let wrong = |error| OperationError::invalid(format!("{text:?} is no name: {error}"));
    if text == "@" {
        return Ok(*apex);
    }
    check_ascii(text)?;
    let absolute = NameBuf::from_text(text.as_bytes(), Name::ROOT).map_err(wrong)?;
    match absolute.as_name().is_at_or_below(apex.as_name()) {
        true => Ok(absolute),
        // With a final dot it stays absolute, and is refused as outside the zone.
        false => NameBuf::from_text(text.as_bytes(), apex.as_name()).map_err(wrong),
    }
}

fn read_type(text: &str) -> Result<Type, OperationError> {
    Type::from_text(text.as_bytes()).ok_or_else(|| {
        OperationError::invalid(format!(
            "{text:?} is no record type; types are A, AAAA, MX, TYPE65280 and so on"
        ))
    })
}

/// Reads the data of one record. Names in it must be absolute: whether `mail` is meant to be in the zone or not cannot be
/// told.
fn read_content(rtype: Type, text: &str) -> Result<Vec<u8>, OperationError> {
    // A shell takes the quotes away; one string is meant, not one for each word.
    let quoted;
    let text = match matches!(rtype, Type::TXT | SPF) && !text.contains('"') {
        true => {
            quoted = format!("\"{text}\"");
            &quoted
        }
        false => text,
    };
    if text.contains('\n') {
        return Err(OperationError::invalid(format!(
            "the data of {rtype} has more than one line"
        )));
    }
    if has_comment(text) {
        return Err(OperationError::invalid(format!(
            "a ; outside quotes begins a comment in {text:?}: put the text in double quotes"
        )));
    }
    let parse = |origin: Name<'_>| {
        let mut rdata = Vec::new();
        parse_text(rtype, &mut Fields::new(text.as_bytes()), origin, &mut rdata)
            .map(|_| rdata)
            .map_err(|error| {
                OperationError::invalid(format!(
                    "{text:?} is no data of {rtype}: {}; each record is one argument, in quotes if it has spaces",
                    error.message
                ))
            })
    };
    let rdata = parse(Name::ROOT)?;
    // Relative names come out differently below another origin.
    match parse(Name::from_valid_wire(b"\x09elsewhere\x07invalid\0")) {
        Ok(other) if other == rdata => Ok(rdata),
        _ => Err(OperationError::invalid(format!(
            "a name in {text:?} has no final dot: write it in full, such as mail.example.org."
        ))),
    }
}

/// Whether what follows a semicolon would be passed over.
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
    fn names_in_data_are_written_in_full() {
        assert!(read_content(Type::MX, "10 mail.example.org.").is_ok());
        let error = read_content(Type::MX, "10 mail.example.org").unwrap_err();
        assert!(error.message.contains("no final dot"), "{error}");
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
