//! The house rules that a machine can keep: layers, lengths, module style, names, defaults, errors, first lines.
//!
//! Existing faults are listed in `exceptions.txt`, each with a bound. The list may only shrink: a new fault
//! fails, a fault that grows fails, and an entry that is not needed any more fails until it is taken out, which
//! `UPDATE_TIDY=1` does. Nothing is ever added by that.

mod documents;
mod exceptions;
mod literals;
mod lock_files;
mod rules;
mod sources;
mod test_files;
mod wording;

use exceptions::Exceptions;
use sources::Workspace;

/// Compares what a rule finds with the exceptions from it.
fn keep(rule: &str, found: Vec<(String, usize)>, advice: &str) {
    let complaints = Exceptions::read().judge(rule, &found);
    let lines: String = complaints
        .iter()
        .map(|line| format!("  {line}\n"))
        .collect();
    assert!(complaints.is_empty(), "{advice}\n{lines}");
}

#[test]
fn a_crate_imports_only_from_rows_below_its_own() {
    let found = rules::layers(&Workspace::read());
    keep(
        "layer",
        found,
        "ARCHITECTURE.md says which crate may import which:",
    );
}

#[test]
fn tokio_and_unsafe_code_stay_where_they_belong() {
    let found = rules::places(&Workspace::read());
    keep(
        "place",
        found,
        "these do not belong there (ARCHITECTURE.md):",
    );
}

#[test]
fn a_mechanism_has_one_implementation() {
    let found = rules::owners(&Workspace::read());
    keep(
        "owner",
        found,
        "this mechanism exists already; use its one implementation:",
    );
}

#[test]
fn files_have_a_length_that_can_be_read() {
    let found = rules::lengths(&Workspace::read());
    keep(
        "length",
        found,
        "files above 500 lines fall into parts, or have grown:",
    );
}

#[test]
fn modules_are_files_of_their_name() {
    let found = rules::module_style(&Workspace::read());
    keep(
        "mod",
        found,
        "a module stands in NAME.rs, not in NAME/mod.rs:",
    );
}

#[test]
fn a_type_name_means_one_thing_in_the_whole_workspace() {
    let found = rules::type_names(&Workspace::read());
    keep("name", found, "another type has this name already:");
}

#[test]
fn defaults_are_defined_in_the_table_of_settings() {
    let found = rules::defaults(&Workspace::read());
    keep(
        "default",
        found,
        "the default of a setting stands in config::settings alone:",
    );
}

#[test]
fn every_file_says_what_it_owns() {
    let found = rules::first_lines(&Workspace::read());
    keep(
        "first-line",
        found,
        "a file begins with //! and what it owns:",
    );
}

#[test]
fn errors_are_types_and_not_texts() {
    let found = rules::text_errors(&Workspace::read());
    keep(
        "text-error",
        found,
        "an error has a type (CONTRIBUTING.md, errors), not Result<_, String>:",
    );
}

#[test]
fn doc_comments_begin_with_a_noun_of_the_field() {
    let found = rules::first_words(&Workspace::read());
    keep(
        "first-word",
        found,
        "no doc comment begins with What, Those or Somebody:",
    );
}

#[test]
fn every_test_file_is_part_of_a_test_binary() {
    let forgotten = test_files::forgotten();
    assert!(
        forgotten.is_empty(),
        "add `mod NAME;` to the parent module (CONTRIBUTING.md): {forgotten:#?}"
    );
}

#[test]
fn messages_and_documents_are_in_plain_english() {
    let found = wording::relapses(&Workspace::read());
    keep(
        "wording",
        found,
        "these phrases sound translated (CONTRIBUTING.md, house style):",
    );
}

#[test]
fn message_templates_match_the_golden_file() {
    let templates = wording::message_templates(&Workspace::read());
    nameward_testkit::golden::assert_golden("messages.txt", &templates);
}

#[test]
fn the_lock_file_of_the_fuzz_targets_is_current() {
    assert_eq!(
        lock_files::outdated(),
        Vec::<String>::new(),
        "these crates have other dependencies now; run `cargo metadata --manifest-path fuzz/Cargo.toml` and commit fuzz/Cargo.lock"
    );
}
