//! Tests in two networks: the server in one, the test in the other, and a pair of interfaces (veth) between them. What is sent
//! crosses the interface `nw0` of the server, on which it uses XDP.

use std::ffi::OsString;
use std::process::Command;

use super::binary;
use crate::missing::require;

/// Names the process in whose network servers are started.
const SERVER_NETWORK: &str = "NAMEWARD_SERVER_NETWORK";

/// Makes both networks and runs a test in that of the client.
const SCRIPT: &str = r#"
ip link set lo up
unshare --net sleep 600 &
server=$!
trap 'kill $server' EXIT
while [ "$(readlink /proc/$server/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
inside="nsenter --target $server --net"
$inside ip link set lo up
ip link add nw1 type veth peer name nw0 netns $server
$inside ip address add 192.0.2.1/24 dev nw0
$inside ip address add 2001:db8::1/64 dev nw0 nodad
$inside ip link set nw0 up
ip address add 192.0.2.2/24 dev nw1
ip address add 2001:db8::2/64 dev nw1 nodad
ip link set nw1 up
NAMEWARD_SERVER_NETWORK=$server "$TEST" "$NAME" --exact --include-ignored --nocapture
"#;

/// Runs a test of the calling test binary, with the servers that it starts in another network. Panics with all output unless it
/// passes. Such a test may be ignored otherwise.
///
/// # Panics
/// If the test fails.
pub fn run_over_xdp(test: &str) {
    let try_out = Command::new("unshare").args(["--net", "true"]).output();
    let is_allowed = try_out.is_ok_and(|output| output.status.success());
    if require(is_allowed.then_some(()), "root (to make networks)").is_none() {
        return;
    }
    let output = Command::new("unshare")
        .args(["--net", "bash", "-e", "-c", SCRIPT])
        .env("TEST", std::env::current_exe().expect("a path"))
        .env("NAME", test)
        .output()
        .expect("unshare of util-linux is installed");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let is_good = output.status.success() && text.contains("1 passed");
    assert!(is_good, "{test}: {text}");
    println!("{text}");
}

/// Returns a command that runs a program in the network of servers.
pub fn in_server_network(program: impl Into<OsString>) -> Command {
    let program = program.into();
    match std::env::var(SERVER_NETWORK) {
        Ok(process) => {
            let mut command = Command::new("nsenter");
            command.args(["--target", &process, "--net"]).arg(program);
            command
        }
        Err(_) => Command::new(program),
    }
}

/// Returns the command of a server, the addresses that it listens on instead of `wanted`, and what its configuration needs.
pub(super) fn server(wanted: Vec<String>, config: &str) -> (Command, Vec<String>, &'static str) {
    let command = in_server_network(binary());
    if std::env::var_os(SERVER_NETWORK).is_none() {
        return (command, wanted, "");
    }
    let there = |address: String| {
        let address = address.replace("127.0.0.1:", "192.0.2.1:");
        address.replace("[::1]:", "[2001:db8::1]:")
    };
    let listen = wanted.into_iter().map(there).collect();
    // A test may have settings of its own.
    let xdp = if config.contains("[xdp]") {
        ""
    } else {
        "[xdp]\ninterfaces = [\"nw0\"]\n"
    };
    (command, listen, xdp)
}
