//! A zone file signed as a whole with all cores: from the start of a program until the signed zone has left it.
//!
//! Ours is a server that loads the file, is given a key and transfers the zone. BIND and Knot have programs that read a file,
//! sign it and write a file.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nameward_dnssec::{KeyUse, SigningKey};
use nameward_testkit::TestFailure;
use nameward_testkit::peers::{Peer, PeerOptions};

use crate::binaries::Binaries;
use crate::bind_keys;
use crate::process::{self, CpuTime};
use crate::signed::P256;
use crate::transfers;
use crate::zones::ZoneFiles;

/// Signatures that each core makes to find out how many it can.
const BARE: u32 = 20_000;

struct SigningRun {
    wall: Duration,
    cpu: CpuTime,
}

/// Signs the first zone with each program; the table has the bare signatures beside it.
pub fn compare(
    files: &ZoneFiles,
    binaries: &Binaries,
    ready_timeout: Duration,
) -> Result<String, TestFailure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (zone, file) = files.zones.first().ok_or("no zone")?;
    let bare = bare_rate(cores).ok_or("the key of the bench cannot be read")?;
    eprintln!("nameward ...");
    let ours = ours(zone, file, (&binaries.nameward, ready_timeout));
    let (ours, signatures) = ours.map_err(|error| format!("nameward: {error}"))?;
    eprintln!("BIND ...");
    let bind = with_bind(zone, file)?;
    eprintln!("Knot ...");
    let knot = with_knot(zone, file, cores)?;
    let least = f64::from(signatures) / bare;
    let mut table = format!(
        "{signatures} signatures; {cores} cores make {bare:.0} a second and do nothing else: {least:.1} s\n\n\
         | program | wall s | CPU s | wall : bare signatures |\n|---|--:|--:|--:|\n"
    );
    let rows = [
        ("nameward", ours),
        ("dnssec-signzone (BIND)", bind),
        ("kzonesign (Knot)", knot),
    ];
    for (name, run) in rows {
        let wall = run.wall.as_secs_f64();
        let (cpu, ratio) = (run.cpu.total(), wall / least);
        table += &format!("| {name} | {wall:.1} | {cpu:.1} | {ratio:.2} |\n");
    }
    Ok(table)
}

/// How many signatures all cores make in a second.
fn bare_rate(cores: usize) -> Option<f64> {
    let key = SigningKey::read(P256.as_bytes(), 257, KeyUse::EVERYTHING).ok()?;
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                for number in 0..BARE {
                    let message = [[0; 60], [1; 60]].concat();
                    let signed = key.sign(&[&message[..], &number.to_be_bytes()].concat());
                    std::hint::black_box(signed);
                }
            });
        }
    });
    Some(f64::from(BARE) * cores as f64 / begun.elapsed().as_secs_f64())
}

fn ours(
    zone: &str,
    file: &Path,
    (program, ready_timeout): (&Path, Duration),
) -> io::Result<(SigningRun, u32)> {
    let begun = Instant::now();
    let options = PeerOptions {
        ready_timeout,
        ..PeerOptions::default()
    };
    let peer = Peer::launch(&[zone], &options, |directory, addr| {
        let config = directory.join("nameward.toml");
        let (state, socket) = (directory.join("state"), directory.join("control.sock"));
        fs::create_dir(&state)?;
        fs::write(
            &config,
            format!(
                "[server]\nlisten = [\"{addr}\"]\ncontrol_socket = \"{}\"\nstate_directory = \"{}\"\n\n\
                 [web]\nlisten = \"127.0.0.1:0\"\n\n[overload]\nsigning_cpu_percent = 100\n\n\
                 [[zone]]\nname = \"{zone}\"\nfile = \"{}\"\nallow_transfer = [\"127.0.0.1\"]\n",
                socket.display(),
                state.display(),
                file.display()
            ),
        )?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(config);
        Ok(command)
    })
    .map_err(|error| io::Error::other(error.to_string()))?;
    let mut secure = Command::new(program);
    secure.args(["zone", "secure", zone, "--config"]);
    bind_keys::run(secure.arg(peer.directory().join("nameward.toml")))?;
    let transferred = transfers::transfer(peer.addr(), zone)?;
    let run = SigningRun {
        wall: begun.elapsed(),
        cpu: process::cpu_time(&[peer.pid()]),
    };
    Ok((
        run,
        u32::try_from(transferred.signatures).unwrap_or(u32::MAX),
    ))
}

fn with_bind(zone: &str, file: &Path) -> io::Result<SigningRun> {
    let directory = tempfile::tempdir()?;
    bind_keys::make(zone, directory.path())?;
    let signed = directory.path().join("signed");
    measured(|| bind_keys::signzone(zone, file, directory.path(), &signed))
}

fn with_knot(zone: &str, file: &Path, cores: usize) -> io::Result<SigningRun> {
    let directory = tempfile::tempdir()?;
    let (at, config) = (directory.path(), directory.path().join("knot.conf"));
    fs::write(
        &config,
        format!(
            "server:\n    rundir: {0}\ndatabase:\n    storage: {0}\n\
             policy:\n  - id: bench\n    algorithm: ecdsap256sha256\n    signing-threads: {cores}\n\
             zone:\n  - domain: {zone}\n    file: {1}\n    storage: {0}\n    journal-content: none\n\
             \x20   dnssec-signing: on\n    dnssec-policy: bench\n",
            at.display(),
            file.display()
        ),
    )?;
    let mut command = Command::new("kzonesign");
    command.arg("-c").arg(&config).arg("-o").arg(at).arg(zone);
    measured(|| bind_keys::run(&mut command))
}

/// The time of a program that `work` runs to its end.
fn measured(work: impl FnOnce() -> io::Result<()>) -> io::Result<SigningRun> {
    let own = [std::process::id()];
    let (begun, before) = (Instant::now(), process::cpu_time(&own));
    work()?;
    Ok(SigningRun {
        wall: begun.elapsed(),
        cpu: process::cpu_time(&own) - before,
    })
}
