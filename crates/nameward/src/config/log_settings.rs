//! Owns the settings of what is written down: the log, the query log, dnstap.

use std::path::PathBuf;

use ipnet::IpNet;

use super::{
    read::{Count, Plural, words},
    setting::section,
    settings::ZoneName,
};

impl Plural for ZoneName {
    const LIST: &'static str = "a list of names of zones";
}

words! {
    /// The form of the log.
    LogFormat {
        /// Lines for people.
        Text = "text",
        /// A JSON object a line.
        Json = "json",
        /// Lines with the level before them, as sd-daemon(3) has it.
        Journald = "journald",
    }
}

section! {
    /// The log, which goes to stderr. Its level is `server.log_level`.
    Log = "log" {
        /// Lines for people, a JSON object a line, or lines for the journal of systemd, which reads the level before them
        /// and has the time itself.
        format: LogFormat = r#""text""#;
    }
}

section! {
    /// The query log: a line for each answer. `nameward query-log` turns it on and off while the server runs. Lines that
    /// cannot be written as fast as they come are dropped and counted; answers never wait.
    QueryLogSettings = "query_log" {
        /// Whether it is on from the start.
        enabled: bool = "false";
        /// The file, which may be moved away at any time; "" means stderr.
        file: Option<PathBuf> = r#""""#;
        /// Only answers about names at and below these.
        zones: Vec<ZoneName> = "[]";
        /// Only answers to clients in these networks.
        clients: Vec<IpNet> = "[]";
        /// Of these, one in so many.
        share: Count<1, 1_000_000_000> = "1";
        /// Lines that may wait to be written; more are dropped.
        queue: Count<1, 10_000_000> = "10000";
    }
}

section! {
    /// dnstap: requests and replies as they are, for a collector.
    DnstapSettings = "dnstap" {
        /// The Unix socket on which the collector listens (Frame Streams, both ends shake hands); "" sends nothing. While
        /// nobody listens, it is tried once a second.
        socket: Option<PathBuf> = r#""""#;
        /// Whether requests are sent (AUTH_QUERY).
        queries: bool = "true";
        /// Whether replies are sent (AUTH_RESPONSE).
        responses: bool = "true";
        /// The name of this server in the messages; "" means `server.nsid`, or else the name of the host.
        identity: String = r#""""#;
        /// MiB of messages that may wait for the collector; more are dropped and counted.
        queue_mb: Count<1, 65_536> = "16";
    }
}
