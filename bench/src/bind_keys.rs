//! Keys and signed files made by the tools of BIND.

use std::io;
use std::path::Path;
use std::process::Command;

/// Ten years: files are kept between runs.
const VALIDITY: &str = "now+315360000";

/// Signs a zone file with P-256 and an NSEC chain, with the keys of [`make`] in the same directory, and replaces it
/// by the signed one.
pub fn sign(zone: &str, file: &Path) -> io::Result<()> {
    let file = std::path::absolute(file)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    make(zone, directory)?;
    let signed = file.with_extension("signed");
    signzone(zone, &file, directory, &signed)?;
    std::fs::rename(signed, file)
}

/// Makes a KSK and a ZSK of P-256 in a directory.
pub fn make(zone: &str, directory: &Path) -> io::Result<()> {
    for flags in [&["-f", "KSK"][..], &[]] {
        let mut command = Command::new("dnssec-keygen");
        command.args(["-q", "-a", "ECDSAP256SHA256", "-K"]);
        command.arg(directory).args(flags).arg(zone);
        run(&mut command)?;
    }
    Ok(())
}

/// Runs dnssec-signzone with a thread for each core, without its own check of the result.
pub fn signzone(zone: &str, file: &Path, keys: &Path, out: &Path) -> io::Result<()> {
    let mut command = Command::new("dnssec-signzone");
    command.args(["-q", "-P", "-S", "-e", VALIDITY, "-o", zone, "-K"]);
    command.arg(keys).arg("-f").arg(out).arg(file);
    // It leaves a file of DS records in its working directory.
    command.current_dir(keys);
    run(&mut command)
}

/// Runs a program to its end.
pub fn run(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(io::Error::other(format!("{program}: {said}")))
    }
}
