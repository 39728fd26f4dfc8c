//! The rows of a zone that a change needs: those of the names it touches, of their ancestors, and of all names below
//! delegations that are added or removed.

use super::super::dialect::{SqlEngine, int, octets};
use super::super::row::{Cells, name_text, read_content, read_name, read_ttl, read_type};
use super::content::{Columns, keeps_text, write_content};
use super::derive::{CanonicalName, Derived, ServedTypes, key};
use super::session::{Failure, Session, Value};
use nameward_wire::{Name, NameBuf, Type};
use std::collections::{HashMap, HashSet};

/// Names requested per statement.
const NAMES_AT_ONCE: usize = 200;

/// A row of `records`, stored or to be stored.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// `None` for a new row.
    pub(super) id: Option<i64>,
    pub(super) name: CanonicalName,
    pub(super) what: What,
    pub(super) ttl: u32,
    pub(super) disabled: bool,
    /// The content column of strings, which have several text forms; `None` for the form of [`super::content`].
    pub(super) text: Option<Box<str>>,
    /// As stored; none for a new row.
    pub(super) derived: Option<Derived>,
    pub(super) is_deleted: bool,
    /// Its own columns differ from the stored ones.
    pub(super) is_changed: bool,
    /// Its derived columns differ from the stored ones.
    pub(super) is_rederived: bool,
}

/// The meaning of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// The name is an empty non-terminal.
    Empty,
    Record(Type, Vec<u8>),
    /// Something that cannot be served, or whose content was not requested.
    Other(Option<Type>),
}

impl Row {
    /// Creates a row to be stored.
    pub(super) fn new(name: CanonicalName, what: What, ttl: u32) -> Self {
        Row {
            id: None,
            name,
            what,
            ttl,
            disabled: false,
            text: None,
            derived: None,
            is_deleted: false,
            is_changed: true,
            is_rederived: false,
        }
    }

    pub(super) fn columns(&self) -> Option<Columns> {
        let What::Record(rtype, rdata) = &self.what else {
            return None;
        };
        let mut columns = write_content(*rtype, rdata);
        if let Some(text) = &self.text {
            columns.content = text.to_string();
        }
        Some(columns)
    }

    pub(super) fn rtype(&self) -> Option<Type> {
        match self.what {
            What::Record(rtype, _) => Some(rtype),
            What::Other(rtype) => rtype,
            What::Empty => None,
        }
    }

    /// Checks whether it counts as existing at its name.
    pub(super) fn is_served(&self) -> bool {
        !self.is_deleted && !self.disabled && self.what != What::Empty
    }
}

/// Whether the content of rows is fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Whole,
    TypesOnly,
}

fn columns(engine: SqlEngine, depth: Depth) -> String {
    let int = |column: &str| int(engine, column);
    let bool = |column: &str| match engine {
        SqlEngine::Postgres => format!("CAST(CAST({column} AS INT) AS BIGINT)"),
        _ => int(column),
    };
    let text = |column: &str| octets(engine, column);
    let content = match depth {
        Depth::Whole => "content",
        Depth::TypesOnly => "NULL",
    };
    [
        int("id"),
        text("name"),
        text("type"),
        int("ttl"),
        int("prio"),
        text(content),
        bool("disabled"),
        text("ordername"),
        bool("auth"),
    ]
    .join(", ")
}

fn read(cells: &dyn Cells) -> Option<Row> {
    let mut name = NameBuf::root();
    read_name(cells.text(1).unwrap_or_default(), &mut name).ok()?;
    let what = match cells.text(2).filter(|text| !text.is_empty()) {
        None => What::Empty,
        Some(text) => match (read_type(text), cells.text(5)) {
            (Ok(rtype), Some(content)) => {
                let mut rdata = Vec::new();
                match read_content(rtype, cells.int(4), content, &mut rdata) {
                    Ok(()) => What::Record(rtype, rdata),
                    Err(_) => What::Other(Some(rtype)),
                }
            }
            (rtype, _) => What::Other(rtype.ok()),
        },
    };
    let text = match (&what, cells.text(5)) {
        (What::Record(rtype, _), Some(text)) if keeps_text(*rtype) => {
            std::str::from_utf8(text).ok().map(Into::into)
        }
        _ => None,
    };
    let ordername = cells.string(7);
    Some(Row {
        id: cells.int(0),
        // A row that is neither is not served at all.
        disabled: cells.int(6) != Some(0),
        text,
        derived: cells.int(8).map(|auth| Derived {
            auth: auth != 0,
            ordername,
        }),
        is_changed: false,
        ..Row::new(key(name.as_name()), what, read_ttl(cells.int(3)))
    })
}

/// Returns the text of a name as stored.
pub(super) fn text_of(name: &[u8]) -> String {
    name_text(Name::from_wire(name).unwrap_or(Name::ROOT))
}

/// Rows that were read, each once.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) zone: i64,
    pub(super) list: Vec<Row>,
    at: HashMap<CanonicalName, Vec<usize>>,
    ids: HashSet<i64>,
}

impl Rows {
    pub(super) fn new(zone: i64) -> Self {
        Rows {
            zone,
            ..Rows::default()
        }
    }

    pub(super) fn push(&mut self, row: Row) {
        if row.id.is_some_and(|id| !self.ids.insert(id)) {
            return;
        }
        let place = self.list.len();
        self.at.entry(row.name.clone()).or_default().push(place);
        self.list.push(row);
    }

    /// Returns the indexes of the rows at a name.
    pub(super) fn places(&self, name: &[u8]) -> Vec<usize> {
        self.at.get(name).cloned().unwrap_or_default()
    }

    /// Returns the rows at a name that are not deleted.
    pub(super) fn at(&self, name: &[u8]) -> impl Iterator<Item = &Row> {
        let places = self.at.get(name).map_or(&[][..], Vec::as_slice);
        let rows = places.iter().map(|&place| &self.list[place]);
        rows.filter(|row| !row.is_deleted)
    }

    /// Returns the facts about each name, as far as it was read.
    pub(super) fn facts(&self) -> HashMap<CanonicalName, ServedTypes> {
        let mut facts: HashMap<CanonicalName, ServedTypes> = HashMap::new();
        for row in self.list.iter().filter(|row| row.is_served()) {
            match facts.get_mut(&row.name) {
                Some(known) => known.add(row.rtype()),
                None => facts.entry(row.name.clone()).or_default().add(row.rtype()),
            }
        }
        facts
    }

    pub(super) async fn load_names(
        &mut self,
        session: &mut Session,
        names: &[CanonicalName],
    ) -> Result<(), Failure> {
        let columns = columns(session.engine(), Depth::Whole);
        for chunk in names.chunks(NAMES_AT_ONCE) {
            let texts: Vec<String> = chunk.iter().map(|name| text_of(name)).collect();
            let mut values = vec![Value::Int(self.zone)];
            values.extend(texts.iter().map(|text| Value::Text(text)));
            let places = vec!["?"; texts.len()].join(", ");
            let sql =
                format!("SELECT {columns} FROM records WHERE domain_id = ? AND name IN ({places})");
            self.take(session, &sql, &values).await?;
        }
        Ok(())
    }

    /// Reads rows of names below `name`, all or up to a limit; returns their number.
    pub(super) async fn load_below(
        &mut self,
        session: &mut Session,
        name: &[u8],
        limit: Option<usize>,
    ) -> Result<usize, Failure> {
        let engine = session.engine();
        let columns = columns(engine, Depth::TypesOnly);
        let suffix = match text_of(name) {
            root if root == "." => root,
            text => format!(".{text}"),
        };
        let length = suffix.len();
        // Not LIKE: names contain its special characters, and SQLite's ignores case.
        let is_below = match engine {
            _ if name == [0] => "name <> ?".to_owned(),
            SqlEngine::Sqlite => format!("substr(name, -{length}) = ?"),
            _ => format!("RIGHT(name, {length}) = ?"),
        };
        let limit = limit.map_or_else(String::new, |limit| format!(" LIMIT {limit}"));
        let sql =
            format!("SELECT {columns} FROM records WHERE domain_id = ? AND {is_below}{limit}");
        let values = [Value::Int(self.zone), Value::Text(&suffix)];
        self.take(session, &sql, &values).await
    }

    async fn take(
        &mut self,
        session: &mut Session,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<usize, Failure> {
        let mut count = 0;
        session
            .rows(sql, values, &mut |cells| {
                count += 1;
                if let Some(row) = read(cells) {
                    self.push(row);
                }
            })
            .await?;
        Ok(count)
    }
}
