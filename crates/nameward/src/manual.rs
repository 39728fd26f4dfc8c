//! The manual pages: one for the whole program, one for each command, and nameward.toml(5).

use std::{fs, io::Write, path::Path};

use clap::Command;
use clap_mangen::Man;

use crate::{
    command_error::{CommandError, CommandResult},
    config,
};

/// Renders the page of the program and then of each command, from the definition of the command
/// line.
pub fn whole(mut command: Command) -> CommandResult<Vec<u8>> {
    let mut out = Vec::new();
    command.build();
    Man::new(command.clone()).render(&mut out)?;
    let mut leaves = Vec::new();
    collect_leaves(&command, "NAMEWARD", &mut leaves);
    for (title, subcommand) in leaves {
        let man = Man::new(subcommand.clone());
        let _ = writeln!(out, ".SH \"{title}\"");
        for section in [
            Man::render_synopsis_section,
            Man::render_description_section,
            Man::render_options_section,
        ] {
            let mut text = Vec::new();
            section(&man, &mut text)?;
            // A section of a command becomes a subsection of the page.
            let text = String::from_utf8_lossy(&text).replace("\n.SH ", "\n.SS ");
            let text = text
                .strip_prefix(".SH ")
                .map(|rest| format!(".SS {rest}"))
                .unwrap_or(text);
            out.extend_from_slice(text.as_bytes());
        }
    }
    Ok(out)
}

/// Writes `nameward.1`, `nameward-zone-list.1` and so on, and `nameward.toml.5`.
pub fn write_pages(mut command: Command, directory: &Path) -> CommandResult<()> {
    let write = |name: &str, text: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| CommandError::Import(path, error))
    };
    fs::create_dir_all(directory)
        .map_err(|error| CommandError::Import(directory.to_path_buf(), error))?;
    command.build();
    let mut leaves = Vec::new();
    collect_leaves(&command, "nameward", &mut leaves);
    for (title, subcommand) in leaves {
        let mut text = Vec::new();
        Man::new(subcommand.clone()).render(&mut text)?;
        write(
            &format!("{}.1", title.to_lowercase().replace(' ', "-")),
            &text,
        )?;
    }
    write("nameward.1", &whole(command)?)?;
    write("nameward.toml.5", config::as_roff().as_bytes())
}

/// Collects the commands without subcommands, each with its title.
fn collect_leaves<'c>(command: &'c Command, title: &str, leaves: &mut Vec<(String, &'c Command)>) {
    for subcommand in command.get_subcommands() {
        let name = subcommand.get_name();
        let title = format!("{title} {}", name.to_uppercase());
        match subcommand.has_subcommands() {
            _ if name == "help" => {}
            true => collect_leaves(subcommand, &title, leaves),
            false => leaves.push((title, subcommand)),
        }
    }
}
