//! The text format of batches: zone-file lines prefixed with `+` and `-`, or JSON.
//!
//! ```text
//! zone example.org              starts the changes of a zone; names are relative to it
//! $ORIGIN sub.example.org.      names are relative to this from here on; outside the zone it starts another
//! $TTL 3600                     for added records without a TTL
//! +www 300 A 192.0.2.1          adds a record
//! -www A 192.0.2.9              deletes a record; its TTL is ignored
//! -old MX                       deletes all records of a name and type
//! -gone                         deletes all records of a name
//! ```
//! Owner names are never omitted, and comments start with `;`. Lines are applied in order; deleted records must
//! exist.

use nameward_control::operations::{
    BatchDeletion, BatchRecords, BatchRequest, BatchStep, OperationError, Outcome, ZoneBatch,
    data_text,
};
use nameward_wire::rdata::{parse_text, parse_ttl};
use nameward_wire::text::Fields;
use nameward_wire::{Class, Name, NameBuf, Type};

/// Reads a batch; `file` names it in errors.
pub fn read(file: &str, text: &str) -> Outcome<BatchRequest> {
    let first = text.trim_start().chars().next();
    if matches!(first, Some('{' | '[')) {
        return read_json(file, text);
    }
    let mut reader = BatchReader::default();
    for (number, line) in text.lines().enumerate() {
        reader.take(line).map_err(|reason| {
            OperationError::invalid(format!("{file}:{}: {reason}", number + 1))
        })?;
    }
    Ok(BatchRequest {
        zones: reader.zones,
        ..BatchRequest::default()
    })
}

/// Reads the batches of a request, or a single batch.
fn read_json(file: &str, text: &str) -> Outcome<BatchRequest> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| OperationError::invalid(format!("{file}: {error}")))?;
    let of_error = |error| OperationError::invalid(format!("{file}: {error}"));
    let zones: Vec<ZoneBatch> = match value {
        serde_json::Value::Array(_) => serde_json::from_value(value).map_err(of_error)?,
        value if value.get("zones").is_some() => {
            return serde_json::from_value(value).map_err(of_error);
        }
        value => vec![serde_json::from_value(value).map_err(of_error)?],
    };
    Ok(BatchRequest {
        zones,
        ..BatchRequest::default()
    })
}

/// Why a line is not a valid step.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("expected +, -, zone NAME, $ORIGIN NAME or $TTL TTL at the start of the line")]
    NoSign,
    #[error("no zone yet: start with `zone NAME` or `$ORIGIN NAME`")]
    NoZone,
    #[error("expected one word after {0}")]
    OneWord(&'static str),
    #[error("invalid name {0:?}: {1}")]
    Name(String, nameward_wire::NameError),
    #[error("expected a TTL such as 300 or 1h, found {0:?}")]
    Ttl(String),
    #[error("expected a record type, found {0:?}")]
    Type(String),
    #[error("missing TTL: write it after the name, or set a default with `$TTL 3600`")]
    NoTtl,
    #[error("expected a name, a type and data after +")]
    NoData,
    #[error("column {column}: {message}")]
    Data { column: u32, message: String },
}

#[derive(Default)]
struct BatchReader {
    zones: Vec<ZoneBatch>,
    zone: Option<NameBuf>,
    origin: Option<NameBuf>,
    ttl: Option<u32>,
}

impl BatchReader {
    fn take(&mut self, line: &str) -> Result<(), LineError> {
        let text = line.trim();
        if text.is_empty() || text.starts_with(';') {
            return Ok(());
        }
        if let Some(rest) = text.strip_prefix('+') {
            return self.add(rest);
        }
        if let Some(rest) = text.strip_prefix('-') {
            return self.delete(rest);
        }
        let text = text.split(';').next().unwrap_or_default();
        let mut words = text.split_whitespace();
        let (first, second, third) = (words.next(), words.next(), words.next());
        let one = |what| {
            second
                .filter(|_| third.is_none())
                .ok_or(LineError::OneWord(what))
        };
        match first.unwrap_or_default().to_ascii_lowercase().as_str() {
            "zone" => {
                let name = name_of(one("zone")?, Name::ROOT)?;
                self.begin(name);
            }
            "$origin" => {
                let before = self.origin.unwrap_or(NameBuf::root());
                let name = name_of(one("$ORIGIN")?, before.as_name())?;
                match self.zone {
                    Some(zone) if name.as_name().is_at_or_below(zone.as_name()) => {
                        self.origin = Some(name);
                    }
                    _ => self.begin(name),
                }
            }
            "$ttl" => {
                let text = one("$TTL")?;
                let ttl = parse_ttl(text.as_bytes());
                self.ttl = Some(ttl.ok_or_else(|| LineError::Ttl(text.into()))?);
            }
            _ => return Err(LineError::NoSign),
        }
        Ok(())
    }

    fn begin(&mut self, name: NameBuf) {
        (self.zone, self.origin) = (Some(name), Some(name));
        let zone = name.to_string();
        // A zone that appears again continues its batch.
        match self.zones.iter().position(|batch| batch.zone == zone) {
            Some(at) => {
                let batch = self.zones.remove(at);
                self.zones.push(batch);
            }
            None => self.zones.push(ZoneBatch {
                zone,
                ..ZoneBatch::default()
            }),
        }
    }

    fn push(&mut self, step: BatchStep) -> Result<(), LineError> {
        let batch = self.zones.last_mut().ok_or(LineError::NoZone)?;
        batch.steps.push(step);
        Ok(())
    }

    fn add(&mut self, text: &str) -> Result<(), LineError> {
        let line = self.read(text)?;
        let (Some(rtype), Some(content)) = (line.rtype, line.content) else {
            return Err(LineError::NoData);
        };
        let ttl = line.ttl.or(self.ttl).ok_or(LineError::NoTtl)?;
        self.push(BatchStep::Add(BatchRecords {
            name: line.name.to_string(),
            rtype: rtype.to_string(),
            ttl,
            content: vec![content],
        }))
    }

    fn delete(&mut self, text: &str) -> Result<(), LineError> {
        let line = self.read(text)?;
        self.push(BatchStep::Delete(BatchDeletion {
            name: line.name.to_string(),
            rtype: line.rtype.map(|rtype| rtype.to_string()),
            content: line.content.into_iter().collect(),
        }))
    }

    /// Reads the rest of a line after its sign: a name, then in this order, each optional, TTL and class, type, data.
    fn read(&self, text: &str) -> Result<StepLine, LineError> {
        let origin = self.origin.ok_or(LineError::NoZone)?;
        let mut fields = Fields::new(text.as_bytes());
        let mut words = 0;
        let mut next = || {
            words += 1;
            let token = fields.next().map_err(|error| LineError::Data {
                column: error.column,
                message: error.message,
            });
            token.map(|token| token.map(|token| String::from_utf8_lossy(token.text).into_owned()))
        };
        let name = next()?.ok_or(LineError::NoData)?;
        let name = name_of(&name, origin.as_name())?;
        let (mut ttl, mut rtype) = (None, None);
        while rtype.is_none()
            && let Some(word) = next()?
        {
            let is_class = Class::from_text(word.as_bytes()) == Some(Class::IN);
            if is_class {
                continue;
            }
            match parse_ttl(word.as_bytes()).filter(|_| ttl.is_none()) {
                Some(number) => ttl = Some(number),
                None => {
                    let known = Type::from_text(word.as_bytes());
                    rtype = Some(known.ok_or(LineError::Type(word))?);
                }
            }
        }
        let content = match rtype {
            Some(rtype) if has_more(text, words) => {
                Some(data_of(rtype, &mut fields, origin.as_name())?)
            }
            _ => None,
        };
        Ok(StepLine {
            content,
            name,
            ttl,
            rtype,
        })
    }
}

/// A line of a batch.
struct StepLine {
    name: NameBuf,
    ttl: Option<u32>,
    rtype: Option<Type>,
    content: Option<String>,
}

fn name_of(text: &str, origin: Name<'_>) -> Result<NameBuf, LineError> {
    if text == "@" {
        return Ok(origin.into());
    }
    NameBuf::from_text(text.as_bytes(), origin).map_err(|error| LineError::Name(text.into(), error))
}

/// Checks whether an entry has more than this many words.
fn has_more(text: &str, words: usize) -> bool {
    let mut fields = Fields::new(text.as_bytes());
    (0..=words).all(|_| matches!(fields.next(), Ok(Some(_)) | Err(_)))
}

/// Reads record data in zone file format, and writes it in full.
fn data_of(rtype: Type, fields: &mut Fields<'_>, origin: Name<'_>) -> Result<String, LineError> {
    let mut rdata = Vec::new();
    parse_text(rtype, fields, origin, &mut rdata).map_err(|error| LineError::Data {
        column: error.column,
        message: format!("{rtype}: {}", error.message),
    })?;
    Ok(data_text(rtype, &rdata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_signs_become_steps_of_zones() {
        let text = "; a comment\nzone example.org\n$TTL 1h\n+www 300 IN A 192.0.2.1\n+ @ MX 10 mail\n-old A\n-gone\n\
                    $ORIGIN sub.example.org.\n-a 60 TXT \"x ; y\" ; gone\n$ORIGIN example.net.\n+txt 5 TXT \"b\"\n";
        let request = read("file", text).unwrap();
        let json = serde_json::to_string(&request.zones).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"[{"zone":"example.org.","steps":["#,
                r#"{"add":{"name":"www.example.org.","type":"A","ttl":300,"content":["192.0.2.1"]}},"#,
                r#"{"add":{"name":"example.org.","type":"MX","ttl":3600,"content":["10 mail.example.org."]}},"#,
                r#"{"delete":{"name":"old.example.org.","type":"A"}},"#,
                r#"{"delete":{"name":"gone.example.org."}},"#,
                r#"{"delete":{"name":"a.sub.example.org.","type":"TXT","content":["\"x ; y\""]}}]},"#,
                r#"{"zone":"example.net.","steps":["#,
                r#"{"add":{"name":"txt.example.net.","type":"TXT","ttl":5,"content":["\"b\""]}}]}]"#
            )
        );
        // JSON is accepted in the format in which it is sent.
        assert_eq!(read("file", &json).unwrap(), request);
        let whole = format!("{{\"zones\":{json}}}");
        assert_eq!(read("file", &whole).unwrap(), request);
    }

    #[test]
    fn mistakes_are_reported_with_their_lines() {
        for (text, reason) in [
            ("+www 300 A 192.0.2.1", "file:1: no zone yet"),
            ("zone a.test\n\nwww A 192.0.2.1", "file:3: expected +, -"),
            ("zone a.test\n+www A 192.0.2.1", "file:2: missing TTL"),
            (
                "zone a.test\n+www 60 A",
                "file:2: expected a name, a type and data",
            ),
            ("zone a.test\n+www 60 A 192.0.2", "file:2: column"),
            (
                "zone a.test\n+www 60 NONE x",
                "expected a record type, found \"NONE\"",
            ),
            ("zone a.test b.test", "expected one word after zone"),
            ("zone a..test", "invalid name"),
            ("$TTL never", "expected a TTL"),
            ("{\"zone\":1}", "file: "),
        ] {
            let error = read("file", text).unwrap_err();
            assert!(error.message.contains(reason), "{text:?}: {error}");
        }
    }
}
