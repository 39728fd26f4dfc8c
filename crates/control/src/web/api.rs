//! `/api/v1/servers/localhost/statistics` in the JSON format that PowerDNS clients read: every value is a string.

use nameward_stats::{Ring, Snapshot, VARIABLES, variable};
use nameward_wire::rcode_name;
use serde_json::{Value, json};

use super::request::HttpRequest;
use super::response::{Response, media};
use super::{mnemonic, type_text};

/// Maximum number of listed ring entries, so that no reply grows without bound.
const RING_ROWS_MAX: usize = 10_000;

/// Returns the reply to an authorized request.
pub(super) fn respond(request: &HttpRequest, snapshot: &Snapshot) -> Response {
    let name = request.parameter("statistic");
    let rings = request.parameter("includerings").as_deref() != Some("false");
    match statistics(snapshot, name.as_deref(), rings) {
        Some(items) => Response::new(200, media::JSON, Value::Array(items).to_string()),
        None => {
            let name = name.unwrap_or_default();
            let body = json!({ "error": format!("Unknown statistic name: {name}") });
            Response::new(422, media::JSON, body.to_string())
        }
    }
}

/// All statistics, with or without rings, or the one counter that is named; `None` if there is no such counter.
pub fn statistics(snapshot: &Snapshot, name: Option<&str>, rings: bool) -> Option<Vec<Value>> {
    match name {
        Some(name) => {
            let variable = variable(name)?;
            Some(vec![item(variable.name, variable.value(snapshot))])
        }
        None => Some(everything(snapshot, rings)),
    }
}

fn item(name: &str, value: u64) -> Value {
    json!({ "name": name, "type": "StatisticItem", "value": value.to_string() })
}

fn named(name: String, value: u64) -> Value {
    json!({ "name": name, "value": value.to_string() })
}

fn everything(snapshot: &Snapshot, rings: bool) -> Vec<Value> {
    let mut items: Vec<Value> = VARIABLES
        .iter()
        .map(|variable| item(variable.name, variable.value(snapshot)))
        .collect();
    let map = |name: &str, value: Vec<Value>| json!({ "name": name, "type": "MapStatisticItem", "value": value });
    let by_type = snapshot
        .answers_by_type()
        .map(|(qtype, count)| named(type_text(qtype), count));
    items.push(map("response-by-qtype", by_type.collect()));
    let mut below = 0;
    let sizes = snapshot.answer_sizes();
    let by_size = sizes.buckets.iter().map(|(bound, upto)| {
        let count = upto - below;
        below = *upto;
        named(bound.to_string(), count)
    });
    items.push(map("response-sizes", by_size.collect()));
    let by_rcode = snapshot
        .answers_by_rcode()
        .map(|(rcode, count)| named(rcode_name(rcode).to_owned(), count));
    items.push(map("response-by-rcode", by_rcode.collect()));
    if rings {
        items.extend(Ring::ALL.into_iter().map(|ring| {
            let view = snapshot.ring(ring);
            let ranking = view.rank(RING_ROWS_MAX, &mnemonic);
            let rows = ranking
                .rows
                .into_iter()
                .map(|row| named(row.entry, row.count));
            json!({
                "name": ring.name(),
                "type": "RingStatisticItem",
                "size": view.capacity().to_string(),
                "value": rows.collect::<Vec<_>>(),
            })
        }));
    }
    items
}
