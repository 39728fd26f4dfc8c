//! The fuzz target for requests, shared by `fuzz/` and a short run in the tests: a request with any target and body gets a reply
//! that a client can read, and no 500.

use std::net::{IpAddr, Ipv4Addr};

use nameward_control::api_keys::ApiKey;
use nameward_control::operations::{
    Caller, ItemSink, ListedItem, OperationError, OperationRequest, OperationResult, ZoneAttributes,
};
use nameward_stats::{RingCapacities, Snapshot, Stats};

use crate::{Api, ApiDefaults, ApiOperator, ApiRequest};

/// A server with one zone, on which every operation succeeds without an effect.
struct OneZone;

const ZONE: &str = "a.test.";

impl ApiOperator for OneZone {
    fn run(
        &self,
        _: &Caller,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        if matches!(request, OperationRequest::ZoneAttributes { .. }) {
            items(ListedItem::Attributes(Box::new(zone())));
        }
        Ok(OperationResult::NoChange { zone: ZONE.into() })
    }

    fn snapshot(&self) -> Snapshot {
        Stats::new(RingCapacities::default()).snapshot()
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("launch".into(), "gsqlite3".into())]
    }
}

fn zone() -> ZoneAttributes {
    ZoneAttributes {
        name: ZONE.into(),
        primaries: vec!["192.0.2.1".into()],
        serial: 1,
        edited_serial: 1,
        backend: 1,
        is_in_database: true,
        ..ZoneAttributes::default()
    }
}

/// Answers a request: its first line is the method and the target, the rest is the body.
pub fn check_request(data: &[u8]) {
    let end = data.iter().position(|octet| *octet == b'\n');
    let (line, body) = data.split_at(end.unwrap_or(data.len()));
    let Ok(line) = std::str::from_utf8(line) else {
        return;
    };
    let (method, target) = line.split_once(' ').unwrap_or((line, "/api"));
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let Ok(mut request) = ApiRequest::new(method, target, Some("application/json"), client) else {
        return;
    };
    request.body = body.get(1..).unwrap_or_default().to_vec();
    let response =
        Api::new(OneZone, ApiDefaults::default()).respond(&request, &ApiKey::configured());
    let text = String::from_utf8_lossy(&response.body);
    assert!(
        response.status < 500 || text.contains("not stored"),
        "{line}: {text}"
    );
    if response.status >= 400 {
        let error: Result<serde_json::Value, _> = serde_json::from_slice(&response.body);
        assert!(
            error.is_ok_and(|error| error["error"].is_string()),
            "{line}: {text}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: [&str; 8] = [
        "GET /api/v1/servers/localhost/zones/a.test.?rrsets=true&rrset_name=a.test.\n",
        "PATCH /api/v1/servers/localhost/zones/a.test.\n{\"rrsets\":[{\"name\":\"www.a.test.\",\"type\":\"TXT\",\"ttl\":60,\
         \"changetype\":\"REPLACE\",\"records\":[{\"content\":\"\\\"x\\\" \\\"\\\\065\\\"\",\"disabled\":false}],\
         \"comments\":[{\"content\":\"c\",\"account\":\"\",\"modified_at\":5}]}]}",
        "PUT /api/v1/servers/localhost/zones/a.test.\n{\"kind\":\"Master\",\"masters\":[\"192.0.2.1\"],\"nsec3param\":\"1 0 0 -\"}",
        "POST /api/v1/servers/localhost/zones\n{\"name\":\"b.test.\",\"kind\":\"Native\",\"nameservers\":[\"ns1.b.test.\"]}",
        "POST /api/v1/servers/localhost/zones/a.test./metadata\n{\"kind\":\"X-A\",\"metadata\":[\"x\"]}",
        "POST /api/v1/servers/localhost/zones/a.test./cryptokeys\n{\"keytype\":\"csk\",\"bits\":2048,\"algorithm\":8}",
        "POST /api/v1/servers/localhost/tsigkeys\n{\"name\":\"k\",\"algorithm\":\"hmac-sha256\",\"key\":\"AAAA\"}",
        "GET /api/v1/servers/localhost/search-data?q=a%2A*?&max=5&object_type=all\n",
    ];

    /// A regression test for past findings, which also shows that the target works; the fuzzer itself runs longer.
    #[test]
    fn requests_with_changed_octets_get_a_readable_reply() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % limit
        };
        for seed in SEEDS {
            check_request(seed.as_bytes());
            for _ in 0..300 {
                let mut data = seed.as_bytes().to_vec();
                for _ in 0..=random(3) {
                    let at = random(data.len());
                    match random(3) {
                        0 => data[at] = random(256) as u8,
                        1 => drop(data.remove(at)),
                        _ => data.insert(at, b"{}[]\",:\\0-.%="[random(13)]),
                    }
                }
                check_request(&data);
            }
        }
    }
}
