//! Checks of a configuration beyond single settings. `serve` runs them before it starts anything, `check` lists all
//! that fail, so that both accept the same configurations.

use nameward_control::web::check_password;

use super::{databases, encrypted_ports, recursion};
use crate::start_error::StartError;
use crate::{config::Config, privileges, zones};

/// Returns every reason why a server with this configuration would not start.
pub fn failures(config: &Config) -> Vec<StartError> {
    let signatures = databases::signatures(config);
    let web = &config.web;
    let checks = [
        zones::check_kinds(config).err(),
        zones::check_state(config).err(),
        privileges::find(&config.server.user, &config.server.group)
            .err()
            .map(StartError::from),
        databases::prepare(config, &signatures)
            .err()
            .map(StartError::from),
        check_password(web.password.reveal())
            .err()
            .map(|error| StartError::Secret("web.password", error)),
        check_password(web.api_key.reveal())
            .err()
            .map(|error| StartError::Secret("web.api_key", error)),
        check_password(config.api.key.reveal())
            .err()
            .map(|error| StartError::Secret("api.key", error)),
        encrypted_ports::load_tls(config)
            .err()
            .map(StartError::from),
    ];
    let mut failures: Vec<StartError> = checks.into_iter().flatten().collect();
    failures.extend(recursion::failures(config));
    failures
}
