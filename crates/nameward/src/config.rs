//! The configuration: one TOML file, read into typed sections, with errors that name the file, the line and the
//! column.

pub mod api_settings;
mod backend_keywords;
mod client_subnet_settings;
pub mod clients;
mod cookie_settings;
pub mod dnssec_policy;
mod document;
pub mod error;
pub mod listen_entry;
pub mod location;
pub mod log_settings;
mod overload_settings;
pub mod pool_settings;
pub mod rate_limit_settings;
pub mod read;
mod remote_server;
mod server_keywords;
pub mod setting;
pub mod settings;
mod state_settings;
pub mod steering_settings;
mod tables_reader;
pub mod tls_settings;
mod tsig_key;
pub mod view_settings;
pub mod xdp_settings;
mod zone_chunks;
pub mod zone_files;
pub mod zone_policy;
mod zone_tables;
pub mod zone_values;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_base::secret::Secret;
use nameward_files::FileList;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use api_settings::ApiSettings;
use client_subnet_settings::ClientSubnetTable;
pub use cookie_settings::CookieTable;
use dnssec_policy::DnssecPolicySettings;
pub use document::{as_json, as_markdown, as_roff, as_toml};
use error::{ConfigError, Problem, base_of};
use log_settings::{DnstapSettings, Log, QueryLogSettings};
use pool_settings::{MapSettings, PoolSettings};
use rate_limit_settings::RateLimit;
use setting::{ConfigTable, Listed, list};
use settings::{
    AutoprimarySettings, Backend, BackendType, Cache, KeySettings, Overload, Recursor, Rings,
    SecurityPoll, Server, TemplateSettings, Web, ZoneDefaults, ZoneSettings,
};
use state_settings::Journal;
use steering_settings::{GeoipTable, HealthTable, LuaTable};
use tables_reader::ConfigReader;
use tls_settings::{HttpsTable, QuicTable, TlsSettings};
use view_settings::ViewSettings;
use xdp_settings::XdpTable;
use zone_chunks::ZonePieces;
use zone_files::{Shortened, ZoneFile, parse_name};

/// Maximum size of a configuration file.
const FILE_MAX: u64 = 16 << 20;

/// Declares the configuration file: its tables in documentation order; those in brackets may be given several times.
macro_rules! tables {
    ($( $field:ident: $($one:ident)? $([$many:ident])?, )+) => {
        /// All settings of the server.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $( pub $field: tables!(@type $($one)? $([$many])?), )+
            /// The server runs its built-in example.
            pub example: bool,
        }

        impl Config {
            /// Returns every setting at its default, without backends.
            pub fn defaults() -> Self {
                Self {
                    $( $field: tables!(@default $($one)? $([$many])?), )+
                    example: false,
                }
            }

            /// Reads a table that is given once; returns false if there is none of this name.
            fn read_section(
                &mut self,
                name: &str,
                value: &Spanned<DeValue<'_>>,
                reader: &mut ConfigReader<'_>,
            ) -> bool {
                match name {
                    $( $( $one::NAME => reader.section(&mut self.$field, value), )? )+
                    _ => return false,
                }
                true
            }
        }

        /// Returns every table, in documentation order.
        pub fn tables() -> Vec<TableListing> {
            vec![$(
                $( TableListing::of::<$one>(false), )?
                $( TableListing::of::<$many>(true), )?
            )+]
        }
    };
    (@type $one:ident) => { $one };
    (@type [$many:ident]) => { Vec<$many> };
    (@default $one:ident) => { $one::defaults() };
    (@default [$many:ident]) => { Vec::new() };
}

tables! {
    server: Server,
    web: Web,
    api: ApiSettings,
    tls: TlsSettings,
    https: HttpsTable,
    quic: QuicTable,
    // In file order.
    backends: [Backend],
    // With unique names.
    keys: [KeySettings],
    dnssec_policies: [DnssecPolicySettings],
    zone_defaults: ZoneDefaults,
    templates: [TemplateSettings],
    autoprimaries: [AutoprimarySettings],
    // With unique names, and the zones of views.
    zones: [ZoneSettings],
    views: [ViewSettings],
    cache: Cache,
    journal: Journal,
    overload: Overload,
    rate_limit: RateLimit,
    cookies: CookieTable,
    client_subnet: ClientSubnetTable,
    xdp: XdpTable,
    lua: LuaTable,
    geoip: GeoipTable,
    health: HealthTable,
    pools: [PoolSettings],
    maps: [MapSettings],
    recursor: Recursor,
    security_poll: SecurityPoll,
    rings: Rings,
    log: Log,
    query_log: QueryLogSettings,
    dnstap: DnstapSettings,
}

/// Command line settings, which take precedence over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
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
    /// The reason for a change, which is kept in the zone's history.
    pub message: Option<String>,
}

impl Config {
    /// Returns the configuration for a new user: unprivileged ports, on loopback only.
    pub fn for_this_machine() -> Self {
        let mut config = Self::defaults();
        config.server.listen = vec![
            SocketAddr::from(([127, 0, 0, 1], 5300)).into(),
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 5300)).into(),
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
        config.check_listeners()?;
        config.check_sharing()?;
        Ok(config)
    }

    /// Returns the addresses that queries are received on.
    pub fn listen_addresses(&self) -> Vec<SocketAddr> {
        let entries = self.server.listen.iter();
        entries.map(|entry| entry.address).collect()
    }

    /// Returns the backends that are databases, each with its index.
    pub fn databases(&self) -> impl Iterator<Item = (usize, &Backend)> {
        let numbered = self.backends.iter().enumerate();
        numbered.filter(|(_, backend)| backend.r#type != BackendType::File)
    }

    /// Whether the API answers on the port of the status page.
    pub fn shares_web_port(&self) -> bool {
        let listen = self.api.listen;
        listen.is_some_and(|api| api.port() != 0) && listen == self.web.listen
    }

    /// Whether DNS is served over an encrypted transport.
    pub fn listens_encrypted(&self) -> bool {
        let server = &self.server;
        !(server.listen_tls.is_empty()
            && server.listen_https.is_empty()
            && server.listen_quic.is_empty())
    }

    /// Refuses listeners that no client could use.
    fn check_listeners(&self) -> Result<(), ConfigError> {
        let has_key = [&self.api.key, &self.web.api_key]
            .iter()
            .any(|key| !key.reveal().is_empty());
        // Keys of `nameward api-key create` are in the state store.
        let may_have_keys = has_key || self.server.state_directory.is_some();
        let problem = if self.api.listen.is_some() && !may_have_keys {
            "api.listen is set and api.key is empty: set the key that clients send as X-API-Key"
        } else if let Some(problem) = self.tls.problem() {
            problem
        } else if self.listens_encrypted() && self.tls.certificate.0.is_empty() {
            "server.listen_tls, listen_https or listen_quic is set and tls.certificate is empty: set it; `nameward tls init` makes a \
             certificate"
        } else if !self.tls.certificate.0.is_empty() && self.shares_web_port() {
            "api.listen is the address of the status page, which has no TLS: give the API its own address, or remove \
             tls.certificate"
        } else {
            return Ok(());
        };
        Err(ConfigError::Contradiction(problem.into()))
    }

    /// Refuses to share through a database if there is none.
    fn check_sharing(&self) -> Result<(), ConfigError> {
        if self.health.share && self.databases().next().is_none() {
            let problem = "health.share is true and no [[backend]] is a database: results of health checks are shared through one";
            return Err(ConfigError::Contradiction(problem.into()));
        }
        Ok(())
    }

    /// Reads the configuration again for a server running with this one. An editor, a full disk or a tool may have
    /// left the file empty for now: a reload does not withdraw all zones.
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

    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error| ConfigError::Unreadable(path.to_path_buf(), error);
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_MAX {
            return Err(unreadable(std::io::Error::other("the file is too large")));
        }
        let text = Secret::new(fs::read_to_string(path).map_err(unreadable)?);
        Self::parse(text.reveal(), base_of(path))
            .map_err(|problems| ConfigError::Wrong(path.to_path_buf(), problems))
    }

    /// Parses the text of a file in the directory `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Self, Vec<Problem>> {
        let cut = ZonePieces::split(text);
        let (rest, pieces) = cut
            .as_ref()
            .map_or((text, &[][..]), |cut| (cut.rest.reveal(), &cut.pieces));
        let short = Shortened::shorten(rest, base);
        let (rest, lists) = short
            .as_ref()
            .map_or((rest, &[][..]), |short| (short.text.reveal(), &short.lists));
        if (cut.is_some() || short.is_some())
            && let Ok(config) = Self::parse_tree(rest, base, lists, pieces)
        {
            return Ok(config);
        }
        // Parse the whole text again, so that problems have the right positions.
        Self::parse_tree(text, base, &[], &[])
    }

    /// Parses a text as TOML; at some positions empty lists replace long ones, and some zone tables are passed
    /// separately.
    fn parse_tree(
        text: &str,
        base: &Path,
        lists: &[(usize, Arc<FileList>)],
        pieces: &[&str],
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
        let (mut autoprimaries, mut zones, mut views, mut maps) = (None, None, None, None);
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                Backend::NAME => reader.backends(&mut config.backends, value),
                KeySettings::NAME => reader.keys(&mut config.keys, value),
                DnssecPolicySettings::NAME => {
                    reader.dnssec_policies(&mut config.dnssec_policies, value);
                }
                TemplateSettings::NAME => reader.templates(&mut config.templates, value),
                AutoprimarySettings::NAME => autoprimaries = Some(value),
                ZoneSettings::NAME => zones = Some(value),
                ViewSettings::NAME => views = Some(value),
                PoolSettings::NAME => reader.pools(&mut config.pools, value),
                MapSettings::NAME => maps = Some(value),
                name if config.read_section(name, value, &mut reader) => {}
                unknown => reader.unknown_table(unknown, key),
            }
        }
        // Last, since they refer to the rest.
        if let Some(value) = autoprimaries {
            reader.autoprimaries(&mut config, value);
        }
        match zones {
            Some(value) if pieces.is_empty() => {
                let mut list = Vec::new();
                reader.zones(&config, &mut list, value);
                config.zones = list;
            }
            None if pieces.is_empty() => {}
            // The order of zones, and their errors, can only be determined from the whole text.
            Some(value) => reader.problem(value.span(), "zones are apart".into()),
            None => match zone_chunks::read_zones(&config, base, pieces) {
                Some(list) => config.zones = list,
                None => reader.problem(0..0, "zones are wrong".into()),
            },
        }
        reader.views(&mut config, views);
        reader.maps(&mut config, maps);
        reader.known_keys(&config, table.get_ref());
        reader.known_policies(&config, table.get_ref());
        if reader.problems.is_empty() {
            Ok(config)
        } else {
            reader.problems.sort_by_key(Problem::position);
            Err(reader.problems)
        }
    }

    fn apply(&mut self, overrides: &Overrides) -> Result<(), ConfigError> {
        if !overrides.listen.is_empty() {
            self.server.listen = overrides.listen.iter().copied().map(Into::into).collect();
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

/// A table of the configuration file, for listings.
pub struct TableListing {
    /// Its name in the file.
    pub name: &'static str,
    /// Whether it may be given several times.
    pub is_repeated: bool,
    /// Its description, line by line.
    pub about: &'static [&'static str],
    /// Its settings, in file order.
    pub settings: Vec<Listed>,
}

impl TableListing {
    fn of<S: ConfigTable>(is_repeated: bool) -> Self {
        Self {
            name: S::NAME,
            is_repeated,
            about: S::ABOUT,
            settings: list::<S>().collect(),
        }
    }
}

/// Returns every setting, in the same order.
pub fn all_settings() -> Vec<Listed> {
    let tables = tables().into_iter();
    tables.flat_map(|table| table.settings).collect()
}

/// Joins a message of the TOML parser, which may have several lines, into one.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
