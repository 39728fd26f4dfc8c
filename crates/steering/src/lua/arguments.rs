//! Reads arguments of functions.

use mlua::Table;

use super::budget;

/// Reads a list of texts; numbers are converted.
pub(super) fn texts(list: &Table) -> mlua::Result<Vec<String>> {
    let length = list.raw_len();
    budget::charge(length)?;
    (1..=length).map(|at| list.raw_get::<String>(at)).collect()
}
