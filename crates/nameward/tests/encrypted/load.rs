//! Load on each encrypted transport, with dnspython: certificates that change lose no query, and a kill loses no update that
//! was answered.

use super::{ZONE, counted, run_tool, setup};
use crate::api::tls::make_certificate;
use crate::databases::api_clients::clients;
use nameward_testkit::{Setup, TestServer};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A client that writes what was answered into a file, a line each. It ends with the test.
struct LoadClient {
    child: Child,
    output: PathBuf,
}

impl LoadClient {
    fn start(server: &TestServer, work: &str, transport: &str) -> Option<LoadClient> {
        let clients = clients()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/load.py");
        let output = server.dir().join(format!("{work}-{transport}"));
        let file = File::create(&output).unwrap();
        let child = Command::new(clients.join("python/bin/python3"))
            .arg(script)
            .args([work, transport])
            .arg(server.dir().join("authority.pem"))
            .arg(
                server
                    .encrypted(&transport.to_uppercase())
                    .port()
                    .to_string(),
            )
            .stdin(Stdio::piped())
            .stdout(file)
            .spawn()
            .expect("Python can be run");
        Some(LoadClient { child, output })
    }

    /// The complete lines so far.
    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.output).unwrap();
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        complete.lines().map(str::to_owned).collect()
    }

    /// Lets it finish; returns whether it succeeded, and its lines.
    fn finish(mut self) -> (bool, Vec<String>) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        (status.success(), self.lines())
    }
}

impl Drop for LoadClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_changed_certificate_loses_no_query_over_https_and_quic() {
    let listen = "listen_https = [\"127.0.0.1:0\"]\nlisten_quic = [\"127.0.0.1:0\"]\n";
    let server = setup(&format!("[server]\n{listen}")).start();
    let loads = ["https", "quic"].map(|transport| LoadClient::start(&server, "queries", transport));
    let [Some(https), Some(quic)] = loads else {
        return;
    };
    for round in 1..=3 {
        make_certificate(server.dir(), 300);
        let reloaded = server.command(&["reload"]);
        assert!(reloaded.status.success(), "{reloaded:?}");
        server.wait_until("the certificate is loaded", || {
            server.log().matches("TLS certificate").count() >= round
        });
        for load in [&https, &quic] {
            let before = load.lines().len();
            server.wait_until("queries are answered with it", || {
                load.lines().len() > before + 5
            });
        }
    }
    for (load, name) in [(https, "https-queries"), (quic, "quic-queries")] {
        let (is_ok, lines) = load.finish();
        assert!(is_ok, "{name}: {lines:?}");
        let answered = lines.last().map(|line| line.parse().unwrap());
        assert_eq!(answered, Some(counted(&server, name)), "{name}");
    }
    assert_eq!(counted(&server, "tls-handshakes-failed"), 0);
}

/// A server whose zone and state are in a directory that outlives it.
fn start_in(directory: &Path) -> TestServer {
    let setup = Setup::new().without_web();
    for name in ["authority.pem", "server.pem", "server.key"] {
        std::fs::copy(directory.join(name), setup.dir().join(name)).unwrap();
    }
    let (state, zone) = (directory.join("state"), directory.join("example.org.zone"));
    setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\nlisten_tls = [\"127.0.0.1:0\"]\nlisten_https = [\"127.0.0.1:0\"]\n\
             listen_quic = [\"127.0.0.1:0\"]\n[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n\
             [[zone]]\nname = \"example.org\"\nfile = {zone:?}\nallow_update = [\"127.0.0.1\"]\n"
        ))
        .start()
}

#[test]
fn a_kill_loses_no_update_that_was_answered() {
    for transport in ["tls", "https", "quic"] {
        let directory = tempfile::tempdir().unwrap();
        make_certificate(directory.path(), 300);
        std::fs::write(directory.path().join("example.org.zone"), ZONE).unwrap();
        std::fs::create_dir(directory.path().join("state")).unwrap();
        let server = start_in(directory.path());
        let Some(load) = LoadClient::start(&server, "updates", transport) else {
            return;
        };
        server.wait_until("updates are answered", || load.lines().len() >= 20);
        server.signal("KILL");
        // Its output is in the directory of the server.
        let (is_ok, answered) = load.finish();
        assert!(is_ok && answered.len() >= 20, "{transport}: {answered:?}");
        server.wait();

        let server = start_in(directory.path());
        let port = server.address().port();
        let names = answered.join(".example.org A ");
        let command = format!("dig +short -p {port} @127.0.0.1 {names}.example.org A");
        let (_, text) = run_tool(&server, &command);
        let found = text.matches("192.0.2.77").count();
        assert_eq!(found, answered.len(), "{transport}: {text}");
        assert_eq!(server.stop().code(), Some(0));
    }
}
