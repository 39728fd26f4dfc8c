//! Tests of each fault with its cost and its remedy.

use super::*;
use nameward_control::operations::BackendStatus;
use std::time::UNIX_EPOCH;

#[test]
fn a_fault_keeps_its_start_time_until_it_ends() {
    let mut seen = FirstSeen::default();
    let stale = || fault(FaultKind::ZoneStale, "stale", "", "");
    let mut dated = |faults: &mut [ServerFault], now| {
        seen.date(faults, now);
        faults.first().map(|fault| fault.since)
    };
    assert_eq!(dated(&mut [stale()], 10), Some(10));
    assert_eq!(dated(&mut [stale()], 20), Some(10));
    assert_eq!(dated(&mut [], 30), None);
    assert_eq!(dated(&mut [stale()], 40), Some(40));
    let mut known = stale();
    known.since = 5;
    assert_eq!(dated(&mut [known], 50), Some(5));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn every_fault_has_a_description_an_effect_and_a_remedy() {
    let backend = |mode: &str, is_lost| BackendStatus {
        backend: 1,
        engine: "sqlite".into(),
        address: "sqlite:/a.db".into(),
        mode: mode.into(),
        is_up: false,
        since: 7,
        last_error: None,
        last_error_at: None,
        unseen_changes: None,
        failed_servers: Vec::new(),
        lag: None,
        zones: 3,
        is_lost,
    };
    let name: NameBuf = "a.test.".parse().unwrap();
    let status = ServerStatus {
        is_started: true,
        zones: 9,
        zones_not_ready: 4,
        zones_never_transferred: 1,
        zones_expired: 2,
        zones_stale: 1,
        backends: vec![backend("live", true), backend("resident", false)],
        last_reload: Some(nameward_control::operations::ReloadStatus {
            at: 8,
            is_ok: false,
            text: "nameward.toml:3: unknown setting".into(),
        }),
        internal_errors: 2,
        last_internal_error: Some(nameward_control::operations::InternalError {
            at: nameward_base::time::now_seconds(),
            location: "src/a.rs:7".into(),
        }),
        xdp: vec![nameward_control::operations::XdpStatus {
            interface: "eth0".into(),
            state: "not used: another XDP program is attached to it".into(),
            is_used: false,
        }],
        memory_refusals: 2,
        last_memory_refusal: Some(nameward_control::operations::MemoryRefusal {
            at: nameward_base::time::now_seconds(),
            work: "a transfer of example.org".into(),
        }),
        ..ServerStatus::default()
    };
    let mut databases = DatabaseZoneFaults::default();
    databases.unsigned.add(name);
    let certificate = nameward_serve::tls::TlsFault::Expiring {
        path: "/tls/api.pem".into(),
        at: 86_400,
    };
    let peers = [nameward_peers::connections::PeerTlsFault {
        server: "192.0.2.1:853 (TLS)".into(),
        role: nameward_peers::connections::PeerRole::Primary,
        reason: "certificate expired".into(),
        since: 86_400,
    }];
    let sources = FaultSources {
        tls: Some(&certificate),
        peers: &peers,
        status: &status,
        ended_listeners: &["TCP"],
        sums: &ZoneSums::default(),
        files: &FaultyZones::default(),
        file_sources: &["zones/: permission denied".into()],
        missing_files: &[MissingZones {
            directory: "/zones".into(),
            number: 2,
            served: 3,
            first: vec!["a.test.".into()],
            since: UNIX_EPOCH,
            outlook: MissingOutlook::Kept,
        }],
        conflicts: &FileConflicts {
            as_file: FaultyZoneList {
                number: 1,
                first: vec![nameward_maintain::follow::FaultyZone {
                    name: "a.test.".into(),
                    error: "both change www.a.test. A".into(),
                }],
            },
            ..FileConflicts::default()
        },
        store: Some(&StoreFault {
            error: StateError::Full("/state/state.db".into()),
            since: UNIX_EPOCH,
        }),
        signatures: &SignatureSums::default(),
        never_transferred: &UntransferredZones {
            number: 1,
            overdue: 1,
            looked_up: 1,
            first: vec![nameward_peers::secondary::UntransferredZone { name, error: None }],
        },
        databases: &databases,
        secondaries: &SecondariesSummary {
            behind: 2,
            first_behind: Some(nameward_peers::secondary::BehindPrimary {
                zone: name,
                here: nameward_zone::Serial(5),
                there: nameward_zone::Serial(3),
            }),
            first_expired: Some(name),
            first_stale: Some(name),
            ..SecondariesSummary::default()
        },
        geo: &[nameward_steering::geo::GeoFault {
            path: "/geo/city.mmdb".into(),
            error: "no such file".into(),
            has_previous: true,
        }],
        targets: (&[], 0),
        unshared_health: None,
        scripts: &[nameward_serve::scripts::FailingScript {
            name,
            rtype: nameward_wire::Type::A,
            since: 86_400,
            last: 86_400,
            reason: nameward_steering::lua::ScriptFailure::Instructions(1000),
            pool: None,
        }],
        is_transferred: &|_| false,
    };
    let faults = sources.find();
    let text = |kind| {
        let mut faults = faults.iter();
        let fault = faults.find(|fault| fault.kind == kind).expect("a fault");
        (fault.text.as_str(), fault.effect.as_str())
    };
    let (expired, effect) = text(FaultKind::ZoneExpired);
    assert!(
        expired.starts_with("Secondary zone a.test (and 1 more) expired: "),
        "{expired}"
    );
    assert_eq!(effect, "Queries for these zones are answered SERVFAIL.");
    let (_, effect) = text(FaultKind::ZoneNeverTransferred);
    assert_eq!(effect, "Queries for this zone are answered SERVFAIL.");
    let (stale, _) = text(FaultKind::ZoneStale);
    assert_eq!(stale, "Secondary zone a.test could not be refreshed.");
    let kinds: Vec<_> = faults.iter().map(|fault| fault.kind.word()).collect();
    assert_eq!(
        kinds,
        [
            "listener_down",
            "backend_lost",
            "backend_down",
            "state_store",
            "zone_empty",
            "zone_never_transferred",
            "zone_expired",
            "zone_unsigned",
            "file_conflict",
            "zone_file_missing",
            "file_source",
            "reload_failed",
            "tls_certificate",
            "peer_tls",
            "xdp_unused",
            "geo_database",
            "lua_failed",
            "internal_error",
            "out_of_memory",
            "primary_behind",
            "zone_stale"
        ]
    );
    for fault in &faults {
        for part in [&fault.text, &fault.effect, &fault.remedy] {
            assert!(part.ends_with('.'), "{fault:?}");
            assert!(part.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || c == '`'));
        }
    }
}
