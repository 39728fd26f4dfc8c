//! Owns changes of records in two steps: a preview by a dry run of the operation, and the commit of exactly what was confirmed.
//!
//! The preview carries the serial of the version that it was made from, and a digest of the difference. If either is another one at the
//! commit, nothing is changed and the new difference is shown.

use askama::Template;
use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use nameward_control::operations::{
    ErrorKind, ListedDifference, ListedItem, OperationError, OperationRequest, OperationResult,
    RecordChange, RrsetsRequest, ZoneAttributes,
};

use super::page::{AdminFrame, AdminView, ZoneHead, ZoneTab, page, zone_path};
use super::rrsets::relative;
use super::{PageResult, Visit};
use crate::response::ApiResponse;

/// Records of a difference that a page lists.
const SHOWN_MAX: usize = 2_000;

/// A change of records that a user is about to confirm.
pub struct Proposal {
    /// The title of the preview.
    pub title: String,
    /// The tab that is marked.
    pub tab: ZoneTab,
    pub zone: ZoneAttributes,
    /// The change.
    pub request: RrsetsRequest,
    /// Changes besides those of served records: comments, and records that are disabled.
    pub notes: Vec<String>,
    /// The fields that make the same proposal again.
    pub fields: Vec<(String, String)>,
    /// Where the form is sent to, below the path of the zone.
    pub action: &'static str,
    /// The user can go back to a form with the same fields.
    pub is_editable: bool,
}

/// A removed or added record.
pub struct ShownDifference {
    /// The owner relative to the zone.
    pub name: String,
    pub record: ListedDifference,
}

impl ShownDifference {
    /// Whether it is added.
    pub fn is_added(&self) -> bool {
        self.record.change == RecordChange::Added
    }
}

/// The outcome of a dry run.
#[derive(Default)]
struct Trial {
    differences: Vec<ListedDifference>,
    warnings: Vec<String>,
    is_changed: bool,
}

#[derive(Template)]
#[template(path = "preview.html")]
struct PreviewPage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    proposal: &'a Proposal,
    target: String,
    shown: Differences,
    warnings: Vec<String>,
    error: Option<String>,
    is_stale: bool,
    has_effect: bool,
    serial: String,
    digest: String,
}

/// Shows a proposal, or commits it if the user has confirmed exactly this one.
pub fn propose(visit: &Visit<'_>, proposal: &Proposal) -> PageResult {
    let trial = match run_trial(visit, proposal) {
        Ok(trial) => trial,
        Err(error) if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Refused) => {
            return Ok(preview(visit, proposal, Err(error), false));
        }
        Err(error) => return Err(error),
    };
    if visit.field("step") != "commit" {
        return Ok(preview(visit, proposal, Ok(trial), false));
    }
    let is_same = visit.field("digest") == digest(&trial, &proposal.notes)
        && visit.field("serial") == base_serial(&trial).map_or(String::new(), |s| s.to_string());
    if !is_same {
        return Ok(preview(visit, proposal, Ok(trial), true));
    }
    let request = RrsetsRequest {
        serial: base_serial(&trial),
        ..proposal.request.clone()
    };
    match visit.run(&OperationRequest::RrsetsChange(request)) {
        Ok(result) => Ok(done(visit, &proposal.zone.name, result)),
        // Another change was made since the dry run.
        Err(error) if error.kind == ErrorKind::Conflict => {
            let trial = run_trial(visit, proposal)?;
            Ok(preview(visit, proposal, Ok(trial), true))
        }
        Err(error) => Err(error),
    }
}

fn run_trial(visit: &Visit<'_>, proposal: &Proposal) -> PageResult<Trial> {
    let mut trial = Trial::default();
    let request = OperationRequest::RrsetsBatch {
        zones: vec![proposal.request.clone()],
        dry_run: true,
    };
    visit.list(&request, &mut |item| {
        match item {
            ListedItem::Difference(record) => trial.differences.push(record),
            ListedItem::Changed(changed) => {
                trial.is_changed = changed.is_changed;
                trial.warnings = changed.changed.warnings;
            }
            _ => {}
        }
        true
    })?;
    Ok(trial)
}

/// The serial of the version that a difference starts from; none if the zone has no SOA or the SOA stays.
fn base_serial(trial: &Trial) -> Option<u32> {
    let is_old = |record: &&ListedDifference| {
        record.change == RecordChange::Removed && record.rtype == "SOA"
    };
    let soa = trial.differences.iter().find(is_old)?;
    soa.content
        .split_ascii_whitespace()
        .nth(2)?
        .parse::<u32>()
        .ok()
}

/// A digest of everything that the user confirms, except the new SOA: its serial may be the time.
fn digest(trial: &Trial, notes: &[String]) -> String {
    let mut context = Context::new(&SHA256);
    let records = trial.differences.iter();
    for record in records.filter(|record| record.rtype != "SOA") {
        let (sign, ttl) = (record.change == RecordChange::Added, record.ttl);
        let (name, rtype, content) = (&record.name, &record.rtype, &record.content);
        context.update(format!("{sign}\t{name}\t{ttl}\t{rtype}\t{content}\n").as_bytes());
    }
    for note in notes {
        context.update(format!("{note}\n").as_bytes());
    }
    HEXLOWER.encode(context.finish().as_ref())
}

fn preview(
    visit: &Visit<'_>,
    proposal: &Proposal,
    trial: PageResult<Trial>,
    is_stale: bool,
) -> ApiResponse {
    let (trial, error) = match trial {
        Ok(trial) => (trial, None),
        Err(error) => (Trial::default(), Some(error.message)),
    };
    let status = match (&error, is_stale) {
        (Some(_), _) => 422,
        (None, true) => 409,
        (None, false) => 200,
    };
    let zone = ZoneHead::new(visit, &proposal.zone, proposal.tab);
    let serial = base_serial(&trial).map_or(String::new(), |serial| serial.to_string());
    let digest = digest(&trial, &proposal.notes);
    let shown = Differences::new(&zone.name, trial.differences);
    let page_of = PreviewPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        target: format!("{}{}", zone.path, proposal.action),
        zone,
        proposal,
        shown,
        warnings: trial.warnings,
        has_effect: error.is_none() && (trial.is_changed || !proposal.notes.is_empty()),
        error,
        is_stale,
        serial,
        digest,
    };
    page(status, &page_of)
}

/// A difference as a page lists it.
pub struct Differences {
    /// The first records.
    pub list: Vec<ShownDifference>,
    /// Records that are not listed.
    pub hidden: usize,
    /// Removed records, besides the SOA.
    pub removed: usize,
    /// Added records, besides the SOA.
    pub added: usize,
}

impl Differences {
    /// Sorts the records by owner and type, removed before added.
    pub fn new(zone: &str, mut records: Vec<ListedDifference>) -> Self {
        records.sort_by_cached_key(|record| {
            let labels: Vec<String> = record.name.rsplit('.').map(str::to_owned).collect();
            let is_added = record.change == RecordChange::Added;
            (
                record.rtype != "SOA",
                labels,
                record.rtype.clone(),
                is_added,
            )
        });
        let count = |fate| {
            let records = records.iter().filter(|record| record.rtype != "SOA");
            records.filter(|record| record.change == fate).count()
        };
        Differences {
            removed: count(RecordChange::Removed),
            added: count(RecordChange::Added),
            hidden: records.len().saturating_sub(SHOWN_MAX),
            list: records
                .into_iter()
                .take(SHOWN_MAX)
                .map(|record| ShownDifference {
                    name: relative(&record.name, zone),
                    record,
                })
                .collect(),
        }
    }
}

/// Leads to the page of a zone after a committed change.
fn done(visit: &Visit<'_>, zone: &str, result: OperationResult) -> ApiResponse {
    let (text, warnings) = match result {
        OperationResult::ZoneChanged(changed) => {
            let serial = changed.serial.map(|serial| format!(", serial {serial}"));
            let text = format!("Zone {zone}: changed{}.", serial.unwrap_or_default());
            (text, changed.warnings)
        }
        _ => (format!("Zone {zone}: no change."), Vec::new()),
    };
    visit.redirect_with(&zone_path(zone), text, warnings)
}

/// Refuses changes by a read-only key and of a zone that has its contents from elsewhere, before a form is filled in.
pub fn check_editable(visit: &Visit<'_>, zone: &ZoneAttributes) -> PageResult<()> {
    if !visit.can_write() {
        let text = "this API key is read-only";
        return Err(OperationError::new(ErrorKind::Forbidden, text));
    }
    if zone.is_transferred() {
        Err(OperationError::refused(format!(
            "zone {} is transferred from its primary: change it there",
            zone.name
        )))
    } else {
        Ok(())
    }
}
