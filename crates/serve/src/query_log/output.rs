//! The output of the query log: a file, which may be rotated, or the stream of the server log.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::QueryLogFormat;

/// Interval between checks whether the file was renamed by log rotation.
const ROTATION_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The output that lines are written to.
pub struct QueryLogOutput {
    format: QueryLogFormat,
    target: OutputTarget,
}

enum OutputTarget {
    Stream(Box<dyn Write + Send>),
    File {
        path: PathBuf,
        open: Option<File>,
        checked_at: Instant,
    },
}

impl QueryLogOutput {
    /// Writes to a file, which is created with the first line, and created again after it was renamed.
    pub fn file(path: PathBuf, format: QueryLogFormat) -> Self {
        let target = OutputTarget::File {
            path,
            open: None,
            checked_at: Instant::now(),
        };
        QueryLogOutput { format, target }
    }

    /// Writes to a stream.
    pub fn stream(stream: impl Write + Send + 'static, format: QueryLogFormat) -> Self {
        let target = OutputTarget::Stream(Box::new(stream));
        QueryLogOutput { format, target }
    }

    pub(super) fn format(&self) -> QueryLogFormat {
        self.format
    }

    /// Writes whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match &mut self.target {
            OutputTarget::Stream(stream) => {
                stream.write_all(lines)?;
                stream.flush()
            }
            OutputTarget::File {
                path,
                open,
                checked_at,
            } => {
                if checked_at.elapsed() >= ROTATION_CHECK_INTERVAL {
                    *checked_at = Instant::now();
                    let is_current = |file: &File| {
                        let (Ok(opened), Ok(named_file)) = (file.metadata(), fs::metadata(&*path))
                        else {
                            return false;
                        };
                        (opened.dev(), opened.ino()) == (named_file.dev(), named_file.ino())
                    };
                    if !open.as_ref().is_some_and(is_current) {
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
