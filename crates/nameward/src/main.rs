//! The `nameward` binary: command line, configuration, wiring of all parts.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {}
