//! Tests of the test kit itself: peers, conformance files, missing tools. All modules link into one binary.

mod conformance_peers;
mod mesh;
mod missing;
mod peers;
