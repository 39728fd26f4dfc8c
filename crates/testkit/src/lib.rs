//! For tests only: a loopback server, a wire client, real peers.
