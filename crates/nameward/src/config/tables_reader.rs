//! Reads the tables of a configuration file into their sections, and collects their problems.

use std::{path::Path, sync::Arc};

use nameward_files::FileList;
use toml::{Spanned, de::DeValue};

use super::{
    all_settings,
    error::{PROBLEMS_MAX, Problem, nearest},
    setting::ConfigTable,
    settings::{Backend, BackendType},
    tables,
};

/// Reads one file and collects its problems.
pub(super) struct ConfigReader<'a> {
    pub(super) text: &'a str,
    pub(super) base: &'a Path,
    /// Lists that appear as empty ones at some positions of the text.
    pub(super) lists: &'a [(usize, Arc<FileList>)],
    pub(super) problems: Vec<Problem>,
}

impl ConfigReader<'_> {
    pub(super) fn problem(&mut self, span: std::ops::Range<usize>, message: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem::new(self.text, span, message));
        }
    }

    pub(super) fn section<S: ConfigTable>(
        &mut self,
        section: &mut S,
        value: &Spanned<DeValue<'_>>,
    ) {
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

    pub(super) fn backends(&mut self, backends: &mut Vec<Backend>, value: &Spanned<DeValue<'_>>) {
        let Some(list) = value.get_ref().as_array() else {
            return self.problem(
                value.span(),
                "backend is a list of tables: write [[backend]]".into(),
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

    pub(super) fn unknown_table(&mut self, word: &str, key: &Spanned<std::borrow::Cow<'_, str>>) {
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
        BackendType::File if has_path || !url.is_empty() => Some("path and url are for databases"),
        BackendType::File if !has_files => {
            Some("a file backend needs a directory, a list of zones or a named_conf")
        }
        BackendType::File => None,
        _ if has_files => Some("directory, zones and named_conf are for file backends"),
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
        _ if has_path => Some("path is for sqlite backends"),
        BackendType::Postgres | BackendType::Mysql => None,
    }
}

/// Returns where a misplaced key would be valid.
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
