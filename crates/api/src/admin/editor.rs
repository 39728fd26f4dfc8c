//! Owns the record editor: the form of one RRset, and its change through a preview.

use askama::Template;
use nameward_control::operations::{
    CommentSpec, OperationError, RecordSpec, RrsetChange, RrsetStep, RrsetsRequest, ZoneAttributes,
};

use super::page::{AdminFrame, AdminView, ZoneHead, ZoneTab, page};
use super::proposal::{Proposal, check_editable, propose};
use super::rrsets::{self, ShownRecord, ShownRrset};
use super::{PageResult, Visit};
use crate::response::ApiResponse;

/// Empty rows below the records of an RRset.
const SPARE_ROWS: usize = 2;
/// Rows of a form.
const ROWS_MAX: usize = 2_000;
/// The TTL that the form of a new RRset has.
const NEW_TTL: &str = "3600";

/// Types that the form offers, with the form of their data. Every other type can be typed in.
const TYPES: [(&str, &str); 17] = [
    ("A", "192.0.2.1"),
    ("AAAA", "2001:db8::1"),
    ("ALIAS", "target.example.net."),
    ("CAA", "0 issue \"ca.example.net\""),
    ("CNAME", "target.example.net."),
    ("DS", "12345 13 2 DIGEST"),
    ("HTTPS", "1 . alpn=h2,h3"),
    ("MX", "10 mail.example.net."),
    (
        "NAPTR",
        "100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:info@example.net!\" .",
    ),
    ("NS", "ns1.example.net."),
    ("PTR", "host.example.net."),
    (
        "SOA",
        "ns1.example.net. hostmaster.example.net. SERIAL 10800 3600 604800 3600",
    ),
    ("SRV", "10 5 443 server.example.net."),
    ("SSHFP", "4 2 FINGERPRINT"),
    ("SVCB", "1 target.example.net. alpn=h2"),
    ("TLSA", "3 1 1 DIGEST"),
    ("TXT", "\"v=spf1 mx -all\""),
];

#[derive(Default)]
struct EditedRrset {
    name: String,
    rtype: String,
    ttl: String,
    rows: Vec<ShownRecord>,
    comments: Vec<String>,
    reason: String,
}

#[derive(Template)]
#[template(path = "rrset.html")]
struct RrsetPage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    target: String,
    edited: EditedRrset,
    is_new: bool,
    types: &'a [(&'static str, &'static str)],
    hint: &'static str,
    problem: Option<String>,
}

/// The form of an RRset: that of the parameters, or a new one.
pub fn form(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    check_editable(visit, &zone)?;
    let (name, rtype) = (visit.parameter("name"), visit.parameter("type"));
    if name.is_empty() || rtype.is_empty() {
        let edited = EditedRrset {
            name: name.to_owned(),
            rtype: rtype.to_owned(),
            ttl: NEW_TTL.to_owned(),
            ..EditedRrset::default()
        };
        return Ok(draw(visit, &zone, edited, true, None));
    }
    let rrset = rrsets::find(visit, &zone, name, rtype)?;
    if rrset.records.is_empty() {
        let what = format!("zone {}: there is no {rtype} RRset at {name}", zone.name);
        return Err(OperationError::not_found(what));
    }
    let edited = EditedRrset {
        name: rrset.relative,
        rtype: rrset.rtype,
        ttl: rrset.ttl.to_string(),
        rows: rrset.records,
        comments: rrset.comments.into_iter().map(|it| it.comment).collect(),
        reason: String::new(),
    };
    Ok(draw(visit, &zone, edited, false, None))
}

/// Previews or commits the change of an RRset, or shows the form again.
pub fn change(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    check_editable(visit, &zone)?;
    let (edited, is_new) = (read_form(visit), visit.field("new") == "1");
    if matches!(visit.field("step"), "edit" | "rows") {
        return Ok(draw(visit, &zone, edited, is_new, None));
    }
    let is_deletion = visit.field("deletion") == "1" || visit.field("step") == "delete";
    let before = if edited.name.is_empty() || edited.rtype.is_empty() {
        Err(OperationError::invalid(
            "Enter a name (@ for the zone itself) and a type.",
        ))
    } else {
        rrsets::find(visit, &zone, &edited.name, &edited.rtype)
    };
    let step = before.and_then(|before| {
        let step = edited.step(&zone, &before, is_deletion)?;
        if is_new && !is_deletion && !before.records.is_empty() {
            return Err(OperationError::conflict(format!(
                "{} has a {} RRset already: change that one",
                before.name, before.rtype
            )));
        }
        Ok((before, step))
    });
    let (before, step) = match step {
        Ok(found) => found,
        Err(error) => return Ok(draw(visit, &zone, edited, is_new, Some(error.message))),
    };
    let notes = notes(&before, &step);
    let mut fields = edited.fields();
    fields.push(("new".into(), if is_new { "1" } else { "0" }.into()));
    fields.push((
        "deletion".into(),
        if is_deletion { "1" } else { "0" }.into(),
    ));
    let what = match (is_deletion, before.records.is_empty()) {
        (true, _) => "Delete",
        (false, true) => "Add",
        (false, false) => "Change",
    };
    let proposal = Proposal {
        title: format!("{what} {} {}", edited.name, edited.rtype),
        tab: ZoneTab::Records,
        request: RrsetsRequest {
            zone: zone.name.clone(),
            rrsets: vec![step],
            raise_serial: true,
            ..RrsetsRequest::default()
        },
        zone,
        notes,
        fields,
        action: "/rrset",
        is_editable: true,
    };
    propose(visit, &proposal)
}

impl EditedRrset {
    /// The fields that make the same form again.
    fn fields(&self) -> Vec<(String, String)> {
        let mut fields: Vec<(String, String)> = vec![
            ("name".into(), self.name.clone()),
            ("type".into(), self.rtype.clone()),
            ("ttl".into(), self.ttl.clone()),
            ("reason".into(), self.reason.clone()),
        ];
        for (at, row) in self.rows.iter().enumerate() {
            fields.push(("content".into(), row.content.clone()));
            if row.disabled {
                fields.push(("disabled".into(), at.to_string()));
            }
        }
        let comments = self.comments.iter();
        fields.extend(comments.map(|text| ("comment".into(), text.clone())));
        fields
    }

    /// Returns the change that the form makes. Only databases store comments: for other zones they are not changed.
    fn step(
        &self,
        zone: &ZoneAttributes,
        before: &ShownRrset,
        is_deletion: bool,
    ) -> PageResult<RrsetStep> {
        let (name, rtype) = (self.name.clone(), self.rtype.clone());
        if is_deletion {
            return Ok(RrsetStep {
                name,
                rtype,
                change: RrsetChange::Delete,
                ..RrsetStep::default()
            });
        }
        let invalid = |text: String| OperationError::invalid(text);
        let ttl: u32 = self
            .ttl
            .parse()
            .ok()
            .filter(|ttl| *ttl <= i32::MAX as u32)
            .ok_or_else(|| {
                invalid(format!(
                    "Invalid TTL {:?}: expected seconds from 0 to {}.",
                    self.ttl,
                    i32::MAX
                ))
            })?;
        let filled = self.rows.iter().filter(|row| !row.content.is_empty());
        let records: Vec<RecordSpec> = filled
            .map(|row| RecordSpec {
                content: row.content.clone(),
                disabled: row.disabled,
            })
            .collect();
        if records.is_empty() {
            return Err(invalid(
                "Enter the data of at least one record, or delete the RRset.".into(),
            ));
        }
        let comments = zone.is_in_database.then(|| {
            let texts = self.comments.iter().filter(|text| !text.is_empty());
            let comments = texts.map(|text| {
                let kept = before.comments.iter().find(|old| old.comment == *text);
                CommentSpec {
                    content: text.clone(),
                    account: kept.map_or(String::new(), |old| old.account.clone()),
                    modified_at: kept.map(|old| old.modified_at),
                }
            });
            comments.collect::<Vec<_>>()
        });
        let is_same = |comments: &Vec<CommentSpec>| {
            let old = before.comments.iter().map(|old| &old.comment);
            old.eq(comments.iter().map(|new| &new.content))
        };
        Ok(RrsetStep {
            name,
            rtype,
            change: RrsetChange::Replace,
            ttl,
            records: Some(records),
            comments: comments.filter(|comments| !is_same(comments)),
        })
    }
}

/// Describes changes that the difference of served records does not show.
fn notes(before: &ShownRrset, step: &RrsetStep) -> Vec<String> {
    let mut notes = Vec::new();
    let after = step.records.as_deref().unwrap_or_default();
    let was_disabled = |content: &str| {
        let mut records = before.records.iter();
        records.any(|old| old.disabled && old.content == content)
    };
    for record in after.iter().filter(|record| record.disabled) {
        if !was_disabled(&record.content) {
            notes.push(format!("{} is stored and not served.", record.content));
        }
    }
    for old in before.records.iter().filter(|old| old.disabled) {
        let mut records = after.iter();
        match records.find(|new| new.content == old.content) {
            None => notes.push(format!("{}, which is disabled, is removed.", old.content)),
            Some(new) if !new.disabled => {
                notes.push(format!("{} is served from now on.", old.content));
            }
            Some(_) => {}
        }
    }
    if let Some(comments) = &step.comments {
        let texts: Vec<&str> = comments.iter().map(|new| new.content.as_str()).collect();
        notes.push(if texts.is_empty() {
            "The comments are removed.".into()
        } else {
            format!("Comment: {}", texts.join(" / "))
        });
    }
    notes
}

fn read_form(visit: &Visit<'_>) -> EditedRrset {
    let form = &visit.request.form;
    let disabled: Vec<usize> = form
        .fields("disabled")
        .filter_map(|text| text.parse().ok())
        .collect();
    let contents = form.fields("content").take(ROWS_MAX).enumerate();
    let rows = contents.map(|(at, content)| ShownRecord {
        content: content.trim().to_owned(),
        disabled: disabled.contains(&at),
        problem: None,
    });
    let comments = form.fields("comment").map(str::trim).map(str::to_owned);
    EditedRrset {
        name: visit.field("name").to_owned(),
        rtype: visit.field("type").to_ascii_uppercase(),
        ttl: visit.field("ttl").to_owned(),
        rows: rows.filter(|row| !row.content.is_empty()).collect(),
        comments: comments.filter(|text| !text.is_empty()).collect(),
        reason: visit.field("reason").to_owned(),
    }
}

fn draw(
    visit: &Visit<'_>,
    zone: &ZoneAttributes,
    mut edited: EditedRrset,
    is_new: bool,
    problem: Option<String>,
) -> ApiResponse {
    let zone = ZoneHead::new(visit, zone, ZoneTab::Records);
    // More rows than before, for browsers without scripts.
    let spare = if visit.field("step") == "rows" {
        5
    } else {
        SPARE_ROWS
    };
    let rows = edited.rows.len() + spare;
    edited.rows.resize_with(rows, ShownRecord::default);
    let hint = TYPES.iter().find(|(rtype, _)| *rtype == edited.rtype);
    let status = if problem.is_some() { 422 } else { 200 };
    let page_of = RrsetPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        target: format!("{}/rrset", zone.path),
        zone,
        hint: hint.map_or("", |(_, hint)| hint),
        edited,
        is_new,
        types: &TYPES,
        problem,
    };
    page(status, &page_of)
}
