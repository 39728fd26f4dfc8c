//! Tests of planned and encoded answers. All modules link into one binary.

mod compact;
mod denial;
mod identity;
mod not_ready;
mod properties;
mod recent_signatures;
