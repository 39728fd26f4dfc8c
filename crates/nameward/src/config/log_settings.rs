//! Settings for the log, the query log and dnstap.

use std::path::PathBuf;

use ipnet::IpNet;
use nameward_serve::query_log::QueryLogFormat;

use super::{
    read::{Count, keywords},
    setting::section,
    settings::ZoneName,
};

keywords! {
    QueryLogFormat {
        "text" => QueryLogFormat::Text,
        "json" => QueryLogFormat::Json,
        "journald" => QueryLogFormat::Journal,
    }
}

section! {
    /// The log, written to stderr. Its level is `server.log_level`.
    Log = "log" {
        /// Format: readable text, one JSON object per line, or lines for the systemd journal, prefixed with their level
        /// and without the time.
        format: QueryLogFormat = r#""text""#;
    }
}

section! {
    /// The query log: one line per answer. `nameward query-log` turns it on and off while the server runs. Lines that
    /// cannot be written fast enough are dropped and counted; answers never wait.
    QueryLogSettings = "query_log" {
        /// Enable the query log at start-up.
        enabled: bool = "false";
        /// Output file, which can be rotated at any time; "" means stderr.
        file: Option<PathBuf> = r#""""#;
        /// Log only answers for names at and below these.
        zones: Vec<ZoneName> = "[]";
        /// Log only answers to clients in these networks.
        clients: Vec<IpNet> = "[]";
        /// Log one in this many of the selected answers.
        share: Count<1, 1_000_000_000> = "1";
        /// Maximum number of lines waiting to be written; further ones are dropped.
        queue: Count<1, 10_000_000> = "10000";
    }
}

section! {
    /// dnstap: requests and responses in wire format, for a collector.
    DnstapSettings = "dnstap" {
        /// Unix socket of the collector (Frame Streams, bidirectional); "" disables dnstap. While there is no collector,
        /// the server retries once a second.
        socket: Option<PathBuf> = r#""""#;
        /// Send requests (AUTH_QUERY).
        queries: bool = "true";
        /// Send responses (AUTH_RESPONSE).
        responses: bool = "true";
        /// Identity of this server in the messages; "" means `server.nsid`, or else the host name.
        identity: String = r#""""#;
        /// Maximum size in MiB of messages waiting for the collector; further ones are dropped and counted.
        queue_mb: Count<1, 65_536> = "16";
    }
}
