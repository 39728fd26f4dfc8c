//! Tables: the columns of each kind of item, and their alignment.
//!
//! Tables are for people, so they are printed to terminals. A pipe or file gets one line per item without a header,
//! with one space between columns, and programs are better off with `--json`.

use std::io::{self, Write};

use nameward_control::operations::{ListedItem, ListedVersion};

use super::{change, zone_key, zone_status};
use crate::{serve::moment, terminal};

/// Number of rows used to compute the widths before the first is printed; later rows may not align.
const ROWS_AT_ONCE: usize = 1000;
/// Maximum width of an aligned column.
const WIDTH_MAX: usize = 60;

/// The columns of one kind of item.
pub type Header = &'static [&'static str];

/// A table being built.
#[derive(Default)]
pub struct Table {
    header: Header,
    rows: Vec<Vec<String>>,
    /// The widths of columns, once the header is printed.
    widths: Vec<usize>,
}

impl Table {
    /// Adds a row; prints rows when there are many.
    pub fn add(
        &mut self,
        (header, row): (Header, Vec<String>),
        out: &mut impl Write,
    ) -> io::Result<()> {
        if self.header != header {
            self.print(out)?;
            (self.header, self.widths) = (header, Vec::new());
        }
        // Control characters are escaped, and count with their escaped width.
        let shown = row.iter().map(|cell| terminal::line(cell).to_string());
        self.rows.push(shown.collect());
        if self.rows.len() < ROWS_AT_ONCE {
            Ok(())
        } else {
            self.print(out)
        }
    }

    /// Prints the pending rows, below their header.
    pub fn print(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        if self.widths.is_empty() {
            let header = self.header.iter().map(|name| (*name).to_owned());
            self.rows.insert(0, header.collect());
            self.widths = widths(&self.rows);
        }
        for row in self.rows.drain(..) {
            writeln!(out, "{}", aligned(&row, &self.widths))?;
        }
        Ok(())
    }
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max();
        widest.unwrap_or(0).min(WIDTH_MAX)
    };
    (0..columns).map(width).collect()
}

/// Formats a row with at least two spaces between its columns, and none after the last.
fn aligned(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        line.push_str(&format!("{cell:<width$}  "));
    }
    line.truncate(line.trim_end().len());
    line
}

/// Returns the row of an item; `None` for items that are lines of a zone file or of a report.
pub fn row_of(item: &ListedItem) -> Option<(Header, Vec<String>)> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    Some(match item {
        ListedItem::Zone(zone) => (
            &["ZONE", "KIND", "BACKEND", "SERIAL", "STATE", "SIGNING"],
            vec![
                zone.name.clone(),
                zone.kind.name().into(),
                zone.backend.to_string(),
                or_none(zone.serial.map(|serial| serial.to_string())),
                zone.state.replace(' ', "-"),
                zone.signing.replace(' ', "-"),
            ],
        ),
        ListedItem::Attributes(zone) => (
            &["ZONE", "KIND", "BACKEND", "SERIAL", "ACCOUNT", "CATALOG"],
            vec![
                zone.name.clone(),
                zone.kind.name().into(),
                zone.backend.to_string(),
                zone.edited_serial.to_string(),
                zone.account.clone(),
                zone.catalog.clone(),
            ],
        ),
        ListedItem::DeletedZone(zone) => (
            &[
                "ZONE",
                "KIND",
                "BACKEND",
                "SERIAL",
                "RECORDS",
                "DELETED",
                "KEPT UNTIL",
            ],
            vec![
                zone.name.clone(),
                zone.kind.clone(),
                zone.backend.to_string(),
                or_none(zone.serial.map(|serial| serial.to_string())),
                zone.records.to_string(),
                moment(zone.deleted),
                moment(zone.kept_until),
            ],
        ),
        ListedItem::TsigKey(key) => {
            let secret = key.secret.as_ref().map(|secret| secret.0.clone());
            (
                &["NAME", "ALGORITHM", "SOURCE", "SECRET"],
                vec![
                    key.name.clone(),
                    key.algorithm.clone(),
                    key.source.clone(),
                    or_none(secret),
                ],
            )
        }
        ListedItem::ZoneKey(key) => (
            &["ZONE", "KEY", "TAG", "ROLE", "ALGORITHM", "USE"],
            vec![
                key.zone.clone(),
                key.key.to_string(),
                key.tag.to_string(),
                key.role.clone(),
                key.algorithm.clone(),
                zone_key::usage(key),
            ],
        ),
        ListedItem::Status(status) => (
            &["ZONE", "KIND", "STATE", "SERIAL", "DETAILS"],
            vec![
                status.name.clone(),
                status.kind.clone(),
                status.state.clone(),
                or_none(status.serial.map(|serial| serial.to_string())),
                zone_status::details(status),
            ],
        ),
        ListedItem::Metadata(item) => (
            &["KIND", "CONTENT"],
            vec![item.kind.clone(), item.content.clone()],
        ),
        ListedItem::Comment(comment) => (
            &["NAME", "TYPE", "ACCOUNT", "COMMENT"],
            vec![
                comment.name.clone(),
                comment.rtype.clone(),
                or_none(Some(comment.account.clone()).filter(|account| !account.is_empty())),
                comment.comment.clone(),
            ],
        ),
        ListedItem::Catalog(catalog) => (
            &["CATALOG", "KIND", "SOURCE", "SERIAL", "MEMBERS", "PROBLEM"],
            vec![
                catalog.name.clone(),
                catalog.kind.clone(),
                catalog.source.clone(),
                or_none(catalog.serial.map(|serial| serial.to_string())),
                or_none(catalog.members.map(|members| members.to_string())),
                or_none(catalog.problem.clone()),
            ],
        ),
        ListedItem::Member(member) => (
            &["ZONE", "LABEL", "GROUPS", "MOVES TO", "SERVED"],
            vec![
                member.zone.clone(),
                member.label.clone(),
                or_none(Some(member.groups.join(",")).filter(|groups| !groups.is_empty())),
                or_none(member.moves_to.clone()),
                if member.served { "yes" } else { "no" }.into(),
            ],
        ),
        ListedItem::Autoprimary(one) => (
            &["ADDRESS", "NAME SERVER", "ACCOUNT", "SOURCE", "KEY"],
            vec![
                one.address.clone(),
                one.name_server.clone(),
                or_none(Some(one.account.clone()).filter(|account| !account.is_empty())),
                one.source.clone(),
                or_none(one.key.clone()),
            ],
        ),
        ListedItem::Secured(one) => (
            &["ZONE", "KEY TAG", "PROBLEM"],
            vec![
                one.zone.clone(),
                or_none(one.tag.map(|tag| tag.to_string())),
                or_none(one.problem.clone()),
            ],
        ),
        ListedItem::Audit(entry) => (
            &[
                "TIME",
                "WHO",
                "OPERATION",
                "ZONE",
                "SERIAL",
                "OUTCOME",
                "DETAIL",
            ],
            vec![
                moment(entry.time),
                entry.who.clone(),
                entry.operation.clone(),
                or_none(entry.zone.clone()),
                or_none(entry.serial.map(|serial| serial.to_string())),
                match &entry.error {
                    None => "done".into(),
                    Some(error) => format!("failed: {error}"),
                },
                entry.detail.clone(),
            ],
        ),
        ListedItem::ApiKey(key) => (
            &["ID", "ZONES", "RIGHTS", "CREATED", "EXPIRES", "DESCRIPTION"],
            vec![
                key.id.clone(),
                if key.zones.is_empty() {
                    "all".into()
                } else {
                    key.zones.join(",")
                },
                if key.read_only { "read" } else { "change" }.into(),
                moment(key.created),
                key.expires.map_or_else(|| "never".into(), moment),
                key.description.clone(),
            ],
        ),
        ListedItem::Version(version) => (change::VERSION_HEADER, version_row(version)),
        ListedItem::Found(_)
        | ListedItem::Record(_)
        | ListedItem::Difference(_)
        | ListedItem::Changed(_) => return None,
    })
}

fn version_row(version: &ListedVersion) -> Vec<String> {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    vec![
        version.serial.to_string(),
        version.before.to_string(),
        moment(version.time),
        version.removed.to_string(),
        version.added.to_string(),
        version.origin.clone(),
        or_none(&version.who),
        or_none(&version.message),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = &["NAME", "VALUE"];

    fn printed(rows: &[(&str, &str)]) -> String {
        let (mut table, mut out) = (Table::default(), Vec::new());
        for (name, value) in rows {
            let row = vec![(*name).to_owned(), (*value).to_owned()];
            table.add((HEADER, row), &mut out).unwrap();
        }
        table.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_stand_below_their_header_and_nothing_is_obeyed() {
        assert_eq!(printed(&[]), "");
        assert_eq!(
            printed(&[("a", "1"), ("longer", "2\x1b[2J")]),
            "NAME    VALUE\na       1\nlonger  2\\027[2J\n"
        );
        let wide = "x".repeat(100);
        let text = printed(&[("a", "1"), (&wide, "2")]);
        assert!(text.starts_with(&format!("NAME{}  VALUE\n", " ".repeat(56))));
        assert!(text.ends_with(&format!("{wide}  2\n")));
    }

    #[test]
    fn a_long_table_has_one_header() {
        let rows = vec![("a", "1"); 3 * ROWS_AT_ONCE + 1];
        let text = printed(&rows);
        assert_eq!(text.lines().count(), rows.len() + 1);
        assert_eq!(text.matches("NAME").count(), 1);
    }
}
