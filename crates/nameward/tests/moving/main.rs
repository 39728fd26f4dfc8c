//! Moves from other servers: a realistic configuration of each, served by the real server and, after `nameward import`, by
//! ours. Answers, refusals and transfers are compared, and the whole report.

mod bind;
mod knot;
mod moved;
mod nsd;
mod pdns;
