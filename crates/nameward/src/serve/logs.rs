//! The traffic logs: the query log and dnstap, controlled by settings and by command.

use std::{fs, io};

use ipnet::IpNet;
use nameward_control::operations::{
    DnstapStatus, OperationError, OperationResult, Outcome, QueryLogStatus, QueryLogTemplate,
    zone_name,
};
use nameward_serve::{
    dnstap::{Dnstap, DnstapOptions},
    pipeline::ServingState,
    query_log::{QueryFilter, QueryLog, QueryLogFormat, QueryLogOutput},
};

use crate::config::{Config, log_settings::QueryLogSettings};

/// The query log and dnstap of a running server.
pub struct TrafficLogs {
    query_log: QueryLog,
    output: String,
    /// dnstap, and the collector's socket as configured.
    dnstap: Option<(Dnstap, String)>,
}

impl TrafficLogs {
    /// Starts the configured logs. Files and sockets are opened as the user that the server runs as.
    pub fn start(shared: &ServingState, config: &Config) -> io::Result<Self> {
        let form = config.log.format;
        let settings = &config.query_log;
        let (output, place) = match &settings.file {
            Some(path) => {
                // The journal reads stderr, not files.
                let form = match form {
                    QueryLogFormat::Journal => QueryLogFormat::Text,
                    form => form,
                };
                let output = QueryLogOutput::file(path.clone(), form);
                (output, path.display().to_string())
            }
            None => (
                QueryLogOutput::stream(io::stderr(), form),
                "stderr".to_string(),
            ),
        };
        let (tap, stats) = (&shared.tap, &shared.stats);
        let query_log = QueryLog::start(tap, stats, output, settings.queue.get())?;
        let dnstap = match &config.dnstap.socket {
            None => None,
            Some(socket) => {
                let terms = DnstapOptions {
                    socket: socket.clone(),
                    identity: identity(config),
                    version: config.server.version.clone(),
                    has_queries: config.dnstap.queries,
                    has_responses: config.dnstap.responses,
                    waiting_octets_max: config.dnstap.queue_mb.get() << 20,
                };
                let dnstap = Dnstap::start(tap, stats, terms)?;
                Some((dnstap, socket.display().to_string()))
            }
        };
        let logs = TrafficLogs {
            query_log,
            output: place,
            dnstap,
        };
        if settings.enabled {
            logs.apply(settings);
        }
        Ok(logs)
    }

    /// Turns the query log on or off according to the settings.
    pub fn apply(&self, settings: &QueryLogSettings) {
        if !settings.enabled {
            self.query_log.turn_off()
        } else {
            self.query_log.turn_on(QueryFilter {
                zones: settings.zones.iter().map(|zone| zone.0).collect(),
                clients: settings.clients.clone(),
                one_in: u32::try_from(settings.share.get()).unwrap_or(u32::MAX),
            })
        }
    }

    /// Turns the query log on by command.
    pub fn turn_on(&self, template: &QueryLogTemplate) -> Outcome {
        let zones = template.zones.iter().map(|zone| zone_name(zone));
        let network = |text: &String| {
            let address = text.parse().map(|address: std::net::IpAddr| address.into());
            address.or_else(|_| text.parse::<IpNet>()).map_err(|_| {
                OperationError::invalid(format!(
                    "invalid address or network {text:?}: expected one such as 192.0.2.0/24"
                ))
            })
        };
        if template.share == 0 {
            return Err(OperationError::invalid(
                "the share is 1 in N, with N of at least 1",
            ));
        }
        let filter = QueryFilter {
            zones: zones.collect::<Result<_, _>>()?,
            clients: template
                .clients
                .iter()
                .map(network)
                .collect::<Result<_, _>>()?,
            one_in: template.share,
        };
        self.query_log.turn_on(filter);
        tracing::info!(
            "query log: enabled via control socket, output {}",
            self.output
        );
        Ok(self.status())
    }

    /// Turns the query log off by command.
    pub fn turn_off(&self) -> OperationResult {
        self.query_log.turn_off();
        tracing::info!("query log: disabled via control socket");
        self.status()
    }

    /// Returns the state of the query log.
    pub fn status(&self) -> OperationResult {
        let state = self.query_log.state();
        OperationResult::QueryLog(QueryLogStatus {
            is_on: state.is_on,
            output: self.output.clone(),
            zones: state.filter.zones.iter().map(ToString::to_string).collect(),
            clients: state
                .filter
                .clients
                .iter()
                .map(ToString::to_string)
                .collect(),
            share: state.filter.one_in,
            written: state.written,
            dropped: state.dropped,
            last_error: state.last_error,
        })
    }

    /// Returns the state of dnstap, if it is on.
    pub fn dnstap(&self) -> Option<DnstapStatus> {
        let (dnstap, socket) = self.dnstap.as_ref()?;
        let state = dnstap.state();
        Some(DnstapStatus {
            socket: socket.clone(),
            is_connected: state.is_connected,
            sent: state.sent,
            dropped: state.dropped,
        })
    }

    /// Shuts down logs with a closing handshake. May wait briefly for a collector.
    pub fn end(&self) {
        if let Some((dnstap, _)) = &self.dnstap {
            dnstap.end();
        }
    }
}

/// Returns this server's identity for collectors.
fn identity(config: &Config) -> String {
    let names = [&config.dnstap.identity, &config.server.nsid];
    let named = names.into_iter().find(|name| !name.is_empty());
    named.cloned().unwrap_or_else(host_name)
}

/// Returns the host name, as the kernel has it.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_string()
}
