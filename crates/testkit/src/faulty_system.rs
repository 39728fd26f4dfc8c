//! A server on a system that fails: a disk with errors, slow or hanging, no descriptors, a clock that jumps. A small library
//! in front of the C library (`LD_PRELOAD`) makes the faults, so that the server is the real one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The faults of a running server.
pub struct FaultySystem {
    fields: File,
    environment: Vec<(&'static str, OsString)>,
}

/// A kind of fault, with the offset of its value in the file that the server has mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Writes below the directory fail with this error number; 0 for none.
    Write(i32),
    /// Flushes to disk below the directory fail.
    Sync(i32),
    /// Files cannot be opened.
    Open(i32),
    /// Connections cannot be accepted.
    Accept(i32),
    /// A flush to disk takes this many milliseconds.
    SlowSync(i32),
    /// A flush to disk does not end while this is 1.
    Hang(i32),
    /// The clock differs by this many seconds.
    Clock(i64),
}

impl FaultySystem {
    /// Builds the library in a directory; disk faults apply to files below `faulty`.
    pub fn new(directory: &Path, faulty: &Path) -> Self {
        let library = directory.join("faulty_system.so");
        let source = directory.join("faulty_system.c");
        fs::write(&source, include_str!("faulty_system.c")).expect("the source is written");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .args(["-ldl"])
            .output()
            .expect("a C compiler is installed");
        let text = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{text}");
        let path = directory.join("faults");
        fs::write(&path, [0; 64]).expect("the file of faults is written");
        let fields = File::options().write(true).open(&path);
        let value = |path: PathBuf| path.into_os_string();
        FaultySystem {
            fields: fields.expect("it was just written"),
            environment: vec![
                ("LD_PRELOAD", value(library)),
                ("FAULTY_SYSTEM", value(path)),
                ("FAULTY_DIRECTORY", value(faulty.to_path_buf())),
            ],
        }
    }

    /// Returns the environment of a server on this system.
    pub fn environment(&self) -> &[(&'static str, OsString)] {
        &self.environment
    }

    /// Starts or ends a fault.
    pub fn set(&self, fault: Fault) {
        let written = match fault {
            Fault::Write(error) => self.fields.write_at(&error.to_ne_bytes(), 0),
            Fault::Sync(error) => self.fields.write_at(&error.to_ne_bytes(), 4),
            Fault::Open(error) => self.fields.write_at(&error.to_ne_bytes(), 8),
            Fault::Accept(error) => self.fields.write_at(&error.to_ne_bytes(), 12),
            Fault::SlowSync(millis) => self.fields.write_at(&millis.to_ne_bytes(), 16),
            Fault::Hang(hangs) => self.fields.write_at(&hangs.to_ne_bytes(), 20),
            Fault::Clock(seconds) => self.fields.write_at(&seconds.to_ne_bytes(), 24),
        };
        written.expect("the file of faults is written");
    }
}
