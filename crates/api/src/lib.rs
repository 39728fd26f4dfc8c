//! The PowerDNS-compatible HTTP API: a view of the typed operations, with no administration logic of its own.
//!
//! ```text
//! listener   HTTP/1.1 and HTTP/2: connections, limits, access list, key, bounded body       hyper, tokio
//! Api        request -> response: a function that may block                                 no sockets
//! routes     one table: path pattern -> methods -> handler
//! resources  one file for each resource: JSON -> OperationRequest -> JSON
//! admin      the web administration at /admin, over the same operations
//! ```
//! Field names, status codes and error texts are those of PowerDNS 4.7, and those of 5.x where it added something. Keys are written
//! in alphabetical order, because shell scripts match on it.

#![forbid(unsafe_code)]

pub mod admin;
mod content;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
pub mod listener;
mod openapi;
mod operator;
mod request;
mod resources;
mod response;
mod routes;
mod turns;

pub use operator::{Api, ApiDefaults, ApiOperator};
pub use request::{ApiMethod, ApiRequest, BadTarget};
pub use response::{ApiResponse, media};
