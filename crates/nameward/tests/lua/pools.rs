//! Pools and maps in a whole server: checks from the start, failures, what an operator forces, clients, reloads.

use std::net::{TcpListener, UdpSocket};

use nameward_testkit::Setup;

use super::{ask, status_of};
use crate::operation::secure::done;

const APEX: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n";

#[test]
fn pools_leave_out_members_that_fail_without_lua_records() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = format!(
        "[health]\ninterval = 1\n\
         [[pool]]\nname = \"web\"\nmembers = [\"127.0.0.1\", \"127.0.0.2\"]\nanswers = 0\ncheck = \"tcp\"\nport = {port}\n\
         [[pool]]\nname = \"far\"\nmembers = [\"192.0.2.9\"]\n\
         [[map]]\nname = \"geo\"\nentries = [{{ networks = [\"127.0.0.3\"], pools = [\"far\"] }}]\ndefault = [\"web\"]\n"
    );
    let zone = format!(
        "{APEX}www LUA A \"pool('web')\"\nwww LUA AAAA \"pool('web')\"\ngeo LUA A \"pool('geo')\"\nlost LUA A \"pool('nosuch')\"\n"
    );
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    let addresses = |name: &str, source: &str| {
        let (_, answers) = ask(server.address(), source, &[name, "A"]);
        let data = answers.iter().filter_map(|line| line.split(' ').nth(4));
        data.map(str::to_owned).collect::<Vec<_>>()
    };
    // Nothing was queried before: members are checked from the start.
    server.wait_until("the first checks", || {
        done(&server, &["health", "list"]).contains(&format!("down     127.0.0.2 port {port}"))
    });
    server.wait_until("the answer without it", || {
        addresses("www.up.test", "127.0.0.1") == ["127.0.0.1"]
    });
    assert_eq!(
        status_of(&server, "www.up.test", "AAAA"),
        ("NOERROR".to_owned(), 0)
    );
    assert_eq!(addresses("geo.up.test", "127.0.0.1"), ["127.0.0.1"]);
    assert_eq!(addresses("geo.up.test", "127.0.0.3"), ["192.0.2.9"]);
    assert_eq!(status_of(&server, "lost.up.test", "A").0, "SERVFAIL");
    server.wait_until("the fault", || {
        done(&server, &["status"]).contains("lost.up.test. A: no pool \"nosuch\"")
    });
    assert!(done(&server, &["status"]).contains("1 up, 1 down, 0 not checked yet, 0 forced"));
    done(&server, &["health", "force", "127.0.0.1", "down"]);
    done(&server, &["health", "force", "127.0.0.2", "up"]);
    assert_eq!(addresses("www.up.test", "127.0.0.1"), ["127.0.0.2"]);
    done(&server, &["health", "force", "127.0.0.1", "auto"]);
    done(&server, &["health", "force", "127.0.0.2", "auto"]);
    assert_eq!(addresses("www.up.test", "127.0.0.1"), ["127.0.0.1"]);
    let recovered = TcpListener::bind(("127.0.0.2", port)).unwrap();
    server.wait_until("the recovery", || {
        addresses("www.up.test", "127.0.0.1").len() == 2
    });
    drop(recovered);
}

#[test]
fn name_servers_are_checked_by_a_query() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, peer)) = socket.recv_from(&mut message) {
            message[2] |= 0x80;
            let _ = socket.send_to(&message[..length], peer);
        }
    });
    let config = format!(
        "[health]\ninterval = 1\n[[pool]]\nname = \"dns\"\nmembers = [\"127.0.0.1\", \"127.0.0.2\"]\nanswers = 0\n\
         check = \"dns\"\nport = {port}\nquery = \"example.org.\"\ntimeout_ms = 500\n"
    );
    let zone = format!("{APEX}ns1 LUA A \"pool('dns')\"\n");
    let server = Setup::new().config(&config).zone("up.test", &zone).start();
    server.wait_until("the answer without the other one", || {
        let (_, answers) = ask(server.address(), "127.0.0.1", &["ns1.up.test", "A"]);
        answers == ["ns1.up.test. 300 IN A 127.0.0.1"]
    });
}
