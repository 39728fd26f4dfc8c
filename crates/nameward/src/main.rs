//! The `nameward` binary: command line, configuration, wiring of all components.

#![deny(unsafe_code)]

mod api_client;
mod author;
mod batch_text;
mod check;
mod cli;
mod command_error;
mod config;
mod control_location;
mod db;
mod example;
mod export;
mod huge_pages;
mod import;
mod logging;
mod manual;
mod memory;
mod notify;
mod offline;
mod pid_file;
mod policies;
mod privileges;
mod remote;
mod sandbox;
mod script_check;
mod serve;
mod signals;
mod start_error;
mod state;
mod terminal;
mod upgrade;
mod zone_commands;
mod zones;

fn main() -> std::process::ExitCode {
    signals::hold_hangup();
    huge_pages::restrict();
    cli::run()
}
