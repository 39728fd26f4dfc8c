//! The built-in example: a zone that demonstrates what the server can do, for the first minute with
//! it.

use nameward_files::zone_from_text;
use nameward_wire::{Name, NameBuf, zonefile::Diagnostic};
use nameward_zone::Zone;

/// The zone's name.
pub const NAME: &str = "demo.example";
/// A query worth trying first.
pub const QUESTION: &str = "www.demo.example A";
pub const TEXT: &str = include_str!("example.zone");
/// The file name in messages.
pub const LABEL: &str = "built-in/demo.example.zone";

pub fn zone() -> Result<Zone, Vec<Diagnostic>> {
    let name =
        NameBuf::from_text(NAME.as_bytes(), Name::ROOT).expect("the example's name is a name");
    zone_from_text(name.as_name(), LABEL, TEXT.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_example_is_a_zone_without_errors() {
        if let Err(found) = zone() {
            panic!("{found:?}");
        }
    }
}
