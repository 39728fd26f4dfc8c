//! The command line for what databases keep besides served records: metadata, zone settings, comments, disabled
//! records.

use clap::{Args, Subcommand};
use nameward_control::operations::{
    ListedKind, MetadataChange, MetadataRequest, OperationRequest, Outcome, RecordComment,
    RecordUse, ZoneSettings,
};

use super::target::{ChangeArguments, RemoteArguments, ServerRequest, ZoneArguments};

#[derive(Subcommand)]
pub enum MetadataCommand {
    /// Print the metadata of a zone, one line per item
    List(ZoneArguments),
    /// Print the items of one kind
    Get {
        /// The zone
        zone: String,
        /// The kind, such as ALLOW-AXFR-FROM
        kind: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Replace all items of a kind
    Set(MetadataArguments),
    /// Add items to a kind
    Add(MetadataArguments),
    /// Remove items, or all of a kind
    Remove {
        /// The zone
        zone: String,
        /// The kind, such as ALLOW-AXFR-FROM
        kind: String,
        /// The items [default: all of the kind]
        #[arg(value_name = "CONTENT")]
        contents: Vec<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Args)]
pub struct MetadataArguments {
    /// The zone
    zone: String,
    /// The kind, such as ALLOW-AXFR-FROM
    kind: String,
    /// The items
    #[arg(value_name = "CONTENT", required = true)]
    contents: Vec<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Args)]
pub struct SetArguments {
    /// The zone
    zone: String,
    /// native, primary, secondary, producer or consumer
    #[arg(long)]
    kind: Option<String>,
    /// Primary of a secondary zone: ADDRESS[:PORT][,TSIG-KEY]; may be
    /// repeated, "" removes all
    #[arg(long = "primary", value_name = "ADDRESS[,KEY]")]
    primaries: Vec<String>,
    /// The account; "" clears it
    #[arg(long)]
    account: Option<String>,
    /// Catalog zone (of kind producer, in the same database) that lists the zone; "" removes it
    #[arg(long, value_name = "ZONE")]
    catalog: Option<String>,
    /// The [[template]] with the zone's settings, for zones outside databases; "" removes it
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Subcommand)]
pub enum RecordAttributeCommand {
    /// Enable disabled records of a database zone
    Enable(UseArguments),
    /// Disable records of a database zone without deleting them
    Disable(UseArguments),
    /// Set the comment of an RRset in a database; without a text, remove it
    Comment {
        /// The zone
        zone: String,
        /// Owner name: @ for the apex, www or www.example.org
        name: String,
        /// The type
        #[arg(value_name = "TYPE")]
        rtype: String,
        /// The comment
        #[arg(value_name = "TEXT", default_value = "")]
        comment: String,
        /// Author of the comment
        #[arg(long, default_value = "")]
        account: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Print the comments of a database zone
    Comments(ZoneArguments),
    /// Search all zones for records whose owner or data match a pattern
    ///
    /// nameward record search '*.192.0.2.*'
    ///
    /// nameward record search 'www.*'
    Search {
        /// The pattern: * matches anything, ? one character
        pattern: String,
        /// Maximum number of records to print
        #[arg(long, value_name = "NUMBER", default_value = "100")]
        limit: u64,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Args)]
pub struct UseArguments {
    /// The zone
    zone: String,
    /// Owner name: @ for the apex, www or www.example.org
    name: String,
    /// The type
    #[arg(value_name = "TYPE")]
    rtype: String,
    /// Data of the records [default: all of the type]
    #[arg(value_name = "CONTENT")]
    contents: Vec<String>,
    #[command(flatten)]
    remote: ChangeArguments,
}

impl UseArguments {
    fn split(self, enabled: bool) -> ServerRequest {
        let request = RecordUse {
            zone: self.zone,
            name: self.name,
            rtype: self.rtype,
            content: self.contents,
            enabled,
        };
        (OperationRequest::RecordUse(request), self.remote.into())
    }
}

impl MetadataArguments {
    fn split(self, change: MetadataChange) -> ServerRequest {
        let request = MetadataRequest {
            zone: self.zone,
            kind: self.kind,
            content: self.contents,
            change,
        };
        (OperationRequest::MetadataChange(request), self.remote)
    }
}

pub fn metadata(command: MetadataCommand) -> ServerRequest {
    match command {
        MetadataCommand::List(of) => {
            of.request(|zone| OperationRequest::MetadataList { zone, kind: None })
        }
        MetadataCommand::Get { zone, kind, remote } => {
            let kind = Some(kind);
            (OperationRequest::MetadataList { zone, kind }, remote)
        }
        MetadataCommand::Set(arguments) => arguments.split(MetadataChange::Set),
        MetadataCommand::Add(arguments) => arguments.split(MetadataChange::Add),
        MetadataCommand::Remove {
            zone,
            kind,
            contents,
            remote,
        } => {
            let arguments = MetadataArguments {
                zone,
                kind,
                contents,
                remote,
            };
            arguments.split(MetadataChange::Remove)
        }
    }
}

/// Returns the request of `nameward zone set`, and the server it is for.
pub fn terms(arguments: SetArguments) -> Outcome<ServerRequest> {
    let kind = arguments.kind.as_deref().map(ListedKind::from_name);
    let primaries = arguments.primaries;
    let terms = ZoneSettings {
        zone: arguments.zone,
        kind: kind.transpose()?,
        primaries: match primaries.iter().all(String::is_empty) {
            true if primaries.is_empty() => None,
            true => Some(Vec::new()),
            false => Some(primaries),
        },
        account: arguments.account,
        catalog: arguments.catalog,
        template: arguments.template,
        ..ZoneSettings::default()
    };
    Ok((OperationRequest::ZoneSet(terms), arguments.remote))
}

/// Returns the request of `nameward record enable` and similar commands, and the server it is for.
pub fn record(command: RecordAttributeCommand) -> ServerRequest {
    match command {
        RecordAttributeCommand::Enable(arguments) => arguments.split(true),
        RecordAttributeCommand::Disable(arguments) => arguments.split(false),
        RecordAttributeCommand::Comment {
            zone,
            name,
            rtype,
            comment,
            account,
            remote,
        } => {
            let request = RecordComment {
                zone,
                name,
                rtype,
                comment,
                account,
            };
            (OperationRequest::RecordComment(request), remote)
        }
        RecordAttributeCommand::Comments(of) => {
            of.request(|zone| OperationRequest::CommentList { zone })
        }
        RecordAttributeCommand::Search {
            pattern,
            limit,
            remote,
        } => (OperationRequest::RecordSearch { pattern, limit }, remote),
    }
}
