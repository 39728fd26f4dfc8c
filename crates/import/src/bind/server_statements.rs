//! Statements about the server itself, read for a move: keys, addresses to listen on, what it says of itself.

use super::{
    Spot,
    acl::{self, MatchList},
    syntax::{ConfItem, ConfStatement, Word},
};

/// Addresses to listen on.
pub(super) struct ListenStatement {
    pub spot: Spot,
    pub is_v6: bool,
    pub port: u16,
    /// `None` where the list cannot be read.
    pub list: Option<MatchList>,
}

/// A key as it is written.
pub(super) struct KeyStatement {
    pub spot: Spot,
    pub name: String,
    pub algorithm: String,
    pub secret: String,
}

impl std::fmt::Debug for KeyStatement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "key {}", self.name)
    }
}

/// A statement of one word and its value.
pub(super) type WordStatement = (Spot, String, String);

/// The statements.
#[derive(Default)]
pub(super) struct ServerStatements {
    pub keys: Vec<KeyStatement>,
    pub listen: Vec<ListenStatement>,
    /// `version`, `server-id` and the like, with their values.
    pub words: Vec<WordStatement>,
    /// Every statement outside of zones, in its words of the report.
    pub seen: Vec<(Spot, String)>,
}

impl std::fmt::Debug for ServerStatements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

/// Options that are a word and a value.
const WORDS: &[&str] = &[
    "version",
    "server-id",
    "hostname",
    "port",
    "recursion",
    "max-udp-size",
    "tcp-clients",
    "minimal-any",
];

impl ServerStatements {
    /// Reads a statement outside of all blocks; whether it was one of these.
    pub(super) fn see_top(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        file: usize,
    ) -> bool {
        if !keyword.is("key") {
            return false;
        }
        let Ok((words, block)) = statement.words_and_block() else {
            return false;
        };
        let Some(name) = words.first() else {
            return false;
        };
        let value = |key: &str| {
            let mut found = block.iter().filter(|statement| {
                let keyword = statement.keyword();
                keyword.is_some_and(|keyword| keyword.is(key))
            });
            let word = found.next()?.value("a value").ok()?;
            Some(word.string())
        };
        let (Some(algorithm), Some(secret)) = (value("algorithm"), value("secret")) else {
            return false;
        };
        self.keys.push(KeyStatement {
            spot: (file, keyword.place),
            name: name.string(),
            algorithm,
            secret,
        });
        true
    }

    /// Reads a statement of `options`; whether it was one of these.
    pub(super) fn see_option(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        file: usize,
    ) -> bool {
        let spot = (file, keyword.place);
        if keyword.is_one_of(&["listen-on", "listen-on-v6"]) {
            self.see_listen(keyword, statement, spot);
            return true;
        }
        if !keyword.is_one_of(WORDS) {
            return false;
        }
        match statement.items().get(1) {
            Some(ConfItem::Word(value)) => {
                let word = keyword.string().to_ascii_lowercase();
                self.words.push((spot, word, value.string()));
                true
            }
            _ => false,
        }
    }

    /// Reads `listen-on [port N] { ... };`. With `tls` or `http` it cannot be kept.
    fn see_listen(&mut self, keyword: &Word<'_>, statement: &ConfStatement<'_>, spot: Spot) {
        let words = statement.words_and_block();
        let (mut port, mut list) = (0, None);
        if let Ok((words, block)) = words {
            let is_plain = match words[..] {
                [] => true,
                [word, number] if word.is("port") => {
                    port = number.string().parse().unwrap_or(0);
                    port != 0
                }
                _ => false,
            };
            list = match is_plain {
                true => acl::read_block(statement.place(), block, spot.0).ok(),
                false => None,
            };
        }
        self.listen.push(ListenStatement {
            spot,
            is_v6: keyword.is("listen-on-v6"),
            port,
            list,
        });
    }
}
