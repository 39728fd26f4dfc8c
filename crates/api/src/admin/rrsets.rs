//! Owns the RRsets of a zone as pages show them: records grouped by owner and type, in the order of a zone file.

use std::collections::HashMap;

use nameward_control::operations::{
    ListedComment, ListedItem, ListedRecord, OperationRequest, ZoneAttributes,
};

use super::{PageResult, Visit};

/// RRsets that are sorted for one page; a filter makes fewer.
const RRSETS_MAX: usize = 200_000;

/// An RRset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownRrset {
    /// The owner with its final dot.
    pub name: String,
    /// The owner relative to the zone, `@` for the zone itself.
    pub relative: String,
    pub rtype: String,
    pub ttl: u32,
    pub records: Vec<ShownRecord>,
    pub comments: Vec<ListedComment>,
}

/// A record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownRecord {
    pub content: String,
    /// It is stored and not served.
    pub disabled: bool,
    /// Why it cannot be served.
    pub problem: Option<String>,
}

/// The RRsets to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RrsetFilter {
    /// A part of the owner or of the data, in lower case; all if empty.
    pub text: String,
    /// The type, in upper case; all if empty.
    pub rtype: String,
}

impl RrsetFilter {
    fn matches(&self, record: &ListedRecord) -> bool {
        let has = |text: &str| text.to_ascii_lowercase().contains(&self.text);
        let is_type = self.rtype.is_empty() || self.rtype == record.rtype;
        is_type && (self.text.is_empty() || has(&record.name) || has(&record.content))
    }
}

/// Lists the RRsets of a zone that match, in the order of a zone file; at most [`RRSETS_MAX`].
pub fn list(
    visit: &Visit<'_>,
    zone: &ZoneAttributes,
    filter: &RrsetFilter,
) -> PageResult<Vec<ShownRrset>> {
    let request = OperationRequest::RecordList {
        zone: zone.name.clone(),
        name: None,
        rtype: None,
    };
    let mut rrsets = Vec::new();
    let mut places = HashMap::new();
    visit.list(&request, &mut |item| {
        if let ListedItem::Record(record) = item
            && filter.matches(&record)
        {
            add(&mut rrsets, &mut places, record, &zone.name);
        }
        rrsets.len() < RRSETS_MAX
    })?;
    rrsets.sort_by_cached_key(|rrset: &ShownRrset| sort_key(rrset, &zone.name));
    Ok(rrsets)
}

/// The RRset of an owner and type, with its comments; empty if there is none.
pub fn find(
    visit: &Visit<'_>,
    zone: &ZoneAttributes,
    name: &str,
    rtype: &str,
) -> PageResult<ShownRrset> {
    let request = OperationRequest::RecordList {
        zone: zone.name.clone(),
        name: Some(name.to_owned()),
        rtype: Some(rtype.to_owned()),
    };
    let (mut rrsets, mut places) = (Vec::new(), HashMap::new());
    for record in visit.listed(&request)? {
        add(&mut rrsets, &mut places, record, &zone.name);
    }
    add_comments(visit, zone, &mut rrsets)?;
    Ok(rrsets.into_iter().next().unwrap_or_default())
}

/// Adds the comments that a database stores with RRsets.
pub fn add_comments(
    visit: &Visit<'_>,
    zone: &ZoneAttributes,
    rrsets: &mut [ShownRrset],
) -> PageResult<()> {
    if !zone.is_in_database || rrsets.is_empty() {
        return Ok(());
    }
    let mut places = HashMap::new();
    for (at, rrset) in rrsets.iter().enumerate() {
        places.insert((rrset.name.to_ascii_lowercase(), rrset.rtype.clone()), at);
    }
    let request = OperationRequest::CommentList {
        zone: zone.name.clone(),
    };
    for comment in visit.listed::<ListedComment>(&request)? {
        let key = (comment.name.to_ascii_lowercase(), comment.rtype.clone());
        if let Some(at) = places.get(&key) {
            rrsets[*at].comments.push(comment);
        }
    }
    Ok(())
}

fn add(
    rrsets: &mut Vec<ShownRrset>,
    places: &mut HashMap<(String, String), usize>,
    record: ListedRecord,
    zone: &str,
) {
    let key = (record.name.to_ascii_lowercase(), record.rtype.clone());
    let at = *places.entry(key).or_insert_with(|| {
        rrsets.push(ShownRrset {
            relative: relative(&record.name, zone),
            name: record.name,
            rtype: record.rtype,
            ttl: record.ttl,
            ..ShownRrset::default()
        });
        rrsets.len() - 1
    });
    rrsets[at].records.push(ShownRecord {
        content: record.content,
        disabled: record.disabled,
        problem: record.problem,
    });
}

/// The owner relative to the zone.
pub fn relative(name: &str, zone: &str) -> String {
    if name.eq_ignore_ascii_case(zone) {
        return "@".to_owned();
    }
    let at = name.len().checked_sub(zone.len() + 1);
    let is_below = |at: &usize| {
        name.is_char_boundary(*at)
            && name.as_bytes()[*at] == b'.'
            && name[at + 1..].eq_ignore_ascii_case(zone)
    };
    match at.filter(is_below) {
        Some(at) => name[..at].to_owned(),
        None => name.to_owned(),
    }
}

/// The apex first, then by labels from the right; the SOA and NS records first at each name.
fn sort_key(rrset: &ShownRrset, zone: &str) -> (bool, Vec<String>, u8, String) {
    let is_below = !rrset.name.eq_ignore_ascii_case(zone);
    let labels = rrset.relative.rsplit('.').map(str::to_ascii_lowercase);
    let rank = match rrset.rtype.as_str() {
        "SOA" => 0,
        "NS" => 1,
        _ => 2,
    };
    (is_below, labels.collect(), rank, rrset.rtype.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_shown_relative_to_the_zone() {
        for (name, zone, shown) in [
            ("example.org.", "Example.org.", "@"),
            ("www.example.org.", "example.org.", "www"),
            ("xexample.org.", "example.org.", "xexample.org."),
            ("www.", ".", "www."),
            (".", ".", "@"),
        ] {
            assert_eq!(relative(name, zone), shown);
        }
    }
}
