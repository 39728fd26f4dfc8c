//! Owns the way to the control socket of a running server: where it is, and one request to it.

use std::{
    env,
    path::{Path, PathBuf},
};

use nameward_control::socket::{self, SocketError};

use crate::config::{Config, Overrides};

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

/// Sends one request line to the running server and returns its reply.
pub fn ask(request: &str, overrides: &Overrides) -> Result<String, String> {
    let explicit = match (&overrides.control_socket, &overrides.file) {
        (Some(path), _) => Some(path.clone()),
        (None, Some(_)) => {
            let config = Config::load(overrides).map_err(|error| error.to_string())?;
            config.server.control_socket
        }
        (None, None) => None,
    };
    let path = explicit.unwrap_or_else(|| DefaultPlace::of_this_process().path());
    socket::ask(&path, request).map_err(|error| error.to_string())
}
