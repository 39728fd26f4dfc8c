//! The command line: its syntax, and the code that each command runs.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

mod administration;
mod api_key;
mod apply;
mod attributes;
mod audit_log;
mod catalog;
mod cookie;
pub mod export;
mod hash_password;
mod health;
pub mod import;
mod key;
mod logs;
mod pdns;
pub mod print;
mod request;
mod state_directory;
mod target;
mod tls;
mod tsig;
mod upgrade;
mod view;
mod zone_commands;

use administration::{RecordCommand, ZoneCommand};
use api_key::ApiKeyCommand;
use apply::ApplyArguments;
use attributes::MetadataCommand;
use audit_log::AuditLogArguments;
use catalog::{AutoprimaryCommand, CatalogCommand};
use cookie::CookieCommand;
use export::ExportCommand;
use health::HealthCommand;
use import::ImportCommand;
use key::KeyCommand;
use logs::{LogLevelArguments, QueryLogCommand};
use nameward_control::operations::{OperationError, OperationRequest};
use pdns::PdnsCommand;
use print::{OutputForm, Printer, ended, write};
use request::run_request;
use state_directory::StateCommand;
use target::RemoteArguments;
use tls::TlsCommand;
use tsig::TsigCommand;
use upgrade::UpgradeArguments;
use view::{NetworkCommand, ViewCommand};

use crate::{
    api_client::{self, ApiTargetArguments},
    check,
    command_error::{CommandError, CommandResult},
    config::{self, Overrides, location, zone_files::ZoneFile},
    db, manual, serve, signals,
};

/// The version, and what this build does not have.
const VERSION: &str = if cfg!(feature = "lua") {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (without LUA records)")
};

/// An authoritative DNS name server.
///
/// The configuration file is the argument of --config, else $NAMEWARD_CONFIG, else
/// /etc/nameward/nameward.toml. Without a command and without any of these, nameward serves a built-in
/// example on 127.0.0.1 and ::1, port 5300, with a status page on http://127.0.0.1:8081/.
#[derive(Parser)]
#[command(name = "nameward", version = VERSION, max_term_width = 100)]
pub struct Cli {
    /// Print JSON, one object per line; errors too, on stderr
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    server: ApiTargetArguments,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server (with the built-in example if there is neither a configuration file nor a zone)
    Serve(ServeArguments),
    /// Check the configuration and all zones, and report every error
    Check(SourceArguments),
    /// Show the status of the running server: listeners, zones, backends, transfers, rates, faults
    Status(RemoteArguments),
    /// Reload the configuration and changed zones
    Reload {
        /// Withdraw zones whose files are missing, even if a directory has lost most of its files
        #[arg(long)]
        withdraw_missing: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Print the server's counters
    Stats {
        /// Only these counters; a trailing * matches any suffix
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Manage zones: list, show, create, delete, compare, edit, export
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Manage records: list, set, add, delete
    #[command(subcommand)]
    Record(RecordCommand),
    /// Apply a batch of record changes, atomically per zone
    ///
    /// The input is zone file lines prefixed with + or -, or JSON:
    ///
    /// zone example.org
    ///
    /// +www 300 A 192.0.2.1
    ///
    /// -www A 192.0.2.9
    Apply(ApplyArguments),
    /// Manage DNSSEC keys of zones signed by this server
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage TSIG keys
    #[command(subcommand)]
    Tsig(TsigCommand),
    /// Manage DNS cookie secrets
    #[command(subcommand)]
    Cookie(CookieCommand),
    /// Manage views and their zone versions
    #[command(subcommand)]
    View(ViewCommand),
    /// Manage the networks that select views
    #[command(subcommand)]
    Network(NetworkCommand),
    /// Manage keys for the HTTP API
    #[command(subcommand)]
    ApiKey(ApiKeyCommand),
    /// Manage the metadata of database zones, with the PowerDNS kinds
    #[command(subcommand)]
    Metadata(MetadataCommand),
    /// List catalog zones (RFC 9432) and their members
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Manage autoprimaries: servers whose zones become secondaries here when they send NOTIFY
    #[command(subcommand)]
    Autoprimary(AutoprimaryCommand),
    /// Flush the caches
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Control the query log: all answers, or those of some zones, clients, or a sample
    #[command(subcommand)]
    QueryLog(QueryLogCommand),
    /// List health check targets, or force their state
    #[command(subcommand)]
    Health(HealthCommand),
    /// Show or change the log level
    LogLevel(LogLevelArguments),
    /// List the changes made by operators and API clients: who, what, from where, with what outcome
    AuditLog(AuditLogArguments),
    /// Replace the running server with this program without a gap: the new process takes over all sockets when its zones
    /// are loaded
    Upgrade(UpgradeArguments),
    /// Stop the server and wait until it has exited
    Stop(RemoteArguments),
    /// Create or check the schema of a database
    #[command(subcommand)]
    Db(DbCommand),
    /// Check, compact or back up the state store
    #[command(subcommand)]
    State(StateCommand),
    /// Convert the configuration of another server to a nameward.toml, and report what is not supported
    #[command(subcommand)]
    Import(ImportCommand),
    /// Export zones, keys and configuration for another server
    #[command(subcommand)]
    Export(ExportCommand),
    #[command(flatten)]
    Pdns(PdnsCommand),
    /// Create a certificate for encrypted DNS
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Read a password from stdin and print its hash for web.password and web.api_key
    HashPassword,
    /// Print the version
    Version,
    /// Print every setting with its default and meaning
    Config {
        /// Output format
        #[arg(long, value_enum, default_value = "toml")]
        format: ConfigFormat,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, for `man -l -`
    Manual {
        /// Write a page for each command, and nameward.toml(5), into this directory instead
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum CacheCommand {
    /// Flush all entries, those of a name, or with a trailing $ those at and below a name
    Flush {
        /// The name; NAME$ includes all names below it
        name: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Subcommand)]
enum DbCommand {
    /// Create missing tables, and the triggers that notify running servers of changes
    Init(DbArguments),
    /// Report schema errors and rows that cannot be served
    Check(DbArguments),
}

#[derive(Args)]
struct DbArguments {
    /// A SQLite file, postgres://user:password@host/database or mysql://user:password@host/database
    database: String,
}

#[derive(Args, Default)]
struct SourceArguments {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve this zone from this file; may be repeated
    #[arg(long = "zone", value_name = "NAME=FILE", value_parser = parse_zone)]
    zones: Vec<ZoneFile>,
}

#[derive(Args, Default)]
struct ServeArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Listen on this address; may be repeated
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    listen: Vec<SocketAddr>,
    /// Serve the status page on this address
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    web: Option<SocketAddr>,
    /// Threads that answer UDP; 0 means one per core
    #[arg(long, value_name = "N")]
    workers: Option<u64>,
    /// Path of the control socket
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ConfigFormat {
    /// A commented configuration file
    Toml,
    /// The page docs/configuration.md
    Markdown,
}

impl SourceArguments {
    /// Returns the overrides; without a file and without zones, the default configuration file is used.
    fn overrides(self) -> Overrides {
        let file = self.config.or_else(location::named);
        let default = || location::default_file().filter(|_| self.zones.is_empty());
        Overrides {
            file: file.or_else(default),
            zones: self.zones,
            ..Overrides::default()
        }
    }
}

impl ServeArguments {
    fn overrides(self) -> Overrides {
        Overrides {
            listen: self.listen,
            web: self.web,
            workers: self.workers,
            control_socket: self.control,
            ..self.source.overrides()
        }
    }
}

/// An argument that cannot be parsed.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error("expected an address with a port such as 127.0.0.1:53 or [::1]:53")]
    Address,
    #[error("expected NAME=FILE such as example.org=example.org.zone")]
    ZoneFile,
}

fn parse_address(text: &str) -> Result<SocketAddr, ArgumentError> {
    text.parse().map_err(|_| ArgumentError::Address)
}

fn parse_zone(text: &str) -> Result<ZoneFile, ArgumentError> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok(ZoneFile {
            name: name.into(),
            file: file.into(),
        }),
        _ => Err(ArgumentError::ZoneFile),
    }
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = Cli::parse_from(pdns::spelled_out(std::env::args_os().collect()));
    let form = if cli.json {
        OutputForm::Json
    } else {
        OutputForm::Text
    };
    print::set_form(form);
    let command = cli
        .command
        .unwrap_or_else(|| Command::Serve(ServeArguments::default()));
    if !matches!(command, Command::Serve(_)) {
        signals::release_hangup();
    }
    let selected = api_client::select(cli.server).map_err(CommandError::from);
    match selected.and_then(|()| dispatch(command, form)) {
        Ok(code) => code,
        Err(error) => {
            let message = error.to_string();
            print::error(form, &OperationError::new(error.kind(), message));
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(command: Command, form: OutputForm) -> CommandResult {
    if form == OutputForm::Json
        && matches!(
            command,
            Command::Serve(_) | Command::Completions { .. } | Command::Manual { .. }
        )
    {
        return Err(CommandError::NoJson);
    }
    let (request, remote) = match command {
        Command::Status(remote) => (OperationRequest::Status, remote),
        Command::Stop(remote) => (OperationRequest::Stop, remote),
        Command::Reload {
            withdraw_missing,
            remote,
        } => (OperationRequest::Reload { withdraw_missing }, remote),
        Command::Stats { names, remote } => (OperationRequest::Stats { names }, remote),
        Command::Cache(CacheCommand::Flush { name, remote }) => {
            (OperationRequest::CacheFlush { name }, remote)
        }
        Command::Zone(ZoneCommand::Work(command)) => return zone_commands::run(command, form),
        Command::Zone(command) => administration::zone(command)?,
        Command::Record(command) => administration::record(command)?,
        Command::Apply(arguments) => apply::request(arguments, form)?,
        Command::Metadata(command) => attributes::metadata(command),
        Command::Catalog(command) => catalog::catalog(command),
        Command::Autoprimary(command) => catalog::autoprimary(command),
        Command::Key(command) => key::request(command)?,
        Command::Tsig(command) => tsig::request(command)?,
        Command::Cookie(command) => cookie::request(command),
        Command::View(command) => view::view(command),
        Command::Network(command) => view::network(command),
        Command::ApiKey(command) => api_key::request(command),
        Command::QueryLog(command) => logs::query_log(command),
        Command::Health(command) => health::health(command),
        Command::LogLevel(arguments) => logs::log_level(arguments),
        Command::Serve(arguments) => {
            serve::run(&arguments.overrides())?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Upgrade(arguments) => return arguments.run(form),
        Command::Check(arguments) => return check::run(&arguments.overrides(), form),
        Command::AuditLog(arguments) => return arguments.run(form),
        Command::Db(DbCommand::Init(arguments)) => return db::init(&arguments.database, form),
        Command::Db(DbCommand::Check(arguments)) => return db::check(&arguments.database, form),
        Command::State(command) => return state_directory::run(command, form),
        Command::Import(command) => {
            let (server, arguments) = command.split();
            return crate::import::run(server, &arguments, form);
        }
        Command::Export(command) => {
            let (target, arguments) = command.split();
            return crate::export::run(target, arguments, form);
        }
        Command::Tls(command) => return tls::run(command, form),
        Command::HashPassword => return hash_password::run(form),
        Command::Pdns(command) => return pdns::run(command),
        Command::Version => return version(form),
        Command::Config { format } => return settings(format, form),
        Command::Completions { shell } => return completions(shell),
        Command::Manual { directory } => return manual_pages(directory),
    };
    run_request(request, remote, form)
}

fn version(form: OutputForm) -> CommandResult {
    let version = VERSION;
    let object = serde_json::json!({ "version": version });
    let text = format_args!("nameward {version}");
    ended(Printer::new(form).object(&object, text))
}

/// Prints all settings with their defaults.
fn settings(format: ConfigFormat, form: OutputForm) -> CommandResult {
    match (form, format) {
        (OutputForm::Json, _) => ended(Printer::new(form).object(&config::as_json(), "")),
        (OutputForm::Text, ConfigFormat::Toml) => write(config::as_toml().as_bytes()),
        (OutputForm::Text, ConfigFormat::Markdown) => write(config::as_markdown().as_bytes()),
    }
}

fn completions(shell: Shell) -> CommandResult {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "nameward", &mut out);
    write(&out)
}

/// Writes the manual pages to a directory, or prints the manual as one page.
fn manual_pages(directory: Option<PathBuf>) -> CommandResult {
    match directory {
        None => write(&manual::whole(Cli::command())?),
        Some(directory) => {
            manual::write_pages(Cli::command(), &directory)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests;
