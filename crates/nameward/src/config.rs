//! Owns the configuration: one TOML file, read into typed sections, with errors that name the
//! file, the line and the column.

mod backend_words;
pub mod clients;
pub mod dnssec_policy;
mod document;
pub mod error;
pub mod log_settings;
pub mod place;
pub mod read;
mod server_words;
pub mod setting;
pub mod settings;
mod state_settings;
mod tsig_key;
pub mod zone_files;
mod zone_tables;
mod zone_terms;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_store::file::FileList;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use dnssec_policy::DnssecPolicySettings;
pub use document::{as_json, as_markdown, as_roff, as_toml};
use error::{ConfigError, Problem, base_of, nearest};
use log_settings::{DnstapSettings, Log, QueryLogSettings};
use setting::{ConfigTable, Listed, list};
use settings::{
    AutoprimarySettings, Backend, BackendType, Cache, KeySettings, Overload, Recursor, Rings,
    SecurityPoll, Server, TemplateSettings, Web, ZoneDefaults, ZoneSettings,
};
use state_settings::Journal;
use zone_files::{Shortened, ZoneFile, parse_name};

/// A larger file is no configuration.
const FILE_MAX: u64 = 16 << 20;

/// Everything the server can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[server]`
    pub server: Server,
    /// `[web]`
    pub web: Web,
    /// `[[backend]]`, in the order of the file.
    pub backends: Vec<Backend>,
    /// `[[key]]`, no two of one name.
    pub keys: Vec<KeySettings>,
    /// `[[dnssec_policy]]`, no two of one name.
    pub dnssec_policies: Vec<DnssecPolicySettings>,
    /// `[zone_defaults]`
    pub zone_defaults: ZoneDefaults,
    /// `[[template]]`, no two of one name.
    pub templates: Vec<TemplateSettings>,
    /// `[[autoprimary]]`
    pub autoprimaries: Vec<AutoprimarySettings>,
    /// `[[zone]]`, no two of one name.
    pub zones: Vec<ZoneSettings>,
    /// `[cache]`
    pub cache: Cache,
    /// `[journal]`
    pub journal: Journal,
    /// `[overload]`
    pub overload: Overload,
    /// `[recursor]`
    pub recursor: Recursor,
    /// `[security_poll]`
    pub security_poll: SecurityPoll,
    /// `[rings]`
    pub rings: Rings,
    /// `[log]`
    pub log: Log,
    /// `[query_log]`
    pub query_log: QueryLogSettings,
    /// `[dnstap]`
    pub dnstap: DnstapSettings,
    /// The server runs its built-in example.
    pub example: bool,
}

/// Settings of the command line, which win over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Replaces `server.listen` unless empty.
    pub listen: Vec<SocketAddr>,
    /// Adds zones to the backends; one of the same name is replaced.
    pub zones: Vec<ZoneFile>,
    /// Replaces `web.listen`.
    pub web: Option<SocketAddr>,
    /// Replaces `server.workers`.
    pub workers: Option<u64>,
    /// Replaces `server.control_socket`.
    pub control_socket: Option<PathBuf>,
}

impl Config {
    /// Every setting at its default, no backend.
    pub fn defaults() -> Self {
        Self {
            server: Server::defaults(),
            web: Web::defaults(),
            backends: Vec::new(),
            keys: Vec::new(),
            dnssec_policies: Vec::new(),
            zone_defaults: ZoneDefaults::defaults(),
            templates: Vec::new(),
            autoprimaries: Vec::new(),
            zones: Vec::new(),
            cache: Cache::defaults(),
            journal: Journal::defaults(),
            overload: Overload::defaults(),
            recursor: Recursor::defaults(),
            security_poll: SecurityPoll::defaults(),
            rings: Rings::defaults(),
            log: Log::defaults(),
            query_log: QueryLogSettings::defaults(),
            dnstap: DnstapSettings::defaults(),
            example: false,
        }
    }

    /// The configuration a new user gets: ports that need no privilege, on this machine only.
    pub fn for_this_machine() -> Self {
        let mut config = Self::defaults();
        config.server.listen = vec![
            SocketAddr::from(([127, 0, 0, 1], 5300)),
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 5300)),
        ];
        config.web.listen = Some(SocketAddr::from(([127, 0, 0, 1], 8081)));
        config
    }

    /// Reads the file, if one is given, and applies the command line.
    pub fn load(overrides: &Overrides) -> Result<Self, ConfigError> {
        let mut config = match &overrides.file {
            Some(path) => Self::read(path)?,
            None => Self::for_this_machine(),
        };
        config.example = overrides.file.is_none() && overrides.zones.is_empty();
        config.apply(overrides)?;
        Ok(config)
    }

    /// Reads the configuration again for a server that runs with this one. An editor, a full disk or a tool may have
    /// left the file empty for now: a reload does not take all zones away.
    pub fn reload(&self, overrides: &Overrides) -> Result<Self, ConfigError> {
        let config = Self::load(overrides)?;
        let from_file = |config: &Self| {
            let added = usize::from(!overrides.zones.is_empty());
            config.backends.len().saturating_sub(added)
        };
        match &overrides.file {
            Some(path) if from_file(self) > 0 && from_file(&config) == 0 => {
                Err(ConfigError::NoBackend(path.clone()))
            }
            _ => Ok(config),
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error| ConfigError::Unreadable(path.to_path_buf(), error);
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_MAX {
            return Err(unreadable(std::io::Error::other("the file is too large")));
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text, base_of(path))
            .map_err(|problems| ConfigError::Wrong(path.to_path_buf(), problems))
    }

    /// Reads the text of a file that stands in the directory `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Vec<Problem>> {
        if let Some(Shortened { text, lists }) = Shortened::of(text, base)
            && let Ok(config) = Self::parse_tree(&text, base, &lists)
        {
            return Ok(config);
        }
        // Problems name places in the whole text.
        Self::parse_tree(text, base, &[])
    }

    /// Reads a text as TOML; at some places stand empty lists in place of long ones.
    fn parse_tree(
        text: &str,
        base: &Path,
        lists: &[(usize, Arc<FileList>)],
    ) -> Result<Self, Vec<Problem>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut reader = ConfigReader {
            text,
            base,
            lists,
            problems: Vec::new(),
        };
        for error in errors {
            reader.problem(error.span().unwrap_or(0..0), one_line(error.message()));
        }
        // After a syntax error the rest of the table is a guess.
        if !reader.problems.is_empty() {
            return Err(reader.problems);
        }
        let mut config = Self::defaults();
        let (mut autoprimaries, mut zones) = (None, None);
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                Server::NAME => reader.section(&mut config.server, value),
                Web::NAME => reader.section(&mut config.web, value),
                Backend::NAME => reader.backends(&mut config.backends, value),
                ZoneDefaults::NAME => reader.section(&mut config.zone_defaults, value),
                KeySettings::NAME => reader.keys(&mut config.keys, value),
                DnssecPolicySettings::NAME => {
                    reader.dnssec_policies(&mut config.dnssec_policies, value);
                }
                TemplateSettings::NAME => reader.templates(&mut config.templates, value),
                AutoprimarySettings::NAME => autoprimaries = Some(value),
                ZoneSettings::NAME => zones = Some(value),
                Cache::NAME => reader.section(&mut config.cache, value),
                Journal::NAME => reader.section(&mut config.journal, value),
                Overload::NAME => reader.section(&mut config.overload, value),
                Recursor::NAME => reader.section(&mut config.recursor, value),
                SecurityPoll::NAME => reader.section(&mut config.security_poll, value),
                Rings::NAME => reader.section(&mut config.rings, value),
                Log::NAME => reader.section(&mut config.log, value),
                QueryLogSettings::NAME => reader.section(&mut config.query_log, value),
                DnstapSettings::NAME => reader.section(&mut config.dnstap, value),
                unknown => reader.unknown_table(unknown, key),
            }
        }
        // Last: they refer to the rest.
        if let Some(value) = autoprimaries {
            reader.autoprimaries(&mut config, value);
        }
        if let Some(value) = zones {
            reader.zones(&mut config, value);
        }
        reader.known_keys(&config, table.get_ref());
        reader.known_policies(&config, table.get_ref());
        if reader.problems.is_empty() {
            Ok(config)
        } else {
            reader.problems.sort_by_key(Problem::place);
            Err(reader.problems)
        }
    }

    fn apply(&mut self, overrides: &Overrides) -> Result<(), ConfigError> {
        if !overrides.listen.is_empty() {
            self.server.listen.clone_from(&overrides.listen);
        }
        if let Some(address) = overrides.web {
            self.web.listen = Some(address);
        }
        if let Some(number) = overrides.workers {
            self.server.workers = read::Count::new(number).ok_or_else(|| {
                ConfigError::Contradiction(format!("--workers {number}: at most 1024"))
            })?;
        }
        if let Some(path) = &overrides.control_socket {
            self.server.control_socket = Some(path.clone());
        }
        if !overrides.zones.is_empty() {
            let mut added = FileList::default();
            for zone in &overrides.zones {
                let name = parse_name(&zone.name)
                    .map_err(|error| ConfigError::Contradiction(error.to_string()))?;
                added.push(name.as_name(), &zone.file);
            }
            for backend in &mut self.backends {
                let is_added = |zone| added.iter().any(|new| new.zone == zone);
                if backend.zones.iter().any(|listed| is_added(listed.zone)) {
                    let kept = backend.zones.iter().filter(|listed| !is_added(listed.zone));
                    let mut list = FileList::default();
                    kept.for_each(|listed| list.push(listed.zone, &listed.path()));
                    backend.zones = Arc::new(list);
                }
            }
            let mut backend = Backend::defaults();
            backend.zones = Arc::new(added);
            self.backends.push(backend);
        }
        Ok(())
    }
}

/// A table of the configuration file, for whoever lists them.
pub struct TableListing {
    /// Its name.
    pub name: &'static str,
    /// The lines that say what it is about.
    pub about: &'static [&'static str],
    /// Its keys.
    pub settings: Vec<Listed>,
}

/// Every table there is, in the order of the documentation.
pub fn tables() -> Vec<TableListing> {
    fn of<S: ConfigTable>() -> TableListing {
        TableListing {
            name: S::NAME,
            about: S::ABOUT,
            settings: list::<S>().collect(),
        }
    }
    vec![
        of::<Server>(),
        of::<Web>(),
        of::<Backend>(),
        of::<KeySettings>(),
        of::<DnssecPolicySettings>(),
        of::<ZoneDefaults>(),
        of::<TemplateSettings>(),
        of::<AutoprimarySettings>(),
        of::<ZoneSettings>(),
        of::<Cache>(),
        of::<Journal>(),
        of::<Overload>(),
        of::<Recursor>(),
        of::<SecurityPoll>(),
        of::<Rings>(),
        of::<Log>(),
        of::<QueryLogSettings>(),
        of::<DnstapSettings>(),
    ]
}

/// Every setting there is, in the same order.
pub fn all_settings() -> Vec<Listed> {
    tables()
        .into_iter()
        .flat_map(|table| table.settings)
        .collect()
}

/// A message of the TOML parser, which may have several lines, as one.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Goes through one file and collects what is wrong with it.
struct ConfigReader<'a> {
    text: &'a str,
    base: &'a Path,
    /// Lists that stand at some places of the text as empty ones.
    lists: &'a [(usize, Arc<FileList>)],
    problems: Vec<Problem>,
}

impl ConfigReader<'_> {
    fn problem(&mut self, span: std::ops::Range<usize>, message: String) {
        if self.problems.len() < error::PROBLEMS_MAX {
            self.problems.push(Problem::new(self.text, span, message));
        }
    }

    fn section<S: ConfigTable>(&mut self, section: &mut S, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            let message = format!("expected a table [{}], found a value", S::NAME);
            return self.problem(value.span(), message);
        };
        for (key, value) in table {
            let word = key.get_ref().as_ref();
            match S::SETTINGS.iter().find(|setting| setting.key == word) {
                Some(setting) => {
                    if let Err(wrong) = (setting.set)(section, value, self.base) {
                        self.problem(wrong.span, format!("{word}: {}", wrong.message));
                    }
                }
                None => {
                    let known = S::SETTINGS.iter().map(|setting| setting.key);
                    let hint = match nearest(word, known) {
                        Some(near) => format!("; did you mean \"{near}\"?"),
                        None => elsewhere(word, S::NAME),
                    };
                    let message = format!("unknown key {word:?} in [{}]{hint}", S::NAME);
                    self.problem(key.span(), message);
                }
            }
        }
    }

    fn backends(&mut self, backends: &mut Vec<Backend>, value: &Spanned<DeValue<'_>>) {
        let Some(list) = value.get_ref().as_array() else {
            return self.problem(
                value.span(),
                "backend may be given several times: write [[backend]]".into(),
            );
        };
        for entry in list.iter() {
            let mut backend = Backend::defaults();
            let before = self.problems.len();
            self.section(&mut backend, entry);
            self.fill_in_list(&mut backend, entry);
            if self.problems.len() == before
                && let Some(message) = incomplete(&backend)
            {
                self.problem(entry.span(), message.into());
            }
            backends.push(backend);
        }
    }

    /// Gives a backend the list that was cut out of its text.
    fn fill_in_list(&self, backend: &mut Backend, entry: &Spanned<DeValue<'_>>) {
        let table = entry.get_ref().as_table();
        let place = table
            .and_then(|table| table.get("zones"))
            .map(Spanned::span);
        let mut lists = self.lists.iter();
        if let Some(place) = place
            && let Some((_, list)) = lists.find(|(start, _)| *start == place.start)
        {
            backend.zones = Arc::clone(list);
        }
    }

    fn unknown_table(&mut self, word: &str, key: &Spanned<std::borrow::Cow<'_, str>>) {
        let hint = match nearest(word, tables().iter().map(|table| table.name)) {
            Some(near) => format!("; did you mean [{near}]?"),
            None => elsewhere(word, ""),
        };
        self.problem(key.span(), format!("unknown key {word:?}{hint}"));
    }
}

/// Returns the setting that a backend lacks, or has although it does not belong to its type.
fn incomplete(backend: &Backend) -> Option<&'static str> {
    let has_files =
        backend.directory.is_some() || backend.named_conf.is_some() || !backend.zones.is_empty();
    let (has_path, url) = (backend.path.is_some(), backend.url.reveal());
    match backend.r#type {
        BackendType::File if has_path || !url.is_empty() => {
            Some("path and url belong to a database")
        }
        BackendType::File if !has_files => {
            Some("a file backend needs a directory, a list of zones or a named_conf")
        }
        BackendType::File => None,
        _ if has_files => Some("directory, zones and named_conf belong to a file backend"),
        BackendType::Sqlite if !url.is_empty() || !has_path => {
            Some("a sqlite backend needs a path")
        }
        BackendType::Sqlite => None,
        BackendType::Postgres if !url.starts_with("postgres") => {
            Some("a postgres backend needs a url such as postgres://user:password@host/database")
        }
        BackendType::Mysql if !(url.starts_with("mysql") || url.starts_with("mariadb")) => {
            Some("a mysql backend needs a url such as mysql://user:password@host/database")
        }
        _ if has_path => Some("path belongs to a sqlite backend"),
        BackendType::Postgres | BackendType::Mysql => None,
    }
}

/// Where a key that is wrong here would be right.
fn elsewhere(word: &str, here: &str) -> String {
    let mut places = all_settings()
        .into_iter()
        .filter(|setting| setting.key == word && setting.section != here)
        .map(|setting| format!("[{}]", setting.section));
    match places.next() {
        Some(first) => {
            let rest: String = places.map(|place| format!(" or {place}")).collect();
            format!("; it belongs in {first}{rest}")
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
