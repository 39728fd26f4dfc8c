//! Runs scripts in a loop and prints the time for each: `cargo run --release -p nameward-steering --example script_loop`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use nameward_steering::Steering;
use nameward_steering::lua::{ScriptClient, ScriptQuery, run_script};
use nameward_wire::{NameBuf, Type};

const ROUNDS: u32 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name: NameBuf = "www.example.org.".parse()?;
    let query = ScriptQuery {
        name,
        zone: "example.org.".parse()?,
        zone_id: 0,
        client: ScriptClient {
            address: "192.0.2.53:5353".parse()?,
            local: None,
            subnet: None,
        },
        is_stream: false,
        dnssec_ok: false,
        udp_payload: 1232,
        header: [0; 12],
    };
    let steering = Arc::new(Steering::default());
    for code in [
        "'192.0.2.1'",
        "pickrandom({'192.0.2.1', '192.0.2.2', '192.0.2.3'})",
        "pickwhashed({{15, '192.0.2.1'}, {100, '198.51.100.5'}})",
        "view({{{'10.0.0.0/8'}, {'10.1.1.1'}}, {{'0.0.0.0/0'}, {'192.0.2.1'}}})",
        ";if who:toString() == '192.0.2.53' then return '192.0.2.1' else return '192.0.2.2' end",
    ] {
        let mut data = Type::A.0.to_be_bytes().to_vec();
        data.push(code.len() as u8);
        data.extend_from_slice(code.as_bytes());
        let started = Instant::now();
        for _ in 0..ROUNDS {
            black_box(run_script(&steering, &data, (&query, &[]), &mut 0));
        }
        let each = started.elapsed() / ROUNDS;
        println!("{:>6} ns  {code}", each.as_nanos());
    }
    Ok(())
}
