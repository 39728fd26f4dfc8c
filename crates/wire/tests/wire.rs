//! Tests of names, record data and zone files against vectors and other libraries. All modules link into one binary.

mod fuzz_smoke;
mod rdata_oracles;
mod rdata_properties;
mod rdata_vectors;
mod zonefile;
mod zonefile_oracle;
