//! The formats for programs: metrics and statistics.

use nameward_control::operations::FaultKind;
use nameward_control::web::Settings;
use nameward_stats::{Outcome, VARIABLES};
use nameward_testkit::require;

use super::client::{CLIENT, Server, ask_now, settings};

const PATH: &str = "/api/v1/servers/localhost/statistics";

#[test]
fn metrics_have_every_variable_under_its_powerdns_name() {
    let server = Server::start();
    ask_now(&server.stats, b"\x01a\0", Outcome::NxDomain, CLIENT);
    let reply = server.get("/metrics");
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = reply.text();
    for variable in VARIABLES {
        let name = format!("pdns_auth_{}", variable.name.replace('-', "_"));
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with(&format!("{name} ")))
                .count(),
            1,
            "{name}"
        );
        assert!(text.contains(&format!("# HELP {name} {}", variable.description)));
    }
    for line in [
        "pdns_auth_udp_queries 1",
        "nameward_queries_total{transport=\"udp\",ip=\"4\"} 1",
        "nameward_queries_total{transport=\"tcp\",ip=\"6\"} 0",
        "nameward_answers_total{rcode=\"NXDOMAIN\"} 1",
        "nameward_answers_by_type_total{type=\"A\"} 1",
        "nameward_answer_size_bytes_bucket{le=\"64\"} 1",
        "nameward_answer_size_bytes_bucket{le=\"+Inf\"} 1",
        "nameward_answer_size_bytes_sum 50",
        "nameward_answer_duration_seconds_count 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn bounds_and_sums_of_seconds_are_exact_decimals() {
    let server = Server::start();
    let mut recorder = server.stats.recorder();
    let timing = nameward_stats::Timing {
        received: 3,
        answered: 3,
        receive_ns: Some(0),
        answer_ns: 1_100,
        send_ns: Some(0),
    };
    recorder.flush(nameward_stats::Stamp(1), Some(timing));
    let text = server.get("/metrics").text();
    let name = "nameward_answer_duration_seconds";
    for line in [
        "_bucket{le=\"0.000001\"} 0",
        "_bucket{le=\"0.000004\"} 3",
        "_bucket{le=\"0.065536\"} 3",
        "_bucket{le=\"1.048576\"} 3",
        "_sum 0.0000033",
        "_count 3",
    ] {
        let line = format!("{name}{line}");
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn metrics_of_the_whole_host_are_marked_in_their_help_but_not_on_the_page() {
    let server = Server::start();
    let text = server.get("/metrics").text();
    let of_host = VARIABLES.iter().filter(|v| {
        v.name.starts_with("cpu-") || (v.name.starts_with("udp") && v.name.ends_with("-errors"))
    });
    let mut seen = 0;
    for variable in of_host {
        let name = format!("pdns_auth_{}", variable.name.replace('-', "_"));
        let help = format!(
            "# HELP {name} {} (whole host, not only this server)",
            variable.description
        );
        assert!(text.lines().any(|line| line == help), "{help}");
        seen += 1;
    }
    assert_eq!(seen, 12);
    assert_eq!(text.matches("whole host").count(), 12);
    let page = server.get("/").text();
    assert!(!page.contains("whole host"));
}

#[test]
fn every_metric_in_alerts_and_dashboards_exists() {
    let contrib = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/");
    let server = Server::start();
    ask_now(&server.stats, b"\x01a\0", Outcome::BackendFailure, CLIENT);
    let text = server.get("/metrics").text();
    let exists = |name: &str| {
        let kind = format!("# TYPE {name} ");
        let is_fragment = |end| {
            let whole = name.strip_suffix(end);
            whole.is_some_and(|name| text.contains(&format!("# TYPE {name} histogram")))
        };
        text.contains(&kind) || ["_bucket", "_sum", "_count"].into_iter().any(is_fragment)
    };
    for (file, least) in [("prometheus-alerts.yml", 15), ("grafana-dashboard.json", 5)] {
        let rules = std::fs::read_to_string(format!("{contrib}{file}")).expect("a file");
        let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_metric =
            |word: &&str| word.starts_with("pdns_auth_") || word.starts_with("nameward_");
        let named: std::collections::BTreeSet<&str> = words.filter(is_metric).collect();
        assert!(named.len() >= least, "{file}: {named:?}");
        for name in named {
            assert!(
                exists(name),
                "{file} names {name}, which /metrics does not have"
            );
        }
    }
    let check = std::process::Command::new("promtool")
        .args(["check", "rules", &format!("{contrib}prometheus-alerts.yml")])
        .output();
    if let Some(check) = require(check.ok(), "promtool (prometheus)") {
        assert!(check.status.success(), "{check:?}");
    }
}

#[test]
fn alerts_name_faults_that_exist_and_those_of_database_servers() {
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/prometheus-alerts.yml"
    );
    let rules = std::fs::read_to_string(rules).expect("a file");
    let named = rules.split("nameward_faults{kind=\"").skip(1);
    let named = named.map(|rest| rest.split('"').next().unwrap_or_default());
    let named: Vec<FaultKind> = named
        .map(|word| FaultKind::from_word(word).unwrap_or_else(|| panic!("no fault {word:?}")))
        .collect();
    for kind in [
        FaultKind::BackendBehind,
        FaultKind::BackendServerDown,
        FaultKind::ChangesUnseen,
    ] {
        assert!(named.contains(&kind), "{kind:?} has no alert");
    }
}

fn with_key() -> Server {
    Server::with(Settings {
        api_key: "key".into(),
        ..settings()
    })
}

fn api(server: &Server, query: &str) -> serde_json::Value {
    let reply = server.request("GET", &format!("{PATH}{query}"), "X-API-Key: key\r\n");
    assert_eq!(
        (reply.status(), reply.header("content-type")),
        (200, Some("application/json"))
    );
    serde_json::from_slice(reply.body()).expect("JSON")
}

#[test]
fn statistics_require_the_key() {
    assert_eq!(Server::start().get(PATH).status(), 404); // no key configured: no API
    let server = with_key();
    assert_eq!(server.get(PATH).status(), 401);
    assert_eq!(
        server.request("GET", PATH, "X-API-Key: kez\r\n").status(),
        401
    );
    let reply = server.request("GET", PATH, "Accept: application/json\r\n");
    assert_eq!(
        (reply.status(), reply.text().as_str()),
        (401, "{\"error\": \"Unauthorized\"}")
    );
    assert_eq!(
        server.request("GET", PATH, "X-API-Key: key\r\n").status(),
        200
    );
    assert_eq!(
        server.request("POST", PATH, "X-API-Key: key\r\n").status(),
        405
    );
}

#[test]
fn statistics_have_the_three_kinds_of_item_with_values_as_strings() {
    let server = with_key();
    ask_now(
        &server.stats,
        b"\x01a\x07example\0",
        Outcome::Unauth,
        CLIENT,
    );
    let all = api(&server, "");
    let items = all.as_array().expect("an array");
    let find = |name: &str| {
        items
            .iter()
            .find(|item| item["name"] == name)
            .unwrap_or_else(|| panic!("no {name}"))
    };
    for variable in VARIABLES {
        assert_eq!(find(variable.name)["type"], "StatisticItem");
        assert!(
            find(variable.name)["value"]
                .as_str()
                .expect("a string")
                .parse::<u64>()
                .is_ok()
        );
    }
    assert_eq!(find("udp-queries")["value"], "1");
    assert_eq!(find("response-by-qtype")["type"], "MapStatisticItem");
    assert_eq!(
        find("response-by-qtype")["value"][0],
        serde_json::json!({"name": "A", "value": "1"})
    );
    assert_eq!(find("response-by-rcode")["value"][0]["name"], "REFUSED");
    assert_eq!(
        find("response-sizes")["value"][0],
        serde_json::json!({"name": "64", "value": "1"})
    );
    let ring = find("unauth-queries");
    assert_eq!(
        (&ring["type"], &ring["size"]),
        (&"RingStatisticItem".into(), &"10".into())
    );
    assert_eq!(
        ring["value"][0],
        serde_json::json!({"name": "a.example/A", "value": "1"})
    );
}

#[test]
fn statistics_can_be_one_or_without_rings() {
    let server = with_key();
    assert_eq!(
        api(&server, "?statistic=uptime").as_array().map(Vec::len),
        Some(1)
    );
    let without = api(&server, "?includerings=false");
    assert!(
        without
            .as_array()
            .expect("an array")
            .iter()
            .all(|item| item["type"] != "RingStatisticItem")
    );
    let reply = server.request(
        "GET",
        &format!("{PATH}?statistic=queries"),
        "X-API-Key: key\r\n",
    );
    assert_eq!(reply.status(), 422);
    assert!(reply.text().contains("Unknown statistic name"));
}
