//! Statements about the server itself, read for a migration: keys, listen addresses, identity, catalogs, the query log,
//! DNSSEC policies.

use std::path::PathBuf;

use super::{
    Spot,
    acl::{self, MatchList},
    dnssec_policy::{self, PolicyStatement},
    syntax::{ConfItem, ConfStatement, Word},
};

/// Addresses to listen on.
pub(super) struct ListenStatement {
    pub spot: Spot,
    pub is_v6: bool,
    pub port: u16,
    /// The `tls` statement that encrypts it.
    pub tls: Option<String>,
    /// The `http` statement, for DNS over HTTPS.
    pub http: Option<String>,
    /// `None` if the list cannot be read.
    pub list: Option<MatchList>,
}

/// A TSIG key as written.
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

#[derive(Default)]
pub(super) struct TlsStatement {
    pub name: String,
    pub certificate: Option<String>,
    pub key: Option<String>,
    pub authorities: Option<String>,
    pub hostname: Option<String>,
    /// Whether `protocols` admits TLS 1.2.
    pub has_tls_1_2: bool,
}

pub(super) struct HttpStatement {
    pub name: String,
    pub paths: Vec<String>,
}

/// A zone in `catalog-zones`, and the servers from which its members are transferred, if configured.
pub(super) struct CatalogStatement {
    pub spot: Spot,
    pub zone: String,
    pub primaries: Option<Vec<String>>,
}

/// The channel of the category `queries`: a file, or another log.
pub(super) struct QueryChannel {
    pub spot: Spot,
    pub file: Option<String>,
}

/// A statement with one keyword and its value.
pub(super) type WordStatement = (Spot, String, String);

#[derive(Default)]
pub(super) struct ServerStatements {
    pub keys: Vec<KeyStatement>,
    pub tls: Vec<TlsStatement>,
    pub http: Vec<HttpStatement>,
    pub listen: Vec<ListenStatement>,
    /// `version`, `server-id` and similar statements, with their values.
    pub words: Vec<WordStatement>,
    /// Policies by which BIND signs.
    pub policies: Vec<PolicyStatement>,
    /// Catalog zones that BIND consumes.
    pub catalogs: Vec<CatalogStatement>,
    /// Where `logging` sends queries.
    pub query_log: Option<QueryChannel>,
    /// The base directory of relative paths.
    pub directory: PathBuf,
    /// Every statement outside zones, as worded in the report.
    pub seen: Vec<(Spot, String)>,
}

impl std::fmt::Debug for ServerStatements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

/// Options that consist of a keyword and a value.
const WORDS: &[&str] = &[
    "version",
    "server-id",
    "hostname",
    "port",
    "recursion",
    "max-udp-size",
    "tcp-clients",
    "minimal-any",
    "querylog",
];

impl ServerStatements {
    /// Reads a statement outside all blocks; returns whether it is one of these.
    pub(super) fn see_top(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        file: usize,
    ) -> bool {
        if keyword.is("dnssec-policy") {
            let policy = dnssec_policy::read(keyword, statement, file);
            let is_one = policy.is_some();
            self.policies.extend(policy);
            return is_one;
        }
        if keyword.is("tls") {
            self.tls.extend(read_tls(statement));
            return false;
        }
        if keyword.is("http") {
            self.http.extend(read_http(statement));
            return false;
        }
        if keyword.is("logging") {
            // The rest of it has its own line.
            self.see_logging(keyword, statement, file);
            return false;
        }
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
            let found = block.iter().find(|statement| statement.is(key))?;
            Some(found.value("a value").ok()?.string())
        };
        let (Some(algorithm), Some(secret)) = (value("algorithm"), value("secret")) else {
            return false;
        };
        self.keys.push(KeyStatement {
            spot: (file, keyword.location),
            name: name.string(),
            algorithm,
            secret,
        });
        true
    }

    /// Reads a statement of `options`; returns whether it is one of these.
    pub(super) fn see_option(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        file: usize,
    ) -> bool {
        let spot = (file, keyword.location);
        if keyword.is_one_of(&["listen-on", "listen-on-v6"]) {
            self.see_listen(keyword, statement, spot);
            return true;
        }
        if keyword.is("catalog-zones") {
            self.see_catalogs(statement, file);
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

    /// Reads `catalog-zones { zone NAME [default-primaries { ... }] ...; };`.
    fn see_catalogs(&mut self, statement: &ConfStatement<'_>, file: usize) {
        let Ok((_, block)) = statement.words_and_block() else {
            return;
        };
        for inner in block {
            let (Some(keyword), [_, ConfItem::Word(zone), rest @ ..]) =
                (inner.keyword(), inner.items())
            else {
                continue;
            };
            let mut rest = rest.iter();
            let is_primaries = |item: &&ConfItem<'_>| match item {
                ConfItem::Word(word) => word.is_one_of(&["default-primaries", "default-masters"]),
                ConfItem::Block(..) => false,
            };
            let has_primaries = rest.by_ref().any(|item| is_primaries(&item));
            let addresses = rest.find_map(|item| match item {
                ConfItem::Block(_, list) => Some(list),
                ConfItem::Word(_) => None,
            });
            let address = |statement: &ConfStatement<'_>| Some(statement.keyword()?.string());
            self.catalogs.push(CatalogStatement {
                spot: (file, keyword.location),
                zone: zone.string(),
                primaries: has_primaries.then(|| {
                    let addresses = addresses.into_iter().flatten();
                    addresses.filter_map(address).collect()
                }),
            });
        }
    }

    /// Finds the channel of the category `queries` in `logging { ... };`.
    fn see_logging(&mut self, keyword: &Word<'_>, statement: &ConfStatement<'_>, file: usize) {
        let Ok((_, block)) = statement.words_and_block() else {
            return;
        };
        let named = |kind: &str, name: &str| {
            block.iter().find_map(|inner| match inner.items() {
                [
                    ConfItem::Word(word),
                    ConfItem::Word(found),
                    ConfItem::Block(_, list),
                ] if word.is(kind) && found.is(name) => Some(list),
                _ => None,
            })
        };
        let Some(channels) = named("category", "queries") else {
            return;
        };
        let channels: Vec<String> = channels
            .iter()
            .filter_map(|channel| Some(channel.keyword()?.string()))
            .filter(|channel| channel != "null")
            .collect();
        if channels.is_empty() {
            return;
        }
        let path = |channel: &String| {
            let list = named("channel", channel)?;
            match list.iter().find(|inner| inner.is("file"))?.items().get(1)? {
                ConfItem::Word(path) => Some(path.string()),
                ConfItem::Block(..) => None,
            }
        };
        self.query_log = Some(QueryChannel {
            spot: (file, keyword.location),
            file: channels.iter().find_map(path),
        });
    }

    /// Reads `listen-on [port N] [tls NAME] [http NAME] { ... };`.
    fn see_listen(&mut self, keyword: &Word<'_>, statement: &ConfStatement<'_>, spot: Spot) {
        let words = statement.words_and_block();
        let (mut port, mut tls, mut http, mut list) = (0, None, None, None);
        if let Ok((words, block)) = words {
            let is_known = words.chunks(2).all(|pair| match pair {
                [word, number] if word.is("port") => {
                    port = number.string().parse().unwrap_or(0);
                    port != 0
                }
                [word, name] if word.is("tls") => {
                    tls = Some(name.string()).filter(|name| name != "none");
                    true
                }
                [word, name] if word.is("http") => {
                    http = Some(name.string());
                    true
                }
                _ => false,
            });
            list = if is_known {
                acl::match_list(statement.location(), block, spot.0).ok()
            } else {
                None
            };
        }
        self.listen.push(ListenStatement {
            spot,
            is_v6: keyword.is("listen-on-v6"),
            port,
            tls,
            http,
            list,
        });
    }
}

/// Reads `tls NAME { ... };`.
fn read_tls(statement: &ConfStatement<'_>) -> Option<TlsStatement> {
    let (words, block) = statement.words_and_block().ok()?;
    let mut tls = TlsStatement {
        name: words.first()?.string(),
        ..TlsStatement::default()
    };
    for inner in block {
        let Some(keyword) = inner.keyword() else {
            continue;
        };
        let value = || inner.value("a value").ok().map(Word::string);
        match keyword.string().to_ascii_lowercase().as_str() {
            "cert-file" => tls.certificate = value(),
            "key-file" => tls.key = value(),
            "ca-file" => tls.authorities = value(),
            "remote-hostname" => tls.hostname = value(),
            "protocols" => {
                let versions = values_in_block(inner);
                tls.has_tls_1_2 = versions
                    .iter()
                    .any(|version| version.eq_ignore_ascii_case("TLSv1.2"));
            }
            _ => {}
        }
    }
    Some(tls)
}

/// Reads `http NAME { endpoints { "PATH"; ... }; ... };`.
fn read_http(statement: &ConfStatement<'_>) -> Option<HttpStatement> {
    let (words, block) = statement.words_and_block().ok()?;
    let endpoints = block.iter().find(|inner| inner.is("endpoints"));
    Some(HttpStatement {
        name: words.first()?.string(),
        paths: endpoints.map(values_in_block).unwrap_or_default(),
    })
}

/// Returns the values in `KEYWORD { VALUE; ... };`.
fn values_in_block(statement: &ConfStatement<'_>) -> Vec<String> {
    let block = statement.words_and_block().ok();
    let values = block.into_iter().flat_map(|(_, block)| block);
    values
        .filter_map(|value| Some(value.keyword()?.string()))
        .collect()
}
