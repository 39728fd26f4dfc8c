//! AF_XDP: a server in one network, clients in another, and an interface between them whose datagrams do not take the kernel's
//! sockets. The tests marked `ignore` run in the network of the client, started by the others.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use nameward_testkit::server::{binary, in_server_network, run_over_xdp};
use nameward_testkit::wire::question;
use nameward_testkit::{Setup, TestServer, wait_until};

use super::ask::zone;
use super::secure::{dig, done};
use super::upgrade::{load::Load, upgrades};

const NATIVE: &str = "XDP on nw0: native mode, copying";

/// A server with one zone.
fn server() -> TestServer {
    let setup = Setup::new().without_web();
    let server = setup.zone("one.example", &with_large_rrset()).start();
    assert!(server.log().contains(NATIVE), "{}", server.log());
    server
}

/// A zone with a name whose answer is longer than a frame.
fn with_large_rrset() -> String {
    let record = |number| format!("large TXT \"text {number:03} {}\"\n", "x".repeat(40));
    zone("www") + &(0..60).map(record).collect::<String>()
}

/// Returns how many datagrams the sockets in the server's network have received.
fn datagrams_of_sockets(server: &TestServer) -> u64 {
    datagrams_near(server.pid())
}

/// Returns the same for the network of a process.
fn datagrams_near(process: u32) -> u64 {
    let mut sum = 0;
    let of = |file: &str| fs::read_to_string(format!("/proc/{process}/net/{file}")).unwrap();
    let v4 = of("snmp");
    let mut v4 = v4.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let v4 = v4
        .next_back()
        .and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
    sum += v4.unwrap();
    let v6 = of("snmp6");
    let v6 = v6
        .lines()
        .find_map(|line| line.strip_prefix("Udp6InDatagrams"));
    sum + v6.unwrap().trim().parse::<u64>().unwrap()
}

fn is_answered(at: SocketAddr, options: &[&str]) {
    let question = [&["www.one.example", "A", "+short", "+tries=1"], options].concat();
    assert_eq!(dig(at, &question).trim(), "192.0.2.2", "{at} {options:?}");
}

/// Checks whether a program is attached to the server's interface.
fn is_attached() -> bool {
    let output = in_server_network("ip")
        .args(["link", "show", "nw0"])
        .output();
    String::from_utf8_lossy(&output.unwrap().stdout).contains("prog/xdp")
}

#[test]
fn the_server_conforms_to_the_suite_over_xdp() {
    run_over_xdp("conformance::the_server_conforms_to_the_suite");
    run_over_xdp("conformance::the_server_conforms_to_the_suite_over_ipv6");
}

#[test]
fn queries_take_the_rings_and_everything_else_the_sockets() {
    run_over_xdp("operation::xdp::datagrams_take_the_rings_or_the_sockets");
}

#[test]
#[ignore = "runs in two networks"]
fn datagrams_take_the_rings_or_the_sockets() {
    let server = server();
    let (v4, v6) = (server.address(), server.address_v6());
    for at in [v4, v6] {
        is_answered(at, &[]);
        // An answer above the MTU is sent in fragments, by a socket.
        let large = dig(
            at,
            &[
                "large.one.example",
                "TXT",
                "+short",
                "+bufsize=4096",
                "+ignore",
            ],
        );
        assert!(large.is_empty(), "1232 octets by default: {large}");
    }
    assert_eq!(datagrams_of_sockets(&server), 0);
    let status = done(&server, &["status"]);
    assert!(status.contains("nw0: native mode, copying, "), "{status}");
    assert!(status.contains("faults: none"), "{status}");
    is_answered(v4, &["+tcp"]);
    // Above the MTU the client sends fragments.
    ask(v4, &["2000"]);
    ask(v6, &["2000"]);
    assert_eq!(datagrams_of_sockets(&server), 2);
    ask(v4, &["0", "ip-options"]);
    assert_eq!(datagrams_of_sockets(&server), 3);
}

/// Sends a query with this much padding (RFC 7830), with IP options if given. It must be answered over UDP.
fn ask(at: SocketAddr, with: &[&str]) {
    let script = "import socket, sys\n\
        family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET\n\
        s = socket.socket(family, socket.SOCK_DGRAM)\n\
        s.settimeout(10)\n\
        n = int(sys.argv[3])\n\
        if 'ip-options' in sys.argv: s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b'\\x01\\x01\\x01\\x00')\n\
        q = bytes.fromhex('123400000001000000000001') + b'\\3www\\3one\\7example\\0' + bytes([0, 1, 0, 1])\n\
        q += bytes.fromhex('0000291000000000') + bytes([0]) + (n + 4).to_bytes(2, 'big') + bytes.fromhex('000c')\n\
        q += n.to_bytes(2, 'big') + bytes(n)\n\
        s.sendto(q, (sys.argv[1], int(sys.argv[2])))\n\
        r = s.recv(4096)\n\
        assert r[:2] == q[:2] and r[3] & 15 == 0 and r[7] == 1, r\n";
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    let mut command = Command::new("python3");
    let status = command.args(["-c", script, &ip, &port]).args(with).status();
    assert!(status.unwrap().success(), "{at} {with:?}");
}

#[test]
fn large_answers_and_wildcard_addresses_work_over_xdp() {
    run_over_xdp("operation::xdp::answers_in_fragments_and_from_wildcards");
}

#[test]
#[ignore = "runs in two networks"]
fn answers_in_fragments_and_from_wildcards() {
    let setup = Setup::new().without_web().listen(&["0.0.0.0:0", "[::]:0"]);
    let setup = setup.config("[server]\nudp_payload_max = 4096\n");
    let server = setup.zone("one.example", &with_large_rrset()).start();
    let port = server.address().port();
    let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), port);
    is_answered(at("192.0.2.1"), &[]);
    let large = dig(
        at("192.0.2.1"),
        &[
            "large.one.example",
            "TXT",
            "+short",
            "+bufsize=4096",
            "+ignore",
        ],
    );
    assert_eq!(large.lines().count(), 60, "{large}");
    assert_eq!(datagrams_of_sockets(&server), 0);
    // An address of the host on another network card, or on none, as those of anycast services.
    inside("ip address add 203.0.113.1/32 dev lo");
    outside("ip route add 203.0.113.1 via 192.0.2.1");
    is_answered(at("203.0.113.1"), &[]);
}

#[test]
fn limits_access_lists_cookies_logs_and_counters_work_over_xdp() {
    run_over_xdp("operation::xdp::rules_for_datagrams_of_rings");
}

#[test]
#[ignore = "runs in two networks"]
fn rules_for_datagrams_of_rings() {
    const FLOOD: u16 = 100;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("queries.log");
    let setup = Setup::new().without_web().config(&format!(
        "[rate_limit]\nresponses_per_second = 1\nwindow = 3600\nslip = 1\n[zone_defaults]\nallow_query = \
         [\"192.0.2.0/24\"]\n[query_log]\nenabled = true\nfile = {log:?}\n"
    ));
    let server = setup.zone("one.example", &zone("www")).start();
    assert!(server.log().contains(NATIVE), "{}", server.log());
    let refused = dig(server.address_v6(), &["www.one.example", "A", "+tries=1"]);
    assert!(refused.contains("status: REFUSED"), "{refused}");
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(server.address()).unwrap();
    let mut reply = [0; 2048];
    let mut truncated = 0;
    for id in 0..FLOOD {
        socket.send(&question(id, "www.one.example", "A")).unwrap();
        let len = socket.recv(&mut reply).unwrap();
        truncated += usize::from(len < 50 && reply[2] & 2 != 0);
    }
    assert!(truncated > 50, "{truncated}");
    // A client with a valid cookie is not limited.
    let good = dig(
        server.address(),
        &["www.one.example", "A", "+cookie", "+tries=1"],
    );
    assert!(
        good.contains("(good)") && good.contains("192.0.2.2"),
        "{good}"
    );
    wait_until("all are counted", || {
        let stats = done(&server, &["stats"]);
        let line = stats.lines().find(|line| line.starts_with("udp4-queries"));
        // Its first query is limited or has no cookie.
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u16>().ok()) > Some(FLOOD)
    });
    wait_until("all are logged", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.contains("2001:db8::2") && text.lines().count() > usize::from(FLOOD)
    });
    assert_eq!(datagrams_of_sockets(&server), 0);
}

#[test]
fn the_filter_is_removed_with_the_server_and_replaces_no_other() {
    run_over_xdp("operation::xdp::filters_of_servers_that_end_and_of_others");
}

#[test]
#[ignore = "runs in two networks"]
fn filters_of_servers_that_end_and_of_others() {
    let first = server();
    assert!(is_attached());
    let second = Setup::new().without_web().zone("one.example", &zone("www"));
    let second = second.start();
    let reason = "XDP on nw0: another XDP program is attached to it; ordinary sockets are used";
    assert!(second.log().contains(reason), "{}", second.log());
    assert!(done(&second, &["status"]).contains("xdp_unused"));
    is_answered(second.address(), &[]);
    drop(second);
    first.signal("KILL");
    wait_until("the filter is gone", || !is_attached());
    drop(first);
    let third = server();
    is_answered(third.address(), &[]);
    inside("ip link set nw0 down");
    inside("ip link set nw0 up");
    let before = datagrams_of_sockets(&third);
    is_answered(third.address(), &["+retry=5"]);
    assert_eq!(datagrams_of_sockets(&third), before);
    inside("ip link delete nw0");
    third.wait_until("the loss is a fault", || {
        done(&third, &["status"]).contains("the interface was removed")
    });
}

/// Runs a command in the network of the server.
fn inside(command: &str) {
    let mut words = command.split(' ');
    let mut run = in_server_network(words.next().unwrap());
    assert!(run.args(words).status().unwrap().success(), "{command}");
}

/// Runs a command in the network of the client; returns its output.
fn outside(command: &str) -> String {
    let mut words = command.split(' ');
    let mut run = Command::new(words.next().unwrap());
    let output = run.args(words).output().unwrap();
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn datagrams_that_find_a_ring_full_are_counted() {
    run_over_xdp("operation::xdp::drops_of_a_full_ring");
}

#[test]
#[ignore = "runs in two networks"]
fn drops_of_a_full_ring() {
    let server = server();
    is_answered(server.address(), &[]);
    server.signal("STOP");
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(server.address()).unwrap();
    // The ring has room for 2,048. Some may be lost before they get there.
    for id in 0..20_000 {
        socket.send(&question(id, "www.one.example", "A")).unwrap();
    }
    server.signal("CONT");
    server.wait_until("the drops are counted", || {
        done(&server, &["status"]).contains(" datagrams dropped")
    });
}

#[test]
fn replies_follow_the_routing_table_if_routes_are_checked() {
    run_over_xdp("operation::xdp::replies_by_route");
}

#[test]
#[ignore = "runs in two networks"]
fn replies_by_route() {
    let start = || {
        let setup = Setup::new().without_web();
        let setup = setup.config("[xdp]\ninterfaces = [\"nw0\"]\nroute_check = true\n");
        setup.zone("one.example", &zone("www")).start()
    };
    let refused = start();
    let reason = "xdp.route_check takes the kernel setting net.ipv4.conf.lo.forwarding = 1";
    assert!(refused.log().contains(reason), "{}", refused.log());
    drop(refused);
    inside("sysctl -qw net.ipv4.conf.lo.forwarding=1 net.ipv6.conf.lo.forwarding=1");
    inside("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.nw0.rp_filter=0");
    let server = start();
    assert!(server.log().contains(NATIVE), "{}", server.log());
    for at in [server.address(), server.address_v6()] {
        // The first query may find the client's station unknown; the kernel then asks for it.
        is_answered(at, &[]);
        let before = datagrams_of_sockets(&server);
        is_answered(at, &[]);
        assert_eq!(datagrams_of_sockets(&server), before, "{at}");
    }
    outside("ip address add 198.51.100.7/32 dev nw1");
    let before = datagrams_of_sockets(&server);
    let ask_without_reply = || {
        let question = [
            "-b",
            "198.51.100.7",
            "www.one.example",
            "+tries=1",
            "+time=1",
        ];
        let text = dig(server.address(), &question);
        assert!(!text.contains("NOERROR"), "{text}");
    };
    // Without a route the query is for the kernel, which cannot send a reply either.
    ask_without_reply();
    assert_eq!(datagrams_of_sockets(&server), before + 1);
    let link = outside("ip -o link show nw1");
    let station = link.split("link/ether ").nth(1).unwrap();
    let station = station.split(' ').next().unwrap();
    inside("ip route add 198.51.100.0/24 via 192.0.2.3");
    inside(&format!(
        "ip neighbour add 192.0.2.3 lladdr {station} dev nw0"
    ));
    is_answered(server.address(), &["-b", "198.51.100.7"]);
    assert_eq!(datagrams_of_sockets(&server), before + 1);
    inside("ip neighbour replace 192.0.2.3 lladdr 02:00:00:00:00:99 dev nw0");
    let station = station_of_reply(server.address(), "198.51.100.7");
    assert_eq!(station, "020000000099");
    assert_eq!(datagrams_of_sockets(&server), before + 1);
    // The reply leaves by another interface.
    inside("ip link add other type veth peer name another");
    inside("ip link set other up");
    inside("ip route replace 198.51.100.0/24 dev other");
    ask_without_reply();
    assert_eq!(datagrams_of_sockets(&server), before + 2);
}

/// Sends a query and returns the station that its reply is sent to.
fn station_of_reply(at: SocketAddr, client: &str) -> String {
    let script = "import socket, sys\n\
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))\n\
        raw.bind(('nw1', 0x800))\n\
        raw.settimeout(10)\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.bind((sys.argv[1], 0))\n\
        q = bytes.fromhex('123400000001000000000000') + b'\\3www\\3one\\7example\\0' + bytes([0, 1, 0, 1])\n\
        s.sendto(q, (sys.argv[2], int(sys.argv[3])))\n\
        while True:\n\
        \x20   frame, (_, _, kind, *_) = raw.recvfrom(2048)\n\
        \x20   if kind != socket.PACKET_OUTGOING and frame[42:44] == q[:2]: break\n\
        print(frame[:6].hex())\n";
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    let mut command = Command::new("python3");
    let output = command
        .args(["-c", script, client, &ip, &port])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

#[test]
fn upgrades_under_load_keep_xdp_and_lose_no_query() {
    run_over_xdp("operation::xdp::upgrade_with_xdp");
}

#[test]
#[ignore = "runs in two networks"]
fn upgrade_with_xdp() {
    let server = server();
    is_answered(server.address(), &[]);
    let (count, load) = (upgrades(), Load::over_udp(server.address()));
    let mut process = server.pid();
    for _ in 0..count {
        let output = in_server_network(binary())
            .args(["upgrade", "--json", "--config"])
            .arg(server.dir().join("nameward.toml"))
            .env("RUNTIME_DIRECTORY", server.dir())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}\n{}", server.log());
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        process = value["process"].as_u64().unwrap() as u32;
        load.wait_for_each();
    }
    let results = load.stop();
    println!("{count} upgrades with XDP");
    for result in &results {
        println!("{result}");
        assert_eq!(result.lost, 0, "{result}: {}", result.reasons());
    }
    let before = datagrams_near(process);
    is_answered(server.address(), &[]);
    let status = done(&server, &["status"]);
    assert!(status.contains("nw0: native mode, copying, "), "{status}");
    assert_eq!(datagrams_near(process), before);
    let ended = Command::new("kill").arg(process.to_string()).status();
    assert!(ended.unwrap().success());
}

#[test]
fn kxdpgun_gets_its_answers_over_xdp() {
    run_over_xdp("operation::xdp::kxdpgun_sends_and_receives_by_xdp");
}

#[test]
#[ignore = "runs in two networks"]
fn kxdpgun_sends_and_receives_by_xdp() {
    let server = server();
    let queries = server.dir().join("queries");
    fs::write(&queries, "www.one.example. A\nnone.one.example. AAAA\n").unwrap();
    // First it resolves the MAC address of the destination.
    is_answered(server.address(), &[]);
    let port = server.address().port().to_string();
    let output = Command::new("kxdpgun")
        .args(["-t", "2", "-Q", "2000", "-p", &port, "-i"])
        .arg(&queries)
        .arg("192.0.2.1")
        .output()
        .expect("kxdpgun is installed: run scripts/install-deps");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let number = |label: &str| {
        let line = text.lines().find(|line| line.contains(label));
        let digits = line.and_then(|line| line.split(label).nth(1)?.split_whitespace().next());
        digits.and_then(|digits| digits.parse::<u64>().ok())
    };
    let (sent, received) = (number("total queries:"), number("total replies:"));
    assert!(sent.is_some_and(|sent| sent > 3000), "{text}");
    assert_eq!(sent, received, "{text}");
    assert_eq!(datagrams_of_sockets(&server), 0);
}
