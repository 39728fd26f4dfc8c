//! Lists of zones with their files (`zones = [{ name = ..., file = ... }]`), which may be a hundred thousand lines
//! long.
//!
//! A tree of TOML values takes ten times the memory of such a list, and longer to build than all the zones take to
//! load. So lists of the plain form are cut out of the text and read directly; the rest is read as TOML. Anything
//! that is not plain, or invalid, is left to the TOML parser: there is a single source of error messages.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use memchr::memchr;
use nameward_base::secret::Secret;
use nameward_files::FileList;
use nameward_wire::{Name, NameBuf, NameError};
use toml::{Spanned, de::DeValue};

use super::read::{Read, Wrong};

const LIST: &str = "a list of zones";
const ENTRY: &str = r#"a zone such as { name = "example.org", file = "example.org.zone" }"#;

/// A zone file given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFile {
    /// The zone's name in presentation format.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
}

impl Read for Arc<FileList> {
    fn expected() -> String {
        LIST.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let entries = value.get_ref().as_array();
        let entries = entries.ok_or_else(|| Wrong::expected(LIST, value))?;
        let mut list = FileList::default();
        for entry in entries.iter() {
            let (zone, file) = read_entry(entry, base)?;
            list.push(zone.as_name(), &file);
        }
        Ok(Arc::new(list))
    }
}

fn read_entry(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<(NameBuf, PathBuf), Wrong> {
    let wrong = || Wrong::expected(ENTRY, value);
    let table = value.get_ref().as_table().ok_or_else(wrong)?;
    let (mut zone, mut file) = (None, None);
    for (key, entry) in table {
        match key.get_ref().as_ref() {
            "name" => zone = Some(read_name(entry, base)?),
            "file" => file = Option::<PathBuf>::read(entry, base)?,
            other => {
                let message = format!("unknown key {other:?} in a zone; expected name or file");
                return Err(Wrong::new(key, message));
            }
        }
    }
    zone.zip(file).ok_or_else(wrong)
}

pub fn read_name(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<NameBuf, Wrong> {
    let text = String::read(value, base)?;
    parse_name(&text).map_err(|error| Wrong::new(value, error.to_string()))
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid zone name {text:?}: {error}")]
pub struct ZoneNameError {
    pub text: String,
    pub error: NameError,
}

pub fn parse_name(text: &str) -> Result<NameBuf, ZoneNameError> {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).map_err(|error| ZoneNameError {
        text: text.to_owned(),
        error,
    })
}

/// A configuration without its long lists.
pub struct Shortened {
    /// The text, with empty lists.
    pub text: Secret<String>,
    /// The lists, each with the position of the empty one in the text.
    pub lists: Vec<(usize, Arc<FileList>)>,
}

impl Shortened {
    /// Cuts all plain zone lists out of a text; `None` if there are none.
    pub fn shorten(text: &str, base: &Path) -> Option<Self> {
        let mut short = Self {
            text: Secret::new(String::with_capacity(text.len() + 2)),
            lists: Vec::new(),
        };
        let mut rest = text;
        while let Some((before, list)) = split_at_list(rest) {
            short.text.reveal_mut().push_str(before);
            let mut plain = Plain::new(list, base);
            let is_files = !is_in_view(short.text.reveal());
            rest = match plain.list().filter(|_| is_files) {
                Some(zones) => {
                    short
                        .lists
                        .push((short.text.reveal().len(), Arc::new(zones)));
                    short.text.reveal_mut().push_str("[]");
                    plain.rest
                }
                None => {
                    // Left to the TOML parser.
                    short.text.reveal_mut().push('[');
                    &list[1..]
                }
            };
        }
        short.text.reveal_mut().push_str(rest);
        // Inside a multi-line string the text could be misread. None starts or ends within a plain list.
        let has_long_strings =
            short.text.reveal().contains("\"\"\"") || short.text.reveal().contains("'''");
        (!short.lists.is_empty() && !has_long_strings).then_some(short)
    }
}

/// Checks whether a text ends within a view, whose list of this name is another one.
fn is_in_view(text: &str) -> bool {
    let lines = || text.lines().rev().map(str::trim_start);
    let header = lines().find(|line| line.starts_with('['));
    let is_inline = |line: &str| {
        let value = line.strip_prefix("view");
        value.is_some_and(|value| value.trim_start().starts_with('='))
    };
    header.is_some_and(|line| line.starts_with("[[view]]")) || lines().any(is_inline)
}

/// Splits a text before the bracket of the first line that starts with `zones = [`.
fn split_at_list(text: &str) -> Option<(&str, &str)> {
    const KEY: &str = "zones";
    for (at, _) in text.match_indices(KEY) {
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let after = text[at + KEY.len()..].trim_start_matches([' ', '\t']);
        let value = after
            .strip_prefix('=')
            .map(|after| after.trim_start_matches([' ', '\t']));
        if line.trim_matches([' ', '\t']).is_empty()
            && let Some(value) = value.filter(|value| value.starts_with('['))
        {
            return Some(text.split_at(text.len() - value.len()));
        }
    }
    None
}

/// Reads a list of the plain form: no escapes, no keys but name and file, no entry over several lines.
struct Plain<'t> {
    rest: &'t str,
    base: &'t Path,
    /// The path of the last file; a reused buffer.
    path: PathBuf,
}

impl<'t> Plain<'t> {
    fn new(rest: &'t str, base: &'t Path) -> Self {
        Self {
            rest,
            base,
            path: PathBuf::new(),
        }
    }

    fn list(&mut self) -> Option<FileList> {
        let mut list = FileList::default();
        self.expect("[")?;
        self.skip_lines()?;
        while !self.rest.starts_with(']') {
            let zone = self.entry()?;
            list.push(zone.as_name(), &self.path);
            self.skip_lines()?;
            if self.expect(",").is_none() {
                break;
            }
            self.skip_lines()?;
        }
        self.expect("]")?;
        list.shrink();
        Some(list)
    }

    /// Reads the name of a zone, and its file into the path buffer.
    fn entry(&mut self) -> Option<NameBuf> {
        self.expect("{")?;
        let (key, first) = self.pair()?;
        self.expect(",")?;
        let (other_key, second) = self.pair()?;
        self.expect("}")?;
        let (name, file) = match (key, other_key) {
            ("name", "file") => (first, second),
            ("file", "name") => (second, first),
            _ => return None,
        };
        if file.is_empty() {
            return None;
        }
        self.path.as_mut_os_string().clear();
        self.path.push(self.base);
        self.path.push(file);
        parse_name(name).ok()
    }

    fn pair(&mut self) -> Option<(&'t str, &'t str)> {
        self.skip_blanks();
        let length = self.rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let (key, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.skip_blanks();
        self.expect("=")?;
        self.skip_blanks();
        let quote = self
            .rest
            .chars()
            .next()
            .filter(|quote| ['"', '\''].contains(quote))?;
        let end = memchr(quote as u8, &self.rest.as_bytes()[1..])?;
        let (value, rest) = (&self.rest[1..=end], &self.rest[end + 2..]);
        // An escape, the end of the line, or an invalid character; searched without an early exit, so that it is
        // vectorized.
        let is_plain = |octet: u8| octet != b'\\' && !octet.is_ascii_control();
        if !value.bytes().fold(true, |all, octet| all & is_plain(octet)) {
            return None;
        }
        self.rest = rest;
        self.skip_blanks();
        Some((key, value))
    }

    fn expect(&mut self, what: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(what)?;
        Some(())
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Skips blanks, newlines and comments.
    fn skip_lines(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
            if let Some(rest) = self.rest.strip_prefix("\r\n") {
                self.rest = rest;
            } else if self.rest.starts_with('#') {
                let (comment, rest) = self.rest.split_once('\n')?;
                let comment = comment.strip_suffix('\r').unwrap_or(comment);
                if comment
                    .bytes()
                    .any(|octet| octet != b'\t' && octet.is_ascii_control())
                {
                    return None;
                }
                self.rest = rest;
            } else {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const BASE: &str = "/etc/nameward";

    fn cut(text: &str) -> Option<Shortened> {
        Shortened::shorten(text, Path::new(BASE))
    }

    /// Reads a text with the lists cut out and without; returns whether any was cut out.
    fn same(text: &str) -> bool {
        let whole = Config::parse_tree(text, Path::new(BASE), &[], &[]);
        assert_eq!(Config::parse(text, Path::new(BASE)), whole, "{text}");
        cut(text).is_some()
    }

    #[test]
    fn plain_lists_are_read_separately_with_the_same_configuration() {
        let plain = [
            "[[backend]]\nzones = [{ name = \"a.example\", file = \"a\" }]\n",
            "[[backend]]\nzones=[{name='a',file='b'},{file=\"/c/d\",name=\"e.\"},]\n[server]\nworkers = 3",
            "[[backend]]\n\tzones = [ # all of them\n  {name = \"a\", file = \"b # c\"}, # one\r\n\n]\nwatch = false\n",
            "[[backend]]\nzones = [{ name = \"a\", file = \"b\" }]\n[[backend]]\nzones = [\n]\n[[backend]]\ndirectory = \"zones\"\n",
            "backend = [{ type = \"file\",\nzones = [{ name = \"a\", file = \"b\" }] }]\n",
        ];
        for text in plain {
            assert!(same(text), "{text}");
        }
    }

    #[test]
    fn unusual_or_invalid_text_is_left_to_the_toml_parser() {
        let others = [
            "[[backend]]\nzones = [{ name = \"\\u0061\", file = \"b\" }]\n",
            "[[backend]]\nzones = [{ name = \"a..b\", file = \"b\" }]\n",
            "[[backend]]\nzones = [{ name = \"a\", file = \"\" }]\n",
            "[[backend]]\nzones = [{ name = \"a\", name = \"b\" }]\n",
            "[[backend]]\nzones = [{ name = \"a\", file = \"b\", kind = \"c\" }]\n",
            "[[backend]]\nzones = [{ name = \"a\", file = \"b\" } { name = \"c\", file = \"d\" }]\n",
            "[[backend]]\nzones = [{ name = \"a\", file = \"b\"\n",
            "[[backend]]\nzones = [{ name = \"a\", file = \"b\" } # \u{1}\n]\n",
            "# zones = [{ name = \"a\", file = \"b\" }]\n",
            "[[view]]\nname = \"v\"\nnetworks = [\"::/0\"]\nzones = [{ name = \"a\", file = \"b\" }]\n",
            "view = [{ name = \"v\", networks = [\"::/0\"],\nzones = [{ name = \"a\", file = \"b\" }] }]\n",
            "[server]\nversion = \"\"\"\nzones = [{ name = \"a\", file = \"b\" }]\n\"\"\"\n",
        ];
        for text in others {
            assert!(!same(text), "{text}");
        }
    }

    #[test]
    fn a_misplaced_list_and_errors_after_a_list_are_reported() {
        let list = "zones = [\n{ name = \"a\", file = \"b\" },\n]\n";
        assert!(same(&format!("[server]\n{list}")));
        assert!(same(&format!("[[backend]]\n{list}{list}")));
        assert!(same(&format!(
            "[[backend]]\n{list}[server]\nworkers = \"many\"\n"
        )));
        assert!(same(&format!(
            "[[backend]]\ntype = \"sqlite\"\npath = \"p\"\n{list}"
        )));
        assert!(same(&format!("[[backend]]\n{list}]]\n")));
    }
}
