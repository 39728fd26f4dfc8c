//! Where the control socket is unless the configuration names it.

use std::{
    env,
    path::{Path, PathBuf},
};

use nameward_control::socket::{self, SocketError};

const FILE_NAME: &str = "control.sock";

/// Location of the control socket unless configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultLocation {
    directory: PathBuf,
    /// The directory is created by the server if it is missing, and must belong to it.
    ours: bool,
}

impl DefaultLocation {
    /// Returns the service's runtime directory, or `/run/nameward` for root, or the user's runtime directory, or a
    /// directory of this user among the temporary files.
    pub fn for_this_process() -> Self {
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

    /// Returns the socket's path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE_NAME)
    }

    /// Creates the directory if that is up to us.
    pub fn prepare(&self) -> Result<(), SocketError> {
        if self.ours {
            socket::make_private_directory(&self.directory)
        } else {
            Ok(())
        }
    }
}
