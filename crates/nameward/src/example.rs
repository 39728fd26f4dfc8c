//! The built-in example: a zone that demonstrates what the server can do, for the first minute with
//! it.

/// The zone's name.
pub const NAME: &str = "demo.example";
/// A query worth trying first.
pub const QUESTION: &str = "www.demo.example A";
/// The zone's text.
pub const TEXT: &str = include_str!("example.zone");
/// The file name in messages.
pub const LABEL: &str = "built-in/demo.example.zone";
