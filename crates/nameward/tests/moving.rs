//! Moves from other servers: a realistic configuration of each, served by the real server and, after `nameward import`, by
//! ours. Answers, refusals and transfers are compared, and the whole report; and the way back.

mod back;
mod bind;
mod geo;
mod knot;
mod moved;
mod nsd;
mod pdns;
mod signed;
