//! The directories that the sandbox of this process can read, so that messages about a file outside them say what to do.
//!
//! The kernel only returns "permission denied", which would send an operator to look at file modes.

use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Set once, when the sandbox is entered; unset in commands and without a sandbox.
static READABLE: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Records the directories and files that can be read from now on, with symbolic links resolved.
pub fn set_readable(paths: Vec<PathBuf>) {
    // A process enters its sandbox once.
    let _ = READABLE.set(paths);
}

/// Returns what to add to a message about a path that could not be opened: nothing, unless the sandbox is the reason.
pub fn explain(path: &Path, error: &io::Error) -> &'static str {
    let is_outside = |paths: &Vec<PathBuf>| !is_below(path, paths);
    if error.kind() == io::ErrorKind::PermissionDenied && READABLE.get().is_some_and(is_outside) {
        "; the path is outside the sandbox: restart the server to use it (see server.sandbox_paths)"
    } else {
        ""
    }
}

/// Checks whether a path, with its links resolved, is one of `paths` or below one of them.
pub fn is_below(path: &Path, paths: &[PathBuf]) -> bool {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    paths.iter().any(|allowed| real.starts_with(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_out_of_a_directory_is_not_below_it() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().canonicalize().unwrap().join("inside");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(directory.path().join("outside"), "").unwrap();
        std::os::unix::fs::symlink("../outside", inside.join("link")).unwrap();
        std::fs::write(inside.join("file"), "").unwrap();
        let allowed = [inside.clone()];
        assert!(is_below(&inside.join("file"), &allowed));
        assert!(is_below(&inside.join("missing"), &allowed));
        assert!(!is_below(&inside.join("link"), &allowed));
        assert!(!is_below(directory.path(), &allowed));
    }

    #[test]
    fn nothing_is_added_without_a_sandbox() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(explain(Path::new("/etc/shadow"), &denied), "");
    }
}
