//! Changes of RRsets beyond a plain PATCH: the dry run (`check=true`), and several zones in one request.

use nameward_control::operations::{
    ListedChange, ListedDifference, ListedItem, OperationRequest, RecordChange, RrsetsRequest,
};
use serde_json::{Value, json};

use crate::fields::canonical_name;
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

use super::{rrsets, zone_name};

/// Zones in one request.
const ZONES_MAX: usize = 1000;

/// The outcome for one zone.
struct ZoneOutcome {
    change: ListedChange,
    difference: Vec<ListedDifference>,
}

/// Changes several zones: `{"zones": [{"name": "a.example.", "rrsets": [...]}]}`. Each zone is one transaction; all are
/// checked before the first is changed.
pub fn patch_many(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let body = call.request.json()?;
    let list = body.get("zones").and_then(Value::as_array);
    let list = list.ok_or_else(|| ApiError::invalid("No zones given in update request"))?;
    if list.len() > ZONES_MAX {
        return Err(ApiError::invalid(format!(
            "'zones' has more than {ZONES_MAX} elements"
        )));
    }
    let mut zones = Vec::with_capacity(list.len());
    for zone in list {
        let name = zone_name(canonical_name(zone, "name")?)?;
        let changes = zone.get("rrsets").and_then(Value::as_array);
        let changes =
            changes.ok_or_else(|| ApiError::invalid(format!("No rrsets given for zone {name}")))?;
        zones.push(RrsetsRequest {
            rrsets: rrsets::read(changes, &name, true)?,
            zone: name,
            ..RrsetsRequest::default()
        });
    }
    let dry_run = call.request.flag("check", false)?;
    let outcomes = run(call, &OperationRequest::RrsetsBatch { zones, dry_run })?;
    let outcomes: Vec<Value> = outcomes.iter().map(view).collect();
    Ok(ApiResponse::json(200, &json!({ "zones": outcomes })))
}

/// Tries a change of one zone and shows its effect.
pub fn check(call: &Call<'_>, request: RrsetsRequest) -> ApiResult {
    let zones = vec![request];
    let dry_run = true;
    show_one(call, &OperationRequest::RrsetsBatch { zones, dry_run })
}

/// Runs an operation that reports the change of one zone, and shows it.
pub fn show_one(call: &Call<'_>, request: &OperationRequest) -> ApiResult {
    let outcomes = run(call, request)?;
    let outcome = outcomes.first().map(view);
    Ok(ApiResponse::json(200, &outcome.unwrap_or_default()))
}

fn run(call: &Call<'_>, request: &OperationRequest) -> ApiResult<Vec<ZoneOutcome>> {
    let (mut outcomes, mut difference) = (Vec::new(), Vec::new());
    call.list(request, &mut |item| {
        match item {
            ListedItem::Difference(record) => difference.push(record),
            ListedItem::Changed(change) => outcomes.push(ZoneOutcome {
                change,
                difference: std::mem::take(&mut difference),
            }),
            _ => {}
        }
        true
    })?;
    Ok(outcomes)
}

/// A removed or added record.
pub fn record_view(record: &ListedDifference) -> Value {
    json!({ "name": record.name, "type": record.rtype, "ttl": record.ttl, "content": record.content })
}

fn view(outcome: &ZoneOutcome) -> Value {
    let records = |fate: RecordChange| -> Vec<Value> {
        let records = outcome.difference.iter();
        let records = records.filter(|record| record.change == fate);
        records.map(record_view).collect()
    };
    let ListedChange {
        is_changed,
        is_trial,
        changed,
    } = &outcome.change;
    json!({
        "added": records(RecordChange::Added),
        "changed": is_changed,
        "check": is_trial,
        "name": changed.zone,
        "removed": records(RecordChange::Removed),
        "serial": changed.serial,
        "warnings": changed.warnings,
    })
}
