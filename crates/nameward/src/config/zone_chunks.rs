//! Reads `[[zone]]` tables in chunks of the text: there may be a hundred thousand.
//!
//! A tree of TOML values takes sixty times the memory of its text. So the tables are cut out of the text and read in
//! chunks, by all processors, and no tree is kept. Anything that is not plain, or invalid, is left to the parser of
//! the whole text: there is a single source of error messages and positions.

use nameward_base::{secret::Secret, sync::Mutex};
use std::{
    collections::HashSet,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use memchr::memmem;
use toml::de::DeTable;

use super::{
    Config, ConfigReader, setting::ConfigTable, settings::ZoneSettings, zone_tables::distinct_name,
};

/// Size of a chunk in octets, not counting the end of its last table.
const PIECE: usize = 64 << 10;
/// Maximum number of reading threads: each has its own tree.
const THREADS_MAX: usize = 8;
/// The line that starts a zone table.
const HEADER: &str = "[[zone]]";

/// A configuration without its zone tables.
pub(super) struct ZonePieces<'t> {
    /// The text without them.
    pub(super) rest: Secret<String>,
    /// The tables, several per chunk.
    pub(super) pieces: Vec<&'t str>,
}

impl<'t> ZonePieces<'t> {
    /// Cuts the zone tables out of a text. `None` if there are few of them, or if lines alone do not show where they
    /// start.
    ///
    /// Without multi-line strings, a line with `[[zone]]` starts a table wherever the text is valid: brackets with a
    /// bare word in them are not a value. A chunk that ends within a value is not valid text, and a table that
    /// belongs to a zone (`[zone.x]`) leaves its key in the rest.
    pub(super) fn split(text: &'t str) -> Option<Self> {
        // A long text may also be a list of files, without any of this.
        let has = |what: &str| memmem::find(text.as_bytes(), what.as_bytes()).is_some();
        if text.len() < 2 * PIECE || !has(HEADER) || has("\"\"\"") || has("'''") {
            return None;
        }
        let mut cut = ZonePieces {
            rest: Secret::new(String::with_capacity(text.len())),
            pieces: Vec::new(),
        };
        // The start of the current chunk, or of the text between chunks.
        let (mut start, mut at, mut is_piece) = (0, 0, false);
        for line in text.split_inclusive('\n') {
            let word = line.trim_start_matches([' ', '\t']);
            if word.starts_with('[') {
                let is_zone = word.trim_end() == HEADER;
                if is_zone != is_piece || is_zone && at - start >= PIECE {
                    cut.push(text.get(start..at)?, is_piece);
                    (start, is_piece) = (at, is_zone);
                }
            }
            at += line.len();
        }
        cut.push(text.get(start..)?, is_piece);
        (!cut.pieces.is_empty()).then_some(cut)
    }

    fn push(&mut self, part: &'t str, is_piece: bool) {
        if is_piece {
            self.pieces.push(part)
        } else {
            self.rest.reveal_mut().push_str(part)
        }
    }
}

/// Reads zone tables, after everything that zones refer to. `None` if any of them is invalid.
pub(super) fn read_zones(
    config: &Config,
    base: &Path,
    pieces: &[&str],
) -> Option<Vec<ZoneSettings>> {
    let next = AtomicUsize::new(0);
    let read: Mutex<Vec<Option<Vec<ZoneSettings>>>> = Mutex::new(vec![None; pieces.len()]);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(index) else {
                return;
            };
            let Some(zones) = read_piece(config, base, piece) else {
                // The other threads need not continue.
                return next.store(pieces.len(), Ordering::Relaxed);
            };
            let mut read = read.lock();
            read[index] = Some(zones);
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let helpers = processors.min(THREADS_MAX).min(pieces.len()) - 1;
    thread::scope(|scope| {
        for _ in 0..helpers {
            // Without another thread this one reads everything.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let read = read.into_inner();
    let count = read.iter().flatten().map(Vec::len).sum();
    let mut zones: Vec<ZoneSettings> = Vec::with_capacity(count);
    for piece in read {
        zones.append(&mut piece?);
    }
    let mut names = HashSet::with_capacity(zones.len());
    let is_new = |zone: &ZoneSettings| names.insert(distinct_name(zone));
    zones.iter().all(is_new).then_some(zones)
}

fn read_piece(config: &Config, base: &Path, text: &str) -> Option<Vec<ZoneSettings>> {
    let table = DeTable::parse(text).ok()?;
    let table = table.get_ref();
    let [(key, value)] = table.iter().collect::<Vec<_>>()[..] else {
        return None;
    };
    if key.get_ref() != ZoneSettings::NAME {
        return None;
    }
    let mut reader = ConfigReader {
        text,
        base,
        lists: &[],
        problems: Vec::new(),
    };
    let mut zones = Vec::new();
    reader.zones(config, &mut zones, value);
    reader.known_keys(config, table);
    reader.known_policies(config, table);
    zones.shrink_to_fit();
    reader.problems.is_empty().then_some(zones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const BASE: &str = "/etc/nameward";

    /// Builds a text with many zone tables, and others before, among and after them.
    fn many(among: &str) -> String {
        let mut text = String::from("[server]\nstate_directory = \"state\"\n\n");
        for number in 0..6000 {
            let _ = write!(
                text,
                "[[zone]] \t\r\nname = \"z{number}.example\"\nkind = \"secondary\"\nprimaries = [\n  {{ address = \"192.0.2.1\" }},\n]\n"
            );
            if number == 4000 {
                text.push_str(among);
            }
        }
        text + "[web]\nlisten = \"127.0.0.1:1\"\n"
    }

    /// Reads a text in chunks and as a whole; returns whether the chunks could be used.
    fn same(text: &str) -> bool {
        let base = Path::new(BASE);
        let whole = Config::parse_tree(text, base, &[], &[]);
        assert_eq!(
            Config::parse(text, base),
            whole,
            "{:?}",
            whole.as_ref().err()
        );
        let cut = ZonePieces::split(text);
        cut.is_some_and(|cut| Config::parse_tree(cut.rest.reveal(), base, &[], &cut.pieces).is_ok())
    }

    #[test]
    fn zone_tables_read_in_chunks_give_the_same_configuration() {
        let text = many("[cache]\nnegative_ttl = 7\n# [[zone]]\n");
        assert!(ZonePieces::split(&text).is_some_and(|cut| cut.pieces.len() > 4));
        assert!(same(&text));
        assert!(same(&many(
            "[[zone]]\nname = \"more.example\"\nfile = \"[[zone]]\"\n"
        )));
        assert!(ZonePieces::split("[[zone]]\nname = \"few.example\"\n").is_none());
    }

    #[test]
    fn unusual_or_invalid_tables_are_left_to_the_toml_parser() {
        for among in [
            "[[zone]] # with a comment\nname = \"a.example\"\nfile = \"a\"\n",
            "[[\"zone\"]]\nname = \"a.example\"\nfile = \"a\"\n",
            "[[zone]]\nname = \"a.example\"\nfile = \"a\"\n[[zone.update_policy]]\n",
            "[zone]\nname = \"a.example\"\n",
            "[[zone]]\nname = \"Z7.example\"\nfile = \"twice\"\n",
            "[[zone]]\nname = \"a.example\"\ntemplate = \"none\"\n",
            "[[zone]]\nname = \"a.example\"\nalso_notify = [\n[[zone]]\n]\n",
            "[[zone]]\nname = \"a.example\"\nnonsense = 1\n",
            "[[zone]]\nname = \"\"\"\n[[zone]]\n\"\"\"\n",
            "[[zone]]\nfile = \"a\"\n",
            "[server]\n",
        ] {
            assert!(!same(&many(among)), "{among}");
        }
    }
}
