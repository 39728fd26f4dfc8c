//! Warnings about the parts of a configuration that are not imported: each kind once, with its first location.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use nameward_wire::zonefile::{Diagnostic, Severity};

use super::{BindZone, Spot, View, ZoneType};

/// Maximum number of zones listed in one warning.
const NAMES_MAX: usize = 10;

/// Collects warnings.
pub(super) struct ImportNotes<'f> {
    files: &'f [PathBuf],
    lines: Vec<(Spot, String)>,
    /// Zones grouped by the reason why they are not imported.
    refused: Vec<RefusedZones>,
    /// Index of each reason in `refused`.
    by_reason: HashMap<String, usize>,
}

struct RefusedZones {
    spot: Spot,
    reason: String,
    /// The first few zone names.
    names: Vec<String>,
    count: usize,
}

impl<'f> ImportNotes<'f> {
    pub(super) fn new(files: &'f [PathBuf]) -> Self {
        Self {
            files,
            lines: Vec::new(),
            refused: Vec::new(),
            by_reason: HashMap::new(),
        }
    }

    /// Adds a view that is not imported with its zones.
    pub(super) fn view(&mut self, view: &View, zones: usize) {
        let reason = match &view.clients {
            _ if !view.is_internet => "class is not IN".to_string(),
            Err(refusal) => self.with_place(refusal.spot, &refusal.reason),
            Ok(_) => "it has no clients".to_string(),
        };
        self.lines.push((view.spot, ignored(view, zones, &reason)));
    }

    /// Checks whether a zone is imported; if not, counts it by reason.
    pub(super) fn is_taken(&mut self, zone: &BindZone) -> bool {
        let reason = match (zone.kind, zone.signed_by, &zone.allow_query) {
            _ if !zone.is_internet => "the class is not IN".into(),
            _ if zone.is_from_database => "no zone file".into(),
            (None, ..) => "no type".into(),
            (Some(ZoneType::Secondary), Some(statement), _) => format!(
                "BIND signs a transferred zone ({statement}), which is never served unsigned"
            ),
            (Some(ZoneType::Primary | ZoneType::Secondary), _, Err(refusal)) => {
                self.with_place(refusal.spot, &refusal.reason)
            }
            (Some(ZoneType::Primary | ZoneType::Secondary), _, Ok(_)) => return true,
            (Some(other), ..) => format!("type {}", other.as_str()),
        };
        self.refuse(zone, reason);
        false
    }

    fn refuse(&mut self, zone: &BindZone, reason: String) {
        let next = self.refused.len();
        let at = *self.by_reason.entry(reason.clone()).or_insert(next);
        if at == next {
            self.refused.push(RefusedZones {
                spot: zone.spot,
                reason,
                names: Vec::new(),
                count: 0,
            });
        }
        let refused = &mut self.refused[at];
        refused.count += 1;
        if refused.names.len() < NAMES_MAX {
            refused.names.push(zone.name().to_string());
        }
    }

    fn with_place(&self, (file, location): Spot, text: &str) -> String {
        let file = self.files.get(file).map(|path| path.to_string_lossy());
        let file = file.unwrap_or_default();
        format!("{text} ({file}:{}:{})", location.line, location.column)
    }

    /// Returns all warnings and further ones, those about zones last.
    pub(super) fn finish(self, more: Vec<(Spot, String)>) -> Vec<Diagnostic> {
        let files = self.files;
        let zones = self.refused.into_iter().map(|refused| {
            let names = refused.names.join(", ");
            let text = match (refused.count, refused.count - refused.names.len()) {
                (1, _) => format!("zone {names} ignored: {}", refused.reason),
                (_, 0) => format!("zones {names} ignored: {}", refused.reason),
                (_, more) => {
                    let reason = refused.reason;
                    format!("zones {names} and {more} more ignored: {reason}")
                }
            };
            (refused.spot, text)
        });
        let lines = self.lines.into_iter().chain(more).chain(zones);
        let diagnostics = lines.map(|((file, location), message)| {
            let file = files.get(file).map(|path| path.to_string_lossy());
            Diagnostic {
                severity: Severity::Warning,
                file: Arc::from(&*file.unwrap_or_default()),
                line: location.line,
                column: location.column,
                message,
            }
        });
        diagnostics.collect()
    }
}

/// Returns the note about a view that is not imported.
pub(super) fn ignored(view: &View, zones: usize, reason: &str) -> String {
    let name = view.name.as_deref().unwrap_or_default();
    let noun = if zones == 1 { "zone" } else { "zones" };
    format!("view {name:?} with {zones} {noun} ignored: {reason}")
}
