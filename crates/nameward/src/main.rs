//! The `nameward` binary: command line, configuration, wiring of all parts.

mod check;
mod cli;
mod config;
mod example;
mod logging;
mod notify;
mod pid_file;
mod privileges;
mod remote;
mod serve;
mod zones;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
