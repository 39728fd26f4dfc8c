//! Follows the sources of zones: changes there are published in the table.

pub mod databases;
mod directory_sizes;
mod file_copies;
mod file_faults;
mod files;
mod log;
pub mod unknown;

pub use file_faults::{FaultyZone, FaultyZoneList, FaultyZones, FileFaults};
pub use files::{
    FileFollower, LoadOutcome, ServedFile, StoreVersion, ZoneFileError, missing_files,
};
pub use log::{contested, place_of_rank, waiting};
