//! The systemd units: a server that the first query starts answers it, after its zones are loaded, and the service can do
//! little else. `scripts/try-service` runs the units under a real systemd.

use std::{
    fs::{self, File},
    io::Read,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nameward_testkit::{server::binary, wait_until};

use super::ask::zone;
use super::upgrade::load::{exchange, question};

/// Records of the zone: enough to be loading when the server reads its sockets, if it did not wait.
const HOSTS: usize = 20_000;
/// Only a lost query takes so long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is started by its first query.
struct ActivatedServer {
    child: Child,
    home: tempfile::TempDir,
    address: SocketAddr,
}

impl ActivatedServer {
    /// Opens a socket as systemd does, for datagrams or for connections.
    fn wait_for_query(options: &[&str], settings: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        // Free in the network of this test.
        let port = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap();
        drop(port);
        fs::create_dir(home.path().join("zones")).unwrap();
        let hosts: String = (0..HOSTS).map(|n| format!("h{n} TXT {n}\n")).collect();
        let text = zone("www") + &hosts;
        fs::write(home.path().join("zones/one.example.zone"), text).unwrap();
        let config = home.path().join("nameward.toml");
        let text = format!(
            "[server]\nlisten = [\"{address}\"]\n[web]\nlisten = \"127.0.0.1:0\"\n\
             [[backend]]\ntype = \"file\"\ndirectory = \"zones\"\n{settings}"
        );
        fs::write(&config, text).unwrap();
        let runtime = format!("RUNTIME_DIRECTORY={}", home.path().display());
        let child = Command::new("systemd-socket-activate")
            .args(options)
            .args(["-l", &address.to_string(), "-E", &runtime])
            .arg(binary())
            .args(["serve", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log(home.path()))
            .stderr(log(home.path()))
            .spawn()
            .expect("systemd-socket-activate is installed: run scripts/install-deps");
        let server = Self {
            child,
            home,
            address,
        };
        wait_until("the socket is open", || {
            server.log().contains("Listening on ")
        });
        server
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap()
    }
}

impl Drop for ActivatedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens the log for one more stream.
fn log(home: &Path) -> File {
    let mut options = File::options();
    let options = options.create(true).append(true);
    options.open(home.join("log")).unwrap()
}

/// Sends a query for www.one.example; the socket receives the response.
fn send(server: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.connect(server).unwrap();
    client.send(&question(1)[2..]).unwrap();
    client
}

fn response_code(client: &UdpSocket) -> u8 {
    let mut response = [0; 512];
    client.recv(&mut response).expect("a response");
    response[3] & 0x0F
}

#[test]
fn the_query_that_starts_a_server_is_answered_when_its_zones_are_loaded() {
    let server = ActivatedServer::wait_for_query(&["-d"], "");
    let client = send(server.address);
    assert_eq!(response_code(&client), 0, "{}", server.log());
    assert!(!server.log().contains("not loaded"), "{}", server.log());
}

#[test]
fn the_connection_that_starts_a_server_is_answered_when_its_zones_are_loaded() {
    let server = ActivatedServer::wait_for_query(&[], "");
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let code = exchange(&stream, &question(1)).unwrap();
    assert_eq!(code, 0, "{}", server.log());
}

#[test]
fn a_database_that_does_not_respond_delays_an_activated_server_for_seconds_only() {
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://user@{}/zones", database.local_addr().unwrap());
    let settings =
        format!("[[backend]]\ntype = \"postgres\"\nurl = \"{url}\"\ntimeout_ms = 600000\n");
    let server = ActivatedServer::wait_for_query(&["-d"], &settings);
    let client = send(server.address);
    // Commands and the page do not wait.
    let socket = server.home.path().join("control.sock");
    wait_until("the control socket is there", || socket.exists());
    let status = Command::new(binary())
        .args(["status", "--config"])
        .arg(server.home.path().join("nameward.toml"))
        .env("RUNTIME_DIRECTORY", server.home.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("process "), "{text}{}", server.log());
    let web = server.log();
    let web = web
        .lines()
        .find_map(|line| line.strip_prefix("web page at http://"));
    let web = web.expect("the page has an address").trim_end_matches('/');
    let mut page = TcpStream::connect(web).unwrap();
    page.set_read_timeout(Some(TIMEOUT)).unwrap();
    std::io::Write::write_all(&mut page, b"GET /ready HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = String::new();
    page.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1."), "{reply}");
    assert_eq!(response_code(&client), 0, "a zone that is loaded is served");
    assert!(server.log().contains("not loaded yet"), "{}", server.log());
}

#[test]
fn systemd_rates_the_exposure_of_the_service_below_one() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/nameward.service");
    let output = Command::new("systemd-analyze")
        // In tenths.
        .args(["security", "--offline=true", "--no-pager", "--threshold=9"])
        .arg(&unit)
        .output()
        .expect("systemd-analyze is installed: run scripts/install-deps");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("exposure level for nameward.service"),
        "{text}"
    );
    // Calls with which the server restricts itself further.
    let unit = fs::read_to_string(unit).unwrap();
    for call in ["landlock_restrict_self", "seccomp"] {
        assert!(unit.contains(call), "{call}");
    }
}
