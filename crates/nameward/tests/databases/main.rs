//! The server on databases, as its users meet it: live and resident, with caches and without, changed under it, gone
//! and back again.

mod alias;
mod alias_transfers;
mod apply;
mod ask;
mod attributes;
mod autosecondary;
mod catalogs;
mod check;
mod conformance;
mod journal;
mod key_policy;
mod key_scripts;
mod kill;
mod live_chain;
mod load;
mod operation;
mod own_changes;
mod pdnsutil;
mod powerdns;
mod remembered;
mod replica;
mod rows;
#[path = "../recursion/scripted.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of recursion, which use more of it"
)]
mod scripted;
mod secondary;
mod secured;
mod sent_versions;
mod servers;
mod shown_signing;
mod signed;
mod signing_flood;
mod stored;
mod takeover;
mod tls;
mod transfers;
mod trouble;
mod tsig;
mod undelete;
mod update;
mod update_hostile;
mod update_notify;
mod update_powerdns;
mod without_server;
mod writes;
mod zone_faults;
mod zone_keys;
