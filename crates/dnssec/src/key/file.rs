//! The BIND key file format: `Kexample.org.+013+58482.key` with the DNSKEY, and `.private` with the private key and its
//! timing metadata.
//!
//! Text in, text out: the caller is responsible for paths and file modes.

use super::private::KeyFields;
use super::{KeyError, KeyUse, PrivateKey, SigningKey};
use data_encoding::BASE64;
use nameward_base::calendar::UtcTime;
use nameward_base::secret::Secret;
use nameward_wire::{Name, NameBuf, NameError};

/// More than any DNSKEY needs.
const MAX_PUBLIC_TEXT: usize = 16 * 1024;

/// The timing metadata of a key, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyTimes {
    /// When it was generated.
    pub created: Option<u64>,
    /// When it is published in the zone.
    pub publish: Option<u64>,
    /// When it starts signing.
    pub activate: Option<u64>,
    /// When it stops signing.
    pub inactive: Option<u64>,
    /// When it is removed from the zone.
    pub delete: Option<u64>,
    /// When CDS and CDNSKEY for it are published.
    pub sync_publish: Option<u64>,
    /// When CDS and CDNSKEY for it are removed.
    pub sync_delete: Option<u64>,
}

impl KeyTimes {
    /// Returns the tasks of a key with these flags at a time. A key without timing metadata, as from `ldns-keygen`, is
    /// used at once; one that only has a creation time is for later, as in BIND.
    pub fn usage(&self, flags: u16, now: u64) -> KeyUse {
        let is_timed = *self != KeyTimes::default();
        let is_within = |begin: Option<u64>, end: Option<u64>| {
            let has_begun = begin.map_or(!is_timed, |begin| begin <= now);
            has_begun && end.is_none_or(|end| end > now)
        };
        let is_published = is_within(self.publish, self.delete);
        let is_active = is_within(self.activate, self.inactive) && is_published;
        let is_entry_point = flags & super::ENTRY_POINT != 0;
        KeyUse {
            asks_ds: is_entry_point && is_within(self.sync_publish, self.sync_delete),
            ..KeyUse::by_flags(flags, is_active, is_published)
        }
    }

    /// Sets the times so that a key with these flags performs the given tasks from now on.
    pub fn set_usage(&mut self, flags: u16, wanted: KeyUse, now: u64) {
        let before = self.usage(flags, now);
        if *self == KeyTimes::default() {
            (self.created, self.publish, self.activate) = (Some(now), Some(now), Some(now));
            self.sync_publish = before.asks_ds.then_some(now);
        }
        let change = |was, is, begin: &mut Option<u64>, end: &mut Option<u64>| match (was, is) {
            (false, true) => (*begin, *end) = (Some(now), None),
            (true, false) => *end = Some(now),
            _ => {}
        };
        let (was, is) = (before.published, wanted.published);
        change(was, is, &mut self.publish, &mut self.delete);
        let (was, is) = (before.is_active(), wanted.is_active());
        change(was, is, &mut self.activate, &mut self.inactive);
        let (was, is) = (before.asks_ds, wanted.asks_ds);
        change(was, is, &mut self.sync_publish, &mut self.sync_delete);
    }

    /// Returns the next time at which the tasks of the key change.
    pub fn next_after(mut self, now: u64) -> Option<u64> {
        let times = self.named().into_iter().filter_map(|(_, time)| *time);
        times.filter(|time| *time > now).min()
    }

    /// Returns the times with their names in a file, in order.
    fn named(&mut self) -> [(&'static str, &mut Option<u64>); 7] {
        [
            ("Created", &mut self.created),
            ("Publish", &mut self.publish),
            ("Activate", &mut self.activate),
            ("Inactive", &mut self.inactive),
            ("Delete", &mut self.delete),
            ("SyncPublish", &mut self.sync_publish),
            ("SyncDelete", &mut self.sync_delete),
        ]
    }

    /// Returns a line for each time, after a prefix.
    fn text(mut self, prefix: &str) -> String {
        let lines = self.named().into_iter().filter_map(|(name, time)| {
            let time = UtcTime::from_unix((*time)?).digits();
            Some(format!("{prefix}{name}: {time}\n"))
        });
        lines.collect()
    }

    fn read(fields: &KeyFields<'_>) -> Result<Self, KeyFileError> {
        let mut times = KeyTimes::default();
        for (name, time) in times.named() {
            *time = match fields.value(name) {
                // BIND writes 0 or UNSET for none.
                None | Some("0" | "UNSET") => None,
                Some(text) => Some(parse_time(text).ok_or(KeyFileError::Time(name))?),
            };
        }
        Ok(times)
    }
}

/// Parses `YYYYMMDDHHMMSS`; more words may follow.
fn parse_time(text: &str) -> Option<u64> {
    let text = text.split_ascii_whitespace().next()?;
    UtcTime::from_digits(text.as_bytes())?.to_unix()
}

/// The reason why two texts are not a key of a zone. No message quotes the private one.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The private key is unusable.
    #[error("{0}")]
    Key(#[from] KeyError),
    #[error("invalid time after {0}: expected YYYYMMDDHHMMSS")]
    Time(&'static str),
    #[error("missing DNSKEY record")]
    NoRecord,
    #[error("invalid zone name {0:?}: {1}")]
    Owner(String, NameError),
    #[error("the .key and .private files are of different keys: key tags {public} and {private}")]
    Mismatch { public: u16, private: u16 },
}

/// A key of a zone as two texts.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    pub owner: NameBuf,
    pub flags: u16,
    pub private: PrivateKey,
    pub times: KeyTimes,
}

impl KeyFile {
    /// Parses a `.key` text and a `.private` text, which must be from the same key.
    pub fn read(public: &[u8], private: &[u8]) -> Result<Self, KeyFileError> {
        let (owner, dnskey) = read_public(public)?;
        let flags = u16::from_be_bytes([dnskey[0], dnskey[1]]);
        let file = KeyFile {
            owner,
            flags,
            private: PrivateKey::from_text(private)?,
            times: KeyTimes::read(&KeyFields::read(private)?)?,
        };
        let key = file.key(KeyUse::UNUSED)?;
        if key.dnskey() == &dnskey[..] {
            Ok(file)
        } else {
            Err(KeyFileError::Mismatch {
                public: super::key_tag(&dnskey),
                private: key.tag(),
            })
        }
    }

    /// Creates the key with the given tasks.
    pub fn key(&self, usage: KeyUse) -> Result<SigningKey, KeyError> {
        SigningKey::new(&self.private, self.flags, usage)
    }

    /// Returns the name of both files without extension.
    pub fn stem(&self) -> Result<String, KeyError> {
        let key = self.key(KeyUse::UNUSED)?;
        let owner = file_owner(self.owner.as_name());
        let (algorithm, tag) = (key.algorithm(), key.tag());
        Ok(format!("K{owner}+{algorithm:03}+{tag:05}"))
    }

    /// Returns the `.key` text.
    pub fn public_text(&self) -> Result<String, KeyError> {
        let key = self.key(KeyUse::UNUSED)?;
        let kind = if key.is_entry_point() {
            "key-signing"
        } else {
            "zone-signing"
        };
        let (owner, tag) = (absolute(self.owner.as_name()), key.tag());
        let mut text = format!("; This is a {kind} key, keyid {tag}, for {owner}\n");
        text.push_str(&self.times.text("; "));
        let (flags, algorithm) = (self.flags, key.algorithm());
        let public = BASE64.encode(&key.dnskey()[4..]);
        text.push_str(&format!(
            "{owner} IN DNSKEY {flags} 3 {algorithm} {public}\n"
        ));
        Ok(text)
    }

    /// Returns the `.private` text.
    pub fn private_text(&self) -> Secret<String> {
        let key = self.private.to_text();
        Secret::new([key.reveal(), &self.times.text("")[..]].concat())
    }
}

/// Returns the zone name as used in key file names: in lower case, with the final dot, and with octets other than
/// letters, digits, hyphens and underscores as `%2F`.
pub fn file_owner(zone: Name<'_>) -> String {
    let mut text = String::new();
    let mut rest = zone.as_wire();
    while let Some((&length, after)) = rest.split_first() {
        let (label, after) = after.split_at(usize::from(length).min(after.len()));
        for octet in label.to_ascii_lowercase() {
            match octet {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(octet.into()),
                other => text.push_str(&format!("%{other:02X}")),
            }
        }
        if length > 0 || text.is_empty() {
            text.push('.');
        }
        rest = after;
    }
    text
}

/// Returns the name with the final dot.
fn absolute(name: Name<'_>) -> String {
    let text = name.to_string();
    if text.ends_with('.') {
        text
    } else {
        format!("{text}.")
    }
}

/// Reads the owner and the DNSKEY data from a `.key` text.
fn read_public(text: &[u8]) -> Result<(NameBuf, Vec<u8>), KeyFileError> {
    if text.len() > MAX_PUBLIC_TEXT {
        return Err(KeyError::TooLong(text.len()).into());
    }
    let text = std::str::from_utf8(text).map_err(|_| KeyError::NotText)?;
    let lines = text
        .lines()
        .map(|line| line.split(';').next().unwrap_or(""));
    let mut records = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let owner = words.next()?;
        // TTL and class may precede the type.
        words.find(|word| word.eq_ignore_ascii_case("DNSKEY"))?;
        let number = words.next()?.parse::<u16>().ok()?;
        let (protocol, algorithm) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let public = BASE64.decode(words.collect::<String>().as_bytes()).ok()?;
        let head = [(number >> 8) as u8, number as u8, protocol, algorithm];
        Some((owner, [&head[..], &public].concat()))
    });
    let (owner, dnskey) = records.next().ok_or(KeyFileError::NoRecord)?;
    let name = NameBuf::from_text(owner.as_bytes(), Name::ROOT);
    let mut name = name.map_err(|error| KeyFileError::Owner(owner.into(), error))?;
    name.make_lowercase();
    Ok((name, dnskey))
}
