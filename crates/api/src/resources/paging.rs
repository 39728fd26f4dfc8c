//! Owns paging, filtering and sorting of lists: `limit`, `offset`, `after`, `sort` and `q`. Without these parameters a list is
//! exactly that of PowerDNS.

use std::cmp::Ordering;

use crate::request::ApiRequest;
use crate::response::{ApiError, ApiResult};

use super::search;

/// The requested page.
pub struct ListPage<'r> {
    limit: Option<usize>,
    offset: usize,
    after: Option<&'r str>,
    sort: Option<(&'r str, bool)>,
    pattern: Option<String>,
}

/// A field that a list can be sorted by: its name, and the order of two items.
pub type SortField<T> = (&'static str, fn(&T, &T) -> Ordering);

impl<'r> ListPage<'r> {
    /// Reads the parameters of a request.
    pub fn read(request: &'r ApiRequest) -> ApiResult<Self> {
        let number = |name: &str| request.number(name, "number");
        let sort = request
            .text("sort")
            .map(|field| match field.strip_prefix('-') {
                Some(field) => (field, true),
                None => (field, false),
            });
        Ok(ListPage {
            limit: number("limit")?.map(|limit| limit as usize),
            offset: number("offset")?.unwrap_or(0) as usize,
            after: request.text("after"),
            sort,
            pattern: request.text("q").map(search::pattern_of),
        })
    }

    /// Checks whether the client requests anything but the whole list.
    pub fn is_whole(&self) -> bool {
        self.limit.is_none()
            && self.offset == 0
            && self.after.is_none()
            && self.sort.is_none()
            && self.pattern.is_none()
    }

    /// Filters, sorts and cuts a list; returns how many items there are on all pages.
    pub fn apply<T>(
        &self,
        list: &mut Vec<T>,
        name: impl Fn(&T) -> &str,
        fields: &[SortField<T>],
    ) -> ApiResult<usize> {
        if let Some(pattern) = &self.pattern {
            list.retain(|item| search::matches(pattern, name(item)));
        }
        if let Some((field, is_descending)) = self.sort {
            let mut known = fields.iter();
            let Some((_, order)) = known.find(|(known, _)| *known == field) else {
                let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                return Err(ApiError::invalid(format!(
                    "'sort' query parameter '{field}' is not supported: expected {}, or one of these after a '-'",
                    names.join(", ")
                )));
            };
            if is_descending {
                list.sort_by(|a, b| order(b, a))
            } else {
                list.sort_by(order)
            }
        }
        let total = list.len();
        let mut start = self.offset;
        if let Some(after) = self.after {
            let at = list
                .iter()
                .rposition(|item| name(item).eq_ignore_ascii_case(after));
            let at = at.ok_or_else(|| {
                ApiError::invalid(format!(
                    "'after' query parameter: '{after}' is not in the list"
                ))
            })?;
            start += at + 1;
        }
        list.drain(..start.min(total));
        list.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(total)
    }
}
