//! The command line of `nameward zone` and `nameward record`, and its conversion to requests.

use clap::{Args, Subcommand};
use nameward_control::operations::{
    ListedKind, OperationError, OperationRequest, Outcome, RecordTemplate, ZoneTemplate,
};
use nameward_wire::rdata::parse_ttl;

use super::attributes::{self, RecordAttributeCommand, SetArguments};
use super::target::{ChangeArguments, RemoteArguments, ServerRequest, ZoneArguments};
use super::zone_commands::{self, ZoneWorkCommand};

#[derive(Subcommand)]
pub enum ZoneCommand {
    #[command(flatten)]
    Work(ZoneWorkCommand),
    /// Print name, kind and backend of every zone
    List {
        /// List deleted zones that can be restored
        #[arg(long)]
        deleted: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Show kind, serial, records and storage of a zone
    Show(ZoneArguments),
    /// Show serial, checks, errors and running transfers of a zone, or of all that are transferred or notified
    Status {
        /// The zone
        zone: Option<String>,
        /// Query the zone's secondaries for their serials
        #[arg(long, requires = "zone")]
        secondaries: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Refresh a secondary zone from its primary now
    Retrieve {
        /// The zone
        zone: String,
        /// Transfer the whole zone (AXFR), even if the serial of the primary is the same or lower
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Send NOTIFY to the secondaries of a zone
    Notify(ZoneArguments),
    /// Create a zone: in a database, as a file in the directory of a file backend, or as a secondary in the state store
    ///
    /// nameward zone create example.org --ns ns1.example.net --ns ns2.example.net
    ///
    /// nameward zone create example.org --kind secondary --primary 192.0.2.1,key.example
    Create(CreateArguments),
    /// Delete a zone with all its data; `zone undelete` restores it
    Delete {
        /// The zone
        zone: String,
        /// Keep no copy; the zone cannot be restored
        #[arg(long)]
        no_copy: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Restore a recently deleted zone with all its data
    Undelete {
        /// The zone
        zone: String,
        /// Number of the backend to restore it to [default: the original one]
        #[arg(long, value_name = "NUMBER")]
        backend: Option<u32>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Change kind, primaries, catalog, account or template of a zone
    Set(SetArguments),
    /// Sign a zone with a new key; for a signed zone, change the denial of existence or SOA-EDIT
    Secure {
        /// The zone
        zone: String,
        /// Algorithm of the key, by number or name [default: ECDSAP256SHA256]
        #[arg(long)]
        algorithm: Option<String>,
        /// Denial of existence: nsec (the default), nsec3, nsec3-opt-out (skips insecure delegations), white-lies (records
        /// made for each answer, the zone cannot be walked), compact (RFC 9824)
        #[arg(long, value_name = "WORD")]
        denial: Option<String>,
        /// SOA-EDIT of the served serial: INCREMENT-WEEKS, INCEPTION-EPOCH, INCEPTION-INCREMENT, EPOCH
        #[arg(long, value_name = "WORD")]
        soa_edit: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Stop signing a zone and remove its keys, once its parent no longer has a DS
    Unsecure {
        /// The zone
        zone: String,
        /// Do not check the parent for a DS
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Recompute auth, ordername and empty non-terminals of a database zone, for PowerDNS on the same database; needed after
    /// other programs have written rows
    Rectify(ZoneArguments),
    /// Print the DS records for the parent of a signed zone, with DNSKEY, CDS and CDNSKEY
    Ds(ZoneArguments),
    /// Write pending changes to the zone file, preserving comments and layout
    Sync {
        /// The zone
        zone: String,
        /// Overwrite the file with the whole zone, without comments
        #[arg(long)]
        rewrite: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Suspend updates and write the zone file, so that it can be edited
    Freeze(ZoneArguments),
    /// Load the zone file and resume updates
    Thaw(ZoneArguments),
}

#[derive(Args)]
pub struct CreateArguments {
    /// The zone
    zone: String,
    /// native, primary, secondary, consumer or producer
    #[arg(long, default_value = "native")]
    kind: String,
    /// Primary of a secondary zone: ADDRESS[:PORT][,TSIG-KEY]; may be
    /// repeated
    #[arg(long = "primary", value_name = "ADDRESS[,KEY]")]
    primaries: Vec<String>,
    /// Name server of the zone; may be repeated, the first one is the MNAME of the SOA
    #[arg(long = "ns", value_name = "NAME")]
    name_servers: Vec<String>,
    /// RNAME of the SOA, as a name or as joe@example.org [default: hostmaster.ZONE]
    #[arg(long, value_name = "NAME")]
    hostmaster: Option<String>,
    /// The TTL of SOA and NS
    #[arg(long, default_value = "3600")]
    ttl: String,
    /// The number of the backend in the configuration [default: the first database, or else the first directory]
    #[arg(long, value_name = "NUMBER")]
    backend: Option<u32>,
    /// The [[template]] with the zone's settings; for zones outside databases
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Subcommand)]
pub enum RecordCommand {
    #[command(flatten)]
    Attributes(RecordAttributeCommand),
    /// Print the stored records as zone file lines; records that are not served are comments
    List {
        /// The zone
        zone: String,
        /// Owner name: @ for the apex, www or www.example.org
        name: Option<String>,
        /// The type
        #[arg(value_name = "TYPE")]
        rtype: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Replace the RRset of a name and type
    ///
    /// nameward record set example.org www A 300 192.0.2.1 192.0.2.2
    ///
    /// nameward record set example.org @ MX 1h '10 mail.example.org.'
    Set(RecordArguments),
    /// Add records to an RRset; its TTL is set for all of them
    Add(RecordArguments),
    /// Delete a name, a name and type, or single records
    Delete {
        /// The zone
        zone: String,
        /// Owner name: @ for the apex, www or www.example.org
        name: String,
        /// The type [default: all types]
        #[arg(value_name = "TYPE")]
        rtype: Option<String>,
        /// Data of the records to delete [default: all of the type]
        #[arg(value_name = "CONTENT")]
        contents: Vec<String>,
        #[command(flatten)]
        remote: ChangeArguments,
    },
}

#[derive(Args)]
pub struct RecordArguments {
    /// The zone
    zone: String,
    /// Owner name: @ for the apex, www or www.example.org
    name: String,
    /// The type
    #[arg(value_name = "TYPE")]
    rtype: String,
    /// TTL in seconds, or 1h, 1d
    ttl: String,
    /// Data of each record, names with a trailing dot; quote it if it contains spaces
    #[arg(value_name = "CONTENT", required = true)]
    contents: Vec<String>,
    #[command(flatten)]
    remote: ChangeArguments,
}

fn deletion(zone: String, no_copy: bool) -> OperationRequest {
    OperationRequest::ZoneDelete {
        zone,
        no_copy,
        serial: None,
    }
}

pub fn zone(command: ZoneCommand) -> Outcome<ServerRequest> {
    Ok(match command {
        ZoneCommand::Work(command) => return zone_commands::request(command),
        ZoneCommand::Set(arguments) => return attributes::terms(arguments),
        ZoneCommand::List {
            deleted: true,
            remote,
        } => (OperationRequest::DeletedZoneList, remote),
        ZoneCommand::List { remote, .. } => (OperationRequest::ZoneList, remote),
        ZoneCommand::Show(of) => of.request(|zone| OperationRequest::ZoneShow { zone }),
        ZoneCommand::Status {
            zone,
            secondaries,
            remote,
        } => (OperationRequest::ZoneStatus { zone, secondaries }, remote),
        ZoneCommand::Retrieve {
            zone,
            force,
            remote,
        } => (OperationRequest::ZoneRetrieve { zone, force }, remote),
        ZoneCommand::Notify(of) => of.request(|zone| OperationRequest::ZoneNotify { zone }),
        ZoneCommand::Delete {
            zone,
            no_copy,
            remote,
        } => (deletion(zone, no_copy), remote),
        ZoneCommand::Undelete {
            zone,
            backend,
            remote,
        } => (OperationRequest::ZoneUndelete { zone, backend }, remote),
        ZoneCommand::Sync {
            zone,
            rewrite,
            remote,
        } => (OperationRequest::ZoneSync { zone, rewrite }, remote),
        ZoneCommand::Secure {
            zone,
            algorithm,
            denial,
            soa_edit,
            remote,
        } => {
            let request = OperationRequest::ZoneSecure {
                zone,
                algorithm,
                denial,
                soa_edit,
            };
            (request, remote)
        }
        ZoneCommand::Unsecure {
            zone,
            force,
            remote,
        } => (OperationRequest::ZoneUnsecure { zone, force }, remote),
        ZoneCommand::Rectify(of) => of.request(|zone| OperationRequest::ZoneRectify { zone }),
        ZoneCommand::Ds(of) => of.request(|zone| OperationRequest::ZoneDs { zone }),
        ZoneCommand::Freeze(of) => of.request(|zone| OperationRequest::ZoneFreeze { zone }),
        ZoneCommand::Thaw(of) => of.request(|zone| OperationRequest::ZoneThaw { zone }),
        ZoneCommand::Create(arguments) => {
            let template = ZoneTemplate {
                zone: arguments.zone,
                kind: ListedKind::from_name(&arguments.kind)?,
                name_servers: arguments.name_servers,
                primaries: arguments.primaries,
                hostmaster: arguments.hostmaster,
                ttl: read_ttl(&arguments.ttl)?,
                backend: arguments.backend,
                template: arguments.template,
                records: Vec::new(),
            };
            (OperationRequest::ZoneCreate(template), arguments.remote)
        }
    })
}

pub fn record(command: RecordCommand) -> Outcome<ServerRequest> {
    Ok(match command {
        RecordCommand::Attributes(command) => attributes::record(command),
        RecordCommand::List {
            zone,
            name,
            rtype,
            remote,
        } => (OperationRequest::RecordList { zone, name, rtype }, remote),
        RecordCommand::Set(arguments) => {
            let (template, remote) = arguments.split()?;
            (OperationRequest::RecordSet(template), remote)
        }
        RecordCommand::Add(arguments) => {
            let (template, remote) = arguments.split()?;
            (OperationRequest::RecordAdd(template), remote)
        }
        RecordCommand::Delete {
            zone,
            name,
            rtype,
            contents,
            remote,
        } => {
            let request = OperationRequest::RecordDelete {
                zone,
                name,
                rtype,
                content: contents,
            };
            (request, remote.into())
        }
    })
}

impl RecordArguments {
    fn split(self) -> Outcome<(RecordTemplate, RemoteArguments)> {
        let template = RecordTemplate {
            ttl: read_ttl(&self.ttl)?,
            zone: self.zone,
            name: self.name,
            rtype: self.rtype,
            content: self.contents,
        };
        Ok((template, self.remote.into()))
    }
}

pub fn read_ttl(text: &str) -> Outcome<u32> {
    parse_ttl(text.as_bytes()).ok_or_else(|| {
        OperationError::invalid(format!("expected a TTL such as 300 or 1h, found {text:?}"))
    })
}
