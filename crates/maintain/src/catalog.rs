//! Catalog zones (RFC 9432): zones that list other zones.
//!
//! ```text
//! read     a transferred catalog: its members, or why it is broken
//! make     a produced catalog: its records, from the zones configured as its members
//! owners   which catalog has which member, if several list it
//! follow   the thread that applies consumed catalogs, and keeps produced ones up to date with the policies
//! produce  produced catalogs, committed and withdrawn
//! database catalogs in databases, whose members are rows there
//! ```
//! A broken catalog changes nothing: its previous members stay as they are.

mod database;
mod follow;
mod make;
mod owners;
mod produce;
mod read;

pub use follow::{CatalogHandle, start};
pub use make::make_catalog;
pub(crate) use make::member_hash;
pub use read::{Catalog, CatalogError, CatalogMember, read_catalog};

#[cfg(test)]
mod tests;
