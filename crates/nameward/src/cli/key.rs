//! The command line of `nameward key`, and its conversion to requests.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use nameward_control::operations::{
    DsReport, KeyChange, KeyTemplate, OperationError, OperationRequest, Outcome, SecretText,
};

use super::apply::read_start;
use super::target::{RemoteArguments, ServerRequest};
use crate::command_error::CommandResult;

/// Maximum size of a key file.
const KEY_MAX: u64 = 64 << 10;

#[derive(Subcommand)]
pub enum KeyCommand {
    /// List the keys of a zone, or of all zones: number, key tag, role, algorithm, state
    List {
        /// The zone
        zone: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Generate a key and sign with it
    Add(TemplateArguments),
    /// Import an existing key: a BIND .private file, or PEM
    Import {
        /// The file; - reads stdin
        file: PathBuf,
        #[command(flatten)]
        template: TemplateArguments,
    },
    /// Print the private key, for another server
    Export {
        #[command(flatten)]
        key: KeyArguments,
        /// Print PEM instead of the BIND .private format
        #[arg(long)]
        pem: bool,
    },
    /// Activate a key: sign with it
    Activate(KeyArguments),
    /// Deactivate a key: stop signing with it
    Deactivate(KeyArguments),
    /// Publish a key's DNSKEY in the zone
    Publish(KeyArguments),
    /// Unpublish a key's DNSKEY
    Unpublish(KeyArguments),
    /// Roll the keys of a zone with a dnssec_policy, step by step, and print the next step
    Rollover {
        /// The zone
        zone: String,
        /// Roll only keys of this role: ksk, zsk or csk
        #[arg(long)]
        role: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Confirm that all parent servers have the DS of a key, or of all keys waiting for it
    DsSeen(ReportArguments),
    /// Confirm that no parent server still has the DS of a key
    DsGone(ReportArguments),
    /// Remove a key permanently
    Remove(KeyArguments),
}

#[derive(Args)]
pub struct KeyArguments {
    /// The zone
    zone: String,
    /// Number of the key, as shown by `nameward key list`
    key: u32,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Args)]
pub struct ReportArguments {
    /// The zone
    zone: String,
    /// Number of the key, as shown by `nameward key list` [default: all keys waiting for it]
    key: Option<u32>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Args)]
pub struct TemplateArguments {
    /// The zone
    zone: String,
    /// csk signs everything, ksk the DNSKEY RRset, zsk everything else
    #[arg(long, default_value = "csk")]
    role: String,
    /// The algorithm, by number or name; a .private file names its own
    #[arg(long, default_value = "ECDSAP256SHA256")]
    algorithm: String,
    /// Bits of a new RSA key: 1024 to 4096, a multiple of 128
    #[arg(long, default_value = "2048")]
    bits: u32,
    /// Do not activate it yet
    #[arg(long)]
    inactive: bool,
    /// Do not publish it yet
    #[arg(long)]
    unpublished: bool,
    /// Add a KSK or ZSK even if no other key signs the rest of the zone
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

impl TemplateArguments {
    fn split(self) -> (KeyTemplate, RemoteArguments) {
        let template = KeyTemplate {
            zone: self.zone,
            role: Some(self.role),
            algorithm: Some(self.algorithm),
            bits: Some(self.bits),
            inactive: self.inactive,
            unpublished: self.unpublished,
            force: self.force,
        };
        (template, self.remote)
    }
}

pub fn request(command: KeyCommand) -> CommandResult<ServerRequest> {
    let change = |key: KeyArguments, change| {
        let request = OperationRequest::KeyChange {
            zone: key.zone,
            key: key.key,
            change,
        };
        (request, key.remote)
    };
    let report = |arguments: ReportArguments, report| {
        let request = OperationRequest::KeyDs {
            zone: arguments.zone,
            key: arguments.key,
            report,
        };
        (request, arguments.remote)
    };
    Ok(match command {
        KeyCommand::Rollover { zone, role, remote } => {
            (OperationRequest::KeyRollover { zone, role }, remote)
        }
        KeyCommand::DsSeen(arguments) => report(arguments, DsReport::Seen),
        KeyCommand::DsGone(arguments) => report(arguments, DsReport::Gone),
        KeyCommand::List { zone, remote } => (OperationRequest::KeyList { zone }, remote),
        KeyCommand::Add(arguments) => {
            let (template, remote) = arguments.split();
            (OperationRequest::KeyAdd(template), remote)
        }
        KeyCommand::Import { file, template } => {
            let private = SecretText::from(read_key(&file)?);
            let (template, remote) = template.split();
            (OperationRequest::KeyImport { private, template }, remote)
        }
        KeyCommand::Export { key, pem } => {
            let request = OperationRequest::KeyExport {
                zone: key.zone,
                key: key.key,
                pem,
            };
            (request, key.remote)
        }
        KeyCommand::Activate(key) => change(key, KeyChange::Activate),
        KeyCommand::Deactivate(key) => change(key, KeyChange::Deactivate),
        KeyCommand::Publish(key) => change(key, KeyChange::Publish),
        KeyCommand::Unpublish(key) => change(key, KeyChange::Unpublish),
        KeyCommand::Remove(key) => {
            let request = OperationRequest::KeyRemove {
                zone: key.zone,
                key: key.key,
            };
            (request, key.remote)
        }
    })
}

pub(super) fn read_key(path: &Path) -> Outcome<String> {
    read_start(path, KEY_MAX).map_err(|error| {
        let path = path.display();
        OperationError::invalid(format!("cannot read the key from {path}: {error}"))
    })
}
