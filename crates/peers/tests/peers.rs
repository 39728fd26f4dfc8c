//! Tests of what name servers do for each other's zones. All modules link into one binary.

#[expect(dead_code, reason = "the tests of maintain use the rest")]
#[path = "../../maintain/tests/common.rs"]
mod common;
#[expect(dead_code, reason = "the tests of serve use the rest")]
#[path = "../../serve/tests/loopback.rs"]
mod loopback;
mod notify;
mod simulation;
mod transfer_in;
mod transfer_out;
mod update;
