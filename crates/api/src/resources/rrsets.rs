//! RRsets in request bodies, and as they are listed.

use std::collections::{HashMap, HashSet};

use nameward_control::operations::{
    CommentSpec, ListedComment, ListedItem, OperationRequest, RecordSpec, RrsetChange, RrsetStep,
    ZoneAttributes,
};
use nameward_wire::Type;
use serde_json::Value;

use crate::content;
use crate::fields::{
    canonical_name, optional_bool, optional_list, optional_string, string, unsigned,
};
use crate::operator::Call;
use crate::response::{ApiError, ApiResult, PiecedText, REPLY_MAX, too_large};

use super::zone_views::{CommentJson, RecordJson, RrsetJson};

/// The highest TTL (RFC 2181 section 8).
const TTL_MAX: u64 = 0x7fff_ffff;
/// Octets of an RRset in a reply besides its texts, about.
const RRSET_OVERHEAD: usize = 64;

/// Reads the RRsets of a body. In a new zone they have no `changetype`.
pub fn read(list: &[Value], zone: &str, has_changetype: bool) -> ApiResult<Vec<RrsetStep>> {
    let mut steps: Vec<RrsetStep> = Vec::with_capacity(list.len());
    let mut seen = HashSet::new();
    for rrset in list {
        let step = read_one(rrset, zone, has_changetype)?;
        let key = (step.name.to_ascii_lowercase(), step.rtype.clone());
        if !seen.insert((key, step.change == RrsetChange::Delete)) {
            let (name, rtype) = (&step.name, &step.rtype);
            return Err(ApiError::invalid(if has_changetype {
                format!(
                    "Duplicate RRset {name} IN {rtype} with changetype: {}",
                    string(rrset, "changetype")?
                )
            } else {
                format!("Duplicate RRset {name} IN {rtype}")
            }));
        }
        steps.push(step);
    }
    Ok(steps)
}

fn read_one(rrset: &Value, zone: &str, has_changetype: bool) -> ApiResult<RrsetStep> {
    let change = if !has_changetype {
        RrsetChange::Replace
    } else {
        match string(rrset, "changetype")?.to_ascii_uppercase().as_str() {
            "REPLACE" => RrsetChange::Replace,
            "DELETE" => RrsetChange::Delete,
            "EXTEND" => RrsetChange::Extend,
            "PRUNE" => RrsetChange::Prune,
            _ => return Err(ApiError::invalid("Changetype not understood")),
        }
    };
    let name = canonical_name(rrset, "name")?;
    let word = string(rrset, "type")?;
    let rtype = Type::from_text(word.as_bytes()).filter(|rtype| !rtype.is_meta());
    let rtype = rtype
        .ok_or_else(|| ApiError::invalid(format!("RRset {name} IN {word}: unknown type given")))?;
    let of_name = nameward_control::operations::domain_name(name);
    let of_name =
        of_name.map_err(|_| ApiError::invalid(format!("Unable to parse DNS Name '{name}'")))?;
    let of_zone = nameward_control::operations::zone_name(zone)?;
    if !of_name.as_name().is_at_or_below(of_zone.as_name().zone()) {
        return Err(ApiError::invalid(format!(
            "RRset {name} IN {rtype}: Name is out of zone"
        )));
    }
    if !name.chars().all(is_allowed) {
        return Err(ApiError::invalid(format!(
            "Name '{of_name}' contains unsupported characters"
        )));
    }
    let is_apex = of_name.as_name() == of_zone.as_name().zone();
    let misplaced = match rtype {
        Type::DS if is_apex => Some("is not allowed at apex"),
        Type::SOA | Type::DNSKEY if !is_apex => Some("is only allowed at apex"),
        _ => None,
    };
    if let (Some(reason), true) = (misplaced, change != RrsetChange::Delete) {
        return Err(ApiError::invalid(format!(
            "RRset {name} IN {rtype} {reason}"
        )));
    }
    let mut step = RrsetStep {
        name: name.to_owned(),
        rtype: rtype.to_string(),
        change,
        ..RrsetStep::default()
    };
    if change == RrsetChange::Delete {
        return Ok(step);
    }
    step.comments = read_comments(rrset)?;
    if let Some(list) = optional_list(rrset, "records")? {
        if change != RrsetChange::Prune && !list.is_empty() {
            step.ttl = unsigned(rrset, "ttl", TTL_MAX)? as u32;
        }
        step.records = Some(read_records(list, name, rtype)?);
    }
    if step.records.is_none() && step.comments.is_none() {
        Err(ApiError::invalid(format!(
            "No change for RRset {name} IN {rtype}"
        )))
    } else {
        Ok(step)
    }
}

/// Characters in names of RRsets, as PowerDNS has them.
fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_/.\\*".contains(c)
}

fn read_records(list: &[Value], name: &str, rtype: Type) -> ApiResult<Vec<RecordSpec>> {
    let mut records: Vec<RecordSpec> = Vec::with_capacity(list.len());
    let mut seen = HashSet::new();
    for record in list {
        let given = string(record, "content")?;
        let content = content::accepted(name, rtype, given)?;
        if !seen.insert(content.clone()) {
            return Err(ApiError::invalid(format!(
                "Duplicate record in RRset {name} IN {rtype} with content \"{given}\""
            )));
        }
        records.push(RecordSpec {
            content,
            disabled: optional_bool(record, "disabled")?.unwrap_or(false),
        });
    }
    let is_single = matches!(rtype, Type::CNAME | Type::SOA | Type::DNAME);
    if is_single && records.len() > 1 {
        Err(ApiError::invalid(format!(
            "RRset {name} IN {rtype} has more than one record"
        )))
    } else {
        Ok(records)
    }
}

fn read_comments(rrset: &Value) -> ApiResult<Option<Vec<CommentSpec>>> {
    let Some(list) = optional_list(rrset, "comments")? else {
        return Ok(None);
    };
    let comments = list.iter().map(|comment| {
        Ok(CommentSpec {
            content: string(comment, "content")?.to_owned(),
            account: match comment.get("account") {
                None => string(comment, "account")?.to_owned(),
                Some(_) => optional_string(comment, "account")?
                    .unwrap_or("")
                    .to_owned(),
            },
            modified_at: match comment.get("modified_at") {
                None | Some(Value::Null) => None,
                Some(_) => Some(unsigned(comment, "modified_at", u32::MAX.into())? as i64),
            },
        })
    });
    comments.collect::<ApiResult<Vec<_>>>().map(Some)
}

/// The requested RRsets of a zone.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShownRrsets<'f> {
    /// Only at this name.
    pub name: Option<&'f str>,
    /// Only of this type.
    pub rtype: Option<&'f str>,
    /// Without records that are stored and not served.
    pub served_only: bool,
}

/// Passes on the RRsets of a zone with their comments, one after another.
pub fn each(
    call: &Call<'_>,
    zone: &ZoneAttributes,
    filter: ShownRrsets<'_>,
    each: &mut (dyn FnMut(&RrsetJson) + Send),
) -> ApiResult<()> {
    let mut comments = comments_by_rrset(call, zone)?;
    let mut current: Option<RrsetJson> = None;
    let mut octets = 0;
    let request = OperationRequest::RecordList {
        zone: zone.name.clone(),
        name: filter.name.map(str::to_owned),
        rtype: filter.rtype.map(str::to_owned),
    };
    call.list(&request, &mut |item| {
        let ListedItem::Record(mut record) = item else {
            return true;
        };
        if record.disabled && filter.served_only {
            return true;
        }
        let view = RecordJson {
            content: content::shown(&mut record),
            disabled: record.disabled,
        };
        octets += RRSET_OVERHEAD + record.name.len() + view.content.len();
        match &mut current {
            Some(last)
                if last.rtype == record.rtype && last.name.eq_ignore_ascii_case(&record.name) =>
            {
                last.records.push(view);
            }
            _ => {
                let next = RrsetJson {
                    comments: if comments.is_empty() {
                        Vec::new()
                    } else {
                        let key = (record.name.to_ascii_lowercase(), record.rtype.clone());
                        comments.remove(&key).unwrap_or_default()
                    },
                    name: record.name,
                    records: vec![view],
                    ttl: record.ttl,
                    rtype: record.rtype,
                };
                current.replace(next).iter().for_each(&mut *each);
            }
        }
        octets <= REPLY_MAX
    })?;
    if octets > REPLY_MAX {
        return Err(too_large());
    }
    current.iter().for_each(each);
    Ok(())
}

/// Appends the RRsets of a zone as JSON, without the brackets around them.
pub fn write(
    call: &Call<'_>,
    zone: &ZoneAttributes,
    filter: ShownRrsets<'_>,
    out: &mut PiecedText,
) -> ApiResult<()> {
    let mut separator = "";
    each(call, zone, filter, &mut |rrset| {
        let piece = out.end();
        piece.extend_from_slice(separator.as_bytes());
        separator = ", ";
        rrset.write(piece);
    })
}

type CommentsByRrset = HashMap<(String, String), Vec<CommentJson>>;

fn comments_by_rrset(call: &Call<'_>, zone: &ZoneAttributes) -> ApiResult<CommentsByRrset> {
    let mut comments = CommentsByRrset::new();
    if !zone.is_in_database {
        return Ok(comments);
    }
    let request = OperationRequest::CommentList {
        zone: zone.name.clone(),
    };
    for comment in call.listed::<ListedComment>(&request)? {
        let key = (comment.name.to_ascii_lowercase(), comment.rtype);
        comments.entry(key).or_default().push(CommentJson {
            account: comment.account,
            content: comment.comment,
            modified_at: comment.modified_at,
        });
    }
    Ok(comments)
}
