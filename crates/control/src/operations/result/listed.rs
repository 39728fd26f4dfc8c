//! Items of listings: one table of all kinds, each a row of a table or a line. The columns of a row are beside its type.

use serde::{Deserialize, Serialize};

use super::{
    FoundRecord, ListedChange, ListedDifference, ListedRecord, ListedZone, OperationResult,
};
use crate::operations::{
    ItemSink, ListedApiKey, ListedAudit, ListedAutoprimary, ListedCatalog, ListedComment,
    ListedCookieSecret, ListedDeletedZone, ListedMember, ListedMetadata, ListedNetwork,
    ListedTsigKey, ListedVersion, ListedView, ListedZoneKey, ListedZoneStatus, Outcome,
    SecuredZone, ZoneAttributes,
};

/// The names of a table's columns.
pub type Columns = &'static [&'static str];

/// An item that is listed in a table.
pub(crate) trait TableRow {
    /// The columns.
    const COLUMNS: Columns;

    /// Returns one cell per column.
    fn cells(&self) -> Vec<String>;
}

impl<T: TableRow> TableRow for Box<T> {
    const COLUMNS: Columns = T::COLUMNS;

    fn cells(&self) -> Vec<String> {
        (**self).cells()
    }
}

/// Makes an item the row of a table: each column with its cell.
macro_rules! table_row {
    ($item:ty as $name:ident: $($column:literal = $cell:expr,)+) => {
        impl $crate::operations::result::TableRow for $item {
            const COLUMNS: $crate::operations::Columns = &[$($column),+];

            fn cells(&self) -> Vec<String> {
                let $name = self;
                vec![$($cell.to_string()),+]
            }
        }
    };
}
pub(crate) use table_row;

/// Returns the text of a cell, a dash for none.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Returns the text of a cell, a dash for an empty text.
pub(crate) fn dash_if_empty(text: &str) -> String {
    or_dash(Some(text).filter(|text| !text.is_empty()))
}

macro_rules! listed_items {
    (rows { $($row:ident($row_type:ty),)+ } lines { $($line:ident($line_type:ty),)+ }) => {
        /// An item of a listing.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the types are described")]
        pub enum ListedItem {
            $($row($row_type),)+
            $($line($line_type),)+
        }

        impl ListedItem {
            /// Returns the row of an item; `None` for items that are lines of a zone file or of a report.
            pub fn row(&self) -> Option<(Columns, Vec<String>)> {
                match self {
                    $(ListedItem::$row(item) => Some((<$row_type>::COLUMNS, item.cells())),)+
                    $(ListedItem::$line(_) => None,)+
                }
            }

            /// Writes the item as a JSON object.
            pub fn write_json(&self, out: impl std::io::Write) -> serde_json::Result<()> {
                match self {
                    $(ListedItem::$row(item) => serde_json::to_writer(out, item),)+
                    $(ListedItem::$line(item) => serde_json::to_writer(out, item),)+
                }
            }
        }

        listed_items! { convert: $($row($row_type),)+ $($line($line_type),)+ }
    };
    (convert: $($kind:ident($item:ty),)+) => {
        $(
            impl From<$item> for ListedItem {
                fn from(item: $item) -> Self {
                    ListedItem::$kind(item)
                }
            }

            impl TryFrom<ListedItem> for $item {
                type Error = ListedItem;

                fn try_from(item: ListedItem) -> Result<Self, ListedItem> {
                    match item {
                        ListedItem::$kind(item) => Ok(item),
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

listed_items! {
    rows {
        Zone(ListedZone),
        Attributes(Box<ZoneAttributes>),
        DeletedZone(ListedDeletedZone),
        TsigKey(ListedTsigKey),
        CookieSecret(ListedCookieSecret),
        View(ListedView),
        Network(ListedNetwork),
        ZoneKey(ListedZoneKey),
        Status(ListedZoneStatus),
        Version(ListedVersion),
        Metadata(ListedMetadata),
        Comment(ListedComment),
        Catalog(ListedCatalog),
        Member(ListedMember),
        Autoprimary(ListedAutoprimary),
        Secured(SecuredZone),
        ApiKey(ListedApiKey),
        Audit(Box<ListedAudit>),
    }
    lines {
        Record(ListedRecord),
        Difference(ListedDifference),
        Changed(ListedChange),
        Found(FoundRecord),
    }
}

/// Lists these items, until no more are accepted.
pub(crate) fn list_all<T: Into<ListedItem>>(
    listed: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    items: ItemSink<'_>,
) -> Outcome {
    let mut listed = listed.into_iter();
    let count = listed.len() as u64;
    let _ = listed.all(|item| items(item.into()));
    Ok(OperationResult::Listed { items: count })
}
