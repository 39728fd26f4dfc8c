//! Whole transfers (AXFR) from each server: wall time, processor time of the server, octets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nameward_testkit::TestFailure;
use nameward_testkit::peers::PeerOptions;

use crate::compare::Plan;
use crate::process::{self, CpuTime};
use crate::server::Server;
use crate::sys;
use crate::zones::ZoneFiles;

/// Octets of a message header.
const HEADER: usize = 12;
/// The type of a SOA, which begins and ends a transfer.
const SOA: u16 = 6;
/// The type of a signature.
const RRSIG: u16 = 46;
/// How long a server may be silent within a transfer.
const SILENCE: Duration = Duration::from_secs(60);

/// One transfer as the client saw it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transferred {
    records: u64,
    messages: u64,
    octets: u64,
    /// Records of the type RRSIG.
    pub signatures: u64,
}

/// One transfer and what it cost the server.
#[derive(Clone, Copy, Debug)]
pub struct TransferRun {
    transferred: Transferred,
    wall: Duration,
    cpu: CpuTime,
}

/// Starts a server, transfers its first zone once to warm up and once to measure.
pub fn measure(
    server: Server,
    files: &ZoneFiles,
    plan: &Plan<'_>,
) -> Result<TransferRun, TestFailure> {
    let options = PeerOptions {
        cpu: Some(plan.server_core),
        allow_transfer: true,
        ready_timeout: plan.ready_timeout,
        ..PeerOptions::default()
    };
    let peer = server.start(plan.binaries, files, options)?;
    sys::pin_to_core(plan.client_core)?;
    let (name, _) = files.zones.first().ok_or("no zone")?;
    let transfer =
        || transfer(peer.addr(), name).map_err(|error| TestFailure::from(error).at("AXFR"));
    transfer()?;
    let before = process::cpu_time(&process::tree(peer.pid())?);
    let begun = Instant::now();
    let transferred = transfer()?;
    let wall = begun.elapsed();
    // Some servers fork for a transfer: the time of the child is the parent's when it has ended.
    std::thread::sleep(Duration::from_millis(300));
    let after = process::cpu_time(&process::tree(peer.pid())?);
    Ok(TransferRun {
        transferred,
        wall,
        cpu: after - before,
    })
}

/// The table of all runs of a scenario.
pub fn table(runs: &[(Server, Result<TransferRun, TestFailure>)]) -> String {
    let mut text = String::from(
        "| server | wall s | CPU s | user s | sys s | records | messages | MB |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (server, run) in runs {
        match run {
            Err(error) => {
                let line = error.first_line();
                text += &format!("| {server} | failed: {line} | | | | | | |\n");
            }
            Ok(TransferRun {
                transferred,
                wall,
                cpu,
            }) => {
                text += &format!(
                    "| {server} | {:.3} | {:.2} | {:.2} | {:.2} | {} | {} | {:.1} |\n",
                    wall.as_secs_f64(),
                    cpu.total(),
                    cpu.user,
                    cpu.system,
                    transferred.records,
                    transferred.messages,
                    transferred.octets as f64 / 1e6,
                );
            }
        }
    }
    text
}

/// The run with the median processor time; an error if one failed.
pub fn median(runs: Vec<Result<TransferRun, TestFailure>>) -> Result<TransferRun, TestFailure> {
    let mut runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    runs.sort_by(|a, b| a.cpu.total().total_cmp(&b.cpu.total()));
    runs.get(runs.len() / 2).copied().ok_or("no run".into())
}

/// Transfers a zone and throws it away.
pub fn transfer(server: SocketAddr, name: &str) -> io::Result<Transferred> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.write_all(&request(name))?;
    let (mut seen, mut soas) = (Transferred::default(), 0);
    let mut message = vec![0; usize::from(u16::MAX)];
    while soas < 2 {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let message = &mut message[..usize::from(u16::from_be_bytes(len))];
        stream.read_exact(message)?;
        let counts = count(message).ok_or(io::ErrorKind::InvalidData)?;
        seen.records += counts.records;
        seen.signatures += counts.signatures;
        seen.messages += 1;
        seen.octets += message.len() as u64 + 2;
        soas += counts.soas;
    }
    Ok(seen)
}

/// The question for a zone, with its length before it.
fn request(name: &str) -> Vec<u8> {
    let mut message = b"\0\0\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 252, 0, 1]);
    let len = (message.len() - 2) as u16;
    message[..2].copy_from_slice(&len.to_be_bytes());
    message
}

/// The records of a message, and those of two types among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordCounts {
    records: u64,
    soas: u64,
    signatures: u64,
}

/// Counts the records of a message; `None` if it is an error or cannot be read.
fn count(message: &[u8]) -> Option<RecordCounts> {
    let number = |at: usize| {
        let octets = message.get(at..)?.first_chunk()?;
        Some(u16::from_be_bytes(*octets))
    };
    if message.get(3)? & 0x0f != 0 {
        return None;
    }
    let mut at = HEADER;
    for _ in 0..number(4)? {
        at = skip_name(message, at)? + 4;
    }
    let mut counts = RecordCounts {
        records: number(6)?.into(),
        soas: 0,
        signatures: 0,
    };
    for _ in 0..counts.records {
        at = skip_name(message, at)?;
        let rtype = number(at)?;
        counts.soas += u64::from(rtype == SOA);
        counts.signatures += u64::from(rtype == RRSIG);
        at += 10 + usize::from(number(at + 8)?);
    }
    (counts.records > 0).then_some(counts)
}

/// The place behind a name.
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            len @ 1..=63 => at += 1 + usize::from(len),
            _ => return Some(at + 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_and_errors_are_not() {
        let question = request("example.org");
        assert_eq!(question.len() - 2, 12 + 13 + 4);
        let mut message = question[2..].to_vec();
        message[7] = 2;
        for rtype in [6, 1] {
            message.extend_from_slice(b"\xc0\x0c\0");
            message.push(rtype);
            message.extend_from_slice(b"\0\x01\0\0\0\x3c\0\x01x");
        }
        let counts = Some(RecordCounts {
            records: 2,
            soas: 1,
            signatures: 0,
        });
        assert_eq!(count(&message), counts);
        let cut = &message[..message.len() - 1];
        assert_eq!(count(cut), counts, "data is not looked at");
        message[3] = 5;
        assert_eq!(count(&message), None);
    }
}
