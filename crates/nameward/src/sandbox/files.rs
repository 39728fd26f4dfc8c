//! Restricts files by Landlock (Linux 5.13 and later).
//!
//! Rules are for directories rather than files, because editors and certificate tools replace files: a rule is bound to
//! the file that had the name at the start. Looking at a path (`stat`, inotify) and connecting to a Unix socket are not
//! restricted by the versions of Landlock that this uses.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::paths::FileAccess;

/// The newest version of Landlock whose rights are used. Older kernels restrict fewer of them.
const VERSION: ABI = ABI::V5;

/// Why files are not restricted.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("this kernel has no Landlock, or it is disabled")]
    NoLandlock,
    #[error("{0}")]
    Refused(#[from] landlock::RulesetError),
}

pub fn require_landlock() -> Result<(), FilesError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    match ruleset.handle_access(AccessFs::from_all(ABI::V1)) {
        Ok(_) => Ok(()),
        Err(_) => Err(FilesError::NoLandlock),
    }
}

/// Lets this thread, and those it starts, use these files only, and send signals to none but itself.
pub fn restrict(access: &FileAccess) -> Result<(), FilesError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .scope(Scope::Signal)?
        .create()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    for path in &access.read {
        rules = allow(rules, path, read)?;
    }
    for path in &access.write {
        rules = allow(rules, path, written())?;
    }
    for path in &access.remove {
        rules = allow(rules, path, AccessFs::RemoveFile.into())?;
    }
    let status = rules.restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(FilesError::NoLandlock);
    }
    Ok(())
}

/// Returns the rights on directories with files that the server writes: regular files and directories, which are read,
/// created, replaced and removed.
fn written() -> BitFlags<AccessFs> {
    let never = AccessFs::Execute
        | AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeFifo
        | AccessFs::MakeSock
        | AccessFs::MakeSym
        | AccessFs::IoctlDev;
    AccessFs::from_all(VERSION) & !never
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    // A path that is missing, or not accessible to this user, cannot be used anyway.
    let Ok(opened) = PathFd::new(path) else {
        return Ok(rules);
    };
    let rights = if path.is_dir() {
        rights
    } else {
        rights & AccessFs::from_file(VERSION)
    };
    rules.add_rule(PathBeneath::new(opened, rights))
}
