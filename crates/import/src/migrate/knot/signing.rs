//! Zones that Knot signs: `policy:`, `submission:` and the key directory (`database:`, `keystore:`).
//!
//! Knot stores private keys as PEM files and everything else about them in its own database. Which file belongs to
//! which key is derived from the DNSKEY records of the signed zone, which is in the zone file unless `zonefile-sync` is
//! -1.

use std::path::{Path, PathBuf};

use super::{
    super::{
        ImportedKeyStore, ImportedPolicy, ImportedSigning, ImportedValue, PolicySettings, peers,
        signing_algorithm,
    },
    ConfigEntry, ConfigSection, KnotReader,
    access::{KnotIndex, KnotRefusal, impossible},
    zones::{STORAGE, file_of},
};

/// Times with the same meaning.
const TIMES: &[(&str, &str)] = &[
    ("ksk-lifetime", "ksk_lifetime"),
    ("zsk-lifetime", "zsk_lifetime"),
    ("dnskey-ttl", "dnskey_ttl"),
    ("zone-max-ttl", "zone_ttl_max"),
    ("propagation-delay", "propagation_delay"),
    ("rrsig-lifetime", "signature_validity"),
    ("rrsig-refresh", "signature_refresh"),
    ("delete-delay", "purge_after"),
];
/// Settings that are read here, or that nothing here depends on.
const KNOWN: &[&str] = &[
    "id",
    "algorithm",
    "ksk-size",
    "zsk-size",
    "single-type-signing",
    "manual",
    "nsec3",
    "nsec3-opt-out",
    "nsec3-iterations",
    "nsec3-salt-length",
    "nsec3-salt-lifetime",
    "cds-cdnskey-publish",
    "ksk-submission",
    "keystore",
    "signing-threads",
    "reproducible-signing",
    "rrsig-pre-refresh",
    "cds-digest-type",
    "ksk-shared",
    "unsafe-operation",
];

impl KnotReader<'_> {
    /// Returns how a zone is signed, if it is.
    pub(super) fn signing<'e>(
        &mut self,
        name: &str,
        find: &dyn Fn(&str) -> Option<&'e ConfigEntry>,
        index: &KnotIndex<'_>,
    ) -> Result<Option<ImportedSigning>, KnotRefusal> {
        let Some(signing) = find("dnssec-signing").filter(|entry| entry.is_on()) else {
            return Ok(None);
        };
        if let Some(entry) = find("master") {
            let reason = "Knot signs a transferred zone, which is never served unsigned";
            return Err(impossible(entry, reason));
        }
        if let Some(entry) = find("zonefile-sync").filter(|entry| entry.value() == "-1") {
            let reason = "the signed version is not in the zone file: set zonefile-sync: 0 and run `knotc zone-flush` \
                          first";
            return Err(impossible(entry, reason));
        }
        let id = find("dnssec-policy").map_or("default", ConfigEntry::value);
        let policy = index.find("policy", id);
        if policy.is_none() && id != "default" {
            return Err(KnotRefusal {
                is_mistake: true,
                ..impossible(signing, format!("expected a policy, found {id:?}"))
            });
        }
        let keys = pem_directory(policy, index)?;
        self.policy(id, signing, policy, index)?;
        Ok(Some(ImportedSigning {
            version: file_of(name, find),
            source: None,
            keys: ImportedKeyStore::Pem(keys),
            policy: Some(id.to_string()),
            flush: "knotc zone-flush",
        }))
    }

    /// Converts a policy, once.
    fn policy(
        &mut self,
        id: &str,
        user: &ConfigEntry,
        policy: Option<&ConfigSection>,
        index: &KnotIndex<'_>,
    ) -> Result<(), KnotRefusal> {
        if self.server.has_policy(id) {
            return Ok(());
        }
        let (settings, changes) = match policy {
            Some(policy) => settings(policy, index)?,
            None => (split_keys(), Vec::new()),
        };
        let location = policy.map_or(&user.location, |policy| &policy.location);
        let converted = ImportedPolicy {
            name: id.to_string(),
            settings,
            location: location.clone(),
        };
        self.server.take_policy(converted, &changes, "policy");
        Ok(())
    }
}

fn split_keys() -> PolicySettings {
    vec![("keys", "ksk+zsk".into())]
}

/// Returns the settings of a policy, and the differences.
fn settings(
    policy: &ConfigSection,
    index: &KnotIndex<'_>,
) -> Result<(PolicySettings, Vec<String>), KnotRefusal> {
    let mut settings = if policy.is_on("single-type-signing") {
        vec![("keys", "csk".into())]
    } else {
        split_keys()
    };
    let mut changes = Vec::new();
    if let Some(entry) = policy.entry("algorithm") {
        let name = signing_algorithm(entry.value());
        let name = name.ok_or_else(|| {
            let reason = format!("unsupported algorithm {}", entry.value());
            impossible(entry, reason)
        })?;
        settings.push(("algorithm", name.into()));
    }
    for (theirs, ours) in TIMES {
        let Some(entry) = policy.entry(theirs) else {
            continue;
        };
        // A key that is replaced manually has no lifetime.
        let is_manual =
            policy.is_on("manual") && theirs.ends_with("-lifetime") && theirs.contains("sk");
        match seconds(entry.value()).filter(|_| !is_manual) {
            Some(time) => settings.push((ours, time.into())),
            None if is_manual => {}
            None => changes.push(format!("{theirs}: the default is used")),
        }
    }
    let number = |key: &str| settings_number(&settings, key);
    if let (Some(validity), None) = (number("signature_validity"), number("signature_refresh")) {
        settings.push(("signature_refresh", (validity / 2).into()));
        let jitter = (validity / 8).min(43_200);
        settings.push(("signature_jitter", jitter.into()));
    }
    if policy.is_on("manual") {
        settings.push(("ksk_lifetime", 0.into()));
        settings.push(("zsk_lifetime", 0.into()));
    }
    if policy.is_on("nsec3") {
        let denial = if policy.is_on("nsec3-opt-out") {
            "nsec3-opt-out"
        } else {
            "nsec3"
        };
        settings.push(("denial", denial.into()));
        let is_zero = |key: &str| policy.entry(key).is_some_and(|entry| entry.value() == "0");
        if !is_zero("nsec3-iterations") || !is_zero("nsec3-salt-length") {
            changes.push("NSEC3 without salt and extra iterations (RFC 9276)".into());
        }
    }
    rsa_bits(policy, &mut settings, &mut changes);
    if let Some(entry) = policy.entry("cds-cdnskey-publish") {
        match entry.value() {
            "none" => settings.push(("cds", false.into())),
            "double-ds" => settings.push(("ksk_rollover", "double-ds".into())),
            _ => {}
        }
    }
    if let Some(entry) = policy.entry("ksk-submission") {
        settings.extend(submission(entry, index)?);
    }
    let known = |key: &str| KNOWN.contains(&key) || TIMES.iter().any(|(theirs, _)| *theirs == key);
    let others = policy.entries.iter().filter(|entry| !known(&entry.key));
    for entry in others.filter(|entry| !entry.is_off()) {
        changes.push(format!("{}: no equivalent", entry.key));
    }
    Ok((settings, changes))
}

/// Takes over the size of RSA keys.
fn rsa_bits(policy: &ConfigSection, settings: &mut PolicySettings, changes: &mut Vec<String>) {
    for key in ["ksk-size", "zsk-size"] {
        match policy
            .entry(key)
            .and_then(|entry| entry.value().parse().ok())
        {
            Some(bits @ (2048_u64 | 3072 | 4096)) => {
                settings.retain(|(known, _)| *known != "rsa_bits");
                settings.push(("rsa_bits", bits.into()));
            }
            Some(bits) if bits > 1000 => {
                changes.push(format!("new RSA keys have 2048 bits instead of {bits}"));
            }
            _ => {}
        }
    }
}

fn settings_number(settings: &PolicySettings, key: &str) -> Option<u64> {
    let found = settings.iter().find(|(known, _)| *known == key);
    match found {
        Some((_, ImportedValue::Number(number))) => Some(*number),
        _ => None,
    }
}

/// Converts the parent servers that are queried for the DS.
fn submission(entry: &ConfigEntry, index: &KnotIndex<'_>) -> Result<PolicySettings, KnotRefusal> {
    let mut settings = PolicySettings::new();
    let Some(submission) = index.find("submission", entry.value()) else {
        return Ok(settings);
    };
    if let Some(parents) = submission.entry("parent") {
        let remotes = index.remotes(parents)?;
        let with_port = |address: &String| match address.parse::<std::net::IpAddr>() {
            Ok(address) => std::net::SocketAddr::new(address, 53).to_string(),
            Err(_) => address.clone(),
        };
        let servers = remotes.iter().map(|remote| with_port(&remote.address));
        settings.push(("parent_servers", servers.collect::<Vec<_>>().into()));
    }
    if let Some(time) = submission.entry("check-interval") {
        let time = seconds(time.value()).unwrap_or(3600);
        settings.push(("parent_interval", time.into()));
    }
    Ok(settings)
}

/// Returns the directory of the PEM files that a policy uses.
fn pem_directory(
    policy: Option<&ConfigSection>,
    index: &KnotIndex<'_>,
) -> Result<PathBuf, KnotRefusal> {
    let database = index.find_section("database");
    let database = |key: &str, default: &'static str| {
        let entry = database.and_then(|item| item.entry(key));
        entry.map_or(default, ConfigEntry::value).to_string()
    };
    let kasp = Path::new(&database("storage", STORAGE)).join(database("kasp-db", "keys"));
    let mut directory = "keys";
    if let Some(entry) = policy.and_then(|policy| policy.entry("keystore"))
        && let Some(store) = index.find("keystore", entry.value())
    {
        if store.entry("backend").is_some_and(|it| it.value() != "pem") {
            return Err(impossible(entry, "its keys are not in PEM files"));
        }
        directory = store.value_or("config", directory);
    }
    Ok(kasp.join(directory))
}

/// Parses a time: `3600`, `1h`, `30d`.
fn seconds(text: &str) -> Option<u64> {
    peers::with_unit(text, |unit| match unit {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        "w" => Some(604_800),
        "M" => Some(2_592_000),
        "y" => Some(31_536_000),
        _ => None,
    })
}
