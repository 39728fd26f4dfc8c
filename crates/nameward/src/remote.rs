//! Owns the way of a request: to the control socket of the running server, or to the stores themselves where none runs.

use std::{
    env, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nameward_control::{
    operations::{
        ConfigFile, ControlRequest, ErrorKind, ListedItem, OperationError, OperationRequest,
        OperationResult, RequestReach,
    },
    socket::{self, AskError, SocketError},
};
use nameward_store::state::{StateError, StoreUser};

use crate::{
    command_error::CommandError,
    config::{Overrides, error::ConfigError, location},
    offline,
    serve::resolved,
};

/// How long a command waits for another one that works on the stores, and for a server that ends; and how often it looks. A
/// server that starts has its control socket before it has the stores.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);
const SERVER_PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const FILE_NAME: &str = "control.sock";

/// Where the control socket is when nothing says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPlace {
    directory: PathBuf,
    /// The directory is made by the server if it is missing, and must be its own.
    ours: bool,
}

impl DefaultPlace {
    /// The service's runtime directory, or `/run/nameward` for root, or the user's runtime
    /// directory, or a directory of this user's among the temporary files.
    pub fn of_this_process() -> Self {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(directories) = variable("RUNTIME_DIRECTORY") {
            // systemd separates several by colons.
            let first = env::split_paths(&directories).next().unwrap_or_default();
            return Self::new(first, false);
        }
        match crate::privileges::own_user() {
            0 => Self::new("/run/nameward".into(), true),
            uid => match variable("XDG_RUNTIME_DIR") {
                Some(directory) => Self::new(Path::new(&directory).join("nameward"), true),
                None => Self::new(env::temp_dir().join(format!("nameward-{uid}")), true),
            },
        }
    }

    fn new(directory: PathBuf, ours: bool) -> Self {
        Self { directory, ours }
    }

    /// The socket's path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    /// Makes the directory if it is for us to make.
    pub fn prepare(&self) -> Result<(), SocketError> {
        match self.ours {
            true => socket::make_private_directory(&self.directory),
            false => Ok(()),
        }
    }
}

/// Has a request done by the server of a configuration, or on its stores where it does not run. Hands the items of a listing
/// over and returns the result.
pub fn ask(
    request: OperationRequest,
    overrides: &Overrides,
    each: &mut dyn FnMut(ListedItem),
) -> Result<OperationResult, CommandError> {
    let begun = Instant::now();
    loop {
        let absent = match ask_server(&request, overrides, each) {
            Err(CommandError::Ask(error)) if is_absent(&error) => error,
            done => return done,
        };
        let Some(file) = overrides
            .file
            .clone()
            .or_else(|| match overrides.control_socket {
                Some(_) => None,
                None => location::default_file(),
            })
        else {
            return Err(absent.into());
        };
        if request.reach() == RequestReach::Server {
            return Err(absent.into());
        }
        match offline::run(&request, (&file, overrides), each) {
            Err(CommandError::State(StateError::InUse(_, user)))
                if begun.elapsed() < patience(user) =>
            {
                thread::sleep(LOOK_EVERY);
            }
            Err(CommandError::State(error @ StateError::InUse(..))) => {
                let text = format!("{absent}; and the stores are not free: {error}");
                return Err(OperationError::new(ErrorKind::NotRunning, text).into());
            }
            done => return done,
        }
    }
}

fn patience(user: StoreUser) -> Duration {
    match user {
        StoreUser::Server => SERVER_PATIENCE,
        StoreUser::Command => COMMAND_PATIENCE,
    }
}

/// Returns whether an error says that no server of the configuration runs. One that does not answer, or that may not be asked, is
/// no such error.
fn is_absent(error: &AskError) -> bool {
    match error {
        AskError::NotRunning(_, error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        ),
        AskError::Failed(error) => error.kind == ErrorKind::NotRunning,
        AskError::Broken(_) | AskError::Cut | AskError::StillStopping => false,
    }
}

fn ask_server(
    request: &OperationRequest,
    overrides: &Overrides,
    each: &mut dyn FnMut(ListedItem),
) -> Result<OperationResult, CommandError> {
    let mut path = overrides.control_socket.clone();
    let mut config = None;
    if let Some(file) = &overrides.file {
        // The server says no if it is that of another configuration.
        config = Some(config_file(file)?);
        if path.is_none() {
            path = location::control_socket(file)?;
        }
    } else if let (None, Some(file)) = (&path, location::default_file()) {
        // Whoever runs a server with another file has no use for this one.
        path = location::control_socket(&file).ok().flatten();
    }
    let path = path.unwrap_or_else(|| DefaultPlace::of_this_process().path());
    let request = ControlRequest {
        config,
        message: overrides.message.clone(),
        request: request.clone(),
    };
    Ok(socket::ask(&path, &request, each)?)
}

fn config_file(path: &Path) -> Result<ConfigFile, ConfigError> {
    let metadata =
        fs::metadata(path).map_err(|error| ConfigError::Unreadable(path.to_path_buf(), error))?;
    Ok(ConfigFile {
        path: resolved(path),
        identity: (metadata.dev(), metadata.ino()),
    })
}
