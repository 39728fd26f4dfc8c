//! Catalog zones (RFC 9432): zones that list other zones.
//!
//! ```text
//! read     a catalog that was transferred: its members, or why it is broken
//! make     a catalog of our own: its records, of the zones that say they are its members
//! owners   which catalog has which member, when several name it
//! follow   the thread that does what catalogs say, and keeps our own as the policies say
//! produce  our own, committed and withdrawn
//! home     catalogs of databases, whose members are rows there
//! ```
//! A broken catalog changes nothing: the members that it had stay as they are.

mod database;
mod follow;
mod make;
mod owners;
mod produce;
mod read;

pub use database::{CatalogHome, StoredCatalogs};
pub use follow::{CatalogHandle, CatalogParts, start};
pub use make::make_catalog;
pub use read::{Catalog, CatalogError, CatalogMember, read_catalog};

#[cfg(test)]
mod tests;
