//! A hostile primary: whatever it sends, the old version is served throughout, and a valid one is accepted
//! afterwards.

use super::primary::{
    AXFR, Primary, Reply, ReplyEnd, TransferRequest, Version, frame, honest, host, message, record,
    records, soa, whole,
};
use super::{address, rcode, serial, status};
use nameward_testkit::{Setup, TestServer};

const TIMES: [u32; 4] = [3600, 3600, 86_400, 60];

fn version(serial: u32) -> Version {
    Version {
        serial,
        times: TIMES,
    }
}

fn close(octets: Vec<u8>) -> Reply {
    Reply {
        octets,
        end: ReplyEnd::Close,
    }
}

/// A server whose zone comes from the primary, which has serial 1.
fn start(primary: &Primary, more: &str) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\ntransfer_idle_timeout_ms = 700\n\
             {more}\n[[zone]]\nname = \"example\"\nkind = \"secondary\"\ntransfer_size_max_mb = 1\n\
             primaries = [{{ address = \"{}\"{} }}]\n",
            primary.address,
            if more.is_empty() {
                ""
            } else {
                ", key = \"k.example.\""
            }
        ))
        .start()
}

/// Has the primary misbehave with a newer serial, and then not.
fn survive(
    server: &TestServer,
    primary: &Primary,
    serial_now: &mut u32,
    (what, error): (&str, &str),
    script: impl Fn(&TransferRequest) -> Reply + Send + Sync + 'static,
) {
    let before = *serial_now;
    primary.set_script(script);
    primary.set_serial(before + 1);
    assert!(
        server
            .command(&["zone", "retrieve", "example"])
            .status
            .success()
    );
    server.wait_until(&format!("{what}: {error:?}"), || {
        let text = status(server, "example");
        text.contains("last_error") && text.contains(error)
    });
    // The old version is served, and nothing else.
    assert_eq!(serial(server.address(), "example"), Some(before), "{what}");
    assert_eq!(address(server.address(), "www.example"), Some(before as u8));
    assert_eq!(rcode(server.address(), "evil.example"), Some(3), "{what}");
    primary.set_script(honest);
    primary.set_serial(before + 2);
    assert!(
        server
            .command(&["zone", "retrieve", "example"])
            .status
            .success()
    );
    server.wait_until(&format!("{what}: the next version"), || {
        serial(server.address(), "example") == Some(before + 2)
    });
    assert_eq!(
        address(server.address(), "www.example"),
        Some((before + 2) as u8)
    );
    server.wait_until("no error any more", || {
        !status(server, "example").contains("last_error")
    });
    *serial_now = before + 2;
}

fn loaded(primary: &Primary, more: &str) -> TestServer {
    let server = start(primary, more);
    server.wait_until("the first transfer", || {
        serial(server.address(), "example") == Some(1)
    });
    server
}

#[test]
fn the_old_zone_is_served_despite_any_records_of_a_transfer() {
    let primary = Primary::start(version(1));
    let server = loaded(&primary, "");
    let now = &mut 1;
    let with = |extra: Vec<u8>| {
        move |request: &TransferRequest| {
            let mut list = records(request.version);
            list.insert(2, extra.clone());
            close(frame(&message(request.id, request.qtype, &list)))
        }
    };
    let evil = |rtype, rdata: &[u8]| record(b"\x04evil\xc0\x0c", rtype, rdata);
    for (what, error, extra) in [
        (
            "out of zone",
            "out-of-zone record",
            record(b"\x04evil\x05other\0", 1, &[1, 2, 3, 4]),
        ),
        (
            "CNAME beside data",
            "invalid",
            record(b"\x02ns\xc0\x0c", 5, b"\x01a\0"),
        ),
        ("a short address", "malformed", evil(1, &[1, 2, 3])),
        ("an OPT record", "not allowed in a zone", evil(41, &[])),
        ("a SOA elsewhere", "has an SOA record at", evil(6, &[0; 22])),
        ("a pointer forward", "malformed", evil(2, b"\xff\xff")),
    ] {
        survive(&server, &primary, now, (what, error), with(extra));
    }
    let class = |request: &TransferRequest| {
        let mut list = records(request.version);
        // Behind the owner, its pointer and the type.
        list[3][9] = 3;
        close(frame(&message(request.id, request.qtype, &list)))
    };
    survive(&server, &primary, now, ("class CH", "class CH"), class);
    let changed = |request: &TransferRequest| {
        let mut list = records(request.version);
        list[4] = soa(version(request.version.serial + 9));
        close(frame(&message(request.id, request.qtype, &list)))
    };
    survive(
        &server,
        &primary,
        now,
        ("a change midway", "a different SOA"),
        changed,
    );
    let first = |request: &TransferRequest| {
        close(frame(&message(
            request.id,
            request.qtype,
            &[host(request.version)],
        )))
    };
    survive(
        &server,
        &primary,
        now,
        ("no SOA first", "the transfer starts with"),
        first,
    );
    let back = |request: &TransferRequest| {
        close(frame(&whole(request, version(request.version.serial - 2))))
    };
    survive(
        &server,
        &primary,
        now,
        ("a serial backward", "the primary has serial"),
        back,
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn the_old_zone_is_served_despite_any_messages_of_a_transfer() {
    let primary = Primary::start(version(1));
    let server = loaded(&primary, "");
    let now = &mut 1;
    let cut = |request: &TransferRequest| {
        let list = records(request.version);
        close(frame(&message(request.id, request.qtype, &list[..3])))
    };
    survive(
        &server,
        &primary,
        now,
        ("cut short", "ended prematurely"),
        cut,
    );
    let inside = |request: &TransferRequest| {
        let octets = frame(&whole(request, request.version));
        close(octets[..octets.len() - 9].to_vec())
    };
    survive(
        &server,
        &primary,
        now,
        ("cut in a message", "ended prematurely"),
        inside,
    );
    let id = |request: &TransferRequest| {
        let mut octets = frame(&whole(request, request.version));
        octets[2] ^= 1;
        close(octets)
    };
    survive(
        &server,
        &primary,
        now,
        ("response ID does not match", "response ID does not match"),
        id,
    );
    let question = |request: &TransferRequest| {
        let mut octets = frame(&whole(request, request.version));
        octets[16] = b'E' ^ 3;
        close(octets)
    };
    survive(
        &server,
        &primary,
        now,
        ("does not match the question", "does not match the question"),
        question,
    );
    let code = |request: &TransferRequest| {
        let mut octets = frame(&whole(request, request.version));
        octets[5] = 5;
        close(octets)
    };
    survive(&server, &primary, now, ("a refusal", "REFUSED"), code);
    let garbage = |_: &TransferRequest| close(vec![0xff; 3000]);
    survive(
        &server,
        &primary,
        now,
        ("garbage lengths", "ended prematurely"),
        garbage,
    );
    let zero = |_: &TransferRequest| close(vec![0; 64]);
    survive(&server, &primary, now, ("lengths of 0", "malformed"), zero);
    let empty = |request: &TransferRequest| Reply {
        octets: frame(&message(request.id, request.qtype, &[])),
        end: ReplyEnd::Repeat,
    };
    survive(
        &server,
        &primary,
        now,
        ("empty messages", "empty messages"),
        empty,
    );
    let stall = |request: &TransferRequest| Reply {
        octets: frame(&message(
            request.id,
            request.qtype,
            &records(request.version)[..2],
        )),
        end: ReplyEnd::Stall,
    };
    survive(
        &server,
        &primary,
        now,
        ("a stall", "stopped sending"),
        stall,
    );
    let endless = |request: &TransferRequest| {
        let list = &records(request.version)[..4];
        let first = frame(&message(request.id, request.qtype, list));
        let filler = record(b"\x01f\xc0\x0c", 65_280, &[7; 60_000]);
        let mut octets = first;
        for _ in 0..40 {
            octets.extend(frame(&message(
                request.id,
                request.qtype,
                std::slice::from_ref(&filler),
            )));
        }
        close(octets)
    };
    survive(
        &server,
        &primary,
        now,
        ("too large", "exceeds 1 MiB"),
        endless,
    );
    // It does not support IXFR: the whole zone is transferred over a second connection.
    let old = |request: &TransferRequest| match request.qtype {
        AXFR => honest(request),
        _ => {
            let mut octets = frame(&whole(request, request.version));
            octets[5] = 4;
            close(octets)
        }
    };
    primary.set_script(old);
    primary.set_serial(*now + 1);
    assert!(
        server
            .command(&["zone", "retrieve", "example"])
            .status
            .success()
    );
    server.wait_until("AXFR in the place of IXFR", || {
        serial(server.address(), "example") == Some(*now + 1)
    });
}

#[test]
fn a_zone_expires_without_its_primary_and_is_served_again_with_it() {
    let times = [1, 1, 3, 60];
    let primary = Primary::start(Version { serial: 1, times });
    let server = loaded(&primary, "");
    primary.set_silent(true);
    server.wait_until("the end of the zone's time", || {
        rcode(server.address(), "www.example") == Some(2)
    });
    assert!(status(&server, "example").contains("expired"));
    primary.set_silent(false);
    server.wait_until("the zone again", || {
        address(server.address(), "www.example") == Some(1)
    });
}

#[test]
fn a_transfer_without_the_required_signature_is_not_accepted() {
    let primary = Primary::start(version(1));
    let key =
        "[[key]]\nname = \"k.example.\"\nalgorithm = \"hmac-sha256\"\nsecret = \"c2VjcmV0\"\n";
    let server = start(&primary, key);
    server.wait_until("the refusal", || {
        status(&server, "example").contains("not signed")
    });
    assert_eq!(rcode(server.address(), "www.example"), Some(2));
}

#[test]
fn without_a_state_directory_a_secondary_zone_is_an_error_with_the_reason() {
    let setup = Setup::new().config(
        "[[zone]]\nname = \"example\"\nkind = \"secondary\"\nprimaries = [{ address = \"127.0.0.1:9\" }]\n",
    );
    let failure = setup
        .environment("STATE_DIRECTORY", "")
        .try_start()
        .err()
        .unwrap();
    assert!(
        failure.stderr.contains("set server.state_directory"),
        "{failure}"
    );
}
