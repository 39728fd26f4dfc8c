//! Reads arguments of functions.

use std::net::IpAddr;

use mlua::Table;

use super::budget;

/// Reads an address.
pub(super) fn address(text: &str) -> mlua::Result<IpAddr> {
    text.parse()
        .map_err(|_| mlua::Error::runtime(format!("invalid address {text:?}")))
}

/// Reads a list of texts; numbers are converted.
pub(super) fn texts(list: &Table) -> mlua::Result<Vec<String>> {
    let length = list.raw_len();
    budget::charge(length)?;
    (1..=length).map(|at| list.raw_get::<String>(at)).collect()
}
