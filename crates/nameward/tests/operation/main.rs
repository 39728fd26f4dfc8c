//! The server as an operator meets it: command line, start, reload, change of user, end.

mod access;
mod apply;
mod ask;
mod attacks;
mod bind_access;
mod cli;
mod control;
mod denial;
mod ending;
mod logs;
mod named_conf;
mod not_ready;
mod privileges;
mod reload;
mod secure;
mod signatures;
mod start;
mod state;
mod tsig;
mod update;
mod update_clients;
mod update_file;
mod update_kill;
mod watch;
mod zone_tables;
mod zone_work;
