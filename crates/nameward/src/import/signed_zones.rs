//! Zones that the other server signs: converted to an unsigned zone file, and the keys as files of a `key_directory`.
//!
//! ```text
//! signed version   as the other server serves it: which keys sign, and the serial that secondaries have
//! keys             the private part of every key that signs, or the zone is left out
//! zone file        the records without those of DNSSEC, in the layout of the file that the operator edits, if there is
//!                  one; its serial is one above that of the signed version, so that secondaries fetch the new signatures
//! ```

use nameward_base::time::now_seconds;
use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use nameward_dnssec::{KeyFile, KeyTimes, KeyUse, PrivateKey};
use nameward_files::{signed_version, zone_from_text};
use nameward_import::migrate::{
    ImportRefusal, ImportVerdict, ImportedKeyStore, ImportedServer, ImportedSigning, ImportedZone,
};
use nameward_maintain::{
    contents_of,
    sync::{NewRecordLocation, put_difference, whole_text},
};
use nameward_wire::{NameBuf, Type, zonefile::Options};
use nameward_zone::change::set_soa_serial;
use nameward_zone::{RecordList, Serial, WireRecord, Zone, ZoneBuilder};

use super::output::NewFile;

/// Maximum number of files read from a key directory.
const KEY_FILES_MAX: usize = 100_000;
/// The private type in which BIND records its signing progress.
const BIND_PRIVATE: Type = Type(65534);

pub struct SignedLocations<'p> {
    /// The directory for the configuration.
    pub out: &'p Path,
    pub keys: &'p Path,
}

/// Converts the signed zones. One that cannot be served with the same keys is left out.
pub fn convert(moved: &mut ImportedServer, places: &SignedLocations<'_>) -> Vec<NewFile> {
    let mut files = Vec::new();
    let now = now_seconds();
    let zones = std::mem::take(&mut moved.zones);
    for mut zone in zones {
        let Some(signing) = zone.signing.clone() else {
            moved.zones.push(zone);
            continue;
        };
        match convert_zone(&mut zone, &signing, places, now) {
            Ok((serial, new)) => {
                let text = format!(
                    "zone {}: keys imported; {} is an unsigned copy, serial {}",
                    zone.name,
                    zone.file.as_deref().unwrap_or(Path::new("")).display(),
                    serial.0
                );
                moved
                    .report
                    .add(ImportVerdict::Changed, &zone.location, text);
                files.extend(new);
                moved.zones.push(zone);
            }
            Err(reason) => {
                let text = format!("zone {} omitted: {reason}", zone.name);
                moved
                    .report
                    .add(ImportVerdict::Breaks, &zone.location, text);
            }
        }
    }
    let zones = &moved.zones;
    moved.policies.retain(|policy| {
        let mut used = zones.iter().map(|zone| &zone.terms.dnssec_policy);
        used.any(|used| used.as_ref() == Some(&policy.name))
    });
    files
}

fn convert_zone(
    zone: &mut ImportedZone,
    signing: &ImportedSigning,
    places: &SignedLocations<'_>,
    now: u64,
) -> Result<(Serial, Vec<NewFile>), ImportRefusal> {
    let name = NameBuf::zone_from_text(&zone.name).map_err(|_| "its name is invalid")?;
    let version = signed_version(name.as_name(), &signing.version).map_err(|found| {
        let first = found.first().map(ToString::to_string).unwrap_or_default();
        format!("{first}; run `{}` and import again", signing.flush)
    })?;
    let shown = KeysView::new(&version);
    let keys = find_keys(&name.as_name().zone().into(), &shown, signing, now)?;
    let serial = Serial(version.serial().0.wrapping_add(1));
    let unsigned = unsigned(&version, &keys, serial);
    let text = zone_text(&name, &unsigned, signing.source.as_deref())
        .ok_or("its unsigned records are not a valid zone")?;
    let file = file_of(&name);
    let mut files = vec![NewFile {
        path: places.out.join(&file),
        contents: text,
        mode: 0o644,
    }];
    for key in &keys {
        let failed = |error: nameward_dnssec::KeyError| error.to_string();
        let stem = places.keys.join(key.stem().map_err(failed)?);
        let texts = [
            (".key", key.public_text().map_err(failed)?, 0o644),
            (".private", key.private_text().reveal().clone(), 0o600),
        ];
        for (end, text, mode) in texts {
            let mut path = stem.clone().into_os_string();
            path.push(end);
            files.push(NewFile {
                path: path.into(),
                contents: text.into_bytes(),
                mode,
            });
        }
    }
    zone.file = Some(file);
    zone.terms.key_directory = Some(places.keys.to_path_buf());
    zone.terms.dnssec_policy.clone_from(&signing.policy);
    Ok((serial, files))
}

/// Returns the path of a zone's new file, relative to the configuration, with the name that it has in a zone directory.
pub fn file_of(zone: &NameBuf) -> PathBuf {
    let name = zone.to_string();
    let file = match name.trim_end_matches('.') {
        "" => "@.zone".into(),
        name => format!("{}.zone", name.replace('/', "\\047")),
    };
    PathBuf::from("zones").join(file)
}

/// The keys that a version publishes, and those that sign it.
struct KeysView {
    /// DNSKEY data.
    keys: Vec<Vec<u8>>,
    /// Algorithm and key tag of the signatures over DNSKEY and over SOA.
    signers: [Vec<(u8, u16)>; 2],
}

impl KeysView {
    fn new(version: &Zone) -> Self {
        let mut shown = Self {
            keys: Vec::new(),
            signers: Default::default(),
        };
        for rrset in version.apex().rrsets() {
            for record in rrset.records() {
                match (rrset.rtype(), record.rdata) {
                    (Type::DNSKEY, data) => shown.keys.push(data.to_vec()),
                    // RFC 4034 section 3.1: covered type, algorithm, ..., key tag at octet 16.
                    (Type::RRSIG, [hi, lo, algorithm, rest @ ..]) if rest.len() > 15 => {
                        let tag = u16::from_be_bytes([rest[13], rest[14]]);
                        let at = match Type(u16::from_be_bytes([*hi, *lo])) {
                            Type::DNSKEY => 0,
                            Type::SOA => 1,
                            _ => continue,
                        };
                        shown.signers[at].push((*algorithm, tag));
                    }
                    _ => {}
                }
            }
        }
        shown
    }

    fn signs(&self, algorithm: u8, tag: u16) -> bool {
        self.signers
            .iter()
            .any(|signers| signers.contains(&(algorithm, tag)))
    }
}

/// Finds the private part of the keys that a version publishes. Keys of other signers have none here and remain plain
/// records.
fn find_keys(
    zone: &NameBuf,
    shown: &KeysView,
    signing: &ImportedSigning,
    now: u64,
) -> Result<Vec<KeyFile>, ImportRefusal> {
    let stored = match &signing.keys {
        ImportedKeyStore::Pairs(directory) => read_pairs(zone, directory)?,
        ImportedKeyStore::Pem(directory) => read_pem(zone, directory, shown)?,
    };
    let mut found = Vec::new();
    for dnskey in &shown.keys {
        let [_, _, _, algorithm, ..] = dnskey[..] else {
            continue;
        };
        let tag = nameward_dnssec::key_tag(dnskey);
        let is_signer = shown.signs(algorithm, tag);
        let is_it = |file: &&KeyFile| {
            let key = file.key(KeyUse::UNUSED);
            key.is_ok_and(|key| key.dnskey() == &dnskey[..])
        };
        match stored.iter().find(is_it) {
            Some(file) => {
                let mut file = file.clone();
                let mut wanted = KeyUse::by_flags(file.flags, is_signer, true);
                wanted.asks_ds = file.times.usage(file.flags, now).asks_ds;
                if file.times == KeyTimes::default() {
                    file.times.created = Some(now);
                }
                file.times.set_usage(file.flags, wanted, now);
                found.push(file);
            }
            None if is_signer => {
                let (ImportedKeyStore::Pairs(directory) | ImportedKeyStore::Pem(directory)) =
                    &signing.keys;
                return Err(format!(
                    "the private key of key tag {tag}, which signs it, is not in {}",
                    directory.display()
                )
                .into());
            }
            None => {}
        }
    }
    if found.is_empty() {
        return Err("none of its keys was found".into());
    }
    // Without a policy keys are used according to their timing data, future ones too.
    if signing.policy.is_none() {
        let is_new = |file: &&KeyFile| !found.iter().any(|known| known.private == file.private);
        let is_later = |file: &&KeyFile| file.times.publish.is_some_and(|time| time > now);
        let later: Vec<KeyFile> = stored
            .iter()
            .filter(is_new)
            .filter(is_later)
            .cloned()
            .collect();
        found.extend(later);
    }
    Ok(found)
}

/// Reads a zone's key pairs from a BIND key directory.
fn read_pairs(zone: &NameBuf, directory: &Path) -> Result<Vec<KeyFile>, ImportRefusal> {
    let start = format!("K{}+", nameward_dnssec::file_owner(zone.as_name()));
    let mut found = Vec::new();
    for path in list(directory, ".private")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(&start) {
            continue;
        }
        let read = |path: &Path| {
            fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let (public, private) = (read(&path.with_extension("key"))?, read(&path)?);
        // An unusable key is reported missing only if it signs the zone.
        found.extend(KeyFile::read(&public, &private).ok());
    }
    Ok(found)
}

/// Reads Knot's PEM files that are keys of a zone. They contain neither algorithm nor flags: the DNSKEY records do.
fn read_pem(
    zone: &NameBuf,
    directory: &Path,
    shown: &KeysView,
) -> Result<Vec<KeyFile>, ImportRefusal> {
    let mut found: Vec<KeyFile> = Vec::new();
    for path in list(directory, ".pem")? {
        let text = fs::read(&path);
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let created = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let created = created
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created = created.map(|time| time.as_secs());
        for dnskey in &shown.keys {
            let [hi, lo, _, algorithm, ..] = dnskey[..] else {
                continue;
            };
            let Ok(private) = PrivateKey::from_pem(&text, algorithm) else {
                continue;
            };
            let flags = u16::from_be_bytes([hi, lo]);
            let file = KeyFile {
                owner: *zone,
                flags,
                private,
                times: KeyTimes {
                    created,
                    publish: created,
                    activate: created,
                    sync_publish: created.filter(|_| flags & 1 == 1),
                    ..KeyTimes::default()
                },
            };
            let is_it = file.key(KeyUse::UNUSED);
            if is_it.is_ok_and(|key| key.dnskey() == &dnskey[..]) {
                found.push(file);
            }
        }
    }
    Ok(found)
}

fn list(directory: &Path, end: &str) -> Result<Vec<PathBuf>, ImportRefusal> {
    let failed = |error| format!("cannot list {}: {error}", directory.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)?.take(KEY_FILES_MAX) {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(end) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the records of a version without those that signing adds.
fn unsigned(version: &Zone, keys: &[KeyFile], serial: Serial) -> Vec<RecordList> {
    let own: Vec<Vec<u8>> = keys
        .iter()
        .filter_map(|file| Some(file.key(KeyUse::UNUSED).ok()?.dnskey().to_vec()))
        .collect();
    let is_made = |record: &WireRecord<'_>| match record.rtype {
        Type::RRSIG | Type::NSEC | Type::NSEC3 | Type::NSEC3PARAM => true,
        Type::CDS | Type::CDNSKEY | Type::ZONEMD | BIND_PRIVATE => {
            record.owner == version.apex_name()
        }
        Type::DNSKEY => own.iter().any(|key| key == record.rdata),
        _ => false,
    };
    let mut kept = RecordList::default();
    for record in contents_of(version).iter().flatten() {
        if is_made(&record) {
            continue;
        }
        if record.rtype != Type::SOA {
            kept.push(record);
            continue;
        }
        let mut soa = record.rdata.to_vec();
        set_soa_serial(&mut soa, serial);
        let rdata = &soa[..];
        kept.push(WireRecord { rdata, ..record });
    }
    vec![kept]
}

/// Returns the text of the new zone file: that of the operator's file with the differences, or all records written
/// again.
fn zone_text(name: &NameBuf, records: &[RecordList], source: Option<&Path>) -> Option<Vec<u8>> {
    let mut builder = ZoneBuilder::new(name.as_name());
    records.iter().for_each(|part| builder.add_list(part));
    let zone = builder.finish().0?;
    let read = |text: &[u8]| zone_from_text(name.as_name(), "zone file", text).ok();
    let is_it =
        |text: &Vec<u8>| read(text).is_some_and(|new| zone.difference_from(&new).is_empty());
    let edited = source.and_then(|source| {
        let text = fs::read(source).ok()?;
        let difference = zone.difference_from(&read(&text)?);
        let options = Options::new(*name);
        let places = [NewRecordLocation::BesideOwner, NewRecordLocation::End];
        let mut texts = places
            .into_iter()
            .filter_map(|place| put_difference(&text, &options, &difference, place).ok());
        texts.find(is_it)
    });
    edited.or_else(|| Some(whole_text(records)).filter(is_it))
}
