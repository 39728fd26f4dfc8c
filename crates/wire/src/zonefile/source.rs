//! Block-wise reading of zone files.
//!
//! The block always starts with an entry. It only grows if an entry does not fit, up to [`MAX_ENTRY`], so memory stays
//! bounded whatever the file contains, and the block stays in the CPU cache while it is parsed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Block size in bytes. Smaller files are read whole.
const BLOCK: usize = 256 * 1024;

/// Maximum entry size in bytes: 65,535 octets of record data as `\DDD` take a quarter of it.
pub(super) const MAX_ENTRY: usize = 1024 * 1024;

/// Whether more text follows the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockEnd {
    /// The file continues: an entry that reaches the end of the block is incomplete.
    More,
    /// The file ends here.
    EndOfFile,
    /// The file continues, but the first entry of the block exceeds the maximum entry size.
    EntryTooLong,
}

/// A file being read.
pub(super) struct BlockReader<R> {
    reader: R,
    buffer: Vec<u8>,
    filled: usize,
    complete: bool,
    /// The size of a file that fits into one block: no second read is needed to detect its end.
    small: Option<usize>,
    /// Size of the file in bytes when it was opened.
    size: u64,
}

impl BlockReader<File> {
    /// Opens a regular file. Anything else is rejected before it is opened: opening a FIFO would wait for its writer.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() {
                "is a directory"
            } else {
                "not a regular file"
            };
            return Err(io::Error::other(what));
        }
        let small = usize::try_from(metadata.len())
            .ok()
            .filter(|size| (1..BLOCK).contains(size));
        let mut source = BlockReader::with_block(File::open(path)?, small.unwrap_or(BLOCK));
        source.small = small;
        source.size = metadata.len();
        Ok(source)
    }
}

impl<R: Read> BlockReader<R> {
    /// Reads from `reader`, with a first block of `size` bytes.
    pub(super) fn with_block(reader: R, size: usize) -> Self {
        BlockReader {
            reader,
            // A byte order mark fits into the first block.
            buffer: vec![0; size.max(3)],
            filled: 0,
            complete: false,
            small: None,
            size: 0,
        }
    }

    /// Returns the size of the file in bytes when it was opened.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Drops the first `consumed` bytes of the block and fills the room after the remaining ones.
    pub(super) fn advance(&mut self, consumed: usize) -> io::Result<()> {
        self.buffer.copy_within(consumed..self.filled, 0);
        self.filled -= consumed;
        if self.filled == self.buffer.len() {
            let size = (self.buffer.len() * 2).min(MAX_ENTRY);
            self.buffer.resize(size, 0);
        }
        while self.filled < self.buffer.len() && !self.complete {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.complete = true,
                Ok(count) => {
                    self.filled += count;
                    self.complete = Some(self.filled) == self.small;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the text that has been read but not parsed yet.
    pub(super) fn block(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Returns what follows the block; `stuck` means that no entry in it was complete.
    pub(super) fn block_end(&self, stuck: bool) -> BlockEnd {
        if self.complete {
            BlockEnd::EndOfFile
        } else if stuck && self.filled >= MAX_ENTRY {
            BlockEnd::EntryTooLong
        } else {
            BlockEnd::More
        }
    }
}
