//! Checks the Markdown documents: every link leads to a file and, with a fragment, to a heading in it, and the guide lists every page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use super::sources::root;

/// The folders with documents, relative to the root of the workspace.
const FOLDERS: [&str; 3] = ["", "docs", "bench"];

/// Documents by their path relative to the root, without the contents of code blocks.
fn documents() -> BTreeMap<PathBuf, String> {
    let mut documents = BTreeMap::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root().join(folder)).expect("a folder with documents") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).expect("a document is text");
                let prose: String = text.split("```").step_by(2).collect();
                let name = path.file_name().expect("a file has a name");
                documents.insert(Path::new(folder).join(name), prose);
            }
        }
    }
    assert!(documents.len() > 15, "too few documents were found");
    documents
}

/// The fragment under which GitHub and mdBook reach a heading.
fn fragment(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        })
        .collect()
}

fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles
        .map(|line| fragment(line.trim_start_matches('#')))
        .collect()
}

/// The targets of `[text](target)` links.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("](").skip(1);
    parts.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// Resolves `..` without asking the file system.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            component => normal.push(component),
        }
    }
    normal
}

#[test]
fn links_in_documents_lead_somewhere() {
    let documents = documents();
    let mut broken = Vec::new();
    for (path, text) in &documents {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                _ => normal(&path.with_file_name("").join(file)),
            };
            let is_there = root().join(&target).exists();
            let has_heading = heading.is_empty()
                || documents
                    .get(&target)
                    .is_none_or(|text| headings(text).contains(heading));
            if !is_there || !has_heading {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links: {broken:#?}");
}

#[test]
fn the_guide_lists_every_page() {
    let documents = documents();
    let summary = Path::new("docs/SUMMARY.md");
    let listed: BTreeSet<&str> = links(&documents[summary]).collect();
    let pages = documents.keys().filter(|path| path.starts_with("docs"));
    let missing: Vec<_> = pages
        .filter(|path| *path != summary)
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_none_or(|name| !listed.contains(name))
        })
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}
