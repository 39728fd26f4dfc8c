//! The location of the configuration without a flag, and what commands for a running server need from it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use nameward_wire::{Name, NameBuf};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Config,
    error::{ConfigError, base_of},
    setting::ConfigTable,
    settings::{Backend, Server, ZoneSettings},
};

/// The default file.
const DEFAULT: &str = "/etc/nameward/nameward.toml";
/// The variable that names another one.
const VARIABLE: &str = "NAMEWARD_CONFIG";

impl Config {
    /// Returns the directory for state that survives a restart, if any. There is no default: a location that neither the
    /// operator nor the service manager named may not be ours, not persistent, or not writable after the change of user.
    pub fn state_directory(&self) -> Option<PathBuf> {
        let of_service = || {
            let directories = env::var_os("STATE_DIRECTORY")?;
            // systemd separates several by colons.
            let first = env::split_paths(&directories).next()?;
            (!first.as_os_str().is_empty()).then_some(first)
        };
        self.server.state_directory.clone().or_else(of_service)
    }
}

/// Returns the path of a configuration file in a form that two processes can compare.
pub fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_path_buf())
}

/// Returns the file that the environment names.
pub fn named() -> Option<PathBuf> {
    env::var_os(VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Returns the default file, if it exists.
pub fn default_file() -> Option<PathBuf> {
    let path = Path::new(DEFAULT);
    path.exists().then(|| path.to_path_buf())
}

/// Returns the file that is used without a flag.
pub fn default_config_file() -> Option<PathBuf> {
    named().or_else(default_file)
}

/// Returns the control socket that a file names. Other errors in the file are ignored: a command for a running server
/// has to work while an operator edits it.
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

/// Returns the file and line of the configuration that declare a zone: a `[[zone]]` table, or a backend's zone list.
pub fn zone_declaration(path: &Path, zone: Name<'_>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (table, _) = DeTable::parse_recoverable(&text);
    let entries = |key: &str| {
        let value = table.get_ref().get(key);
        let list = value.and_then(|value| value.get_ref().as_array());
        list.into_iter().flat_map(|list| list.iter())
    };
    let names_it = |entry: &Spanned<DeValue<'_>>| {
        let name = entry.get_ref().as_table()?.get("name")?;
        let read = NameBuf::from_text(name.get_ref().as_str()?.as_bytes(), Name::ROOT).ok()?;
        (read.as_name() == zone).then(|| name.span().start)
    };
    let tables = entries(ZoneSettings::NAME).find_map(names_it);
    let listed = || {
        let backends = entries(Backend::NAME);
        let lists = backends.filter_map(|backend| {
            backend
                .get_ref()
                .as_table()?
                .get("zones")?
                .get_ref()
                .as_array()
        });
        lists.flat_map(|list| list.iter()).find_map(names_it)
    };
    let start = tables.or_else(listed)?;
    let line = text.as_bytes().get(..start)?;
    let line = line.iter().filter(|octet| **octet == b'\n').count() + 1;
    Some(format!("{}:{line}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_declares_a_zone_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nameward.toml");
        let text = "[[backend]]\ntype = \"file\"\nzones = [\n  { name = \"listed.test\", file = \"l\" },\n]\n\
             [[zone]]\nkind = \"native\"\nname = \"Own.Test\"\n";
        fs::write(&path, text).unwrap();
        let place = |zone: &str| {
            let zone: NameBuf = zone.parse().unwrap();
            zone_declaration(&path, zone.as_name())
        };
        let at = |line: u32| Some(format!("{}:{line}", path.display()));
        assert_eq!(place("listed.test."), at(4));
        assert_eq!(place("own.test."), at(8));
        assert_eq!(place("other.test."), None);
    }

    #[test]
    fn the_control_socket_is_found_despite_other_errors() {
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
