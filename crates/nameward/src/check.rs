//! Owns `nameward check`: the configuration and every zone, read as the server would.

use std::process::ExitCode;

use arc_swap::ArcSwap;
use nameward_store::file::{Event, FileBackend, zone_from_text};
use nameward_wire::{Name, NameBuf, zonefile::Diagnostic};
use nameward_zone::ZoneTable;

use crate::{
    config::{Config, Overrides},
    db, example, privileges,
    serve::counted,
    terminal, zones,
};

/// Reads everything, prints a line for each thing that is wrong, and ends with a sum.
pub fn run(overrides: &Overrides) -> Result<ExitCode, String> {
    let config = Config::load(overrides).map_err(|error| error.to_string())?;
    let sources = zones::sources(&config)?;
    privileges::find(&config.server.user, &config.server.group)?;
    let (mut good, mut errors, mut warnings) = (0, 0, 0);
    if config.example {
        example_zone()
            .map_err(|found| found.iter().map(ToString::to_string).collect::<String>())?;
        good += 1;
    }
    let table = ArcSwap::from_pointee(ZoneTable::default());
    let print = |diagnostics: &[Diagnostic]| {
        for diagnostic in diagnostics {
            println!("{}", terminal::line(diagnostic));
        }
    };
    let summary = FileBackend::new().load(&table, &sources, &mut |event| match event {
        Event::Served(_, _, diagnostics) => {
            warnings += diagnostics.len();
            print(diagnostics);
        }
        Event::Refused(_, diagnostics, _) => {
            errors += 1;
            print(diagnostics);
        }
        Event::Trouble(text) | Event::Note(text) => println!("{}", terminal::line(text)),
        Event::Removed(_) | Event::Contested(..) | Event::Progress(..) | Event::Known => {}
    });
    good += summary.loaded;
    errors += summary.troubles + db::check_all(&config)?;
    let (good, warned) = (counted(good, "zone"), counted(warnings, "warning"));
    println!("{good} good, {} with errors, {warned}", summary.refused);
    Ok(match errors {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The zone of the built-in example.
pub fn example_zone() -> Result<nameward_zone::Zone, Vec<Diagnostic>> {
    let name = NameBuf::from_text(example::NAME.as_bytes(), Name::ROOT)
        .expect("the example's name is a name");
    zone_from_text(name.as_name(), example::LABEL, example::TEXT.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_example_is_a_zone_without_errors() {
        if let Err(found) = example_zone() {
            panic!("{found:?}");
        }
    }
}
