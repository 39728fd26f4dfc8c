//! `nameward tls init`: a certificate for a server that has none.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use data_encoding::BASE64;
use nameward_base::{calendar::UtcTime, file, time::now_seconds};
use nameward_control::operations::OperationError;
use nameward_serve::tls::spki_pin;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};

use super::print::{OutputForm, Printer, ended, write};
use crate::{
    command_error::{CommandError, CommandResult},
    serve::host_name,
};

/// Seconds for which a certificate is valid: it is known by its pin, so that its end is only a reminder.
const VALIDITY: u64 = 3650 * 86_400;
/// A clock that is slower than ours must accept it, too.
const CLOCK_SKEW: u64 = 86_400;
const CERTIFICATE: &str = "tls.pem";
const KEY: &str = "tls.key";

#[derive(Subcommand)]
pub enum TlsCommand {
    /// Make a self-signed certificate and its key, and print the settings and the pin
    Init {
        /// Directory for the files tls.pem and tls.key, which must not exist
        #[arg(long, default_value = ".")]
        directory: PathBuf,
        /// Names and addresses that clients connect to [default: the host name]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
}

/// A certificate with its key, in PEM, and its pin.
struct MadeCertificate {
    certificate: String,
    key: String,
    pin: String,
}

/// Runs the command.
pub fn run(command: TlsCommand, form: OutputForm) -> CommandResult {
    let TlsCommand::Init { directory, names } = command;
    let names = if names.is_empty() {
        vec![host_name()]
    } else {
        names
    };
    let made = make(&names)?;
    let directory = fs::canonicalize(&directory).map_err(|error| failed(&directory, &error))?;
    let (certificate, key) = (directory.join(CERTIFICATE), directory.join(KEY));
    if let Some(existing) = [&certificate, &key].into_iter().find(|path| path.exists()) {
        let text = format!(
            "{}: exists already; nothing was written",
            existing.display()
        );
        return Err(OperationError::refused(text).into());
    }
    write_new(&key, &made.key, 0o600)?;
    if let Err(error) = write_new(&certificate, &made.certificate, 0o644) {
        let _ = fs::remove_file(&key);
        return Err(error);
    }
    let (certificate, key) = (certificate.display(), key.display());
    if form == OutputForm::Json {
        let object = serde_json::json!({
            "certificate": certificate.to_string(),
            "key": key.to_string(),
            "names": names,
            "pin": made.pin,
        });
        return ended(Printer::new(form).object(&object, ""));
    }
    let text = format!(
        "# certificate for {}; pin of its key (SHA-256): {}\n[server]\nlisten_tls = [\"0.0.0.0:853\", \"[::]:853\"]\n\n\
         [tls]\ncertificate = {:?}\nkey = {:?}\n",
        names.join(", "),
        made.pin,
        certificate.to_string(),
        key.to_string(),
    );
    write(text.as_bytes())
}

fn make(names: &[String]) -> CommandResult<MadeCertificate> {
    let invalid = |error: rcgen::Error| {
        OperationError::invalid(format!(
            "cannot make a certificate for {}: {error}",
            names.join(", ")
        ))
    };
    let mut parameters = CertificateParams::new(names).map_err(invalid)?;
    let mut subject = DistinguishedName::new();
    // Longer common names than 64 octets are invalid (RFC 5280); clients compare the alternative names.
    if let Some(name) = names.first().filter(|name| name.len() <= 64) {
        subject.push(DnType::CommonName, name.as_str());
    }
    parameters.distinguished_name = subject;
    // Clients refuse the certificate of an authority as that of a server.
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let date = |seconds| {
        let day = UtcTime::from_unix(seconds);
        date_time_ymd(day.year as i32, day.month as u8, day.day as u8)
    };
    let now = now_seconds();
    parameters.not_before = date(now.saturating_sub(CLOCK_SKEW));
    parameters.not_after = date(now + VALIDITY);
    let key = KeyPair::generate().map_err(invalid)?;
    let certificate = parameters.self_signed(&key).map_err(invalid)?;
    let pin = spki_pin(certificate.der()).map(|pin| BASE64.encode(&pin));
    Ok(MadeCertificate {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        pin: pin.unwrap_or_default(),
    })
}

fn write_new(path: &Path, text: &str, mode: u32) -> CommandResult<()> {
    file::write_new(path, mode, text.as_bytes()).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> CommandError {
    OperationError::backend(format!("{}: {error}", path.display())).into()
}
