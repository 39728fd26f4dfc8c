//! The commands of pdns_control.

use nameward_control::operations::{
    FaultKind, OperationError, OperationRequest, OperationResult, Outcome, ServerStatus,
};

use super::{
    PdnsStep, ZoneCount, answer, counters, impossible, list_zones, native, show_counters, wrong,
};
use crate::{
    command_error::CommandResult,
    config::Overrides,
    remote::{self, only},
};

/// Returns the steps of a command.
pub(super) fn plan<'w>(words: &'w [&'w str]) -> Outcome<Vec<PdnsStep<'w>>> {
    let Some((verb, rest)) = words.split_first() else {
        return Err(wrong(
            "pdns_control COMMAND [ARGUMENT ...], see docs/moving-in.md",
        ));
    };
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
        "ping" | "rping" => fact(|_| "PONG".into()),
        "version" => fact(|status| status.version.clone()),
        "uptime" => fact(|status| format!("{} seconds", status.uptime_seconds)),
        "status" => vec![native(&["status"])],
        "show" => match rest {
            [name] => answer(move |overrides| show_counters(name, overrides)),
            _ => return Err(wrong("pdns_control show NAME | PREFIX* | '*'")),
        },
        "list" => answer(|overrides| show_counters("*", overrides)),
        "list-zones" => {
            let kind = rest.first().copied();
            answer(move |overrides| list_zones(kind, ZoneCount::Printed, overrides))
        }
        "purge" | "flush" => answer(move |overrides| purge(rest, overrides)),
        "reload" | "rediscover" | "bind-reload-now" => vec![native(&["reload"])],
        "notify" if rest == ["*"] => answer(notify_all),
        "notify" => each("notify", "pdns_control notify ZONE | '*'")?,
        "retrieve" => vec![retrieve(rest)?],
        "help" => answer(|_| Ok(HELP.into())),
        "ccounts" => answer(cache_counts),
        "bind-list-rejects" => answer(list_rejects),
        "bind-add-zone" => match rest {
            [zone, file] => vec![native(&["zone", "import", zone, file])],
            _ => return Err(wrong("pdns_control bind-add-zone ZONE FILE")),
        },
        "set" => match rest {
            ["query-logging", value] => {
                let is_on = ["yes", "on", "1", "true"].contains(value);
                vec![native(&["query-log", if is_on { "on" } else { "off" }])]
            }
            _ => {
                return Err(impossible(
                    &verb,
                    "only query-logging can be set; change other settings in the configuration and reload",
                ));
            }
        },
        "bind-domain-status" | "bind-domain-extended-status" if !rest.is_empty() => {
            each("status", "")?
        }
        "bind-domain-status" | "bind-domain-extended-status" | "xfr-queue" => {
            vec![native(&["zone", "status"])]
        }
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

fn retrieve<'w>(rest: &[&str]) -> Outcome<PdnsStep<'w>> {
    match rest {
        [zone] => Ok(native(&["zone", "retrieve", zone])),
        [zone, "--force"] => Ok(native(&["zone", "retrieve", "--force", zone])),
        [_, _] => {
            let instead = "use `nameward zone set ZONE --primary ADDRESS` to set the primary";
            Err(impossible("retrieve with an address", instead))
        }
        _ => Err(wrong("pdns_control retrieve ZONE [--force]")),
    }
}

/// The supported commands.
const HELP: &str = "\
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

fn status(overrides: &Overrides) -> CommandResult<Box<ServerStatus>> {
    let result = only!(OperationResult, Status);
    remote::fetch(OperationRequest::Status, overrides, result)
}

/// Prints a fact about the running server.
fn fact<'w>(text: impl FnOnce(&ServerStatus) -> String + 'w) -> Vec<PdnsStep<'w>> {
    answer(move |overrides| Ok(text(&*status(overrides)?) + "\n"))
}

/// Flushes cache entries, and prints how many.
fn purge(names: &[&str], overrides: &Overrides) -> CommandResult<String> {
    let names = match names {
        [] => vec![None],
        names => names.iter().map(|name| Some((*name).to_owned())).collect(),
    };
    let mut dropped = 0;
    for name in names {
        let request = OperationRequest::CacheFlush { name };
        if let OperationResult::Flushed { entries } = remote::send(request, overrides, &mut drop)? {
            dropped += entries;
        }
    }
    Ok(format!("{dropped}\n"))
}

/// Sends NOTIFY for all zones that have servers to notify.
fn notify_all(overrides: &Overrides) -> CommandResult<String> {
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
fn list_rejects(overrides: &Overrides) -> CommandResult<String> {
    let is_rejected = |kind| {
        matches!(
            kind,
            FaultKind::ZoneErrors | FaultKind::ZoneEmpty | FaultKind::FileSource
        )
    };
    let faults = status(overrides)?.faults.into_iter();
    let rejected = faults.filter(|fault| is_rejected(fault.kind));
    Ok(rejected.map(|fault| format!("{}\n", fault.text)).collect())
}

/// Prints the numbers of entries in both caches as PowerDNS does.
fn cache_counts(overrides: &Overrides) -> CommandResult<String> {
    let names = ["query-cache-size", "packetcache-size"];
    let counters = counters(names.map(String::from).to_vec(), overrides)?;
    let [queries, packets] = names.map(|name| {
        let counter = counters.iter().find(|counter| counter.name == name);
        counter.map_or(0, |counter| counter.value)
    });
    Ok(format!("queries: {queries}, packets: {packets}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands of ours that a command becomes, with `?` for an answer.
    fn plan_of(text: &str) -> Outcome<Vec<String>> {
        let words: Vec<&str> = text.split(' ').collect();
        let steps = plan(&words)?.into_iter();
        let texts = steps.map(|step| match step {
            PdnsStep::Run(words) => words.join(" "),
            _ => "?".into(),
        });
        Ok(texts.collect())
    }

    #[test]
    fn commands_are_translated_or_rejected_with_a_reason() {
        for (theirs, ours) in [
            ("RELOAD", &["reload"][..]),
            ("set query-logging yes", &["query-log on"]),
            ("notify *", &["?"]),
            (
                "bind-add-zone a.test /tmp/a",
                &["zone import a.test /tmp/a"],
            ),
            (
                "notify a.test b.test",
                &["zone notify a.test", "zone notify b.test"],
            ),
            ("rping", &["?"]),
        ] {
            assert_eq!(plan_of(theirs).unwrap(), ours, "{theirs}");
        }
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
