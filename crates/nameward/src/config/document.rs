//! Printed forms of the settings tables: a commented TOML file, Markdown, JSON and a manual page.

use std::fmt::Write;

use super::{TableListing, tables};

/// Joins documentation lines to one paragraph.
fn sentence(lines: &[&str]) -> String {
    lines
        .iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join(" ")
}

fn heading(table: &TableListing) -> String {
    let name = table.name;
    if table.is_repeated {
        format!("[[{name}]]")
    } else {
        format!("[{name}]")
    }
}

/// Returns the manual page nameward.toml(5).
pub fn as_roff() -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('-', "\\-");
    let mut out = String::from(
        ".TH nameward.toml 5\n.SH NAME\nnameward.toml \\- the configuration of nameward(1)\n.SH DESCRIPTION\n\
         The configuration is a TOML file: the argument of \\-\\-config, else $NAMEWARD_CONFIG, else\n\
         /etc/nameward/nameward.toml. Paths are relative to the directory of the file.\n",
    );
    for table in tables() {
        let about = escaped(&sentence(table.about));
        let _ = write!(out, ".SH \"{}\"\n\\&{about}\n", heading(&table));
        for setting in table.settings {
            let (default, doc) = (escaped(setting.default), escaped(&sentence(setting.doc)));
            let _ = write!(out, ".TP\n\\fB{}\\fR = {default}\n\\&{doc}\n", setting.key);
        }
    }
    out
}

/// Returns a configuration file with every key commented out at its default.
pub fn as_toml() -> String {
    let mut out = String::from("# Nameward configuration. Every key has its default value.\n");
    for table in tables() {
        let (about, comment) = (
            sentence(table.about),
            if table.is_repeated { "# " } else { "" },
        );
        let _ = write!(out, "\n# {about}\n{comment}{}\n", heading(&table));
        for setting in table.settings {
            for line in setting.doc {
                let _ = writeln!(out, "# {}", line.trim());
            }
            let _ = writeln!(out, "# {} = {}", setting.key, setting.default);
        }
    }
    out
}

/// Returns every setting as a JSON object.
pub fn as_json() -> serde_json::Value {
    let settings = tables().into_iter().flat_map(|table| table.settings);
    let objects = settings.map(|setting| {
        serde_json::json!({
            "section": setting.section, "key": setting.key, "default": setting.default,
            "expected": setting.expected, "meaning": sentence(setting.doc),
        })
    });
    objects.collect()
}

/// Returns docs/configuration.md.
pub fn as_markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         `nameward serve --config FILE` reads one TOML file. Command-line flags override it. \
         Paths are relative to the directory of the file. An unknown key is an error that names \
         the line and the nearest known key; `nameward check --config FILE` reports it without \
         starting a server.\n\n\
         This page is printed by `nameward config --format markdown`; `nameward config` prints the \
         same as a commented file to start from.\n",
    );
    for table in tables() {
        let about = sentence(table.about);
        let _ = write!(out, "\n## `{}`\n\n{about}\n\n", heading(&table));
        out.push_str("| key | default | value | meaning |\n|---|---|---|---|\n");
        for setting in table.settings {
            let (key, default, doc) = (setting.key, setting.default, sentence(setting.doc));
            let expected = setting.expected;
            let _ = writeln!(out, "| `{key}` | `{default}` | {expected} | {doc} |");
        }
    }
    out
}
