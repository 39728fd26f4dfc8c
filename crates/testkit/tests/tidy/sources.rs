//! The source files of the workspace, and the crates they belong to.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file of a crate, without its tests.
pub struct SourceFile {
    /// From the root of the workspace.
    pub path: String,
    pub text: String,
}

impl SourceFile {
    /// The lines before the unit tests.
    pub fn code(&self) -> impl Iterator<Item = &str> {
        let tests = self.text.find("\n#[cfg(test)]\nmod tests {");
        self.text[..tests.unwrap_or(self.text.len())].lines()
    }

    /// Whether it holds nothing but tests.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    pub fn crate_name(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }
}

/// A crate: its folder, and the text of its manifest.
pub struct Manifest {
    pub name: String,
    pub text: String,
}

impl Manifest {
    /// The names in its table of dependencies.
    pub fn dependencies(&self) -> impl Iterator<Item = &str> {
        let table = self.text.split("\n[dependencies]\n").nth(1).unwrap_or("");
        let table = table.split("\n[").next().unwrap_or("");
        table
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next())
    }
}

/// Everything that the rules check.
pub struct Workspace {
    pub architecture: String,
    pub crates: Vec<Manifest>,
    pub files: Vec<SourceFile>,
    /// The sources of the load generator, which is not a layer.
    pub bench: Vec<SourceFile>,
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Workspace {
    pub fn read() -> Self {
        let root = root();
        let (mut crates, mut files, mut bench) = (Vec::new(), Vec::new(), Vec::new());
        walk(&root.join("bench/src"), &root, &mut bench);
        for entry in fs::read_dir(root.join("crates")).expect("the crates are there") {
            let entry = entry.expect("a folder");
            let name = entry.file_name().to_string_lossy().into_owned();
            let manifest = entry.path().join("Cargo.toml");
            let Ok(text) = fs::read_to_string(manifest) else {
                continue;
            };
            walk(&entry.path().join("src"), &root, &mut files);
            crates.push(Manifest { name, text });
        }
        assert!(crates.len() >= 10 && files.len() > 200);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let architecture = fs::read_to_string(root.join("ARCHITECTURE.md"));
        Workspace {
            architecture: architecture.expect("ARCHITECTURE.md is there"),
            crates,
            files,
            bench,
        }
    }
}

fn walk(directory: &Path, root: &Path, files: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(directory).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, root, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(root).expect("below the root");
            files.push(SourceFile {
                path: relative.to_string_lossy().into_owned(),
                text: fs::read_to_string(&path).expect("a source file is text"),
            });
        }
    }
}
