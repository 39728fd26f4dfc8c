//! The files and directories that a configuration names, and those that the C library needs.

#![allow(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nameward_base::{sandbox, text::listed};
use nameward_files::FileSource;

use super::zone_files;
use crate::config::{Config, settings::BackendType};

/// Everything that names the files of a server.
pub struct NamedPaths<'a> {
    /// The configuration, with its zones.
    pub config: &'a Config,
    /// The sources of zones stored in files.
    pub sources: &'a [FileSource],
    pub config_file: Option<&'a Path>,
    /// The control socket, which is removed at the end.
    pub control_socket: Option<&'a Path>,
}

/// Files and directories by their use, with symbolic links resolved. A directory stands for everything below it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FileAccess {
    /// Read.
    pub(super) read: BTreeSet<PathBuf>,
    /// Read and written.
    pub(super) write: BTreeSet<PathBuf>,
    /// Directories from which a file is removed at the end.
    pub(super) remove: BTreeSet<PathBuf>,
}

/// Name resolution, users, shared libraries of both, time zone, the kernel's view of this process and machine, random
/// numbers of SQLite.
const SYSTEM: [&str; 28] = [
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/services",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/lib",
    "/lib64",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self",
    "/proc/stat",
    "/proc/sys",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/zoneinfo",
];
/// Certificates of authorities, for databases, transfers and NOTIFY over TLS.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];
/// Maximum number of files in a directory whose owners are checked.
const ENTRIES_MAX: usize = 1000;
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Directories of the system, which have files of other services, too.
const SHARED: [&str; 18] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/opt", "/root", "/run", "/sbin",
    "/srv", "/tmp", "/usr", "/var", "/var/lib", "/var/log", "/var/tmp",
];

impl FileAccess {
    /// Returns what a server with this configuration needs, and what its zone files refer to. Reads all of them.
    pub(super) fn at_start(named: &NamedPaths<'_>) -> Self {
        let mut access = Self::named_only(named);
        access.add_system(named.config);
        let referred = zone_files::referred_directories(named.sources);
        access.read.extend(referred.included);
        access.write.extend(referred.linked);
        access
    }

    /// Returns the paths in the configuration itself.
    pub(super) fn named_only(named: &NamedPaths<'_>) -> Self {
        let mut access = Self::default();
        let config = named.config;
        let tls = config.tls.certificate.0.iter().chain(&config.tls.key.0);
        let secrets = config
            .keys
            .iter()
            .filter_map(|key| key.secret_file.as_ref());
        let authorities = config.tls.client_ca.iter().chain(&config.health.tls_ca);
        let configured = tls.chain(authorities).chain(secrets);
        for file in configured.map(PathBuf::as_path).chain(named.config_file) {
            access.read_sibling(file);
        }
        for file in &config.geoip.databases.0 {
            access.read_sibling(file);
        }
        for path in &config.server.sandbox_paths.0 {
            access.read.extend(path.canonicalize());
        }
        if let Some(directory) = config.state_directory() {
            access.write_in(&directory);
        }
        if let Some(file) = &config.query_log.file {
            access.write_sibling(file);
        }
        for file in (config.server.pid_file.as_deref().into_iter()).chain(named.control_socket) {
            access.remove.extend(parent_of(file));
        }
        access.add_databases(config);
        access.add_zones(config);
        access.add_sources(named.sources);
        access
    }

    fn add_databases(&mut self, config: &Config) {
        for backend in &config.backends {
            let urls = [backend.url.reveal(), backend.replica_url.reveal()];
            for url in urls {
                for path in tls_files_in(url) {
                    self.read_sibling(Path::new(path));
                }
                let file = ["sqlite3:", "sqlite:"]
                    .iter()
                    .find_map(|s| url.strip_prefix(s));
                if let Some(file) = file {
                    self.write_sibling(Path::new(file.strip_prefix("//").unwrap_or(file)));
                }
            }
            if let Some(path) = &backend.path {
                // With its write-ahead log in the same directory.
                self.write_sibling(path);
            }
        }
    }

    fn add_zones(&mut self, config: &Config) {
        let defaults = &config.zone_defaults.key_directory;
        let templates = config.templates.iter().map(|one| &one.key_directory);
        let zones = config.zones.iter().map(|zone| &zone.key_directory);
        let settings = templates.chain(zones).chain([defaults]);
        let directories: BTreeSet<&PathBuf> = settings
            .filter_map(|one| one.0.as_ref())
            .map(|one| &one.0)
            .collect();
        for directory in directories {
            self.write_in(directory);
        }
        self.add_peers(config);
        // Copies of secondary zones; those of others are sources.
        let with_file = config.zones.iter().filter(|zone| zone.file.is_some());
        for zone in with_file {
            if let Some(copy) = config.zone_policy(zone).copy_file {
                self.write_sibling(&copy);
            }
        }
    }

    /// Adds the certificates for transfers and NOTIFY over TLS.
    fn add_peers(&mut self, config: &Config) {
        let defaults = &config.zone_defaults;
        let templates = config
            .templates
            .iter()
            .map(|one| [&one.primaries, &one.also_notify]);
        let zones = config
            .zones
            .iter()
            .map(|one| [&one.primaries, &one.also_notify]);
        let all = templates.chain(zones).flatten();
        let all = all.chain([&defaults.primaries, &defaults.also_notify]);
        let servers = all.filter_map(|setting| setting.0.as_ref()).flatten();
        let servers = servers.chain(&config.server.remotes);
        for tls in servers.filter_map(|server| server.tls.as_ref()) {
            let identity = tls
                .identity
                .iter()
                .flat_map(|one| [&one.certificate, &one.key]);
            for file in identity.chain(&tls.authorities) {
                self.read_sibling(file);
            }
        }
    }

    fn add_sources(&mut self, sources: &[FileSource]) {
        for source in sources {
            if let Some(directory) = &source.directory {
                self.write_in(directory);
            }
            let mut last = PathBuf::new();
            for listed in source.zones.iter() {
                let path = listed.path();
                let parent = path.parent().unwrap_or(Path::new(""));
                // A long list has few directories, most of them in a row.
                if parent != last {
                    last = parent.to_path_buf();
                    self.write_sibling(&path);
                }
            }
            if let Some(path) = &source.named_conf {
                let directories = zone_files::named_conf_directories(path);
                self.read.extend(directories.included);
                self.write.extend(directories.linked);
            }
        }
    }

    fn add_system(&mut self, config: &Config) {
        self.read
            .extend(SYSTEM.iter().filter_map(|path| fs::canonicalize(path).ok()));
        let is_remote = |kind| !matches!(kind, BackendType::File | BackendType::Sqlite);
        let has_remote = config
            .backends
            .iter()
            .any(|backend| is_remote(backend.r#type));
        let authorities = AUTHORITIES.iter();
        self.read
            .extend(authorities.filter_map(|path| fs::canonicalize(path).ok()));
        // A file that is replaced by a new one when the network changes: only a rule for its directory lasts.
        let is_file = fs::symlink_metadata(RESOLV_CONF).is_ok_and(|found| found.is_file());
        if is_file && (has_remote || !config.security_poll.suffix.is_empty()) {
            self.read.insert("/etc".into());
        }
    }

    /// Adds the directory of a file, and that of the file it links to.
    fn read_sibling(&mut self, file: &Path) {
        self.read.extend(parent_of(file));
        self.read
            .extend(file.canonicalize().ok().as_deref().and_then(parent_of));
    }

    fn write_sibling(&mut self, file: &Path) {
        self.write.extend(parent_of(file));
        self.write
            .extend(file.canonicalize().ok().as_deref().and_then(parent_of));
    }

    /// Adds a directory; for one that does not exist yet, the one it will be created in.
    fn write_in(&mut self, directory: &Path) {
        match directory.canonicalize() {
            Ok(directory) => drop(self.write.insert(directory)),
            Err(_) => self
                .write
                .extend(parent_of(directory).filter(|one| !is_shared(one))),
        }
    }

    /// Checks whether a directory, or a file directly in it, belongs to another user than root.
    pub(super) fn has_foreign_files(&self) -> bool {
        let is_others = |path: &Path| fs::metadata(path).is_ok_and(|found| found.uid() != 0);
        let has_others = |path: &PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries
                .take(ENTRIES_MAX)
                .any(|entry| is_others(&entry.path()))
        };
        let directories = self.read.iter().chain(&self.write);
        let mut directories = directories.filter(|path| !is_shared(path));
        directories.any(|path| is_others(path) || has_others(path))
    }

    /// Returns everything that can be read.
    pub(super) fn readable(&self) -> Vec<PathBuf> {
        self.read.iter().chain(&self.write).cloned().collect()
    }

    /// Returns the paths of `required` that cannot be read.
    pub(super) fn unreadable(&self, required: &Self) -> Vec<PathBuf> {
        let readable = self.readable();
        let required = required.read.iter().chain(&required.write);
        let outside = required.filter(|path| !sandbox::is_below(path, &readable));
        outside.cloned().collect()
    }

    /// Returns the paths of `required` that can be read, but not written.
    pub(super) fn read_only(&self, required: &Self) -> Vec<PathBuf> {
        let (readable, writable) = (self.readable(), Vec::from_iter(self.write.iter().cloned()));
        let is_read_only = |path: &&PathBuf| {
            sandbox::is_below(path, &readable) && !sandbox::is_below(path, &writable)
        };
        required
            .write
            .iter()
            .filter(is_read_only)
            .cloned()
            .collect()
    }

    /// Warns the operator that other files are accessible because they are in the same directory as one of ours.
    pub(super) fn warn_of_shared_directories(&self) {
        let shared = self.write.iter().filter(|path| is_shared(path));
        let shared: Vec<_> = shared.map(|path| path.display()).collect();
        if !shared.is_empty() {
            tracing::warn!(
                "sandbox: the server can write to all of {}: keep its files in directories of their own",
                listed(shared)
            );
        }
    }

    /// Lets SQLite create its temporary files where files may be created.
    pub(super) fn keep_temporary_files_inside(&self) {
        if let Some(directory) = self.write.first() {
            // SAFETY: the sandbox is entered while there is only one thread, so nothing else reads the environment.
            unsafe { std::env::set_var("SQLITE_TMPDIR", directory) };
        }
    }
}

fn is_shared(path: &Path) -> bool {
    SHARED.iter().any(|shared| path == Path::new(shared))
}

/// Returns the directory of a file, with links resolved.
fn parent_of(file: &Path) -> Option<PathBuf> {
    nameward_base::file::opened(file.parent()?)
        .canonicalize()
        .ok()
}

/// Returns the file with trusted authorities that a database URL names.
fn tls_files_in(url: &str) -> impl Iterator<Item = &str> {
    let parameters = url.split(['?', '&']);
    let values = parameters.filter_map(|parameter| parameter.split_once('='));
    let files = values.filter(|(key, _)| matches!(*key, "sslrootcert" | "sslcert" | "sslkey"));
    files.map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zones;

    /// Settings with paths, each of which is part of the sandbox above.
    const PATHS: [&str; 19] = [
        "backend.directory",
        "backend.named_conf",
        "backend.path",
        "dnstap.socket",
        "geoip.databases",
        "health.tls_ca",
        "key.secret_file",
        "query_log.file",
        "server.control_socket",
        "server.pid_file",
        "server.sandbox_paths",
        "server.state_directory",
        "template.key_directory",
        "tls.certificate",
        "tls.client_ca",
        "tls.key",
        "view.zones",
        "zone.file",
        "zone.key_directory",
    ];

    #[test]
    fn every_setting_with_a_path_is_known_to_the_sandbox() {
        let settings = crate::config::all_settings();
        let has_path = |expected: &str| expected.contains("path");
        let names = settings
            .iter()
            .filter(|setting| has_path(&setting.expected));
        let names = names.map(|setting| format!("{}.{}", setting.section, setting.key));
        // Those of [zone_defaults] are the same as of [[template]]; https.path is part of a URL.
        let names: BTreeSet<_> = names
            .filter(|name| !name.starts_with("zone_defaults.") && name != "https.path")
            .collect();
        let known: BTreeSet<_> = PATHS.iter().map(ToString::to_string).collect();
        let new: Vec<_> = names.symmetric_difference(&known).collect();
        assert!(new.is_empty(), "add to FileAccess and to PATHS: {new:?}");
    }

    #[test]
    fn a_configuration_needs_the_directories_of_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for name in ["zones", "state", "conf", "elsewhere"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        fs::write(
            base.join("elsewhere/a.zone"),
            "$include ../zones/x\n$INCLUDE /usr/bin/env\n",
        )
        .unwrap();
        std::os::unix::fs::symlink("../elsewhere/a.zone", base.join("zones/a.zone")).unwrap();
        let text =
            "[server]\nstate_directory = \"../state\"\n[[backend]]\ndirectory = \"../zones\"\n";
        let config = Config::parse(text, &base.join("conf")).unwrap();
        let sources = zones::sources(&config);
        let named = NamedPaths {
            config: &config,
            sources: &sources,
            config_file: Some(&base.join("conf/nameward.toml")),
            control_socket: None,
        };
        let access = FileAccess::at_start(&named);
        let writable = ["elsewhere", "state", "zones"].map(|name| base.join(name));
        assert_eq!(access.write, BTreeSet::from(writable));
        for path in [base.join("conf"), "/usr/bin".into()] {
            assert!(access.read.contains(&path), "{path:?} {access:?}");
        }
        let other =
            Config::parse(&text.replace("../state", "../conf"), &base.join("conf")).unwrap();
        let named = NamedPaths {
            config: &other,
            ..named
        };
        let required = FileAccess::named_only(&named);
        assert_eq!(access.unreadable(&required), Vec::<PathBuf>::new());
        assert_eq!(access.read_only(&required), [base.join("conf")]);
        let read_elsewhere = FileAccess {
            read: BTreeSet::from(["/root".into()]),
            ..FileAccess::default()
        };
        assert_eq!(access.unreadable(&read_elsewhere), [PathBuf::from("/root")]);
    }
}
