//! The conformance suite on the complete path of a request, without sockets: zone files in, answers out.

use nameward_answer::{AnswerPolicy, AnyPolicy, Engine, Follow, ServerIdentity};
use nameward_serve::pipeline::{ServingState, TcpPipeline, UdpPipeline};
use nameward_serve::tcp::{Endpoints, answer_alone};
use nameward_serve::udp::{BatchHandler, DatagramBatch};
use nameward_stats::{RingCapacities, Stats};
use nameward_testkit::TestFailure;
use nameward_testkit::conformance::{self, Judge, Suite};
use nameward_testkit::wire::{Exchange, Transport};
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Zone, ZoneBuilder, ZoneTable};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

struct Bare {
    shared: Arc<ServingState>,
}

impl Exchange for Bare {
    fn exchange(
        &self,
        transport: Transport,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, TestFailure> {
        let client = SocketAddr::from(([192, 0, 2, 1], 4000));
        let local = SocketAddr::from(([192, 0, 2, 53], 53));
        let reply = match transport {
            Transport::Udp => {
                let mut batch = DatagramBatch::from_datagrams(&[(message, client)]);
                UdpPipeline::new(Arc::clone(&self.shared)).handle(&mut batch);
                batch.replied(0).to_vec()
            }
            Transport::Tcp => {
                let pipeline = TcpPipeline::new(&self.shared, 1);
                answer_alone(&pipeline, message, Endpoints { client, local })
            }
        };
        Ok((!reply.is_empty()).then_some(reply))
    }
}

/// The value of a key in the few lines of configuration in a suite file.
fn setting<'a>(suite: &'a Suite, key: &str) -> Option<&'a str> {
    let mut lines = suite
        .config
        .lines()
        .filter_map(|line| line.split_once(" = "));
    lines
        .find(|(own, _)| *own == key)
        .map(|(_, value)| value.trim_matches('"'))
}

fn engine(suite: &Suite) -> Engine {
    let any = match setting(suite, "any") {
        Some("truncate") => AnyPolicy::TruncateOnUdp,
        Some("all") => AnyPolicy::All,
        _ => AnyPolicy::OneRrset,
    };
    let follow = match setting(suite, "cname_follow") {
        Some("zone") => Follow::SameZone,
        _ => Follow::AllZones,
    };
    let nsid = setting(suite, "nsid").unwrap_or_default();
    let identity = ServerIdentity {
        version: setting(suite, "version").unwrap_or("some version").into(),
        id: nsid.into(),
        nsid: nsid.into(),
    };
    Engine {
        policy: AnswerPolicy { any, follow },
        identity,
        ..Engine::default()
    }
}

fn zone(name: &str, text: &str) -> Zone {
    let origin = NameBuf::from_text(format!("{name}.").as_bytes(), Name::ROOT);
    let origin = origin.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes(name, text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{name}: {:?}", report.diagnostics);
    builder.finish().0.expect("a zone")
}

fn serve(suite: &Suite) -> Bare {
    let mut zones = ZoneTable::default();
    for own in &suite.zones {
        zones.insert(Arc::new(zone(&own.name, &own.file_text())));
    }
    let shared = ServingState::new(engine(suite), Stats::new(RingCapacities::default()));
    shared.zones.store(Arc::new(zones));
    Bare { shared }
}

#[test]
fn requests_are_answered_as_the_suite_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    let mut complaints = Vec::new();
    for suite in conformance::read_all(&directory).expect("every file of the suite reads") {
        let outcome = conformance::run(&suite, &serve(&suite), Judge::Strict, None);
        complaints.extend(outcome.failures.iter().map(ToString::to_string));
    }
    assert!(
        complaints.is_empty(),
        "{} complaints\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
