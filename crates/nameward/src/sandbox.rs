//! The sandbox: privileges that a server drops after its start, so that a bug in it does less damage.
//!
//! | given up | by | what is left |
//! |---|---|---|
//! | privileges | `capset`, `PR_SET_NO_NEW_PRIVS` | nothing that only root may do |
//! | files | Landlock | what the configuration names ([`paths`]) |
//! | system calls | seccomp | those that a server uses ([`system_calls`]) |
//! | core dumps | `PR_SET_DUMPABLE`, `RLIMIT_CORE` | none, unless `server.core_dumps` is set |
//!
//! All of it is inherited by new threads and does not affect existing ones, so it is entered while the process has one
//! thread: after the ports are bound and the user is changed, before the runtimes start.

mod capabilities;
mod files;
mod paths;
mod system_calls;
mod zone_files;

use std::{io, path::PathBuf};

use capabilities::KeptPrivileges;
use nameward_base::{sandbox, text::listed};
pub use paths::{FileAccess, NamedPaths};

use crate::{
    config::settings::{SandboxMode, Server},
    privileges,
};

/// Why a server with `server.sandbox = "require"` does not start.
#[derive(Debug, thiserror::Error)]
#[error("server.sandbox: not restricted: {}", listed(.0.iter().map(ToString::to_string)))]
pub struct SandboxError(Vec<Unrestricted>);

/// A part of the sandbox that is not available, with the reason.
#[derive(Debug, thiserror::Error)]
enum Unrestricted {
    #[error("privileges ({0})")]
    Privileges(#[source] io::Error),
    #[error(
        "access to files of other users (the server runs as root and needs them: set server.user)"
    )]
    OthersFiles,
    #[error("files ({0})")]
    Files(#[source] files::FilesError),
    #[error("system calls ({0})")]
    SystemCalls(#[source] system_calls::FilterError),
}

pub struct Sandbox {
    /// The restrictions, for `nameward status`.
    pub summary: String,
    /// The files that can be used; `None` if they are not restricted.
    access: Option<FileAccess>,
}

/// Drops what requires root to be dropped. Call before the change of user.
pub fn prepare(server: &Server) {
    if server.sandbox != SandboxMode::Off {
        capabilities::shrink_bounding_set();
    }
}

/// Enters the sandbox. Call while there is one thread.
pub fn enter(server: &Server, named: &NamedPaths<'_>) -> Result<Sandbox, SandboxError> {
    if !server.core_dumps
        && let Err(error) = capabilities::forbid_core_dumps()
    {
        tracing::warn!("core dumps may contain secrets: {error}");
    }
    if server.sandbox == SandboxMode::Off {
        tracing::info!("sandbox: off");
        return Ok(Sandbox {
            summary: "off".into(),
            access: None,
        });
    }
    let mut missing = Vec::new();
    let mut restricted = Vec::new();
    let kept = privileges_to_keep(named);
    match (capabilities::give_up(kept), kept) {
        (Err(error), _) => missing.push(Unrestricted::Privileges(error)),
        (Ok(()), KeptPrivileges::None) => restricted.push("privileges".to_string()),
        (Ok(()), KeptPrivileges::FilesOfOthers) => missing.push(Unrestricted::OthersFiles),
    }
    let access = match enter_files(named) {
        Ok(access) => {
            restricted.push("files".into());
            Some(access)
        }
        Err(error) => {
            missing.push(Unrestricted::Files(error));
            None
        }
    };
    // Last: it forbids the calls that enter the rest.
    match system_calls::restrict() {
        Ok(()) => restricted.push("system calls".into()),
        Err(error) => missing.push(Unrestricted::SystemCalls(error)),
    }
    if server.sandbox == SandboxMode::Require && !missing.is_empty() {
        return Err(SandboxError(missing));
    }
    let mut summary = listed(restricted);
    if missing.is_empty() {
        tracing::info!("sandbox: restricted {summary}");
    } else {
        let missing = listed(missing.iter().map(ToString::to_string));
        tracing::warn!("sandbox: not restricted: {missing}");
        summary += &format!("; not restricted: {missing}");
    }
    Ok(Sandbox { summary, access })
}

/// Returns the privileges without which a server that stays root cannot use its files.
fn privileges_to_keep(named: &NamedPaths<'_>) -> KeptPrivileges {
    if privileges::own_user() == 0 && FileAccess::named_only(named).has_foreign_files() {
        KeptPrivileges::FilesOfOthers
    } else {
        KeptPrivileges::None
    }
}

fn enter_files(named: &NamedPaths<'_>) -> Result<FileAccess, files::FilesError> {
    files::require_landlock()?;
    let access = FileAccess::at_start(named);
    access.warn_of_shared_directories();
    access.keep_temporary_files_inside();
    privileges::remember_users();
    files::restrict(&access)?;
    sandbox::set_readable(access.readable());
    Ok(access)
}

impl Sandbox {
    /// Returns an error for each path of a new configuration that only a restarted server could read.
    pub fn failures(&self, named: &NamedPaths<'_>) -> Vec<String> {
        let Some(access) = &self.access else {
            return Vec::new();
        };
        let outside = access.unreadable(&FileAccess::named_only(named));
        let failure = |path: PathBuf| {
            format!(
                "{}: not accessible in the sandbox of the running server: restart it to use this configuration",
                path.display()
            )
        };
        outside.into_iter().map(failure).collect()
    }

    /// Returns a warning for each path of a new configuration that only a restarted server could write.
    pub fn warnings(&self, named: &NamedPaths<'_>) -> Vec<String> {
        let Some(access) = &self.access else {
            return Vec::new();
        };
        let warning = |path: PathBuf| {
            format!(
                "{}: read-only in the sandbox of the running server: restart it to write there",
                path.display()
            )
        };
        let read_only = access.read_only(&FileAccess::named_only(named));
        read_only.into_iter().map(warning).collect()
    }
}
