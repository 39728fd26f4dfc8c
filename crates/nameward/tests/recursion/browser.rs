//! The security status as a person sees it: polls answered by a second server of ours, the page in a real browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nameward_testkit::{Setup, TestServer, require};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../control/tests/browser.py");
const LOG: &str = "#rows-logmessages";
const NOTICE: &str = "#security";

/// A browser that checks the page until it shows the expected text.
struct WatchingBrowser {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl WatchingBrowser {
    /// Opens a browser; pictures go to the directory of the server.
    fn start(server: &TestServer) -> Option<Self> {
        let pictures = match std::env::var_os("NAMEWARD_PICTURES") {
            Some(directory) => directory.into(),
            None => server.dir().join("pictures"),
        };
        let child = Command::new("python3")
            .args([SCRIPT, &format!("http://{}/", server.web())])
            .arg(pictures)
            .arg("watch")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = require(child.ok(), "python3")?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut browser = WatchingBrowser {
            child,
            input,
            output,
        };
        let has_browser = browser.line() == "ready\n";
        let missing = "a browser (chromium, chromium-driver)";
        require(has_browser.then_some(browser), missing)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it can be read");
        line
    }

    /// Waits until the page has the status, and each text where it should be; "" is an element without text.
    fn see(&mut self, name: &str, status: u8, texts: &[(&str, &str)]) {
        let shown = texts
            .iter()
            .map(|(css, text)| format!("[{css:?}, {text:?}]"));
        let shown: Vec<String> = shown.collect();
        let prominent = match texts {
            [(NOTICE, text), ..] if !text.is_empty() => "\"#security .security\"",
            _ => "null",
        };
        let line = format!(
            "{{\"name\": {name:?}, \"prominent\": {prominent}, \"texts\": [[\"#var-security-status .count\", \"{status}\"], {}]}}\n",
            shown.join(", ")
        );
        let input = self.input.as_mut().expect("it is piped");
        if input.write_all(line.as_bytes()).is_err() || self.line() != "seen\n" {
            let mut said = String::new();
            if let Some(errors) = &mut self.child.stderr {
                let _ = errors.read_to_string(&mut said);
            }
            panic!("{name}: {said}");
        }
    }
}

impl Drop for WatchingBrowser {
    fn drop(&mut self) {
        // The end of its input ends it, with the browser.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The zone with the status of this version; none without a text.
fn write_status(polled: &TestServer, serial: u32, status: Option<&str>) {
    let version = env!("CARGO_PKG_VERSION");
    let record = status.map_or(String::new(), |status| {
        format!("auth-{version}.security-status TXT \"{status}\"\n")
    });
    let head = format!("$TTL 1\n@ SOA ns h {serial} 2 3 4 1\n@ NS ns\nns A 127.0.0.1\n");
    polled.write_zone("polls.test", &format!("{head}{record}"));
    assert!(polled.command(&["reload"]).status.success());
}

#[test]
fn each_answer_to_a_poll_is_seen_on_the_page_in_a_browser() {
    let polled = TestServer::start("", &[("other.test", super::hand_off::ZONE)]);
    write_status(&polled, 1, Some("1 no known problems"));
    let config = format!(
        "[recursor]\naddress = \"{}\"\ntimeout_ms = 5000\n[security_poll]\nsuffix = \"polls.test\"\ninterval = 1\n",
        polled.address()
    );
    let server = Setup::new().config(&config).start();
    let Some(mut browser) = WatchingBrowser::start(&server) else {
        return;
    };
    browser.see("status-1", 1, &[(NOTICE, "")]);

    write_status(&polled, 2, Some("2 upgrade to 9.9.9"));
    let recommended = (NOTICE, "an upgrade of this server is recommended");
    let reason = (LOG, "upgrade recommended: upgrade to 9.9.9");
    browser.see("status-2", 2, &[recommended, reason]);
    write_status(&polled, 3, None);
    let failed = (LOG, "RCODE was Non-Existent domain");
    browser.see("nxdomain", 2, &[recommended, failed]);

    write_status(&polled, 4, Some("3 upgrade now"));
    let mandatory = (NOTICE, "an upgrade of this server is mandatory");
    let reason = (LOG, "upgrade mandatory: upgrade now");
    browser.see("status-3", 3, &[mandatory, reason]);
    polled.remove_zone("polls.test");
    assert!(polled.command(&["reload"]).status.success());
    browser.see("refused", 3, &[mandatory, (LOG, "RCODE was Refused")]);
    // A zone that was never loaded: SERVFAIL. The command reports its errors.
    polled.write_zone("polls.test", "@ SOA this is no zone\n");
    assert!(!polled.command(&["reload"]).status.success());
    browser.see(
        "servfail",
        3,
        &[mandatory, (LOG, "RCODE was Server Failure")],
    );
    polled.signal("STOP");
    browser.see("silence", 3, &[mandatory, (LOG, "RCODE was Timeout")]);
    polled.signal("CONT");

    write_status(&polled, 5, Some("0 nothing is known"));
    browser.see("status-0", 0, &[(NOTICE, "")]);
}
