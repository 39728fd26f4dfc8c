//! Owns the way to the control socket of a running server: where it is, and one request to it.

use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nameward_control::{
    operations::{ConfigFile, ControlRequest, ListedItem, OperationRequest, OperationResult},
    socket::{self, SocketError},
};

use crate::{
    command_error::CommandError,
    config::{Overrides, error::ConfigError, place},
    serve::resolved,
};

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

/// Sends a request to the server of a configuration, hands the items of a listing over and returns the result.
pub fn ask(
    request: OperationRequest,
    overrides: &Overrides,
    each: &mut dyn FnMut(ListedItem),
) -> Result<OperationResult, CommandError> {
    let mut path = overrides.control_socket.clone();
    let mut config = None;
    if let Some(file) = &overrides.file {
        // The server says no if it is that of another configuration.
        config = Some(config_file(file)?);
        if path.is_none() {
            path = place::control_socket(file)?;
        }
    } else if let (None, Some(file)) = (&path, place::default_file()) {
        // Whoever runs a server with another file has no use for this one.
        path = place::control_socket(&file).ok().flatten();
    }
    let path = path.unwrap_or_else(|| DefaultPlace::of_this_process().path());
    let request = ControlRequest { config, request };
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
