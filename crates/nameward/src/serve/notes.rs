//! State that maintenance reports for status displays: faults of zone files, stored signatures, the last reload.

use std::sync::Arc;

use nameward_base::sync::Mutex;
use nameward_base::text::counted;
use nameward_base::time::now_seconds;
use nameward_control::operations::ReloadStatus;
use nameward_files::FileSource;
use nameward_maintain::follow::FileFaults;
use nameward_maintain::signature_watch::SignatureSums;
use nameward_serve::tls::ServerTls;

/// State that the maintenance thread reports.
#[derive(Default)]
pub struct MaintenanceNotes {
    pub files: Arc<FileFaults>,
    /// Zones whose stored signatures need an operator.
    pub signatures: Arc<SignatureSums>,
    pub tls: Option<Arc<ServerTls>>,
    pub(super) last_reload: Mutex<Option<ReloadStatus>>,
    /// Rank and location of each source of zone files.
    pub(super) sources: Mutex<Vec<(u16, String)>>,
}

impl MaintenanceNotes {
    pub fn new(tls: Option<Arc<ServerTls>>) -> Self {
        MaintenanceNotes {
            tls,
            ..MaintenanceNotes::default()
        }
    }

    /// Sets the sources of zone files that are used from now on.
    pub fn set_sources(&self, sources: &[FileSource]) {
        let places = sources
            .iter()
            .map(|source| (source.rank, location_of(source)));
        *self.sources.lock() = places.collect();
    }

    /// Records the result of a reload.
    pub fn set_reload(&self, is_ok: bool, text: &str) {
        *self.last_reload.lock() = Some(ReloadStatus {
            at: now_seconds(),
            is_ok,
            text: text.lines().next().unwrap_or_default().to_string(),
        });
    }
}

/// Describes the location of a source's files.
fn location_of(source: &FileSource) -> String {
    let directory = source.directory.iter();
    let places = directory.chain(&source.named_conf);
    let mut places: Vec<String> = places.map(|path| path.display().to_string()).collect();
    if !source.zones.is_empty() {
        places.push(counted(source.zones.len(), "listed file"));
    }
    places.join(", ")
}
