//! Operations on the comments that databases store with RRsets.

use nameward_base::time::now_seconds;
use nameward_sql::write::{AttributeChange, NewComment, StoredComment};
use serde::{Deserialize, Serialize};

use super::{owner, read_type};
use crate::operations::{
    ItemSink, OperationError, Operations, Outcome, dash_if_empty, list_all, table_row,
};

/// A comment of an RRset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordComment {
    /// The zone.
    pub zone: String,
    /// The owner.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The text; empty removes the comment.
    pub comment: String,
    /// Account of the author.
    #[serde(default)]
    pub account: String,
}

/// A comment that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedComment {
    /// The zone, in the results of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The owner.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The text.
    pub comment: String,
    /// Account of the author.
    pub account: String,
    /// When it was written, in seconds since 1970.
    #[serde(default)]
    pub modified_at: i64,
}

table_row! { ListedComment as item:
    "NAME" = item.name,
    "TYPE" = item.rtype,
    "ACCOUNT" = dash_if_empty(&item.account),
    "COMMENT" = item.comment,
}

impl From<StoredComment> for ListedComment {
    fn from(comment: StoredComment) -> Self {
        ListedComment {
            zone: None,
            name: format!("{}.", comment.name.trim_end_matches('.')),
            rtype: comment.rtype,
            comment: comment.comment,
            account: comment.account,
            modified_at: comment.modified_at,
        }
    }
}

impl Operations {
    /// Sets the comment of an RRset.
    pub fn comment(&self, request: &RecordComment) -> Outcome {
        let (database, row) = self.stored(&request.zone)?;
        let name = owner(&request.name, &row.name)?;
        if !name.as_name().is_at_or_below(row.name.as_name().zone()) {
            let zone = row.name;
            return Err(OperationError::invalid(format!(
                "{name} is outside zone {zone}"
            )));
        }
        let comment = NewComment {
            comment: request.comment.clone(),
            account: request.account.clone(),
            time: now_seconds() as i64,
        };
        let change = AttributeChange::SetComments {
            name: Box::new(name),
            rtype: read_type(&request.rtype)?.to_string(),
            comments: Some(comment)
                .filter(|new| !new.comment.is_empty())
                .into_iter()
                .collect(),
        };
        self.write_attributes(database, &row, &[change])
    }

    /// Lists the comments of a zone.
    pub fn list_comments(&self, zone: &str, items: ItemSink<'_>) -> Outcome {
        let (database, row) = self.stored(zone)?;
        let listing = self.wait(database, database.backend.stored_comments(&row))?;
        list_all(listing.into_iter().map(ListedComment::from), items)
    }
}
