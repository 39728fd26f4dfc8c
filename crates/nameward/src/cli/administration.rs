//! Owns the command line of `nameward zone` and `nameward record`: what can be said, and the request it becomes.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use nameward_control::operations::encode;

use super::{RemoteArguments, ask};

#[derive(Subcommand)]
pub enum ZoneCommand {
    /// Print name, kind and backend of every zone
    List {
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Print what is known of a zone in a database
    Show {
        /// The zone
        #[arg(value_name = "ZONE")]
        zone: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Make a zone in a database
    Create(CreateArguments),
    /// Delete a zone from its database, with records, comments, metadata and keys
    Delete {
        /// The zone
        #[arg(value_name = "ZONE")]
        zone: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Args)]
pub struct CreateArguments {
    /// The zone
    #[arg(value_name = "ZONE")]
    zone: String,
    /// native, primary, secondary, producer or consumer
    #[arg(long, value_name = "KIND", default_value = "native")]
    kind: String,
    /// A name server of the zone; may be repeated, the first one stands in the SOA
    #[arg(long = "ns", value_name = "NAME")]
    name_servers: Vec<String>,
    /// The mailbox in the SOA, as a name [default: hostmaster.ZONE]
    #[arg(long, value_name = "NAME")]
    hostmaster: Option<String>,
    /// Where a secondary zone comes from; may be repeated
    #[arg(long = "primary", value_name = "ADDRESS")]
    primaries: Vec<String>,
    /// The TTL of SOA and NS
    #[arg(long, value_name = "TTL", default_value = "3600")]
    ttl: String,
    /// The number of the backend in the configuration [default: the first database]
    #[arg(long, value_name = "NUMBER")]
    backend: Option<u16>,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Subcommand)]
pub enum RecordCommand {
    /// Print records as lines of a zone file, disabled ones too
    List {
        /// The zone
        #[arg(value_name = "ZONE")]
        zone: String,
        /// The owner: @ for the zone itself, www or www.example.org
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// The type
        #[arg(value_name = "TYPE")]
        rtype: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Put records in place of all of this name and type
    ///
    /// nameward record set example.org www A 300 192.0.2.1 192.0.2.2
    ///
    /// nameward record set example.org @ MX 1h '10 mail.example.org.'
    Set(RecordArguments),
    /// Add records to those of this name and type; the TTL becomes that of all
    Add(RecordArguments),
    /// Delete a name, a name and type, or single records
    Delete {
        /// The zone
        #[arg(value_name = "ZONE")]
        zone: String,
        /// The owner: @ for the zone itself, www or www.example.org
        #[arg(value_name = "NAME")]
        name: String,
        /// The type; without it all types of the name
        #[arg(value_name = "TYPE")]
        rtype: Option<String>,
        /// The data of the records to delete; without it all of the type
        #[arg(value_name = "CONTENT")]
        contents: Vec<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Args)]
pub struct RecordArguments {
    /// The zone
    #[arg(value_name = "ZONE")]
    zone: String,
    /// The owner: @ for the zone itself, www or www.example.org
    #[arg(value_name = "NAME")]
    name: String,
    /// The type
    #[arg(value_name = "TYPE")]
    rtype: String,
    /// Seconds, or 1h, 1d
    #[arg(value_name = "TTL")]
    ttl: String,
    /// The data of each record, names with their final dot; in quotes if it has spaces
    #[arg(value_name = "CONTENT", required = true)]
    contents: Vec<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

/// A request to the running server.
pub struct Request {
    words: Vec<String>,
    remote: RemoteArguments,
}

impl Request {
    fn new(what: &[&str], rest: impl IntoIterator<Item = String>, remote: RemoteArguments) -> Self {
        let what = what.iter().map(ToString::to_string);
        Request {
            words: what.chain(rest).collect(),
            remote,
        }
    }

    /// Sends it and prints the reply.
    pub fn ask(self) -> Result<ExitCode, String> {
        ask(&encode(self.words.iter().map(String::as_str)), self.remote)
    }
}

/// The request of `nameward zone`.
pub fn zone(command: ZoneCommand) -> Request {
    match command {
        ZoneCommand::List { remote } => Request::new(&["zone", "list"], [], remote),
        ZoneCommand::Show { zone, remote } => Request::new(&["zone", "show"], [zone], remote),
        ZoneCommand::Delete { zone, remote } => Request::new(&["zone", "delete"], [zone], remote),
        ZoneCommand::Create(arguments) => {
            let mut words = vec![
                arguments.zone,
                format!("kind={}", arguments.kind),
                format!("ttl={}", arguments.ttl),
            ];
            let options = |key: &str, values: Vec<String>| -> Vec<String> {
                values
                    .iter()
                    .map(|value| format!("{key}={value}"))
                    .collect()
            };
            words.extend(options("ns", arguments.name_servers));
            words.extend(options("primary", arguments.primaries));
            words.extend(options(
                "hostmaster",
                arguments.hostmaster.into_iter().collect(),
            ));
            words.extend(arguments.backend.map(|number| format!("backend={number}")));
            Request::new(&["zone", "create"], words, arguments.remote)
        }
    }
}

/// The request of `nameward record`.
pub fn record(command: RecordCommand) -> Request {
    let with_contents = |how: &str, arguments: RecordArguments| {
        let words = [
            arguments.zone,
            arguments.name,
            arguments.rtype,
            arguments.ttl,
        ];
        let words = words.into_iter().chain(arguments.contents);
        Request::new(&["record", how], words, arguments.remote)
    };
    match command {
        RecordCommand::List {
            zone,
            name,
            rtype,
            remote,
        } => {
            let words = [zone].into_iter().chain(name).chain(rtype);
            Request::new(&["record", "list"], words, remote)
        }
        RecordCommand::Set(arguments) => with_contents("set", arguments),
        RecordCommand::Add(arguments) => with_contents("add", arguments),
        RecordCommand::Delete {
            zone,
            name,
            rtype,
            contents,
            remote,
        } => {
            let words = [zone, name].into_iter().chain(rtype).chain(contents);
            Request::new(&["record", "delete"], words, remote)
        }
    }
}
