//! The server on databases, as its users meet it: live and resident, with caches and without, changed under it, gone
//! and back again.

mod ask;
mod conformance;
mod operation;
mod remembered;
mod rows;
mod servers;
