//! Transfers, NOTIFY and UPDATE over TLS (RFC 9103) with real peers: signed with TSIG inside, certificates that must not
//! be accepted, and nothing in plain text to a server with TLS settings.

use super::{address, serial, status};
use nameward_testkit::certificates::{Authority, IssuedCertificate, Validity};
use nameward_testkit::mesh::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET};
use nameward_testkit::peers::{Peer, PeerConfig, PeerKind, PeerOptions, free_address};
use nameward_testkit::{Setup, TestServer};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

const ZONE: &str = "fleet.example";
const NAME: &str = "ns1.fleet.example";

fn zone_text(serial: u32) -> String {
    let number = serial % 200;
    format!(
        "$ORIGIN {ZONE}.\n$TTL 60\n@ SOA ns1 h {serial} 3600 600 86400 60\n@ NS ns1\nns1 A 127.0.0.1\nwww A 192.0.2.{number}\n"
    )
}

/// A BIND with a listener in plain text and others over TLS; transfers are allowed over TLS alone.
struct BindPeer {
    peer: Peer,
    /// One for each certificate.
    tls: Vec<SocketAddr>,
}

impl BindPeer {
    /// Starts it with these statements for the zone, and `tls` statements with these contents.
    fn start(zone: &str, tls: &[String]) -> Self {
        let ports: Vec<SocketAddr> = tls.iter().map(|_| free_address().unwrap()).collect();
        let peer = Peer::launch(&[ZONE], &PeerOptions::default(), |directory, address| {
            let file = directory.join("fleet.zone");
            std::fs::write(&file, zone_text(1))?;
            let mut conf = format!(
                "key \"{KEY_NAME}\" {{ algorithm {KEY_ALGORITHM}; secret \"{KEY_SECRET}\"; }};\ncontrols {{ }};\n"
            );
            let mut listen = format!("listen-on port {} {{ 127.0.0.1; }};", address.port());
            for (number, (port, contents)) in ports.iter().zip(tls).enumerate() {
                conf += &format!("tls \"t{number}\" {{ {contents} }};\n");
                let port = port.port();
                listen += &format!(" listen-on port {port} tls \"t{number}\" {{ 127.0.0.1; }};");
            }
            conf += &format!(
                "options {{ directory {directory:?}; pid-file none; session-keyfile none; recursion no; notify no; {listen}\n\
                 listen-on-v6 {{ none; }}; ixfr-from-differences yes; }};\nlogging {{ channel all {{ file \"messages\"; \
                 severity debug 3; print-category yes; }}; category default {{ all; }}; }};\n\
                 zone \"{ZONE}\" {{ file {file:?}; {zone} }};\n"
            );
            std::fs::write(directory.join("conf"), conf)?;
            let mut command = Command::new(PeerKind::Bind.find_program().unwrap());
            command
                .args(["-f", "-4", "-n", "1", "-c"])
                .arg(directory.join("conf"));
            command.arg("-L").arg(directory.join("log"));
            Ok(command)
        });
        let peer = peer.unwrap_or_else(|error| panic!("{error}"));
        BindPeer { peer, tls: ports }
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(self.peer.directory().join("messages")).unwrap_or_default()
    }
}

/// Prepares NSD with the key and one zone: more lines of `server`, more sections, and more lines of the zone.
fn prepare_nsd(
    directory: &Path,
    address: SocketAddr,
    (main, sections, zone): (&str, &str, &str),
) -> std::io::Result<Command> {
    let rest = format!(
        "key:\n    name: \"{KEY_NAME}\"\n    algorithm: {KEY_ALGORITHM}\n    secret: \"{KEY_SECRET}\"\n{sections}\
         zone:\n    name: \"{ZONE}\"\n    zonefile: \"fleet.zone\"\n{zone}"
    );
    let config = PeerConfig {
        main,
        rest: &rest,
        ..PeerConfig::default()
    };
    let program = PeerKind::Nsd.find_program().unwrap();
    PeerKind::Nsd.prepare(&program, directory, address, &config)
}

/// Contents of a BIND `tls` statement.
fn bind_tls(certificate: &IssuedCertificate) -> String {
    let IssuedCertificate {
        certificate, key, ..
    } = certificate;
    format!("cert-file {certificate:?}; key-file {key:?}; protocols {{ TLSv1.3; }};")
}

/// A server with these secondary zones, each with the settings of its primary.
fn secondaries(setup: Setup, zones: &[(&str, String)]) -> TestServer {
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let mut config = format!(
        "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\n\
         secret = \"{KEY_SECRET}\"\n"
    );
    for (zone, primary) in zones {
        config += &format!(
            "[[zone]]\nname = \"{zone}\"\nkind = \"secondary\"\nprimaries = [{{ {primary} }}]\nforward_updates = true\n\
             allow_update = [\"127.0.0.1\"]\n"
        );
    }
    setup.config(&config).start()
}

fn strict(address: SocketAddr, authority: &Path) -> String {
    format!(
        "address = \"{address}\", key = \"{KEY_NAME}\", tls = \"strict\", tls_name = \"{NAME}\", tls_ca = {authority:?}"
    )
}

#[test]
fn bind_is_a_primary_over_tls_with_tsig_inside() {
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let setup = Setup::new().without_web();
    let authority = Authority::new(setup.dir(), "authority").unwrap();
    let issued = authority
        .issue("primary", &[NAME], Validity::Current)
        .unwrap();
    let zone = format!(
        "type primary; allow-transfer transport tls {{ key \"{KEY_NAME}\"; }}; allow-update {{ key \"{KEY_NAME}\"; }};"
    );
    let bind = BindPeer::start(&zone, &[bind_tls(&issued)]);
    let server = secondaries(setup, &[(ZONE, strict(bind.tls[0], authority.path()))]);
    server.wait_until("the zone", || serial(server.address(), ZONE) == Some(1));
    // An update for the secondary is forwarded over TLS, and the change comes back as differences.
    let script = format!(
        "server 127.0.0.1 {}\nzone {ZONE}\nkey {KEY_ALGORITHM}:{KEY_NAME} {KEY_SECRET}\nupdate add new.{ZONE}. 60 A 192.0.2.77\nsend\n",
        server.address().port()
    );
    let file = server.dir().join("update");
    std::fs::write(&file, script).unwrap();
    let output = Command::new("nsupdate").arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}\n{}", server.log());
    server.wait_until("the update", || {
        let _ = server.command(&["zone", "retrieve", ZONE]);
        address(server.address(), &format!("new.{ZONE}")) == Some(77)
    });
    assert!(server.log().contains("AXFR"), "{}", server.log());
    // The line follows the first answer from the new version.
    assert!(server.wait_for_log("IXFR"), "{}", server.log());
    // The same queries in plain text would have been refused or logged.
    let messages = bind.messages();
    assert!(!messages.contains("denied"), "{messages}");
}

/// BIND with three TLS listeners: a valid certificate, an expired one, and one that demands a client certificate.
struct CertificateListeners {
    directory: tempfile::TempDir,
    authority: Authority,
    good_pin: String,
    old_pin: String,
    bind: BindPeer,
}

impl CertificateListeners {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path(), "authority").unwrap();
        let good = authority
            .issue("good", &[NAME, "127.0.0.1"], Validity::Current)
            .unwrap();
        let old = authority.issue("old", &[NAME], Validity::Expired).unwrap();
        let demanding = format!("{} ca-file {:?};", bind_tls(&good), authority.path());
        let bind = BindPeer::start(
            "type primary; allow-transfer transport tls { any; };",
            &[bind_tls(&good), bind_tls(&old), demanding],
        );
        CertificateListeners {
            directory,
            authority,
            good_pin: good.pin,
            old_pin: old.pin,
            bind,
        }
    }

    fn addresses(&self) -> [SocketAddr; 3] {
        self.bind.tls[..].try_into().expect("three listeners")
    }
}

fn to(address: SocketAddr, settings: &str) -> String {
    format!("address = \"{address}\", {settings}")
}

fn named(name: &str, ca: &Path) -> String {
    format!("tls = \"strict\", tls_name = \"{name}\", tls_ca = {ca:?}")
}

#[test]
fn certificates_that_do_not_match_are_refused_with_the_reason() {
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let listeners = CertificateListeners::start();
    let other = Authority::new(listeners.directory.path(), "other").unwrap();
    let [valid, expired, demanding] = listeners.addresses();
    let plain = listeners.bind.peer.addr();
    let (ca, wrong_pin) = (listeners.authority.path(), &listeners.old_pin);
    let refused = [
        (
            "name.example",
            to(valid, &named("ns2.fleet.example", ca)),
            "certificate is for ns1.fleet.example, 127.0.0.1, not for ns2.fleet.example",
        ),
        (
            "issuer.example",
            to(valid, &named(NAME, other.path())),
            "not issued by an authority in",
        ),
        (
            "system.example",
            to(valid, &format!("tls = \"strict\", tls_name = \"{NAME}\"")),
            "ca-certificates.crt",
        ),
        (
            "pin.example",
            to(
                valid,
                &format!("tls = \"strict\", tls_pin = \"{wrong_pin}\""),
            ),
            "which is not in tls_pin",
        ),
        (
            "expired.example",
            to(expired, &named(NAME, ca)),
            "certificate expired on 2021-01-01T00:00:00Z",
        ),
        ("plain.example", to(plain, "tls = \"opportunistic\""), "TLS"),
        (
            "client.example",
            to(demanding, "tls = \"opportunistic\""),
            "client certificate",
        ),
        (
            "missing.example",
            to(valid, &named(NAME, Path::new("/nowhere.pem"))),
            "cannot use tls_ca /nowhere.pem",
        ),
    ];
    let zones: Vec<(&str, String)> = refused
        .iter()
        .map(|(zone, to, _)| (*zone, to.clone()))
        .collect();
    let server = secondaries(Setup::new().without_web(), &zones);
    for (zone, _, reason) in &refused {
        server.wait_until(zone, || status(&server, zone).contains(reason));
        let line = format!("zone {zone}.: refresh failed (1 in a row): 127.0.0.1:");
        let log = server.log();
        let found = log.lines().find(|found| found.contains(&line));
        let found = found.unwrap_or_else(|| panic!("{line}: {log}"));
        assert!(
            found.contains("(TLS): ") && found.contains(reason),
            "{found}"
        );
    }
    // All of them are faults; the first five are named, by their ports.
    server.wait_until("the faults", || {
        let shown = String::from_utf8(server.command(&["status"]).stdout).unwrap();
        shown.matches("peer_tls: No encrypted connection").count() == 5
            && shown.contains(" (and 3 more).")
    });
    server.stop();
}

#[test]
fn certificates_that_match_by_name_pin_or_trust_are_accepted() {
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let listeners = CertificateListeners::start();
    let [valid, expired, demanding] = listeners.addresses();
    let ca = listeners.authority.path();
    let (pin, wrong_pin) = (&listeners.good_pin, &listeners.old_pin);
    let own = listeners
        .authority
        .issue("own", &["ns2.fleet.example"], Validity::Current)
        .unwrap();
    let identity = format!(
        "tls_certificate = {:?}, tls_key = {:?}",
        own.certificate, own.key
    );
    for settings in [
        to(valid, &format!("tls = \"strict\", tls_ca = {ca:?}")),
        to(
            valid,
            &format!("tls = \"strict\", tls_pin = [\"{wrong_pin}\", \"{pin}\"]"),
        ),
        to(expired, "tls = \"opportunistic\""),
        to(demanding, &format!("{}, {identity}", named(NAME, ca))),
    ] {
        let server = secondaries(Setup::new().without_web(), &[(ZONE, settings.clone())]);
        server.wait_until(&settings, || serial(server.address(), ZONE) == Some(1));
    }
}

#[test]
fn a_new_file_of_authorities_is_used_without_a_reload() {
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let setup = Setup::new().without_web();
    let old = Authority::new(setup.dir(), "old").unwrap();
    let new = Authority::new(setup.dir(), "new").unwrap();
    let issued = new.issue("primary", &[NAME], Validity::Current).unwrap();
    let zone = format!("type primary; allow-transfer transport tls {{ key \"{KEY_NAME}\"; }};");
    let bind = BindPeer::start(&zone, &[bind_tls(&issued)]);
    let trusted = setup.dir().join("trusted.pem");
    std::fs::copy(old.path(), &trusted).unwrap();
    let server = secondaries(setup, &[(ZONE, strict(bind.tls[0], &trusted))]);
    server.wait_until("a refusal", || {
        status(&server, ZONE).contains("not issued by")
    });
    std::fs::copy(new.path(), &trusted).unwrap();
    server.wait_until("the zone", || {
        let _ = server.command(&["zone", "retrieve", ZONE]);
        serial(server.address(), ZONE) == Some(1)
    });
}

#[test]
fn nsd_is_a_primary_over_tls_without_alpn_only_by_setting() {
    if PeerKind::Nsd.require().is_none() {
        return;
    }
    let setup = Setup::new().without_web();
    let authority = Authority::new(setup.dir(), "authority").unwrap();
    let issued = authority
        .issue("primary", &[NAME], Validity::Current)
        .unwrap();
    let tls = free_address().unwrap();
    let peer = Peer::launch(&[ZONE], &PeerOptions::default(), |directory, address| {
        std::fs::write(directory.join("fleet.zone"), zone_text(1))?;
        let port = tls.port();
        let main = format!(
            "    ip-address: 127.0.0.1@{port}\n    tls-service-key: {:?}\n    tls-service-pem: {:?}\n    tls-port: {port}\n",
            issued.key, issued.certificate
        );
        let zone = format!("    provide-xfr: 127.0.0.1 {KEY_NAME}\n");
        prepare_nsd(directory, address, (&main, "", &zone))
    });
    let _peer = peer.unwrap_or_else(|error| panic!("{error}"));
    let settings = strict(tls, authority.path());
    let optional = format!("{settings}, tls_alpn = \"optional\"");
    let server = secondaries(setup, &[("other.example", settings), (ZONE, optional)]);
    server.wait_until("a refusal", || {
        status(&server, "other.example").contains("selects no ALPN")
    });
    server.wait_until("the zone", || serial(server.address(), ZONE) == Some(1));
    let warning = format!("{tls} (TLS): no ALPN protocol selected; accepted by tls_alpn");
    assert!(server.wait_for_log(&warning), "{}", server.log());
}

#[test]
fn bind_is_notified_over_tls() {
    if PeerKind::Bind.require().is_none() {
        return;
    }
    let here = free_address().unwrap();
    let setup = Setup::new().without_web().listen(&[&here.to_string()]);
    let authority = Authority::new(setup.dir(), "authority").unwrap();
    let issued = authority
        .issue("secondary", &[NAME], Validity::Current)
        .unwrap();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let port = here.port();
    let zone = format!(
        "type secondary; primaries {{ 127.0.0.1 port {port} key \"{KEY_NAME}\"; }}; masterfile-format text;"
    );
    let bind = BindPeer::start(&zone, &[bind_tls(&issued)]);
    let there = strict(bind.tls[0], authority.path());
    let server = setup
        .zone(ZONE, &zone_text(2))
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\n\
             secret = \"{KEY_SECRET}\"\n[[zone]]\nname = \"{ZONE}\"\nkind = \"primary\"\n\
             allow_transfer = [\"key:{KEY_NAME}\"]\nalso_notify = [{{ {there} }}]\n"
        ))
        .start();
    server.wait_until("the transfer", || serial(bind.peer.addr(), ZONE) == Some(2));
    server.write_zone(ZONE, &zone_text(3));
    let _ = server.command(&["reload"]);
    server.wait_until("the change", || serial(bind.peer.addr(), ZONE) == Some(3));
    let messages = bind.messages();
    assert!(messages.contains("received notify for zone"), "{messages}");
}

/// A server that transfers its zone over TLS to clients in this list, with further listeners.
fn primary(
    directory: &Path,
    authority: &Authority,
    allow_transfer: &str,
    listen: &str,
) -> TestServer {
    let issued = authority
        .issue("server", &[NAME, "127.0.0.1"], Validity::Current)
        .unwrap();
    let ca = authority.path();
    let state = directory.join("state");
    std::fs::create_dir_all(&state).unwrap();
    Setup::new()
        .without_web()
        .zone(ZONE, &zone_text(1))
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n{listen}\n[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n\
             [[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
             [[zone]]\nname = \"{ZONE}\"\nkind = \"primary\"\nallow_transfer = [{allow_transfer}]\n",
            issued.certificate, issued.key
        ))
        .start()
}

#[test]
fn a_transfer_can_demand_tls_and_a_client_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "authority").unwrap();
    let foreign = Authority::new(directory.path(), "foreign").unwrap();
    let own = authority
        .issue("own", &["NS2.fleet.example"], Validity::Current)
        .unwrap();
    let forged = foreign
        .issue("forged", &["ns2.fleet.example"], Validity::Current)
        .unwrap();
    let identity = |issued: &IssuedCertificate| {
        let IssuedCertificate {
            certificate, key, ..
        } = issued;
        format!(", tls_certificate = {certificate:?}, tls_key = {key:?}")
    };
    let (name, pin) = (
        "\"tls-name:ns2.fleet.example\"",
        format!("\"127.0.0.1 tls-pin:{}\"", forged.pin),
    );
    let signed = format!("\"tls key:{KEY_NAME}\"");
    let (owned, faked, none) = (identity(&own), identity(&forged), String::new());
    for (list, identity, key, is_allowed) in [
        ("\"tls\"", &none, false, true),
        (name, &owned, false, true),
        (name, &faked, false, false),
        (name, &none, false, false),
        (&pin, &faked, false, true),
        (&pin, &owned, false, false),
        (&signed, &none, true, true),
        (&signed, &none, false, false),
        ("\"!tls\", \"any\"", &none, false, false),
    ] {
        let tls = free_address().unwrap();
        let listen = format!("listen_tls = [\"{tls}\"]");
        let server = primary(directory.path(), &authority, list, &listen);
        let key = if key {
            format!(", key = \"{KEY_NAME}\"")
        } else {
            String::new()
        };
        let ca = authority.path();
        let settings = format!(
            "address = \"{}\", tls = \"strict\", tls_name = \"{NAME}\", tls_ca = {ca:?}{identity}{key}",
            tls
        );
        let secondary = secondaries(Setup::new().without_web(), &[(ZONE, settings)]);
        let what = format!("{list}, {identity}");
        if is_allowed {
            secondary.wait_until(&what, || serial(secondary.address(), ZONE) == Some(1));
        } else {
            secondary.wait_until(&what, || status(&secondary, ZONE).contains("REFUSED"));
        }
        // Plain text is refused by all of these lists but the last.
        let plain = format!("address = \"{}\"", server.address());
        let plain = secondaries(Setup::new().without_web(), &[(ZONE, plain)]);
        if list.contains("any") {
            plain.wait_until(&what, || serial(plain.address(), ZONE) == Some(1));
        } else {
            plain.wait_until(&what, || status(&plain, ZONE).contains("REFUSED"));
        }
        let _ = std::fs::remove_dir_all(directory.path().join("state"));
    }
}

#[test]
fn bind_and_nsd_are_secondaries_over_tls() {
    if PeerKind::Bind.require().is_none() || PeerKind::Nsd.require().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "authority").unwrap();
    let tls = free_address().unwrap();
    let server = primary(
        directory.path(),
        &authority,
        &format!("\"tls key:{KEY_NAME}\""),
        &format!("listen_tls = [\"{tls}\"]"),
    );
    let (port, ca) = (tls.port(), authority.path());
    let issued = authority
        .issue("bind", &["bind.example"], Validity::Current)
        .unwrap();
    let tls = format!(
        "{} ca-file {ca:?}; remote-hostname \"{NAME}\";",
        bind_tls(&issued)
    );
    let zone = format!(
        "type secondary; primaries {{ 127.0.0.1 port {port} key \"{KEY_NAME}\" tls \"t0\"; }}; masterfile-format text;"
    );
    let bind = BindPeer::start(&zone, &[tls]);
    let peer = Peer::launch(&[ZONE], &PeerOptions::default(), |directory, address| {
        let main = format!("    tls-cert-bundle: {ca:?}\n");
        let auth = format!("tls-auth:\n    name: auth\n    auth-domain-name: {NAME}\n");
        let zone = format!("    request-xfr: AXFR 127.0.0.1@{port} {KEY_NAME} auth\n");
        prepare_nsd(directory, address, (&main, &auth, &zone))
    });
    let nsd = peer.unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
    server.wait_until("BIND", || serial(bind.peer.addr(), ZONE) == Some(1));
    server.wait_until("NSD", || serial(nsd.addr(), ZONE) == Some(1));
}

#[test]
fn a_zone_is_transferred_and_refreshed_over_quic() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "authority").unwrap();
    let quic = free_address().unwrap();
    let server = primary(
        directory.path(),
        &authority,
        &format!("\"tls key:{KEY_NAME}\""),
        &format!("listen_quic = [\"{quic}\"]"),
    );
    let ca = authority.path();
    let to = |name: &str| {
        format!(
            "address = \"{}\", quic = true, key = \"{KEY_NAME}\", tls = \"strict\", tls_name = \"{name}\", tls_ca = {ca:?}",
            quic
        )
    };
    let zones = [(ZONE, to(NAME)), ("wrong.example", to("ns2.fleet.example"))];
    let secondary = secondaries(Setup::new().without_web(), &zones);
    secondary.wait_until("AXFR", || serial(secondary.address(), ZONE) == Some(1));
    server.write_zone(ZONE, &zone_text(2));
    let _ = server.command(&["reload"]);
    server.wait_until("the change", || serial(server.address(), ZONE) == Some(2));
    secondary.wait_until("IXFR", || {
        let _ = secondary.command(&["zone", "retrieve", ZONE]);
        serial(secondary.address(), ZONE) == Some(2)
    });
    assert!(secondary.log().contains("AXFR"), "{}", secondary.log());
    // The line follows the first answer from the new version.
    assert!(secondary.wait_for_log("IXFR"), "{}", secondary.log());
    secondary.wait_until("a refusal", || {
        let status = status(&secondary, "wrong.example");
        status.contains("(QUIC): TLS handshake failed: invalid peer certificate")
    });
    // A port without QUIC.
    let plain = to(NAME).replace(&quic.to_string(), &server.address().to_string());
    let other = secondaries(Setup::new().without_web(), &[(ZONE, plain)]);
    other.wait_until("silence", || {
        status(&other, ZONE).contains("does not respond")
    });
}
