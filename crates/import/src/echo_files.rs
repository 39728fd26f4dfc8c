//! The files that a fuzz target gives to a configuration reader: its input, whatever is included.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use crate::Files;

/// Every included file is the input again, this many times.
pub(crate) struct EchoFiles<'d> {
    /// The first file, if it is not the input.
    pub(crate) first: Option<&'d str>,
    pub(crate) data: &'d [u8],
    pub(crate) left: usize,
}

impl Files for EchoFiles<'_> {
    fn read(&mut self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::NotFound)?;
        let first = self.first.take();
        Ok(first.map_or(self.data, str::as_bytes).to_vec())
    }

    fn matching(&mut self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![pattern.join("1"), pattern.join("2")])
    }

    fn interfaces(&mut self) -> io::Result<Vec<(IpAddr, u8)>> {
        Ok(vec![(Ipv4Addr::LOCALHOST.into(), 8)])
    }
}
