//! Collects zones, keys and settings: from the running server, or from its stores.

use nameward_base::time::now_seconds;
use std::env;

use data_encoding::BASE64;
use nameward_control::{
    operations::{
        ErrorKind, ListedKind, ListedZone, ListedZoneStatus, OperationError, OperationRequest,
        OperationResult, Outcome, zone_name,
    },
    socket::ControlError,
};
use nameward_dnssec::{KeyFile, KeyTimes, KeyUse, PrivateKey};
use nameward_maintain::{policy::ZoneKind, sync::whole_text};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::set_soa_serial;
use nameward_zone::{RecordList, Serial, WireRecord};

use super::{ExportedKey, ExportedServer, ExportedTsigKey, ExportedZone};
use crate::{
    cli::export::ExportArguments,
    command_error::{CommandError, CommandResult},
    config::{Config, Overrides, location},
    import::OtherServer,
    remote::{self, only},
    zone_commands,
};

/// Collects everything that is requested.
pub fn collect(target: OtherServer, arguments: ExportArguments) -> CommandResult<ExportedServer> {
    let overrides = &arguments.remote.overrides();
    let mut with_file = overrides.clone();
    with_file.file = with_file.file.or_else(location::default_file);
    if with_file.file.is_none() {
        let text = "the configuration is needed for TSIG keys and access lists: use --config";
        return Err(OperationError::invalid(text).into());
    }
    let config = Config::load(&with_file)?;
    let here = env::current_dir().unwrap_or_default();
    let mut server = ExportedServer {
        out: here.join(&arguments.out),
        ..ExportedServer::default()
    };
    let mut listed = remote::list(OperationRequest::ZoneList, overrides, only!(Zone))?;
    let requested: Vec<NameBuf> = arguments
        .zones
        .iter()
        .map(|zone| zone_name(zone))
        .collect::<Outcome<_>>()?;
    for zone in &requested {
        if !listed.iter().any(|found| found.name == zone.to_string()) {
            return Err(OperationError::not_found(format!("no such zone {zone}")).into());
        }
    }
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    listed.dedup_by(|one, other| one.name == other.name);
    let versions = match &arguments.view {
        Some(view) => versions_in(view, overrides)?,
        None => Vec::new(),
    };
    for zone in &listed {
        let id = zone_name(&zone.name)?;
        let name = NameBuf::from(id.as_name().zone());
        if !requested.is_empty() && !requested.contains(&name) && !requested.contains(&id) {
            continue;
        }
        let in_view =
            { versions.iter() }.find(|version| version.as_name().zone() == name.as_name());
        match in_view {
            // Clients of the view get another version.
            Some(version) if *version != id => {}
            None if id != name && arguments.view.is_some() => {}
            None if id != name => server.warn(format!(
                "zone {id}: versions for views are exported with --view"
            )),
            _ => collect_zone(&mut server, zone, id, (target, &config, overrides))?,
        }
    }
    collect_tsig(&mut server, &config, overrides)?;
    Ok(server)
}

fn versions_in(view: &str, overrides: &Overrides) -> CommandResult<Vec<NameBuf>> {
    let views = remote::list(OperationRequest::ViewList, overrides, only!(View))?;
    let found = views.into_iter().find(|listed| listed.name == view);
    let found = found.ok_or_else(|| OperationError::not_found(format!("no such view {view:?}")))?;
    let zones = found.zones.iter().map(|zone| zone_name(zone));
    Ok(zones.collect::<Outcome<_>>()?)
}

fn collect_zone(
    server: &mut ExportedServer,
    listed: &ListedZone,
    id: NameBuf,
    (target, config, overrides): (OtherServer, &Config, &Overrides),
) -> CommandResult<()> {
    let name = NameBuf::from(id.as_name().zone());
    let own = config.zones.iter().find(|zone| zone.name.0 == id);
    if own.is_some_and(|own| own.base) {
        server.warn(format!(
            "zone {id}: an overlay is not exported; a zone transfer in the view has its contents"
        ));
        return Ok(());
    }
    let defaults = config.zone_defaults.shared_terms();
    let terms = match own {
        Some(own) => config.zone_policy(own).or(&defaults),
        None => defaults,
    };
    let kind = match listed.kind {
        ListedKind::OfZone(kind) => terms.kind.unwrap_or(kind),
        ListedKind::File => terms.kind.unwrap_or_default(),
    };
    let is_in_database = {
        let at = usize::try_from(listed.backend).unwrap_or(0);
        let backend = at.checked_sub(1).and_then(|at| config.backends.get(at));
        backend.is_some_and(|backend| backend.path.is_some() || !backend.url.reveal().is_empty())
    };
    if is_in_database && target == OtherServer::PowerDns {
        let text =
            "database zones are not exported: PowerDNS can serve them from the same database";
        server.warn(text.into());
        return Ok(());
    }
    if is_in_database {
        let text = format!("zone {name}: kind and metadata in the database not converted");
        server.warn(text);
    }
    if matches!(kind, ZoneKind::Producer | ZoneKind::Consumer) {
        server.warn(format!(
            "catalog {name}: catalogs and their members are not exported"
        ));
        return Ok(());
    }
    let allow_query = own.and_then(|own| own.allow_query.0.as_ref());
    let mut zone = ExportedZone {
        name,
        text: None,
        keys: Vec::new(),
        denial: String::new(),
        allow_query: Some(
            allow_query
                .unwrap_or(&config.zone_defaults.allow_query)
                .0
                .clone(),
        ),
        terms,
    };
    if kind == ZoneKind::Secondary {
        if zone.primaries().is_empty() {
            server.warn(format!(
                "zone {name}: its primaries are not in the configuration"
            ));
            return Ok(());
        }
    } else {
        zone.keys = keys(&id, overrides)?;
        let fetched = zone_commands::fetch(&id.to_string(), overrides)?;
        let records = zone_commands::records_of(&fetched.zone, true);
        let mut serial = fetched.zone.serial();
        if zone.is_signed() {
            let status = status(&id, overrides)?;
            let served = Serial(status.serial.unwrap_or(serial.0));
            if served.is_after(serial) {
                serial = served;
            }
            serial = Serial(serial.0.wrapping_add(1));
            zone.denial = status
                .signing
                .and_then(|signing| signing.denial)
                .unwrap_or_default();
        }
        zone.text = Some(whole_text(&[with_serial(&records, serial)]));
    }
    server.zones.push(zone);
    Ok(())
}

fn with_serial(records: &RecordList, serial: Serial) -> RecordList {
    let mut list = RecordList::default();
    for record in records {
        let mut rdata = record.rdata.to_vec();
        if record.rtype == Type::SOA {
            set_soa_serial(&mut rdata, serial);
        }
        let rdata = &rdata[..];
        list.push(WireRecord { rdata, ..record });
    }
    list
}

/// Returns the status of a zone, which only the running server knows.
fn status(name: &NameBuf, overrides: &Overrides) -> CommandResult<ListedZoneStatus> {
    let request = OperationRequest::ZoneStatus {
        zone: Some(name.to_string()),
        secondaries: false,
    };
    let found = remote::list(request, overrides, only!(Status))?.pop();
    found.ok_or_else(|| OperationError::not_found(format!("zone {name} is not served")).into())
}

/// Returns the keys of a zone, with their private parts.
fn keys(name: &NameBuf, overrides: &Overrides) -> CommandResult<Vec<ExportedKey>> {
    let request = OperationRequest::KeyList {
        zone: Some(name.to_string()),
    };
    let listed = match remote::list(request, overrides, only!(ZoneKey)) {
        // A zone without keys is not signed.
        Err(
            CommandError::Control(ControlError::Failed(error)) | CommandError::Operation(error),
        ) if error.kind == ErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    let now = now_seconds();
    let mut keys = Vec::new();
    for key in listed.into_iter().filter(|key| key.problem.is_none()) {
        if !key.active && !key.published {
            continue;
        }
        let request = OperationRequest::KeyExport {
            zone: name.to_string(),
            key: key.key,
            pem: false,
        };
        let OperationResult::ZoneKeyText { private } =
            remote::send(request, overrides, &mut |_| ())?
        else {
            continue;
        };
        let failed = |error: nameward_dnssec::KeyError| {
            OperationError::invalid(format!("zone {name}: key {}: {error}", key.key))
        };
        let private = PrivateKey::from_text(private.reveal().as_bytes()).map_err(failed)?;
        let created = key.created.unwrap_or(now);
        let mut times = KeyTimes {
            created: Some(created),
            publish: Some(created),
            activate: Some(created),
            sync_publish: Some(created).filter(|_| key.flags & 1 == 1),
            ..KeyTimes::default()
        };
        let usage = KeyUse::by_flags(key.flags, key.active, key.published);
        times.set_usage(
            key.flags,
            KeyUse {
                asks_ds: key.flags & 1 == 1,
                ..usage
            },
            now,
        );
        let file = KeyFile {
            owner: name.as_name().zone().into(),
            flags: key.flags,
            private,
            times,
        };
        keys.push(ExportedKey {
            stem: file.stem().map_err(failed)?,
            file,
            role: key.role,
            algorithm: key.algorithm.to_ascii_lowercase(),
            bits: key.bits,
            is_active: key.active,
            is_published: key.published,
        });
    }
    Ok(keys)
}

/// Collects the TSIG keys of the configuration and of the state store.
fn collect_tsig(
    server: &mut ExportedServer,
    config: &Config,
    overrides: &Overrides,
) -> CommandResult<()> {
    for key in &config.keys {
        server.tsig_keys.push(ExportedTsigKey {
            name: key.name.0.to_string(),
            algorithm: key.algorithm.word().to_ascii_lowercase(),
            secret: BASE64.encode(key.secret.reveal()),
        });
    }
    let request = OperationRequest::TsigList { secrets: true };
    for key in remote::list(request, overrides, only!(TsigKey))? {
        match key.secret {
            Some(secret) => server.tsig_keys.push(ExportedTsigKey {
                name: key.name,
                algorithm: key.algorithm.to_ascii_lowercase(),
                secret: secret.reveal().to_owned(),
            }),
            None if key.source.starts_with("backend") => {
                server.warn(format!("key {}: remains in the database", key.name));
            }
            None => {}
        }
    }
    Ok(())
}
