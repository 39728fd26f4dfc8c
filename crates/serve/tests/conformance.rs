//! The conformance suite on the engine itself: zone files in, answers out, no sockets.

use nameward_answer::{AnyPolicy, Engine, Follow, Identity, Medium, Policy, Scratch, Zones};
use nameward_store::file::zone_from_text;
use nameward_testkit::conformance::{self, Judge, Suite};
use nameward_testkit::wire::{Exchange, Transport};
use nameward_wire::message::Query;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{NameKey, ZoneTable};
use std::path::Path;
use std::sync::Arc;

struct Bare {
    engine: Engine,
    zones: ZoneTable,
}

impl Exchange for Bare {
    fn exchange(&self, transport: Transport, message: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let medium = match transport {
            Transport::Udp => Medium::Datagram,
            Transport::Tcp => Medium::Stream,
        };
        let mut out = vec![0; 65535];
        let len = match Query::parse(message) {
            Ok(query) => {
                let mut key = NameKey::default();
                key.set(query.qname);
                let zone = Zones::zone_for(&self.zones, &key, query.qtype);
                let asked = (&key, zone);
                let scratch = &mut Scratch::default();
                Some(
                    self.engine
                        .respond(&self.zones, &query, asked, medium, scratch, &mut out)
                        .len,
                )
            }
            Err(malformed) => self
                .engine
                .respond_to_malformed(message, malformed, &mut out)
                .map(|reply| reply.len),
        };
        Ok(len.filter(|len| *len > 0).map(|len| out[..len].to_vec()))
    }
}

/// The value of a key in the few lines of configuration that files of the suite have.
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
    let identity = Identity {
        version: setting(suite, "version").unwrap_or("some version").into(),
        id: nsid.into(),
        nsid: nsid.into(),
    };
    Engine {
        policy: Policy { any, follow },
        identity,
        ..Engine::default()
    }
}

fn serve(suite: &Suite) -> Bare {
    let mut zones = ZoneTable::default();
    for zone in &suite.zones {
        let name = NameBuf::from_text(format!("{}.", zone.name).as_bytes(), Name::ROOT);
        let name = name.unwrap_or_else(|error| panic!("{}: {error:?}", zone.name));
        let text = zone.file_text();
        let built = zone_from_text(name.as_name(), &zone.name, text.as_bytes());
        zones.insert(Arc::new(built.unwrap_or_else(|found| {
            panic!("{}: {found:?}", suite.path.display())
        })));
    }
    Bare {
        engine: engine(suite),
        zones,
    }
}

#[test]
fn the_engine_answers_as_the_suite_says() {
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
