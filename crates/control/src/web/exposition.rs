//! Lines of the Prometheus text format 0.0.4.

use std::fmt::Write as _;

/// Writes the lines that come before the samples of a metric.
pub(super) fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Returns a text as the value of a label.
pub(super) fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
