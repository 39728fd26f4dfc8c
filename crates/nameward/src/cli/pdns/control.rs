//! The commands of pdns_control.

use nameward_control::operations::{FaultKind, OperationError, OperationRequest, OperationResult};

use super::{PdnsStep, ServerFact, ZoneCount, impossible, wrong};
use crate::{
    command_error::CommandError,
    config::Overrides,
    remote::{self, only},
};

/// Returns the steps of a command.
pub(super) fn plan(words: &[String]) -> Result<Vec<PdnsStep>, OperationError> {
    let Some((verb, rest)) = words.split_first() else {
        return Err(wrong(
            "pdns_control COMMAND [ARGUMENT ...], see docs/moving-in.md",
        ));
    };
    let native =
        |words: &[&str]| PdnsStep::Run(words.iter().map(|word| (*word).to_owned()).collect());
    let each = |command: &str, usage: &str| {
        if rest.is_empty() {
            Err(wrong(usage))
        } else {
            let steps = rest.iter().map(|zone| native(&["zone", command, zone]));
            Ok(steps.collect())
        }
    };
    // pdns_control commands are case-insensitive.
    let verb = verb.to_ascii_lowercase();
    Ok(match verb.as_str() {
        "ping" | "rping" => vec![PdnsStep::Print(ServerFact::IsThere)],
        "version" => vec![PdnsStep::Print(ServerFact::Version)],
        "uptime" => vec![PdnsStep::Print(ServerFact::Uptime)],
        "status" => vec![native(&["status"])],
        "show" => match rest {
            [name] => vec![PdnsStep::ShowCounters(name.clone())],
            _ => return Err(wrong("pdns_control show NAME | PREFIX* | '*'")),
        },
        "list" => vec![PdnsStep::ShowCounters("*".into())],
        "list-zones" => {
            vec![PdnsStep::ListZones(
                rest.first().cloned(),
                ZoneCount::Printed,
            )]
        }
        "purge" | "flush" => vec![PdnsStep::Purge(rest.to_vec())],
        "reload" | "rediscover" | "bind-reload-now" => vec![native(&["reload"])],
        "notify" if rest == ["*"] => vec![PdnsStep::NotifyAll],
        "notify" => each("notify", "pdns_control notify ZONE | '*'")?,
        "retrieve" => vec![retrieve(rest)?],
        "help" => vec![PdnsStep::ControlHelp],
        "ccounts" => vec![PdnsStep::CacheCounts],
        "bind-list-rejects" => vec![PdnsStep::ListRejects],
        "bind-add-zone" => match rest {
            [zone, file] => vec![native(&["zone", "import", zone, file])],
            _ => return Err(wrong("pdns_control bind-add-zone ZONE FILE")),
        },
        "set" => match rest {
            [name, value] if name == "query-logging" => {
                let is_on = ["yes", "on", "1", "true"].contains(&value.as_str());
                vec![native(&["query-log", if is_on { "on" } else { "off" }])]
            }
            _ => {
                return Err(impossible(
                    &verb,
                    "only query-logging can be set; change other settings in the configuration and reload",
                ));
            }
        },
        "bind-domain-status" | "bind-domain-extended-status" => {
            if rest.is_empty() {
                vec![native(&["zone", "status"])]
            } else {
                each("status", "")?
            }
        }
        "xfr-queue" => vec![native(&["zone", "status"])],
        "quit" | "stop" => vec![native(&["stop"])],
        _ => {
            let unsupported = UNSUPPORTED.iter().find(|(known, _)| *known == verb);
            return Err(match unsupported {
                Some((_, instead)) => impossible(&verb, instead),
                None => OperationError::invalid(format!("unknown pdns_control command {verb:?}")),
            });
        }
    })
}

/// Commands without an equivalent, and what to do instead.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("notify-host", "add the address to also_notify of the zone"),
    ("cycle", "use `systemctl restart nameward`"),
    (
        "current-config",
        "see `nameward status` for the file and `nameward config` for all settings",
    ),
    ("qtypes", "see the status page and /metrics"),
    ("remotes", "see the status page and /metrics"),
    ("respsizes", "see the status page and /metrics"),
    ("token-login", "HSM keys are not supported"),
];

/// Returns the step of `retrieve`.
fn retrieve(rest: &[String]) -> Result<PdnsStep, OperationError> {
    let words = match rest {
        [zone] => vec!["zone", "retrieve", zone],
        [zone, flag] if flag == "--force" => vec!["zone", "retrieve", "--force", zone],
        [_, _] => {
            let instead = "use `nameward zone set ZONE --primary ADDRESS` to set the primary";
            return Err(impossible("retrieve with an address", instead));
        }
        _ => return Err(wrong("pdns_control retrieve ZONE [--force]")),
    };
    Ok(PdnsStep::Run(words.into_iter().map(Into::into).collect()))
}

/// The supported commands.
pub(super) const HELP: &str = "\
bind-add-zone ZONE FILE             create a zone from a file
bind-domain-extended-status [ZONE]  the status of zones
bind-domain-status [ZONE]           the status of zones
bind-list-rejects                   zone files that are not served as they are
bind-reload-now [ZONE]              reload configuration and zone files
ccounts                             entries in the caches
help                                this list
list                                all counters
list-zones [KIND]                   all zones
notify ZONE | '*'                   send NOTIFY for a zone, or for all
ping, rping                         PONG
purge [NAME[$]]                     drop entries from the caches
quit                                stop the server
rediscover, reload                  reload configuration and zone files
retrieve ZONE                       check the primary of a zone now
set query-logging yes | no          turn the query log on or off
show NAME | PREFIX*                 counters
status                              the state of the server
uptime                              seconds since the start
version                             the version of the server
xfr-queue                           the status of zones that are transferred
";

/// Sends NOTIFY for all zones that have servers to notify.
pub(super) fn notify_all(overrides: &Overrides) -> Result<String, CommandError> {
    let zones = remote::list(OperationRequest::ZoneList, overrides, only!(Zone))?;
    let mut zones: Vec<String> = zones.into_iter().map(|zone| zone.name).collect();
    zones.dedup();
    for zone in &zones {
        let request = OperationRequest::ZoneNotify { zone: zone.clone() };
        remote::send(request, overrides, &mut drop)?;
    }
    Ok(format!("Added {} zones to queue\n", zones.len()))
}

/// Lists the faults of zone files, one per line.
pub(super) fn list_rejects(overrides: &Overrides) -> Result<String, CommandError> {
    let OperationResult::Status(status) =
        remote::send(OperationRequest::Status, overrides, &mut drop)?
    else {
        return Err(CommandError::Interrupted);
    };
    let is_rejected = |kind| {
        matches!(
            kind,
            FaultKind::ZoneErrors | FaultKind::ZoneEmpty | FaultKind::FileSource
        )
    };
    let faults = status.faults.into_iter();
    let rejected = faults.filter(|fault| is_rejected(fault.kind));
    Ok(rejected.map(|fault| format!("{}\n", fault.text)).collect())
}

/// Prints the numbers of entries in both caches as PowerDNS does.
pub(super) fn cache_counts(overrides: &Overrides) -> Result<String, CommandError> {
    let request = OperationRequest::Stats {
        names: vec!["query-cache-size".into(), "packetcache-size".into()],
    };
    let OperationResult::Counters { counters } = remote::send(request, overrides, &mut drop)?
    else {
        return Err(CommandError::Interrupted);
    };
    let value = |name: &str| {
        let counter = counters.iter().find(|counter| counter.name == name);
        counter.map_or(0, |counter| counter.value)
    };
    Ok(format!(
        "queries: {}, packets: {}\n",
        value("query-cache-size"),
        value("packetcache-size")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(text: &str) -> Result<Vec<PdnsStep>, OperationError> {
        let words: Vec<String> = text.split(' ').map(Into::into).collect();
        plan(&words)
    }

    #[test]
    fn commands_are_translated_or_rejected_with_a_reason() {
        let native = |text: &str| PdnsStep::Run(text.split(' ').map(Into::into).collect());
        assert_eq!(plan_of("RELOAD"), Ok(vec![native("reload")]));
        let logged = plan_of("set query-logging yes");
        assert_eq!(logged, Ok(vec![native("query-log on")]));
        assert_eq!(plan_of("notify *"), Ok(vec![PdnsStep::NotifyAll]));
        assert_eq!(
            plan_of("bind-add-zone a.test /tmp/a"),
            Ok(vec![native("zone import a.test /tmp/a")])
        );
        let both = [native("zone notify a.test"), native("zone notify b.test")];
        assert_eq!(plan_of("notify a.test b.test"), Ok(both.to_vec()));
        assert_eq!(
            plan_of("rping"),
            Ok(vec![PdnsStep::Print(ServerFact::IsThere)])
        );
        for text in [
            "token-login x",
            "cycle",
            "set other yes",
            "retrieve a.test 192.0.2.1",
            "nothing",
            "notify",
            "show",
        ] {
            assert!(plan_of(text).is_err(), "{text}");
        }
    }
}
