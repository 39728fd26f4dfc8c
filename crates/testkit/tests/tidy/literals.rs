//! String literals of Rust source, found without a parser: comments, characters and raw strings are distinguished.

use crate::sources::SourceFile;

/// A string literal.
pub struct Literal {
    /// The byte of the source that it starts at.
    pub start: usize,
    /// Its text as written, lines that continue joined.
    pub text: String,
}

/// Returns the string literals of a file, without those of its unit tests.
pub fn literals(file: &SourceFile) -> Vec<Literal> {
    let tests = file.text.find("\n#[cfg(test)]\nmod tests {");
    let source = &file.text[..tests.unwrap_or(file.text.len())];
    let (bytes, mut at, mut found) = (source.as_bytes(), 0, Vec::new());
    while at < bytes.len() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some((open, close)) = raw_quotes(source, at) {
            let end = rest[open..].find(&close).unwrap_or(rest.len() - open);
            found.push(Literal {
                start: at,
                text: rest[open..open + end].to_string(),
            });
            at += open + end + close.len();
        } else if bytes[at] == b'"' {
            let end = closing_quote(bytes, at + 1);
            found.push(Literal {
                start: at,
                text: joined(&source[at + 1..end]),
            });
            at = end + 1;
        } else if bytes[at] == b'\'' {
            at += character_length(rest);
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// Returns the length of the opening of a raw string and its closing, if one starts here.
fn raw_quotes(source: &str, at: usize) -> Option<(usize, String)> {
    let before = source[..at].chars().next_back();
    let is_inside_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let rest = source[at..].strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let is_raw = !is_inside_word && rest[hashes..].starts_with('"');
    is_raw.then(|| (hashes + 2, format!("\"{}", "#".repeat(hashes))))
}

fn closing_quote(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len().saturating_sub(1))
}

/// Returns how many bytes a character literal has; 1 for the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            let after = escaped + 1;
            rest.get(after..)
                .and_then(|tail| tail.find('\''))
                .map_or(1, |end| after + end + 1)
        }
        (Some(_), Some((quote, '\''))) => quote + 1,
        _ => 1,
    }
}

/// Joins lines that end in a backslash.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let mut whole = lines.next().unwrap_or_default().to_string();
    for line in lines {
        whole.push_str(line.trim_start());
    }
    whole
}
