//! The editor of `nameward zone edit`, and the prompts before a change.

use std::{
    env, fs,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    process::Command,
};

use nameward_base::file;
use nameward_control::operations::{OperationError, Outcome};

/// A file being edited, removed when it is dropped.
pub struct EditedFile {
    path: PathBuf,
}

impl EditedFile {
    /// Writes a text for an editor into a directory of its own, which others cannot read.
    pub fn new(name: &str, text: &str) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        // Creation fails if the directory exists, so one prepared by another user is never used.
        let directory = env::temp_dir().join(format!("nameward-edit-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let edited = EditedFile {
            path: directory.join(name.replace('/', "_")),
        };
        file::write_new(&edited.path, 0o600, text.as_bytes())?;
        Ok(edited)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the operator's editor on the file.
    pub fn edit(&self) -> Outcome<String> {
        let named = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let editor = named("VISUAL").or_else(|| named("EDITOR"));
        let editor = editor.unwrap_or_else(|| "vi".into());
        // The variable may have arguments, as in `code --wait`; the path is never part of the text that the shell
        // parses.
        let script = format!("{editor} \"$1\"");
        let status = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(&self.path)
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => {
                return Err(OperationError::invalid(format!(
                    "the editor {editor:?} exited with {status}: no changes made"
                )));
            }
            Err(error) => {
                return Err(OperationError::invalid(format!(
                    "cannot run the editor {editor:?}: {error}"
                )));
            }
        }
        fs::read_to_string(&self.path).map_err(|error| {
            OperationError::invalid(format!("cannot read {}: {error}", self.path.display()))
        })
    }
}

impl Drop for EditedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if let Some(directory) = self.path.parent() {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Prompts the operator; no answer, or no terminal, means no.
pub fn confirm(question: &str) -> bool {
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if !io::stdin().is_terminal() {
        eprintln!();
    }
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes" | "YES")
}
