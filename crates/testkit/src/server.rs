//! One `nameward` process for a test: its files, ports, output and termination.
//!
//! Every server lives in its own temporary directory, listens on free ports, and is ended by its process ID when the
//! value is dropped, so tests can run in parallel.

mod long_timeouts;
mod network;

use crate::peers::free_address;
use long_timeouts::with_long_timeouts;
pub use network::{in_server_network, run_over_xdp};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Timeout for a server to become ready or to end. Generous: only a hang exceeds it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of one server's output that is kept.
const OUTPUT_MAX: usize = 4 << 20;

/// Returns the path of the `nameward` binary of this build.
///
/// `NAMEWARD_BIN` takes precedence; otherwise it is searched next to the directory of the running test.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("NAMEWARD_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a running test has a path");
    let deps = test.parent().expect("a test binary stands in a directory");
    [deps.join("nameward"), deps.join("../nameward")]
        .into_iter()
        .find(|path| path.is_file())
        .expect("the nameward binary is built before its tests run")
}

/// Lines that one stream of the server has written so far.
#[derive(Default)]
struct Output {
    text: Mutex<(String, bool)>,
    grown: Condvar,
}

impl Output {
    /// Copies `stream` until its end, on its own thread.
    fn follow(stream: impl Read + Send + 'static) -> Arc<Self> {
        let output = Arc::new(Self::default());
        let writer = Arc::clone(&output);
        thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            loop {
                line.clear();
                let open = matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0);
                let mut text = writer.text.lock().expect("no holder panics");
                if text.0.len() < OUTPUT_MAX {
                    text.0.push_str(&String::from_utf8_lossy(&line));
                }
                text.1 |= !open;
                writer.grown.notify_all();
                if !open {
                    return;
                }
            }
        });
        output
    }

    fn text(&self) -> String {
        self.text.lock().expect("no holder panics").0.clone()
    }

    /// Checks whether the stream has ended, as it does with the process.
    fn has_ended(&self) -> bool {
        self.text.lock().expect("no holder panics").1
    }

    /// Waits until `wanted` holds for the text, the stream ends, or the timeout expires.
    fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let text = self.text.lock().expect("no holder panics");
        let (text, _) = self
            .grown
            .wait_timeout_while(text, TIMEOUT, |text| !text.1 && !wanted(&text.0))
            .expect("no holder panics");
        wanted(&text.0)
    }
}

/// The log of a server: an unnamed file that the server writes to directly.
///
/// A line written before the server answered is visible to every read after the answer. A pipe with a thread behind it
/// gives no such guarantee.
struct LogFile(File);

impl LogFile {
    fn new() -> Self {
        Self(tempfile::tempfile().expect("a temporary file can be made"))
    }

    /// Returns the file handle that the server writes to.
    fn writer(&self) -> Stdio {
        let copy = self.0.try_clone();
        copy.expect("a descriptor can be copied").into()
    }

    fn text(&self) -> String {
        let written = self.0.metadata().expect("an open file has a size").len();
        let mut text = vec![0; OUTPUT_MAX.min(written as usize)];
        // The server shares the file position, so it must not move.
        let read = self.0.read_exact_at(&mut text, 0);
        read.expect("a log only grows");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until the log contains `wanted`, `ended` reports that there is no writer left, or the timeout expires.
    fn wait_for(&self, wanted: &str, ended: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            let last = ended() || start.elapsed() > TIMEOUT;
            if self.text().contains(wanted) {
                return true;
            }
            if last {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A server to start; see [`TestServer::start`] for the short form.
pub struct Setup {
    dir: TempDir,
    config: String,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    listen: Vec<String>,
    web: bool,
    watch: bool,
    has_long_timeouts: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// Returns an empty directory, no zones, 127.0.0.1 and ::1 on free ports, and the web page.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("nameward-test-")
            .tempdir()
            .expect("a temporary directory can be made");
        fs::create_dir(dir.path().join("zones")).expect("an empty directory takes a new one");
        let listen = free_address().expect("a port is free");
        Self {
            dir,
            config: String::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            listen: vec![listen.to_string(), format!("[::1]:{}", listen.port())],
            web: true,
            watch: false,
            has_long_timeouts: true,
        }
    }

    /// Returns the directory that contains `nameward.toml` and `zones/`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes `zones/NAME.zone`.
    pub fn zone(self, name: &str, text: &str) -> Self {
        write_zone(self.dir.path(), name, text);
        self
    }

    /// Enables watching of `zones/`; otherwise a reload is needed, so that tests know when changes take effect.
    pub fn watched(mut self) -> Self {
        self.watch = true;
        self
    }

    /// Adds text to the configuration file. The file backend for `zones/` is added automatically.
    pub fn config(mut self, toml: &str) -> Self {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// Keeps the server's default timeouts. Without this, queries and databases take as long as they need: on a busy
    /// machine a lookup may take longer than any client would wait, and is then answered SERVFAIL or dropped, as it
    /// should be.
    pub fn with_default_timeouts(mut self) -> Self {
        self.has_long_timeouts = false;
        self
    }

    /// Adds an argument to `nameward serve`.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Replaces the listen addresses; port 0 means a free one.
    pub fn listen(mut self, addresses: &[&str]) -> Self {
        self.listen = addresses.iter().map(ToString::to_string).collect();
        self
    }

    /// Starts without the web page.
    pub fn without_web(mut self) -> Self {
        self.web = false;
        self
    }

    /// Starts the server and waits until it has loaded its zones.
    ///
    /// # Panics
    /// If it ends instead, with its output.
    pub fn start(self) -> TestServer {
        match self.try_start() {
            Ok(server) => server,
            Err(failure) => panic!("nameward did not start: {failure}"),
        }
    }

    /// Like [`Setup::start`], but returns an error instead of panicking if the server ends.
    pub fn try_start(self) -> Result<TestServer, StartFailure> {
        let config_path = self.dir.path().join("nameward.toml");
        let backend = "\n[[backend]]\ntype = \"file\"\ndirectory = \"zones\"";
        let watch = self.watch;
        let config = if self.has_long_timeouts {
            with_long_timeouts(&self.config)
        } else {
            self.config
        };
        let (mut command, listen, xdp) = network::server(self.listen, &config);
        let text = format!("{config}\n{xdp}{backend}\nwatch = {watch}\n");
        fs::write(&config_path, text).expect("the configuration can be written");
        let log = LogFile::new();
        command.arg("serve").arg("--config").arg(&config_path);
        for address in &listen {
            command.arg("--listen").arg(address);
        }
        if self.web {
            command.args(["--web", "127.0.0.1:0"]);
        }
        command
            .args(&self.arguments)
            // The default directory of the control socket: no two servers share one.
            .env("RUNTIME_DIRECTORY", self.dir.path())
            .env_remove("NOTIFY_SOCKET")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.writer());
        let mut child = command.spawn().expect("nameward can be run");
        let stdout = Output::follow(child.stdout.take().expect("stdout is a pipe"));
        let mut server = TestServer {
            child,
            dir: self.dir,
            stdout,
            log,
            addresses: Vec::new(),
            web: None,
            api: None,
        };
        if !server.stdout.wait_for(|text| text.contains("\nready")) {
            let status = server.end_within(TIMEOUT);
            return Err(StartFailure {
                status,
                stdout: server.stdout.text(),
                stderr: server.log.text(),
            });
        }
        server.read_addresses();
        Ok(server)
    }
}

/// A server that ended before it was ready.
#[derive(Debug)]
pub struct StartFailure {
    /// How it ended; `None` if it hung and had to be killed.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error, where it logs.
    pub stderr: String,
}

impl std::fmt::Display for StartFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "status {:?}\nstdout: {}\nstderr: {}",
            self.status, self.stdout, self.stderr
        )
    }
}

/// A running `nameward serve`.
pub struct TestServer {
    child: Child,
    dir: TempDir,
    stdout: Arc<Output>,
    log: LogFile,
    addresses: Vec<SocketAddr>,
    web: Option<SocketAddr>,
    api: Option<SocketAddr>,
}

impl TestServer {
    /// Starts a server with this configuration text and these zones (name, zone file text).
    pub fn start(config: &str, zones: &[(&str, &str)]) -> Self {
        zones
            .iter()
            .fold(Setup::new().config(config), |setup, (name, text)| {
                setup.zone(name, text)
            })
            .start()
    }

    /// Reads the ports from the lines `listening on ADDR:PORT` and `web page at http://ADDR:PORT/`.
    fn read_addresses(&mut self) {
        for line in self.stdout.text().lines() {
            if let Some(rest) = line.strip_prefix("listening on ") {
                let address = rest.split_whitespace().next().unwrap_or_default();
                self.addresses
                    .push(address.parse().expect("an address to listen on"));
            } else if let Some(rest) = line.strip_prefix("web page at http://") {
                self.web = Some(rest.trim_end_matches('/').parse().expect("a web address"));
            } else if let Some(rest) = line.strip_prefix("API at http") {
                let rest = rest.trim_start_matches(['s', ':', '/']);
                let address = rest.split('/').next().unwrap_or_default();
                self.api = Some(address.parse().expect("the address of the API"));
            }
        }
    }

    /// Returns all addresses, in the configured order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the first IPv4 address it answers on, over UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        let mut all = self.addresses.iter();
        *all.find(|address| address.is_ipv4())
            .expect("the server listens on IPv4")
    }

    /// Returns the first address it answers on over TLS, HTTPS or QUIC.
    pub fn encrypted(&self, transport: &str) -> SocketAddr {
        let (text, start) = (self.stdout.text(), format!("DNS over {transport} on "));
        let address = text.lines().find_map(|line| line.strip_prefix(&start));
        let address = address.and_then(|address| address.parse().ok());
        address.expect("the server listens for the transport")
    }

    /// Returns the first IPv6 address it answers on, over UDP and TCP.
    pub fn address_v6(&self) -> SocketAddr {
        let mut all = self.addresses.iter();
        *all.find(|address| address.is_ipv6())
            .expect("the server listens on IPv6")
    }

    /// Returns the address of the web page.
    pub fn web(&self) -> SocketAddr {
        self.web.expect("the server has a web page")
    }

    /// The address of the HTTP API.
    pub fn api(&self) -> SocketAddr {
        self.api.expect("the server has an API")
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the directory that contains `nameward.toml`, `zones/` and the control socket.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the lines logged so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until the log contains `text`; returns false if it does not appear.
    pub fn wait_for_log(&self, text: &str) -> bool {
        self.log.wait_for(text, || self.stdout.has_ended())
    }

    /// Rewrites `zones/NAME.zone`; the server does not notice until it reloads.
    pub fn write_zone(&self, name: &str, text: &str) {
        write_zone(self.dir.path(), name, text);
    }

    /// Removes `zones/NAME.zone`.
    pub fn remove_zone(&self, name: &str) {
        fs::remove_file(zone_path(self.dir.path(), name)).expect("the zone file was there");
    }

    /// Runs `nameward ARGUMENTS` against this server and returns its exit status and output.
    pub fn command(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(binary())
            .args(arguments)
            .env("RUNTIME_DIRECTORY", self.dir.path())
            .stdin(Stdio::null())
            .output()
            .expect("nameward can be run")
    }

    /// Sends a signal by name, such as `HUP` or `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.pid().to_string())
            .status()
            .expect("kill can be run");
        assert!(status.success(), "the server is there to be signalled");
    }

    /// Requests shutdown (SIGTERM) and waits; returns the exit status.
    pub fn stop(self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Waits until a condition holds; otherwise panics with its description and the server log.
    pub fn wait_until(&self, what: &str, is_so: impl FnMut() -> bool) {
        crate::wait_with_log(what, || self.log(), is_so);
    }

    /// Waits for a server that is shutting down; returns the exit status.
    pub fn wait(mut self) -> ExitStatus {
        self.end_within(TIMEOUT)
            .expect("the server ends when it is asked to")
    }

    /// Waits for it to end by itself; kills it after `timeout` and then returns `None`.
    fn end_within(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < timeout {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn zone_path(dir: &Path, name: &str) -> PathBuf {
    let stem = match name.trim_end_matches('.') {
        "" => "@", // the root has no file name of its own
        stem => stem,
    };
    dir.join("zones").join(format!("{stem}.zone"))
}

/// Replaces the file by renaming, as an editor or a generator should: no reader sees a partial file.
fn write_zone(dir: &Path, name: &str, text: &str) {
    let path = zone_path(dir, name);
    let new = path.with_extension("zone.new");
    fs::write(&new, text).expect("a zone file can be written");
    fs::rename(&new, &path).expect("a zone file can be put in place");
}
