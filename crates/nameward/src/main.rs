//! The `nameward` binary: command line, configuration, wiring of all parts.

mod check;
mod cli;
mod config;
mod remote;
mod serve;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
