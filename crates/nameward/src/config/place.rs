//! Owns where the configuration is when no flag says it, and what commands for a running server need of it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

use super::{
    error::{ConfigError, base_of},
    setting::ConfigTable,
    settings::Server,
};

/// The file that counts where nothing else is said.
const DEFAULT: &str = "/etc/nameward/nameward.toml";
/// The variable that names another one.
const VARIABLE: &str = "NAMEWARD_CONFIG";

/// The file that the environment names.
pub fn named() -> Option<PathBuf> {
    env::var_os(VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The default file, if it is there.
pub fn default_file() -> Option<PathBuf> {
    let path = Path::new(DEFAULT);
    path.exists().then(|| path.to_path_buf())
}

/// The file that counts without a flag.
pub fn of_this_machine() -> Option<PathBuf> {
    named().or_else(default_file)
}

/// The control socket that a file names. Whatever else is wrong with the file is of no matter: a command for a running
/// server has to work while an operator edits it.
pub fn control_socket(path: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable(path.to_path_buf(), error))?;
    let (table, _) = DeTable::parse_recoverable(&text);
    let server = table.get_ref().get(Server::NAME);
    let server = server.and_then(|server| server.get_ref().as_table());
    let socket = server.and_then(|server| server.get("control_socket"));
    let socket = socket.and_then(|socket| socket.get_ref().as_str());
    let socket = socket.filter(|socket| !socket.is_empty());
    Ok(socket.map(|socket| base_of(path).join(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_socket_is_found_whatever_else_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nameward.toml");
        for (text, expected) in [
            (
                "[server]\ncontrol_socket = \"run/s\"\nlisten = 7\n[oops]\n",
                Some("run/s"),
            ),
            (
                "[server]\ncontrol_socket = \"run/s\"\n[[zone]]\nname = \n",
                Some("run/s"),
            ),
            ("[server]\ncontrol_socket = 1\n", None),
            ("[server]\n", None),
            ("", None),
        ] {
            fs::write(&path, text).unwrap();
            let expected = expected.map(|socket| directory.path().join(socket));
            assert_eq!(control_socket(&path).unwrap(), expected, "{text}");
        }
    }
}
