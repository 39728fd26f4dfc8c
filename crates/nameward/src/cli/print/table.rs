//! Tables: the alignment of their columns.
//!
//! Tables are for people, so they are printed to terminals. A pipe or file gets one line per item without a header,
//! with one space between columns, and programs are better off with `--json`.

use std::io::{self, Write};

use nameward_control::operations::Columns;

use crate::terminal;

/// Number of rows used to compute the widths before the first is printed; later rows may not align.
const ROWS_AT_ONCE: usize = 1000;
/// Maximum width of an aligned column.
const WIDTH_MAX: usize = 60;

/// A table being built.
#[derive(Default)]
pub struct Table {
    header: Columns,
    rows: Vec<Vec<String>>,
    /// The widths of columns, once the header is printed.
    widths: Vec<usize>,
}

impl Table {
    /// Adds a row; prints rows when there are many.
    pub fn add(
        &mut self,
        (header, row): (Columns, Vec<String>),
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Columns = &["NAME", "VALUE"];

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
    fn columns_are_aligned_with_their_header_and_control_characters_are_escaped() {
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
