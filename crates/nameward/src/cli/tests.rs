//! Tests of the command line definition, and of the commands shown in the documents.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command as Definition, CommandFactory, Parser};
use nameward_control::operations::{OperationRequest, OperationResult};

use super::{Cli, parse_zone};

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_zone_argument_needs_a_name_and_a_file() {
    let zone = parse_zone("example.org=dir/a=b").unwrap();
    assert_eq!(
        (zone.name.as_str(), zone.file),
        ("example.org", PathBuf::from("dir/a=b"))
    );
    for wrong in ["example.org", "=file", "name=", ""] {
        assert!(parse_zone(wrong).is_err(), "{wrong:?}");
    }
}

/// Appends the help of a command and of its subcommands.
fn write_help(command: &mut Definition, name: &str, text: &mut String) {
    let help = command
        .clone()
        .bin_name(name)
        .render_long_help()
        .to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *text += &format!("$ {name} --help\n{}\n\n", lines.join("\n").trim_end());
    for subcommand in command.get_subcommands_mut() {
        let name = format!("{name} {}", subcommand.get_name());
        write_help(subcommand, &name, text);
    }
}

#[test]
fn help_texts_match_the_golden_file() {
    let mut text = String::new();
    // The width of the terminal must not change the text.
    write_help(&mut Cli::command().term_width(100), "nameward", &mut text);
    nameward_testkit::golden::assert_golden("help.txt", &text);
}

/// Returns the user documents by name. The change log also has commands of older versions, so it is left out.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    let docs = fs::read_dir(root.join("docs")).unwrap();
    paths.extend(docs.map(|entry| entry.unwrap().path()));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// Splits a shell line into words, without its comment and without what it pipes to other programs.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in format!("{line} ").chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => {
                if ["#", "|", "<", ">", "&&"].contains(&word.as_str()) {
                    return words;
                }
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(c),
        }
    }
    words
}

#[test]
fn commands_in_the_documentation_are_valid() {
    let mut count = 0;
    for (name, text) in documents() {
        // Code blocks are every second part between the fences.
        let lines = text.split("```").skip(1).step_by(2).flat_map(str::lines);
        for line in lines {
            let line = line.trim_start_matches("$ ");
            if !line.starts_with("nameward ") {
                continue;
            }
            if let Err(error) = Cli::try_parse_from(words(line)) {
                panic!("{name}: {line}\n{error}");
            }
            count += 1;
        }
    }
    assert!(count > 25, "only {count} commands were found");
}

#[test]
fn operations_of_the_control_socket_are_documented() {
    // The error of an unknown operation lists the known ones in backticks.
    let error = serde_json::from_str::<OperationRequest>(r#"{"operation":"?"}"#).unwrap_err();
    let error = error.to_string();
    let known: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(known.len() > 50 && known.contains(&"zone_show"), "{error}");
    let documents = documents();
    let (_, page) = documents
        .iter()
        .find(|(name, _)| name == "commands.md")
        .unwrap();
    let table = page.split("| operation | fields |").nth(1).unwrap();
    let missing = |name: &&&str| !table.contains(&format!("`{name}`"));
    let missing: Vec<_> = known.iter().filter(missing).collect();
    assert!(missing.is_empty(), "docs/commands.md lacks {missing:?}");
}

#[test]
fn results_of_operations_are_documented() {
    // The error of an unknown result lists the known ones in backticks.
    let error = serde_json::from_str::<OperationResult>(r#"{"result":"?"}"#).unwrap_err();
    let error = error.to_string();
    let known: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(known.len() > 25 && known.contains(&"zone_ds"), "{error}");
    let documents = documents();
    let (_, page) = documents
        .iter()
        .find(|(name, _)| name == "commands.md")
        .unwrap();
    let table = page.split("| result | fields |").nth(1).unwrap();
    let missing = |name: &&&str| !table.contains(&format!("`{name}`"));
    let missing: Vec<_> = known.iter().filter(missing).collect();
    assert!(missing.is_empty(), "docs/commands.md lacks {missing:?}");
}

/// Returns a subcommand or flag that a short form such as `key list ZONE [--all]` names and that does not exist.
fn fault_of_short_form(form: &str) -> Option<String> {
    let whole = Cli::command();
    let mut own: &Definition = &whole;
    let mut is_path = true;
    for word in form.split([' ', '[', ']', '(', ')', '=']) {
        if let Some(flag) = word.strip_prefix("--") {
            let known = own.get_arguments().chain(whole.get_arguments());
            let is_known = known
                .filter_map(|argument| argument.get_long())
                .any(|long| long == flag);
            if !is_known && !["help", "version"].contains(&flag) {
                return Some(format!("no flag --{flag}"));
            }
            continue;
        }
        // `on|off`: each is a command, and what follows applies to all of them.
        let mut commands = word.split(['|', '\\']).filter(|name| !name.is_empty());
        let found = commands.clone().find_map(|name| own.find_subcommand(name));
        match found {
            Some(command) if is_path => {
                if let Some(wrong) = commands.find(|name| own.find_subcommand(name).is_none()) {
                    return Some(format!("no command {wrong}"));
                }
                own = command;
            }
            None if is_path && own.has_subcommands() && !word.is_empty() => {
                return Some(format!("no command {word}"));
            }
            _ => is_path = false,
        }
    }
    None
}

#[test]
fn commands_within_the_text_of_the_documents_exist() {
    let mut count = 0;
    for (name, text) in documents() {
        let prose: Vec<&str> = text.split("```").step_by(2).collect();
        for form in prose
            .iter()
            .flat_map(|part| part.split('`').skip(1).step_by(2))
        {
            let Some(form) = form.strip_prefix("nameward ") else {
                continue;
            };
            if let Some(fault) = fault_of_short_form(form) {
                panic!("{name}: `nameward {form}`: {fault}");
            }
            count += 1;
        }
    }
    assert!(count > 60, "only {count} commands were found");
}
