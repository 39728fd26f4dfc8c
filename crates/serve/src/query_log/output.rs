//! The output of the query log: a file, which may be rotated, or the stream of the server log.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::QueryLogForm;

/// Interval between checks whether the file was renamed by log rotation.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The output that lines are written to.
pub struct QueryLogOutput {
    form: QueryLogForm,
    place: Place,
}

enum Place {
    Stream(Box<dyn Write + Send>),
    File {
        path: PathBuf,
        open: Option<File>,
        looked: Instant,
    },
}

impl QueryLogOutput {
    /// Writes to a file, which is created with the first line, and created again after it was renamed.
    pub fn file(path: PathBuf, form: QueryLogForm) -> Self {
        let place = Place::File {
            path,
            open: None,
            looked: Instant::now(),
        };
        QueryLogOutput { form, place }
    }

    /// Writes to a stream.
    pub fn stream(stream: impl Write + Send + 'static, form: QueryLogForm) -> Self {
        let place = Place::Stream(Box::new(stream));
        QueryLogOutput { form, place }
    }

    pub(super) fn form(&self) -> QueryLogForm {
        self.form
    }

    /// Writes whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match &mut self.place {
            Place::Stream(stream) => {
                stream.write_all(lines)?;
                stream.flush()
            }
            Place::File { path, open, looked } => {
                if looked.elapsed() >= LOOK_INTERVAL {
                    *looked = Instant::now();
                    let is_there = |file: &File| {
                        let (Ok(ours), Ok(there)) = (file.metadata(), fs::metadata(&*path)) else {
                            return false;
                        };
                        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
                    };
                    if !open.as_ref().is_some_and(is_there) {
                        *open = None;
                    }
                }
                let named = |error: io::Error| {
                    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                };
                if open.is_none() {
                    let file = File::options().create(true).append(true).open(&*path);
                    *open = Some(file.map_err(named)?);
                }
                match open {
                    Some(file) => file.write_all(lines).map_err(named),
                    None => Ok(()),
                }
            }
        }
    }
}
