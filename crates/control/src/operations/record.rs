//! Owns records: listed, set, added, deleted.

use std::fmt::Write;
use std::time::SystemTime;

use nameward_store::sql::write::StoredRecord;
use nameward_wire::rdata::{parse_text, parse_ttl};
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};

use super::{LINES_MAX, Operations, check_ascii, describe, zone_name};

const SPF: Type = Type(99);

impl Operations {
    /// The records of a zone, of a name or of a name and type, as lines of a zone file.
    pub fn list_records(
        &self,
        zone: &str,
        name: Option<&str>,
        rtype: Option<&str>,
    ) -> Result<String, String> {
        let (database, row) = self.locate(&zone_name(zone)?)?;
        let owner = name.map(|text| owner(text, &row.name)).transpose()?;
        let wanted = rtype.map(read_type).transpose()?;
        let (mut records, mut is_cut) = (Vec::new(), false);
        let mut take = |record: StoredRecord| {
            let is_it = |wanted| Type::from_text(record.rtype.as_bytes()) == Some(wanted);
            if wanted.is_none_or(is_it) {
                let mut name = NameBuf::root();
                let _ = name.set_from_text(record.name.as_bytes(), Name::ROOT);
                records.push((name.as_name().as_wire().to_vec(), record));
            }
            is_cut = records.len() >= LINES_MAX;
            !is_cut
        };
        let asked = owner.as_ref().map(NameBuf::as_name);
        let listing = database.backend.stored_records(row.id, asked, &mut take);
        let listed = self.runtime.block_on(listing);
        listed.map_err(|error| describe(database, &error))?;
        records.sort_by(|(a, one), (b, other)| {
            let (a, b) = (Name::from_valid_wire(a), Name::from_valid_wire(b));
            let soa_first = |record: &StoredRecord| record.rtype != "SOA";
            let rest = |record: &StoredRecord| (soa_first(record), record.rtype.clone(), record.id);
            a.canonical_cmp(b).then_with(|| rest(one).cmp(&rest(other)))
        });
        let mut text = String::new();
        for (name, record) in &records {
            let name = Name::from_valid_wire(name);
            let ttl = record.ttl.unwrap_or(3600);
            let (content, mut note) = match &record.content {
                Ok(content) => (content.as_str(), ""),
                Err(stored) => (stored.as_str(), " ; not valid: not served"),
            };
            if record.disabled {
                note = " ; disabled";
            }
            let _ = writeln!(text, "{name} {ttl} IN {} {content}{note}", record.rtype);
        }
        if is_cut {
            text.push_str("; and more: name one of them\n");
        }
        Ok(text)
    }

    /// Puts records in place of all of a name and type.
    pub fn set_records(&self, zone: &str, record: &RecordWords<'_>) -> Result<String, String> {
        self.change(zone, |apex| Ok(Edit::Replace(record.read(apex)?)))
    }

    /// Adds records to those of a name and type.
    pub fn add_records(&self, zone: &str, record: &RecordWords<'_>) -> Result<String, String> {
        self.change(zone, |apex| Ok(Edit::Add(record.read(apex)?)))
    }

    /// Deletes a name, a name and type, or some records of it.
    pub fn delete_records(
        &self,
        zone: &str,
        name: &str,
        rtype: Option<&str>,
        contents: &[&str],
    ) -> Result<String, String> {
        self.change(zone, |apex| {
            let name = owner(name, apex)?;
            let Some(rtype) = rtype.map(read_type).transpose()? else {
                if name == *apex {
                    return Err(format!(
                        "{name} is the zone itself: name a type, or use `nameward zone delete`"
                    ));
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
        edit: impl FnOnce(&NameBuf) -> Result<Edit, String>,
    ) -> Result<String, String> {
        let (database, row) = self.locate(&zone_name(zone)?)?;
        let change = ZoneChange {
            edits: vec![edit(&row.name)?],
            origin: ChangeOrigin::Operator,
            now: SystemTime::now(),
        };
        let committed = self
            .runtime
            .block_on(database.backend.commit(row.id, &change))
            .map_err(|error| describe(database, &error))?;
        if !committed.is_changed {
            return Ok(format!(
                "{} is like that already: nothing changed\n",
                row.name
            ));
        }
        let lines = self.publish(database, &committed)?;
        let serial = committed.serial;
        tracing::info!(
            "zone {} changed over the control socket: serial {serial}",
            row.name
        );
        Ok(format!("{} has serial {serial} now\n", row.name) + &lines)
    }
}

/// Records as an operator writes them.
pub struct RecordWords<'w> {
    /// The owner: `@`, relative to the zone, or absolute.
    pub name: &'w str,
    /// The type.
    pub rtype: &'w str,
    /// The TTL.
    pub ttl: &'w str,
    /// The data of each record.
    pub contents: Vec<&'w str>,
}

impl RecordWords<'_> {
    fn read(&self, apex: &NameBuf) -> Result<RrsetData, String> {
        let rtype = read_type(self.rtype)?;
        let ttl = parse_ttl(self.ttl.as_bytes())
            .ok_or_else(|| format!("expected a TTL such as 300 or 1h, found {:?}", self.ttl))?;
        let records = self.contents.iter().map(|text| {
            Ok(NewRecord {
                rdata: read_content(rtype, text)?,
                disabled: false,
            })
        });
        Ok(RrsetData {
            name: owner(self.name, apex)?,
            rtype,
            ttl,
            records: records.collect::<Result<_, String>>()?,
        })
    }
}

/// The owner of a record: `@` is the zone, a name that ends like the zone is absolute, others are relative to it.
fn owner(text: &str, apex: &NameBuf) -> Result<NameBuf, String> {
    let wrong = |error| format!("{text:?} is no name: {error}");
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

fn read_type(text: &str) -> Result<Type, String> {
    Type::from_text(text.as_bytes()).ok_or_else(|| {
        format!("{text:?} is no record type; there are A, AAAA, MX, TYPE65280 and so on")
    })
}

/// Reads the data of one record. Names in it must be absolute: whether `mail` is meant to be in the zone or not cannot be
/// told.
fn read_content(rtype: Type, text: &str) -> Result<Vec<u8>, String> {
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
        return Err(format!("the data of {rtype} has more than one line"));
    }
    if has_comment(text) {
        return Err(format!(
            "a ; outside quotes begins a comment in {text:?}: put the text in double quotes"
        ));
    }
    let parse = |origin: Name<'_>| {
        let mut rdata = Vec::new();
        parse_text(rtype, &mut Fields::new(text.as_bytes()), origin, &mut rdata)
            .map(|_| rdata)
            .map_err(|error| {
                format!(
                    "{text:?} is no data of {rtype}: {}; each record is one argument, in quotes if it has spaces",
                    error.message
                )
            })
    };
    let rdata = parse(Name::ROOT)?;
    let elsewhere: NameBuf =
        NameBuf::from_text(b"elsewhere.invalid", Name::ROOT).map_err(|error| error.to_string())?;
    match parse(elsewhere.as_name()) {
        Ok(other) if other == rdata => Ok(rdata),
        _ => Err(format!(
            "a name in {text:?} has no final dot: write it in full, such as mail.example.org."
        )),
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
        assert!(owner("bücher", &apex).unwrap_err().contains("xn--"));
        assert!(owner("", &apex).is_err());
    }

    #[test]
    fn names_in_data_are_written_in_full() {
        assert!(read_content(Type::MX, "10 mail.example.org.").is_ok());
        let error = read_content(Type::MX, "10 mail.example.org").unwrap_err();
        assert!(error.contains("no final dot"), "{error}");
        assert!(read_content(Type::CNAME, "@").is_err());
        assert!(read_content(Type::A, "192.0.2.1").is_ok());
        let error = read_content(Type::MX, "10").unwrap_err();
        assert!(error.contains("one argument"), "{error}");
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
            assert!(error.contains("comment"), "{error}");
        }
    }
}
