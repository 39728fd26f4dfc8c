//! DNS names, messages, record data, presentation format and the zone file parser.
//!
//! Everything here is a pure function over byte slices: no sockets, no clock, no threads. Input is
//! hostile until a type of this crate says otherwise: a [`Name`] is a valid uncompressed name, and
//! a record accepted by [`rdata`] is well formed.

#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod fuzzing;
pub mod message;
pub mod name;
pub mod rdata;
pub mod rtype;
pub mod text;
pub mod zonefile;

pub use name::{Name, NameBuf, NameError};
pub use rtype::{Class, Opcode, Rcode, Type, rcode_name};
