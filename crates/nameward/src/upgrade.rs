//! `nameward upgrade`: starts this program as a new server that takes over from the running one.
//!
//! The running server runs nothing itself: its sandbox forbids that. The new process gets the same arguments and working
//! directory, and the configuration as it is now.

use std::{
    collections::VecDeque,
    env, fs,
    io::{BufRead, BufReader},
    os::unix::{fs::MetadataExt, process::CommandExt},
    process::{Command, ExitCode, Stdio},
    thread,
};

use nameward_control::operations::{
    ErrorKind, OperationError, OperationRequest, OperationResult, ServerProcess,
};
use serde_json::json;

use crate::{
    cli::print::{OutputForm, Printer},
    command_error::{CommandError, CommandResult},
    config::Overrides,
    remote,
    serve::take_over::VARIABLE as TAKE_OVER_VARIABLE,
};

/// Variables of the running server that its successor gets: they name its files.
const VARIABLES: [&str; 5] = [
    "NAMEWARD_CONFIG",
    "RUNTIME_DIRECTORY",
    "XDG_RUNTIME_DIR",
    "STATE_DIRECTORY",
    "JOURNAL_STREAM",
];
/// Lines of the new process's log that are shown if it fails.
const LINES_SHOWN: usize = 20;

/// Returns how this process was started, for its successor.
pub fn this_process() -> ServerProcess {
    let arguments = env::args_os().skip(1);
    let directory = env::current_dir().unwrap_or_default();
    ServerProcess {
        id: std::process::id(),
        arguments: arguments
            .map(|one| one.to_string_lossy().into_owned())
            .collect(),
        directory: directory.display().to_string(),
        environment: VARIABLES
            .iter()
            .filter_map(|name| Some((name.to_string(), env::var(name).ok()?)))
            .collect(),
        program: program(),
        is_service: env::var_os("NOTIFY_SOCKET").is_some(),
    }
}

/// Returns the identity of this program's file.
fn program() -> (u64, u64, i64) {
    let file = env::current_exe().and_then(fs::metadata);
    file.map_or((0, 0, 0), |file| (file.dev(), file.ino(), file.mtime()))
}

/// Upgrades the running server; with `if_replaced`, only if it is not this program.
pub fn run(overrides: &Overrides, if_replaced: bool, form: OutputForm) -> CommandResult {
    let result = remote::send(OperationRequest::Process, overrides, &mut |_| {})?;
    let OperationResult::Process(running) = result else {
        return Err(failed("unexpected response of the server").into());
    };
    if if_replaced && running.program == program() {
        return print(
            form,
            &running,
            "the running server is this program already".into(),
        );
    }
    if running.is_service && env::var_os("NOTIFY_SOCKET").is_none() {
        return Err(OperationError::refused(
            "the server is managed by systemd: use `systemctl reload`, whose last step is `nameward upgrade`",
        )
        .into());
    }
    let id = start(&running, overrides)?;
    let text = format!(
        "upgraded: process {id} has taken over from process {}",
        running.id
    );
    let running = ServerProcess { id, ..running };
    print(form, &running, text)
}

fn print(form: OutputForm, server: &ServerProcess, text: String) -> CommandResult {
    let object = json!({ "process": server.id });
    Printer::new(form).object(&object, text)?;
    Ok(ExitCode::SUCCESS)
}

fn failed(text: impl Into<String>) -> OperationError {
    OperationError::new(ErrorKind::Internal, text)
}

/// Starts the new process and waits until it serves; returns its ID.
fn start(running: &ServerProcess, overrides: &Overrides) -> CommandResult<u32> {
    let program = env::current_exe().map_err(CommandError::Threads)?;
    let socket = std::path::absolute(remote::control_socket(overrides)?);
    let mut command = Command::new(program);
    VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    let mut child = command
        .envs(running.environment.iter().cloned())
        .args(&running.arguments)
        .current_dir(&running.directory)
        .env(TAKE_OVER_VARIABLE, socket.map_err(CommandError::Threads)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // An interrupt of this command does not reach the server.
        .process_group(0)
        .spawn()
        .map_err(CommandError::Threads)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let log = thread::spawn(move || {
        let mut last = VecDeque::new();
        for line in stderr
            .into_iter()
            .flat_map(|stderr| BufReader::new(stderr).lines())
        {
            let Ok(line) = line else { break };
            if last.len() == LINES_SHOWN {
                last.pop_front();
            }
            last.push_back(line);
        }
        last
    });
    let mut lines = stdout
        .into_iter()
        .flat_map(|stdout| BufReader::new(stdout).lines());
    if lines.any(|line| line.is_ok_and(|line| line.starts_with("ready: "))) {
        return Ok(child.id());
    }
    let _ = child.wait();
    let log = log.join().unwrap_or_default();
    let lines: Vec<String> = log.into_iter().collect();
    let reason = lines.last().cloned().unwrap_or_default();
    let mut text = format!("the new process has failed; the running server continues: {reason}");
    for line in &lines[..lines.len().saturating_sub(1)] {
        text += &format!("\n{line}");
    }
    Err(failed(text).into())
}
