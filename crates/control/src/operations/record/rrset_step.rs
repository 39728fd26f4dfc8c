//! The requested change of one RRset, with everything that a database stores about it, and posted zone files
//! converted to a list of such changes.

use nameward_base::time::now_seconds;
use nameward_sql::split_long_strings;
use nameward_sql::write::{AttributeChange, NewComment, keeps_text};
use nameward_wire::zonefile::{self, Options, Record, Severity};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{Edit, NewRecord, RrsetData};
use serde::{Deserialize, Serialize};

use super::{data_text, owner, read_content, read_type};
use crate::operations::{OperationError, Outcome, default_ttl};

/// Maximum number of records in a posted zone file.
const POSTED_RECORDS_MAX: usize = 1_000_000;

/// The change of one RRset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RrsetStep {
    /// The owner: `@`, relative to the zone, or absolute.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The kind of change.
    #[serde(default)]
    pub change: RrsetChange,
    /// The TTL in seconds; used where records are written.
    #[serde(default)]
    pub ttl: u32,
    /// The records; `None` keeps the stored ones.
    pub records: Option<Vec<RecordSpec>>,
    /// The comments; `None` keeps the stored ones.
    pub comments: Option<Vec<CommentSpec>>,
}

/// The kind of change of an RRset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RrsetChange {
    /// Replaces the records; an empty list deletes the RRset.
    #[default]
    Replace,
    /// Deletes the RRset and its comments.
    Delete,
    /// Adds records.
    Extend,
    /// Deletes the given records.
    Prune,
}

/// A record to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSpec {
    /// The data as in a zone file.
    pub content: String,
    /// Stored but not served; database zones only.
    #[serde(default)]
    pub disabled: bool,
}

/// A comment to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommentSpec {
    /// The text.
    pub content: String,
    /// The account of its author.
    #[serde(default)]
    pub account: String,
    /// When it was written, in seconds since 1970; now by default.
    pub modified_at: Option<i64>,
}

impl RrsetStep {
    /// Returns the edit of the records; `None` if the step only concerns comments.
    pub(crate) fn edit(&self, apex: &NameBuf) -> Outcome<Option<Edit>> {
        let (name, rtype) = (owner(&self.name, apex)?, read_type(&self.rtype)?);
        let records = match (self.change, &self.records) {
            (RrsetChange::Delete, _) => return Ok(Some(Edit::DeleteRrset { name, rtype })),
            (_, None) => return Ok(None),
            (_, Some(records)) => records,
        };
        if records.is_empty() {
            let edit = Edit::DeleteRrset { name, rtype };
            return Ok((self.change == RrsetChange::Replace).then_some(edit));
        }
        if self.change == RrsetChange::Prune {
            let rdata = records.iter().map(|record| {
                let (rdata, _) = read_data(rtype, &record.content)?;
                Ok(rdata)
            });
            let rdata = rdata.collect::<Outcome<_>>()?;
            return Ok(Some(Edit::DeleteRecords { name, rtype, rdata }));
        }
        let rrset = self.rrset(name, rtype, records)?;
        Ok(Some(match self.change {
            RrsetChange::Extend => Edit::Add(rrset),
            _ => Edit::Replace(rrset),
        }))
    }

    fn rrset(&self, name: NameBuf, rtype: Type, records: &[RecordSpec]) -> Outcome<RrsetData> {
        let records = records.iter().map(|record| {
            let (rdata, text) = read_data(rtype, &record.content)?;
            Ok(NewRecord {
                rdata,
                disabled: record.disabled,
                text,
            })
        });
        Ok(RrsetData {
            name,
            rtype,
            ttl: self.ttl,
            records: records.collect::<Outcome<_>>()?,
        })
    }

    /// Returns the change of the comments. A deleted RRset loses them, unless the request has new ones.
    pub(crate) fn comments_change(&self, apex: &NameBuf) -> Outcome<Option<AttributeChange>> {
        let is_deleted = match self.change {
            RrsetChange::Delete => true,
            RrsetChange::Replace => self.records.as_ref().is_some_and(Vec::is_empty),
            RrsetChange::Extend | RrsetChange::Prune => false,
        };
        let comments = match &self.comments {
            Some(comments) if self.change != RrsetChange::Delete => comments.as_slice(),
            _ if is_deleted => &[],
            _ => return Ok(None),
        };
        let name = owner(&self.name, apex)?;
        if !name.as_name().is_at_or_below(apex.as_name().zone()) {
            return Err(OperationError::invalid(format!(
                "{name} is outside the zone {apex}"
            )));
        }
        let now = now_seconds() as i64;
        let comments = comments.iter().map(|comment| NewComment {
            comment: comment.content.clone(),
            account: comment.account.clone(),
            time: comment.modified_at.unwrap_or(now),
        });
        Ok(Some(AttributeChange::SetComments {
            name: Box::new(name),
            rtype: read_type(&self.rtype)?.to_string(),
            comments: comments.collect(),
        }))
    }
}

/// Parses data, and keeps its text for types that clients expect to read back as written. Strings of more than 255
/// octets are split.
fn read_data(rtype: Type, content: &str) -> Outcome<(Vec<u8>, Option<Box<str>>)> {
    if !keeps_text(rtype) {
        return Ok((read_content(rtype, content)?, None));
    }
    let split = split_long_strings(content.as_bytes());
    let rdata = read_content(rtype, &String::from_utf8_lossy(&split))?;
    let is_quoted = content.starts_with('"') && content.ends_with('"');
    Ok((rdata, is_quoted.then(|| content.into())))
}

/// Parses a posted zone file. `$INCLUDE` is refused, and `$GENERATE` is limited.
pub(crate) fn read_zone_file(name: &NameBuf, text: &str) -> Outcome<Vec<RrsetStep>> {
    let mut options = Options::new(*name);
    options.default_ttl = Some(default_ttl());
    options.max_generate = POSTED_RECORDS_MAX as u64;
    let mut steps: Vec<RrsetStep> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut count = 0;
    let mut take = |record: &Record<'_>| {
        count += 1;
        if count > POSTED_RECORDS_MAX {
            return Err(zonefile::SinkRefusal::Record(format!(
                "a posted zone may have {POSTED_RECORDS_MAX} records"
            )));
        }
        let content = data_text(record.rtype, record.rdata);
        let mut owner = NameBuf::from(record.owner);
        owner.make_lowercase();
        let at = *places.entry((owner, record.rtype)).or_insert_with(|| {
            steps.push(RrsetStep {
                name: record.owner.to_string(),
                rtype: record.rtype.to_string(),
                ttl: record.ttl,
                records: Some(Vec::new()),
                ..RrsetStep::default()
            });
            steps.len() - 1
        });
        if let Some(records) = &mut steps[at].records {
            records.push(RecordSpec {
                content,
                disabled: false,
            });
        }
        Ok(())
    };
    let report = zonefile::parse_bytes("zone", text.as_bytes(), &options, &mut take);
    let mut errors = report.diagnostics.iter();
    match errors.find(|found| found.severity == Severity::Error) {
        None => Ok(steps),
        Some(error) => Err(OperationError::invalid(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_rrset_loses_its_comments_unless_new_ones_are_given() {
        let is_empty = |change: &AttributeChange| matches!(change, AttributeChange::SetComments { comments, .. } if comments.is_empty());
        let apex: NameBuf = "a.test.".parse().unwrap();
        let mut step = RrsetStep {
            name: "www".into(),
            rtype: "A".into(),
            change: RrsetChange::Replace,
            ttl: 60,
            records: Some(Vec::new()),
            comments: None,
        };
        let change = step.comments_change(&apex).unwrap().unwrap();
        assert!(is_empty(&change));
        step.comments = Some(vec![CommentSpec {
            content: "kept".into(),
            account: String::new(),
            modified_at: Some(5),
        }]);
        let change = step.comments_change(&apex).unwrap().unwrap();
        assert!(!is_empty(&change));
        step.change = RrsetChange::Delete;
        let change = step.comments_change(&apex).unwrap().unwrap();
        assert!(is_empty(&change));
    }

    #[test]
    fn a_posted_zone_file_cannot_include_files_and_names_its_errors() {
        let name: NameBuf = "a.test.".parse().unwrap();
        let steps = read_zone_file(&name, "www 60 IN A 192.0.2.1\nwww 60 IN A 192.0.2.2\n");
        let steps = steps.unwrap();
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].records.as_ref().unwrap().len(), 2);
        let error = read_zone_file(&name, "www A nonsense\n").unwrap_err();
        assert!(error.message.contains("zone:1"), "{error}");
        assert!(read_zone_file(&name, "$INCLUDE /etc/passwd\n").is_err());
    }
}
