//! The subset of YAML that Knot reads: a section at the margin, items that start with a dash, `key: value`, and lists
//! in brackets or with one value per line.

use std::path::Path;

use super::{
    super::{ConfigLocation, texts::directory_of},
    ConfigEntry, ConfigSection, ENTRIES_MAX, KnotReader,
};

/// The parser state within a file.
#[derive(Default)]
struct LineState {
    section: Option<String>,
    /// The next entry belongs to the item started last.
    has_item: bool,
    /// Indentation of a key without a value on its own line.
    open_list: Option<usize>,
}

impl KnotReader<'_> {
    pub(super) fn file(&mut self, path: &Path, from: &ConfigLocation) {
        let Some((file, text)) = self.texts.open(path, from) else {
            return;
        };
        let mut state = LineState::default();
        for (line, number) in text.lines().zip(1..) {
            let location = ConfigLocation::new(&file, number);
            if self.texts.is_full() {
                break;
            }
            self.line(without_comment(line), &location, &mut state);
        }
        self.texts.close();
    }

    fn line(&mut self, line: &str, location: &ConfigLocation, state: &mut LineState) {
        let text = line.trim();
        if text.is_empty() {
            return;
        }
        let margin = line.len() - line.trim_start().len();
        if let Some(rest) = text.strip_prefix('-') {
            let rest_trimmed = rest.trim_start();
            // A value of the list started on the previous line, or a new item.
            if state.open_list.is_some_and(|list| margin > list)
                && let Some(entry) = self
                    .items
                    .last_mut()
                    .and_then(|item| item.entries.last_mut())
            {
                return entry.values.push(unquoted(rest_trimmed).to_string());
            }
            state.has_item = false;
            return self.entry(
                rest_trimmed,
                margin + text.len() - rest_trimmed.len(),
                location,
                state,
            );
        }
        if margin > 0 {
            return self.entry(text, margin, location, state);
        }
        match text.split_once(':') {
            Some((name, "")) => {
                *state = LineState {
                    section: Some(unquoted(name.trim()).to_string()),
                    ..LineState::default()
                };
            }
            Some(("include", value)) => self.include(unquoted(value.trim()), location),
            _ => {
                let message = format!("expected a section such as zone:, found {text:?}");
                self.error(location, message);
            }
        }
    }

    fn include(&mut self, value: &str, location: &ConfigLocation) {
        let pattern = directory_of(Path::new(&*location.file)).join(value);
        for path in self.texts.included(&pattern, location) {
            self.file(&path, location);
        }
    }

    fn entry(
        &mut self,
        text: &str,
        margin: usize,
        location: &ConfigLocation,
        state: &mut LineState,
    ) {
        let Some(section) = &state.section else {
            return self.error(
                location,
                "expected a section such as zone: before this line",
            );
        };
        let Some((key, value)) = text.split_once(':') else {
            let message = format!("expected key: value, found {text:?}");
            return self.error(location, message);
        };
        self.count += 1;
        if self.count > ENTRIES_MAX {
            let message = format!("more than {ENTRIES_MAX} entries");
            return self.error(location, message);
        }
        let values = match list(value.trim()) {
            Some(values) => values,
            None => {
                let message = format!("expected ']' at the end of {:?}", value.trim());
                return self.error(location, message);
            }
        };
        state.open_list = values.is_empty().then_some(margin);
        if !state.has_item {
            self.items.push(ConfigSection {
                section: section.clone(),
                location: location.clone(),
                entries: Vec::new(),
            });
            state.has_item = true;
        }
        if let Some(item) = self.items.last_mut() {
            item.entries.push(ConfigEntry {
                key: key.trim().to_string(),
                values,
                location: location.clone(),
            });
        }
    }
}

/// Returns the values of an entry: none, one, or a list in brackets. `None` if the brackets are not closed.
fn list(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let Some(inner) = text.strip_prefix('[') else {
        return Some(vec![unquoted(text).to_string()]);
    };
    let inner = inner.strip_suffix(']')?;
    let values = split_quoted(inner)
        .into_iter()
        .map(|part| unquoted(part.trim()));
    Some(
        values
            .filter(|value| !value.is_empty())
            .map(String::from)
            .collect(),
    )
}

/// Splits at commas outside quotes.
fn split_quoted(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut is_quoted) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

fn unquoted(text: &str) -> &str {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(text)
}

/// Strips a comment, which starts with a hash outside quotes.
fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'#' if !is_quoted => return &line[..at],
            _ => {}
        }
    }
    line
}
