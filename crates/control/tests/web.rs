//! The status web interface through raw sockets, byte by byte.

mod browser;
mod client;
mod contrast;
mod hostile;
mod http;
mod load;
mod machine;
mod rings;
mod specification;
mod status;
