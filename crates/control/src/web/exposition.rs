//! Lines of the Prometheus text format 0.0.4.

use std::fmt::{Display, Write as _};

/// Writes the lines that come before the samples of a metric.
pub(super) fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes a metric: for each sample its labels, in braces or empty, and its value.
pub(super) fn metric<L: Display, V: Display>(
    out: &mut String,
    (name, kind): (&str, &str),
    help: &str,
    samples: impl IntoIterator<Item = (L, V)>,
) {
    head(out, name, help, kind);
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

/// Returns one label in braces.
pub(super) fn one_label(name: &str, value: &str) -> String {
    format!("{{{name}=\"{}\"}}", label(value))
}

/// Returns a text as the value of a label.
pub(super) fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
