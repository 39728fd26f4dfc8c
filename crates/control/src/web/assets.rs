//! Owns the files that the status page and the web administration share.

/// The stylesheet of the status page, on which the web administration builds.
pub const STYLE: &str = include_str!("../../assets/style.css");
/// The icon of the server.
pub const ICON: &str = include_str!("../../assets/icon.svg");
