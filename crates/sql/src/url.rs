//! Database URLs: engine and location, and how to show them without the password.

use super::error::SqlError;
use core::fmt;
use nameward_base::secret::Secret;
use std::ops::Range;
use std::path::PathBuf;

/// The location of a database.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseAddress {
    /// A file: a path, `sqlite:PATH` or `sqlite://PATH`.
    Sqlite(PathBuf),
    /// `postgres://user:password@host:port/database`, `?host=/directory` for a socket.
    Postgres(Secret<String>),
    /// `mysql://user:password@host:port/database`, `?socket=/path` for a socket.
    Mysql(Secret<String>),
}

impl DatabaseAddress {
    /// Parses an address.
    pub fn parse(text: &str) -> Result<Self, SqlError> {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        match scheme {
            "postgres" | "postgresql" => Ok(DatabaseAddress::Postgres(text.to_owned().into())),
            "mysql" | "mariadb" => Ok(DatabaseAddress::Mysql(
                ["mysql", &text[scheme.len()..]].concat().into(),
            )),
            "sqlite" | "sqlite3" => {
                let path = &text[scheme.len() + 1..];
                Ok(DatabaseAddress::Sqlite(
                    path.strip_prefix("//").unwrap_or(path).into(),
                ))
            }
            _ if text.contains("://") => Err(SqlError::Address(format!(
                "expected postgres://, mysql:// or sqlite:, found {scheme}://"
            ))),
            _ if text.is_empty() => {
                Err(SqlError::Address("expected a database, found none".into()))
            }
            _ => Ok(DatabaseAddress::Sqlite(text.into())),
        }
    }
}

/// Returns the octets of a URL that list its hosts.
pub(crate) fn hosts_in(url: &str) -> Option<Range<usize>> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?', '#']);
    let end = end.map_or(url.len(), |end| start + end);
    let user = url[start..end].rfind('@').map_or(0, |at| at + 1);
    Some(start + user..end)
}

/// Joins addresses of one database on several servers into one that lists them all.
pub fn join_urls(urls: &[&str]) -> Result<String, SqlError> {
    let [first, others @ ..] = urls else {
        return Ok(String::new());
    };
    if others.is_empty() {
        return Ok((*first).to_owned());
    }
    let mut hosts = Vec::with_capacity(urls.len());
    let mut around = None;
    for url in urls {
        let expected =
            || SqlError::Address("expected addresses such as postgres://user@host/database".into());
        let at = hosts_in(url).filter(|at| !at.is_empty());
        let at = at.ok_or_else(expected)?;
        hosts.push(&url[at.clone()]);
        let parts = (&url[..at.start], &url[at.end..]);
        if *around.get_or_insert(parts) != parts {
            let text = "the addresses of one database may differ only in host and port";
            return Err(SqlError::Address(text.into()));
        }
    }
    let (before, after) = around.unwrap_or_default();
    Ok(format!("{before}{}{after}", hosts.join(",")))
}

impl DatabaseAddress {
    /// Returns its engine, as in the configuration.
    pub fn engine(&self) -> &'static str {
        match self {
            DatabaseAddress::Sqlite(_) => "sqlite",
            DatabaseAddress::Postgres(_) => "postgres",
            DatabaseAddress::Mysql(_) => "mysql",
        }
    }
}

/// The address without possible secrets: user information and options.
impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseAddress::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            DatabaseAddress::Postgres(url) | DatabaseAddress::Mysql(url) => {
                let (scheme, rest) = url.reveal().split_once("://").unwrap_or(("", ""));
                let rest = rest.split(['?', '#']).next().unwrap_or("");
                // A password may contain anything, so everything up to the last @ is removed.
                let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
                write!(f, "{scheme}://{place}")
            }
        }
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        for url in [
            "postgres://me:s3cr@t@db.example/pdns?password=s3cr@t",
            "mysql://me:s3cr@t@db.example:3306/pdns",
            "mariadb://me:s3cr@t@db.example:3306/pdns",
        ] {
            let address = DatabaseAddress::parse(url).unwrap();
            for shown in [format!("{address}"), format!("{address:?}")] {
                assert!(!shown.contains("s3cr"), "{shown}");
                assert!(shown.contains("db.example"), "{shown}");
            }
        }
    }

    #[test]
    fn addresses_of_one_database_become_one_list_of_hosts() {
        let joined = join_urls(&["postgres://u:p@a:1/d?x=1", "postgres://u:p@b/d?x=1"]);
        assert_eq!(joined.unwrap(), "postgres://u:p@a:1,b/d?x=1");
        assert_eq!(join_urls(&["mysql://a/d"]).unwrap(), "mysql://a/d");
        assert_eq!(
            join_urls(&["mysql://a/d", "mysql://[::1]:2/d"]).unwrap(),
            "mysql://a,[::1]:2/d"
        );
        for other in [
            "postgres://v@b/d",
            "postgres://u@b/e",
            "mysql://u@b/d",
            "/file",
            "postgres://u@/d",
        ] {
            let error = join_urls(&["postgres://u@a/d", other]).unwrap_err();
            assert!(!error.to_string().contains("u@"), "{error}");
        }
    }

    #[test]
    fn the_scheme_names_the_engine() {
        let file = DatabaseAddress::Sqlite("/a/b.db".into());
        assert_eq!(DatabaseAddress::parse("/a/b.db").unwrap(), file);
        assert_eq!(DatabaseAddress::parse("sqlite:/a/b.db").unwrap(), file);
        assert_eq!(DatabaseAddress::parse("sqlite:///a/b.db").unwrap(), file);
        assert!(DatabaseAddress::parse("oracle://x/y").is_err());
        assert!(DatabaseAddress::parse("").is_err());
    }
}
