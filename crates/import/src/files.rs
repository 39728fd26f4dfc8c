//! Configuration files: bounded reading, and wildcard patterns in includes.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io,
    io::Read,
    net::IpAddr,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use crate::bind::interfaces;

/// Maximum number of files that one pattern may match.
const MATCHES_MAX: usize = 10_000;

/// The source of configuration text.
pub trait Files {
    /// Returns the bytes of a file, at most `max` of them.
    fn read(&mut self, path: &Path, max: u64) -> io::Result<Vec<u8>>;
    /// Returns the files that match a path with wildcards, sorted.
    fn matching(&mut self, pattern: &Path) -> io::Result<Vec<PathBuf>>;
    /// Returns the addresses of this host with the prefix lengths of their networks, for `localhost` and `localnets`.
    fn interfaces(&mut self) -> io::Result<Vec<(IpAddr, u8)>>;
}

/// The files of this host.
pub struct OnDisk;

impl Files for OnDisk {
    fn read(&mut self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        let (file, metadata) = open_regular(path)?;
        if metadata.len() > max {
            return Err(io::Error::other(format!("larger than {max} octets")));
        }
        let mut text = Vec::with_capacity(metadata.len() as usize);
        file.take(max).read_to_end(&mut text)?;
        Ok(text)
    }

    fn matching(&mut self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for component in pattern.components() {
            let Component::Normal(name) = component else {
                found.iter_mut().for_each(|path| path.push(component));
                continue;
            };
            if !has_wildcards(name.as_bytes()) {
                found.iter_mut().for_each(|path| path.push(name));
                continue;
            }
            let mut next = Vec::new();
            for directory in &found {
                list(directory, name, &mut next)?;
            }
            found = next;
        }
        found.retain(|path| path.exists());
        found.sort();
        Ok(found)
    }

    fn interfaces(&mut self) -> io::Result<Vec<(IpAddr, u8)>> {
        let all = interfaces::addresses()?.into_iter();
        Ok(all.map(|one| (one.address, one.prefix)).collect())
    }
}

/// Opens a regular file. Without O_NONBLOCK, opening a FIFO would wait for its writer.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else if metadata.is_dir() {
        Err(io::Error::other("is a directory"))
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

/// Returns the text of an I/O error without its number.
pub fn reason_of(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().into()
}

fn list(directory: &Path, pattern: &OsStr, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let searched = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let entries = match fs::read_dir(searched) {
        Ok(entries) => entries,
        // A file, or nothing: no match below it.
        Err(_) => return Ok(()),
    };
    for entry in entries {
        let name = entry?.file_name();
        let bytes = name.as_bytes();
        let is_hidden = bytes.first() == Some(&b'.');
        if (!is_hidden || pattern.as_bytes().starts_with(b".")) && fits(pattern.as_bytes(), bytes) {
            if found.len() >= MATCHES_MAX {
                let message = format!("more than {MATCHES_MAX} files");
                return Err(io::Error::other(message));
            }
            found.push(directory.join(name));
        }
    }
    Ok(())
}

pub(crate) fn has_wildcards(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Checks whether a name matches a pattern of `*`, `?`, `[a-z]` and `[!a-z]`; a backslash escapes the next character.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // Where to resume if a star has to match one more octet: one position is enough, because an earlier star never has
    // to match more once a later one is reached.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            None if n == name.len() => return true,
            None => None,
            Some(_) => name.get(n).and_then(|byte| fits_one(&pattern[p..], *byte)),
        };
        match (step, star) {
            (Some(length), _) => (p, n) = (p + length, n + 1),
            (None, Some((after, taken))) if taken < name.len() => {
                star = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
            _ => return false,
        }
    }
}

/// Checks whether an octet matches the first element of a pattern, and returns the length of that element.
fn fits_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', set @ ..] => {
            let is_negated = matches!(set.first(), Some(b'!' | b'^'));
            let from = usize::from(is_negated);
            // A bracket that comes first is literal.
            let end = from + 1 + set.get(from + 1..)?.iter().position(|b| *b == b']')?;
            let mut members = &set[from..end];
            let mut is_member = false;
            while let [first, rest @ ..] = members {
                if let [b'-', last, after @ ..] = rest {
                    is_member |= (*first..=*last).contains(&byte);
                    members = after;
                } else {
                    is_member |= *first == byte;
                    members = rest;
                }
            }
            (is_member != is_negated).then_some(end + 2)
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_those_of_a_shell() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
            ("?", "", false),
            ("??", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[x", "x", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let pattern = "*a".repeat(50);
        assert!(!fits(pattern.as_bytes(), "a".repeat(49).as_bytes()));
        assert!(!fits(pattern.as_bytes(), "b".repeat(4000).as_bytes()));
    }
}
