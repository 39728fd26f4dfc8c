//! `$ORIGIN`, `$TTL` (RFC 2308 section 4) and `$INCLUDE` (RFC 1035 section 5.1).

use std::path::{Path, PathBuf};

use nameward_base::sandbox;

use super::Sink;
use super::entry::{name_error, ttl_of};
use super::parser::{Parser, Step, step};
use super::source::{BlockEnd, BlockReader};
use crate::name::{NameBuf, unescape};
use crate::text::{Fields, TextError, Token};

/// Maximum nesting depth of included files.
const MAX_INCLUDE_DEPTH: usize = 16;

/// Maximum number of includes in total: a bound for files that include others twice, which include
/// others twice. It also keeps file numbers below 2^15.
const MAX_INCLUDES: u32 = 10_000;

impl<S: Sink + ?Sized> Parser<'_, S> {
    /// Reads an entry that starts with `$`.
    #[cold]
    pub(super) fn directive(
        &mut self,
        fields: &mut Fields<'_>,
        end: BlockEnd,
    ) -> Result<Step, TextError> {
        let word = fields.expect("a directive")?;
        if word.text.eq_ignore_ascii_case(b"$ORIGIN") {
            let origin = self.name(fields, "the origin")?;
            fields.expect_end()?;
            if step(fields, end) == Step::Done {
                self.origin = origin;
                self.owner_text = None;
            }
        } else if word.text.eq_ignore_ascii_case(b"$TTL") {
            let word = fields.expect("a TTL")?;
            let ttl = ttl_of(&word)?;
            fields.expect_end()?;
            if step(fields, end) == Step::Done {
                self.default_ttl = Some(self.limit_ttl(ttl, &word));
            }
        } else if word.text.eq_ignore_ascii_case(b"$INCLUDE") {
            let path = fields.expect("the path of a file")?;
            let origin = match fields.next()? {
                Some(token) => Some(self.name_of(&token, "the origin of the file")?),
                None => None,
            };
            fields.expect_end()?;
            if step(fields, end) == Step::Done {
                self.include(&path, origin)?;
            }
        } else if word.text.eq_ignore_ascii_case(b"$GENERATE") {
            return self.generate(fields, &word, end);
        } else {
            return Err(word.error("$ORIGIN, $TTL, $INCLUDE or $GENERATE"));
        }
        Ok(step(fields, end))
    }

    fn name(&self, fields: &mut Fields<'_>, what: &str) -> Result<NameBuf, TextError> {
        let token = fields.expect(what)?;
        self.name_of(&token, what)
    }

    fn name_of(&self, token: &Token<'_>, what: &str) -> Result<NameBuf, TextError> {
        NameBuf::from_text(token.text, self.origin.as_name())
            .map_err(|error| name_error(token, what, error))
    }

    /// Reads another file in place of the directive, then continues with the origin and owner of
    /// this one.
    fn include(&mut self, token: &Token<'_>, origin: Option<NameBuf>) -> Result<(), TextError> {
        let path = self.include_path(token)?;
        self.includes += 1;
        if self.includes > MAX_INCLUDES {
            return Err(token.error(&format!("at most {MAX_INCLUDES} files to include")));
        }
        if self.open.len() > MAX_INCLUDE_DEPTH {
            let limit = format!("files to include each other at most {MAX_INCLUDE_DEPTH} deep");
            return Err(token.error(&limit));
        }
        if self.is_open(&path) {
            return Err(token.error("a file that does not include itself"));
        }
        let source = BlockReader::open(&path).map_err(|error| {
            let mut result = token.error("a file that can be read");
            let note = sandbox::explain(&path, &error);
            result.message += &format!(": {}: {error}{note}", path.display());
            result
        })?;

        self.text_octets = self.text_octets.saturating_add(source.size());
        let before = (self.origin, self.last_owner, self.file);
        let owner_before = self.owner;
        self.origin = origin.unwrap_or(self.origin);
        self.file = self.register(path);
        self.open.push(self.file);
        self.parse_source(source);
        self.open.pop();
        (self.origin, self.last_owner, self.file) = before;
        self.owner = owner_before;
        self.owner_text = None;
        self.owner_delivered = false;
        Ok(())
    }

    /// Returns the path given by a word: escapes decoded, relative to the file that contains it.
    fn include_path(&self, token: &Token<'_>) -> Result<PathBuf, TextError> {
        let mut bytes = Vec::with_capacity(token.text.len());
        let mut rest = token.text;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = behind;
            if byte == b'\\' {
                let (value, used) = unescape(rest).ok_or_else(|| token.error("a path"))?;
                bytes.push(value);
                rest = &rest[used..];
            } else {
                bytes.push(byte);
            }
        }
        let path = path_of(bytes).ok_or_else(|| token.error("a path"))?;
        let from = self.path(self.file);
        let base = match &self.options.include_base {
            Some(base) if self.open.len() == 1 => base.as_path(),
            None if self.is_text => {
                return Err(token.error("no $INCLUDE in text that is not in a file"));
            }
            _ => from.parent().unwrap_or(Path::new("")),
        };
        Ok(base.join(path))
    }

    fn is_open(&self, path: &Path) -> bool {
        let real = path.canonicalize();
        self.open.iter().any(|&file| {
            let known = self.path(file);
            known == path
                || real
                    .as_ref()
                    .is_ok_and(|real| known.canonicalize().is_ok_and(|known| known == *real))
        })
    }
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    (!bytes.contains(&0)).then(|| std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}
