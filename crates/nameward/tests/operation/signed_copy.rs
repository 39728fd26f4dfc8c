//! Zones signed by BIND, served alongside it from its signed copy and its journal: the same answers, before and after
//! a change.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nameward_testkit::{
    Setup, TestServer,
    differential::queries::TestQuery,
    peers::{Peer, PeerKind, PeerOptions},
    wire::{Client, Name, Question, QuestionEdns, Transport, type_from_text},
};

use super::ask::rcode;

const TIMEOUT: Duration = Duration::from_secs(60);
const RRSIG: u16 = 46;

/// The statements of BIND on a directory and an address, without a control channel.
fn named_conf(directory: &Path, address: SocketAddr) -> String {
    let (at, port) = (directory.display(), address.port());
    format!(
        "options {{ directory \"{at}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
         pid-file none; session-keyfile none; managed-keys-directory \"{at}\"; key-directory \"{at}\";\n\
         recursion no; minimal-responses yes; dnssec-validation no; notify no; allow-transfer {{ none; }}; }};\ncontrols {{ }};\n\
         zone \"copy.example\" {{ type primary; file \"copy\"; dnssec-policy default; inline-signing yes; }};\n"
    )
}

fn zone_text(serial: u32, more: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns h {serial} 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n{more}"
    )
}

/// The records of an answer with their signatures, in one order.
fn answer(server: SocketAddr, name: &str, rtype: &str) -> Option<(u16, Vec<String>)> {
    let ask = TestQuery {
        question: Question {
            name: Name::parse(name).unwrap(),
            rtype: type_from_text(rtype).unwrap(),
            class: 1,
        },
        edns: QuestionEdns::Dnssec,
        zone: None,
    };
    let client = Client::new("127.0.0.1", server);
    let reply = client.exchange(Transport::Tcp, &ask.encode(7)).ok()??;
    let records = reply.answer.iter().chain(&reply.authority);
    let is_signed = records.clone().any(|record| record.rtype == RRSIG);
    let mut records: Vec<String> = records.map(ToString::to_string).collect();
    records.sort();
    is_signed.then(|| (reply.rcode(), records))
}

/// Waits until both servers give the same signed answers, the first of which has this code.
fn wait_for_same(bind: &Peer, server: &TestServer, first: (&str, u16)) {
    let queries = [
        (first.0, "A"),
        ("copy.example.", "SOA"),
        ("copy.example.", "DNSKEY"),
        ("www.copy.example.", "A"),
        ("absent.copy.example.", "A"),
        ("www.copy.example.", "TXT"),
    ];
    let start = Instant::now();
    loop {
        let [theirs, ours] = [bind.addr(), server.address()].map(|address| {
            let answers = queries.map(|(name, rtype)| answer(address, name, rtype));
            answers.into_iter().collect::<Option<Vec<_>>>()
        });
        let has_code = theirs.as_ref().is_some_and(|list| list[0].0 == first.1);
        if has_code && ours == theirs {
            return;
        }
        assert!(
            start.elapsed() < TIMEOUT,
            "{theirs:?}\n{ours:?}\n{}\n{}",
            server.log(),
            bind.log_tail()
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_zone_that_bind_signs_is_answered_as_bind_answers_it_and_its_changes_follow() {
    let Some(program) = PeerKind::Bind.require() else {
        return;
    };
    let bind = Peer::launch(
        &["copy.example"],
        &PeerOptions::default(),
        |directory, address| {
            fs::write(directory.join("named.conf"), named_conf(directory, address))?;
            fs::write(directory.join("copy"), zone_text(1, ""))?;
            let mut command = Command::new(&program);
            command.args(["-g", "-4", "-n", "1", "-c"]);
            command.arg(directory.join("named.conf"));
            Ok(command)
        },
    );
    let bind = bind.unwrap_or_else(|error| panic!("{error}"));
    let conf = bind.directory().join("named.conf");
    let config = format!("[[backend]]\nnamed_conf = \"{}\"\n", conf.display());
    let setup = Setup::new().without_web();
    let server = setup.config(&config).start();
    wait_for_same(&bind, &server, ("new.copy.example.", 3));
    fs::write(
        bind.directory().join("copy"),
        zone_text(20, "new A 192.0.2.9\n"),
    )
    .unwrap();
    bind.signal("HUP").unwrap();
    wait_for_same(&bind, &server, ("new.copy.example.", 0));
}

#[test]
fn a_copy_that_is_missing_unsigned_or_behind_a_journal_that_cannot_be_read_is_not_served() {
    let setup = Setup::new().without_web();
    let directory = setup.dir().join("bind");
    fs::create_dir(&directory).unwrap();
    let zone = |name: &str| {
        format!("zone \"{name}\" {{ type primary; file \"{name}\"; dnssec-policy default; }};\n")
    };
    let names = ["missing.example", "unsigned.example", "journal.example"];
    fs::write(
        directory.join("named.conf"),
        names.map(zone).concat() + "zone plain.example { type primary; file \"plain\"; };\n",
    )
    .unwrap();
    for name in names.into_iter().chain(["plain"]) {
        fs::write(directory.join(name), zone_text(1, "")).unwrap();
    }
    for name in &names[1..] {
        fs::write(directory.join(format!("{name}.signed")), zone_text(1, "")).unwrap();
    }
    fs::write(directory.join("journal.example.signed.jnl"), "nonsense").unwrap();
    let config = "[[backend]]\nnamed_conf = \"bind/named.conf\"\n";
    let server = setup.config(config).start();
    assert_eq!(rcode(server.address(), "www.plain.example"), 0);
    for name in names {
        assert_eq!(rcode(server.address(), &format!("www.{name}")), 2, "{name}");
    }
    for text in [
        "the file has no signatures yet; it is not served unsigned",
        "journal.example.signed.jnl: error: truncated; run `rndc sync`",
    ] {
        assert!(server.wait_for_log(text), "{text}: {}", server.log());
    }
}
