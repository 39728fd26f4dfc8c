//! A small independent DNS wire client, so that a fault in our `wire` crate cannot mask itself.
//!
//! It shares no code with the server. It parses strictly: anything a server must not send (forward
//! pointers, names compressed where RFC 3597 forbids it, octets after the last record) is an error.

mod client;
mod exchange;
mod message;
mod name;
mod rdata;
mod reader;
mod rtype;

pub use client::{Client, question};
pub use exchange::{Exchange, Sockets, Transport, answers};
pub use message::{
    Message, Opt, Question, QuestionEdns, Record, encode_opt, encode_question, fold,
};
pub use name::Name;
pub use rdata::print as print_rdata;
pub use reader::Reader;
pub use rtype::{
    class_from_text, class_text, rcode_from_text, rcode_text, type_from_text, type_text,
};
