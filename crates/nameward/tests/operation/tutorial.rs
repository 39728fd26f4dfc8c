//! The tutorial of the guide, command by command as printed.

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use nameward_testkit::{server::binary, wait_until};
use tempfile::tempdir;

/// A server that a block of the tutorial starts; it ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The blocks for a shell, each with whether it starts a server.
fn blocks(page: &str) -> Vec<(bool, &str)> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks
        .filter_map(|block| {
            let (language, text) = block.split_once('\n')?;
            match language {
                "sh" => Some((false, text)),
                "sh server" => Some((true, text)),
                _ => None,
            }
        })
        .collect()
}

#[test]
fn every_command_of_the_tutorial_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/tutorial.md")).unwrap();
    let directory = tempdir().unwrap();
    let programs = binary().parent().unwrap().to_path_buf();
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let blocks = blocks(&page);
    assert!(blocks.len() > 8, "the tutorial has {} blocks", blocks.len());
    let mut servers = Vec::new();
    let mut printed = String::new();
    for (is_server, text) in blocks {
        // Every block is run in the directory and environment that the reader has by then.
        let prelude = if directory.path().join("tutorial").exists() {
            "cd tutorial; export NAMEWARD_CONFIG=$PWD/nameward.toml\n"
        } else {
            ""
        };
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c"])
            .arg(format!(
                "{prelude}{}{text}",
                if is_server { "exec " } else { "" }
            ))
            .current_dir(directory.path())
            .env("PATH", &path)
            .stdin(Stdio::null());
        if is_server {
            let log = directory.path().join(format!("server-{}", servers.len()));
            shell.stdout(fs::File::create(&log).unwrap());
            shell.stderr(Stdio::null());
            servers.push(Running(shell.spawn().unwrap()));
            wait_until("the server is ready", || {
                fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
            });
        } else {
            let output = shell.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{text}\n{errors}");
            printed += &String::from_utf8_lossy(&output.stdout);
        }
    }
    for expected in [
        "192.0.2.80\n",
        "192.0.2.81\n",
        "faults: none",
        "RRSIG",
        " DS ",
        "example.org. secondary",
    ] {
        assert!(
            printed.contains(expected),
            "{expected:?} is missing in\n{printed}"
        );
    }
    for mut server in servers {
        assert!(server.0.wait().unwrap().success());
    }
}
