//! `[recursor]` and `[security_poll]` changed by a reload, while the server runs.

use std::{fs, time::Duration};

use nameward_testkit::wire::{Client, Message, Transport};
use nameward_testkit::{Setup, TestServer};

use super::hand_off::{ask, recursive};
use super::scripted::{ScriptedResolver, address, last_octet, text};
use crate::status::page::Page;

const ZONE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n\
                    shop ALIAS target.elsewhere.test.\n";

/// A server whose configuration can be changed.
struct Reloaded {
    server: TestServer,
    /// The configuration without the sections that change.
    base: String,
}

impl Reloaded {
    fn start() -> Self {
        let server = Setup::new().zone("example", ZONE).start();
        let base = fs::read_to_string(server.dir().join("nameward.toml")).unwrap();
        Reloaded { server, base }
    }

    fn write(&self, sections: &str) {
        let text = format!("{}\n{sections}", self.base);
        fs::write(self.server.dir().join("nameward.toml"), text).unwrap();
    }

    /// Reloads with these sections; returns the output of the command.
    fn reload(&self, sections: &str) -> String {
        self.write(sections);
        let output = self.server.command(&["reload"]);
        let text = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(text).unwrap();
        assert!(output.status.success(), "{said}");
        said
    }

    fn ask(&self, name: &str) -> Message {
        ask(&self.server, Transport::Udp, name)
    }

    fn wait_for_status(&self, status: u64) {
        let became = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            Page::read(self.server.web(), "/").value("security-status") == status
        });
        assert!(became, "never {status}:\n{}", self.server.log());
    }
}

fn recursor(resolver: &ScriptedResolver, more: &str) -> String {
    let address = resolver.address;
    format!("[recursor]\naddress = \"{address}\"\ntimeout_ms = 20000\n{more}\n")
}

#[test]
fn a_reload_changes_recursors_and_their_clients_at_once() {
    let first = ScriptedResolver::start(|query, _| vec![address(query, 7)]);
    let second = ScriptedResolver::start(|query, _| vec![address(query, 9)]);
    let reloaded = Reloaded::start();
    let ra = |answer: &Message| answer.flags & 0x80 != 0;
    assert_eq!(reloaded.ask("a.test").rcode(), 5);
    assert_eq!(reloaded.ask("shop.example").rcode(), 2, "nobody to ask");

    let said = reloaded.reload(&recursor(&first, ""));
    assert!(!said.contains("restart"), "{said}");
    assert_eq!(last_octet(&reloaded.ask("a.test")), Some(7));
    assert!(ra(&reloaded.ask("ns.example")));
    assert_eq!(last_octet(&reloaded.ask("shop.example")), Some(7), "ALIAS");

    reloaded.reload(&recursor(&second, "allow_from = [\"127.0.0.1\"]"));
    assert_eq!(last_octet(&reloaded.ask("a.test")), Some(9));
    let other = Client::new("127.0.0.2", reloaded.server.address());
    let refused = other.exchange(Transport::Udp, &recursive(1, "a.test", "A"));
    assert_eq!(refused.unwrap().unwrap().rcode(), 5);

    // One of our own addresses is rejected with the reason.
    let own = reloaded.server.address();
    let said = reloaded.reload(&format!("[recursor]\naddress = \"{own}\"\n"));
    let expected = format!("recursor.address: {own} is an address of this server");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(last_octet(&reloaded.ask("b.test")), Some(9));

    // SIGHUP does the same as the command.
    reloaded.write("");
    reloaded.server.signal("HUP");
    let gone = (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        reloaded.ask("a.test").rcode() == 5
    });
    assert!(gone, "{}", reloaded.server.log());
    assert!(!ra(&reloaded.ask("ns.example")));
}

#[test]
fn a_query_in_flight_is_answered_although_the_recursor_changes() {
    let slow = ScriptedResolver::start(|query, _| {
        std::thread::sleep(Duration::from_secs(3));
        vec![address(query, 7)]
    });
    let reloaded = Reloaded::start();
    reloaded.reload(&recursor(&slow, ""));
    let client = Client::new("127.0.0.1", reloaded.server.address());
    let socket = client.send(&recursive(5, "slow.test", "A")).unwrap();
    while slow.questions() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    reloaded.reload("");
    let mut buffer = [0; 1500];
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let len = socket.recv(&mut buffer).expect("a reply");
    assert_eq!(last_octet(&Message::read(&buffer[..len]).unwrap()), Some(7));
}

#[test]
fn a_reload_turns_the_security_poll_on_and_off() {
    let resolver = ScriptedResolver::start(|query, _| vec![text(query, "2 upgrade to 0.1.1")]);
    let reloaded = Reloaded::start();
    reloaded.reload(&recursor(&resolver, ""));
    assert_eq!(resolver.questions(), 0);
    let poll = |suffix: &str| {
        let recursor = recursor(&resolver, "");
        format!("{recursor}[security_poll]\nsuffix = \"{suffix}\"\ninterval = 86400\n")
    };
    reloaded.reload(&poll("polls.test"));
    reloaded.wait_for_status(2);
    // A bad status stays if the same name is queried and the answer fails.
    resolver.change(|query, _| vec![super::scripted::reply(query, 5, &[])]);
    let asked = resolver.questions();
    reloaded.reload(&poll("polls.test").replace("86400", "86300"));
    assert!(reloaded.server.wait_for_log("RCODE was Refused"));
    assert!(resolver.questions() > asked);
    reloaded.wait_for_status(2);
    reloaded.reload(&recursor(&resolver, ""));
    reloaded.wait_for_status(0);
    let said = reloaded.reload(&poll(&"a".repeat(64)));
    assert!(said.contains("security_poll.suffix"), "{said}");
}
