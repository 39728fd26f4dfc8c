//! Owns the commands of pdns_control.

use nameward_control::operations::OperationError;

use super::{PdnsStep, ServerFact, ZoneCount, impossible, wrong};

/// Returns the steps of a command.
pub(super) fn plan(words: &[String]) -> Result<Vec<PdnsStep>, OperationError> {
    let Some((verb, rest)) = words.split_first() else {
        return Err(wrong(
            "pdns_control COMMAND [ARGUMENT ...], see docs/moving-in.md",
        ));
    };
    let own = |words: &[&str]| PdnsStep::Run(words.iter().map(|word| (*word).to_owned()).collect());
    let each = |command: &str, usage: &str| match rest.is_empty() {
        true => Err(wrong(usage)),
        false => {
            let steps = rest.iter().map(|zone| own(&["zone", command, zone]));
            Ok(steps.collect())
        }
    };
    // pdns_control takes its commands in either case.
    let verb = verb.to_ascii_lowercase();
    Ok(match verb.as_str() {
        "ping" | "rping" => vec![PdnsStep::Print(ServerFact::IsThere)],
        "version" => vec![PdnsStep::Print(ServerFact::Version)],
        "uptime" => vec![PdnsStep::Print(ServerFact::Uptime)],
        "status" => vec![own(&["status"])],
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
        "reload" | "rediscover" | "bind-reload-now" => vec![own(&["reload"])],
        "notify" => each("notify", "pdns_control notify ZONE")?,
        "retrieve" => match rest.split_last() {
            Some((last, [zone])) if last == "--force" => {
                vec![own(&["zone", "retrieve", "--force", zone])]
            }
            _ => each("retrieve", "pdns_control retrieve ZONE [--force]")?,
        },
        "bind-domain-status" | "bind-domain-extended-status" => match rest.is_empty() {
            true => vec![own(&["zone", "status"])],
            false => each("status", "")?,
        },
        "xfr-queue" => vec![own(&["zone", "status"])],
        "quit" | "stop" => vec![own(&["stop"])],
        "notify-host" => {
            return Err(impossible(
                &verb,
                "put the address into also_notify of the zone",
            ));
        }
        "bind-add-zone" => {
            let instead =
                "put the file into a directory of a file backend, where it is found by itself";
            return Err(impossible(&verb, instead));
        }
        "bind-list-rejects" => {
            return Err(impossible(
                &verb,
                "`nameward check` shows what is wrong with zones",
            ));
        }
        "cycle" => {
            return Err(impossible(
                &verb,
                "`systemctl restart nameward` starts the server anew",
            ));
        }
        "current-config" => {
            let instead =
                "`nameward status` names the file, `nameward config` prints every setting";
            return Err(impossible(&verb, instead));
        }
        "set" => {
            return Err(impossible(
                &verb,
                "`nameward query-log` switches the log of queries",
            ));
        }
        "qtypes" | "remotes" | "respsizes" | "ccounts" => {
            return Err(impossible(
                &verb,
                "the status page and /metrics have the numbers",
            ));
        }
        "token-login" => return Err(impossible(&verb, "keys in hardware are not supported")),
        _ => {
            return Err(OperationError::invalid(format!(
                "{verb:?} is no command of pdns_control"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(text: &str) -> Result<Vec<PdnsStep>, OperationError> {
        let words: Vec<String> = text.split(' ').map(Into::into).collect();
        plan(&words)
    }

    #[test]
    fn commands_become_ours_or_say_why_not() {
        let own = |text: &str| PdnsStep::Run(text.split(' ').map(Into::into).collect());
        assert_eq!(plan_of("RELOAD"), Ok(vec![own("reload")]));
        let both = [own("zone notify a.test"), own("zone notify b.test")];
        assert_eq!(plan_of("notify a.test b.test"), Ok(both.to_vec()));
        assert_eq!(
            plan_of("rping"),
            Ok(vec![PdnsStep::Print(ServerFact::IsThere)])
        );
        for text in [
            "token-login x",
            "cycle",
            "set query-logging yes",
            "nothing",
            "notify",
            "show",
        ] {
            assert!(plan_of(text).is_err(), "{text}");
        }
    }
}
