//! Programs of the servers that are measured: given by a flag, by an environment variable, or as installed.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use nameward_testkit::TestFailure;
use nameward_testkit::peers::{PeerError, PeerKind};

/// Flags for the programs.
#[derive(Args, Default)]
pub struct BinaryArguments {
    /// The nameward binary; without it and without BENCH_NAMEWARD, the one beside this program.
    #[arg(long, value_name = "PATH")]
    nameward: Option<PathBuf>,
    /// A second nameward binary that is measured in the same run, as `before` (BENCH_BEFORE).
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// The nsd binary (BENCH_NSD); without it, the one that is installed. Likewise the next three.
    #[arg(long, value_name = "PATH")]
    nsd: Option<PathBuf>,
    /// The knotd binary (BENCH_KNOT).
    #[arg(long, value_name = "PATH")]
    knot: Option<PathBuf>,
    /// The named binary (BENCH_BIND).
    #[arg(long, value_name = "PATH")]
    bind: Option<PathBuf>,
    /// The pdns_server binary (BENCH_PDNS).
    #[arg(long, value_name = "PATH")]
    pdns: Option<PathBuf>,
}

/// The programs; `None` is the installed one, for `before` none at all.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// Ours.
    pub nameward: PathBuf,
    /// Ours at another time.
    pub before: Option<PathBuf>,
    /// NSD.
    pub nsd: Option<PathBuf>,
    /// Knot DNS.
    pub knot: Option<PathBuf>,
    /// BIND.
    pub bind: Option<PathBuf>,
    /// PowerDNS.
    pub pdns: Option<PathBuf>,
}

impl BinaryArguments {
    /// Finds the programs. One that was named and is not there is an error now, not after minutes of measuring.
    pub fn find(&self) -> Result<Binaries, TestFailure> {
        self.find_with(|name| env::var_os(name))
    }

    fn find_with(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Binaries, TestFailure> {
        let named = |flag: &Option<PathBuf>, name: &str| {
            let set = variable(name).filter(|value| !value.is_empty());
            match flag.clone().or_else(|| set.map(PathBuf::from)) {
                Some(path) => checked(&path).map(Some),
                None => Ok(None),
            }
        };
        let nameward = match named(&self.nameward, "BENCH_NAMEWARD")? {
            Some(path) => path,
            None => env::current_exe()?.with_file_name("nameward"),
        };
        Ok(Binaries {
            nameward,
            before: named(&self.before, "BENCH_BEFORE")?,
            nsd: named(&self.nsd, "BENCH_NSD")?,
            knot: named(&self.knot, "BENCH_KNOT")?,
            bind: named(&self.bind, "BENCH_BIND")?,
            pdns: named(&self.pdns, "BENCH_PDNS")?,
        })
    }
}

impl Binaries {
    /// Returns the program of a peer: the given one, or the installed one.
    pub fn peer(&self, kind: PeerKind) -> Result<PathBuf, PeerError> {
        let given = match kind {
            PeerKind::Nsd => &self.nsd,
            PeerKind::Knot => &self.knot,
            PeerKind::Bind => &self.bind,
            PeerKind::PowerDns => &self.pdns,
        };
        let program = given.clone().or_else(|| kind.find_program());
        program.ok_or(PeerError::NotInstalled(kind.program()))
    }
}

/// Servers run in directories of their own, so a path has to be absolute.
fn checked(path: &Path) -> Result<PathBuf, TestFailure> {
    let path = std::path::absolute(path)?;
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{}: no such program", path.display()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_overrides_its_variable_and_both_override_the_default() {
        let here = env::current_exe().unwrap();
        let variable = |name: &str| (name == "BENCH_NSD").then(|| OsString::from("/bin/sh"));
        let mut arguments = BinaryArguments::default();
        let found = arguments.find_with(variable).unwrap();
        assert_eq!(found.nsd, Some(PathBuf::from("/bin/sh")));
        assert_eq!((found.knot, found.before), (None, None));
        arguments.nsd = Some(here.clone());
        arguments.before = Some(here.clone());
        let found = arguments.find_with(variable).unwrap();
        assert_eq!((found.nsd, found.before), (Some(here.clone()), Some(here)));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let arguments = BinaryArguments {
            knot: Some("/nowhere/knotd".into()),
            ..BinaryArguments::default()
        };
        let error = arguments.find_with(|_| None).unwrap_err();
        assert_eq!(error.to_string(), "/nowhere/knotd: no such program");
    }
}
