//! Items of listings as rows of tables. Each item type has its columns beside it.

use crate::operations::ListedItem;

/// The names of a table's columns.
pub type Columns = &'static [&'static str];

/// An item that is listed in a table.
pub trait TableRow {
    /// The columns.
    const COLUMNS: Columns;

    /// Returns one cell per column.
    fn cells(&self) -> Vec<String>;
}

/// Returns the text of a cell, a dash for none.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Returns the text of a cell, a dash for an empty text.
pub(crate) fn dash_if_empty(text: &str) -> String {
    or_dash(Some(text).filter(|text| !text.is_empty()))
}

fn row<T: TableRow>(item: &T) -> Option<(Columns, Vec<String>)> {
    Some((T::COLUMNS, item.cells()))
}

impl ListedItem {
    /// Returns the row of an item; `None` for items that are lines of a zone file or of a report.
    pub fn row(&self) -> Option<(Columns, Vec<String>)> {
        match self {
            ListedItem::Zone(zone) => row(zone),
            ListedItem::Attributes(zone) => row(&**zone),
            ListedItem::DeletedZone(zone) => row(zone),
            ListedItem::TsigKey(key) => row(key),
            ListedItem::CookieSecret(secret) => row(secret),
            ListedItem::View(view) => row(view),
            ListedItem::Network(network) => row(network),
            ListedItem::ZoneKey(key) => row(key),
            ListedItem::Status(status) => row(status),
            ListedItem::Metadata(item) => row(item),
            ListedItem::Comment(comment) => row(comment),
            ListedItem::Catalog(catalog) => row(catalog),
            ListedItem::Member(member) => row(member),
            ListedItem::Autoprimary(one) => row(one),
            ListedItem::Secured(zone) => row(zone),
            ListedItem::Audit(entry) => row(&**entry),
            ListedItem::ApiKey(key) => row(key),
            ListedItem::Version(version) => row(version),
            ListedItem::Found(_)
            | ListedItem::Record(_)
            | ListedItem::Difference(_)
            | ListedItem::Changed(_) => None,
        }
    }

    /// Writes the item as a JSON object.
    pub fn write_json(&self, out: impl std::io::Write) -> serde_json::Result<()> {
        match self {
            ListedItem::Zone(zone) => serde_json::to_writer(out, zone),
            ListedItem::Attributes(zone) => serde_json::to_writer(out, zone),
            ListedItem::DeletedZone(zone) => serde_json::to_writer(out, zone),
            ListedItem::Record(record) => serde_json::to_writer(out, record),
            ListedItem::TsigKey(key) => serde_json::to_writer(out, key),
            ListedItem::CookieSecret(secret) => serde_json::to_writer(out, secret),
            ListedItem::View(view) => serde_json::to_writer(out, view),
            ListedItem::Network(network) => serde_json::to_writer(out, network),
            ListedItem::ZoneKey(key) => serde_json::to_writer(out, key),
            ListedItem::Status(status) => serde_json::to_writer(out, status),
            ListedItem::Difference(record) => serde_json::to_writer(out, record),
            ListedItem::Changed(change) => serde_json::to_writer(out, change),
            ListedItem::Version(version) => serde_json::to_writer(out, version),
            ListedItem::Metadata(item) => serde_json::to_writer(out, item),
            ListedItem::Comment(comment) => serde_json::to_writer(out, comment),
            ListedItem::Found(found) => serde_json::to_writer(out, found),
            ListedItem::Catalog(catalog) => serde_json::to_writer(out, catalog),
            ListedItem::Member(member) => serde_json::to_writer(out, member),
            ListedItem::Autoprimary(one) => serde_json::to_writer(out, one),
            ListedItem::Secured(zone) => serde_json::to_writer(out, zone),
            ListedItem::ApiKey(key) => serde_json::to_writer(out, key),
            ListedItem::Audit(entry) => serde_json::to_writer(out, entry),
        }
    }
}
