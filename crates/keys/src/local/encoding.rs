//! The formats of keys and signing settings in the state store.
//!
//! ```text
//! key, form 2   form, role, use, flags (2), created (8), life or none (1 or 54), text of the private key
//! key, form 3   the same with the path of the key's files in place of the text
//! key, form 1   form, use, flags (2), created (8), text of the private key: as the first version wrote it
//! life          form 1, role, algorithm, created (8), life (53), SHA-256 of the DNSKEY: of keys that databases have
//! zone          form 1, then words: denial, SOA-EDIT, and with a policy `managed=` with numbers and `parent=` with
//!               addresses
//! ```

use super::directory::role_of;
use super::files::read_pair;
use super::{
    ManagedSettings, ParentSettings, PrivateKeyLocation, Secret, SerialOffsetRaise,
    SigningSettings, ZoneKey, ZoneKeysError,
};
use nameward_dnssec::rollover::{
    KeyGoal, KeyRecordState, KeyRole, KeyState, RecordPhase, RolloverTimes,
};
use nameward_dnssec::{DenialSettings, KeyUse, PrivateKey, SignatureTimes, SoaEdit};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The current format of keys.
const KEY_FORM: u8 = 2;
/// The format of keys whose private part is in a file.
const PAIR_FORM: u8 = nameward_state::KEY_ELSEWHERE;
/// The format of keys from the first version.
const FIRST_KEY_FORM: u8 = 1;
/// The format of rollover states for keys in databases.
const LIFE_FORM: u8 = 1;
/// The format of signing settings.
const ZONE_FORM: u8 = 1;
/// Roles and phases by their numbers.
const ROLES: [KeyRole; 3] = [KeyRole::Combined, KeyRole::KeySigning, KeyRole::ZoneSigning];
const PHASES: [RecordPhase; 4] = [
    RecordPhase::Hidden,
    RecordPhase::Rumoured,
    RecordPhase::Omnipresent,
    RecordPhase::Unretentive,
];
/// Size of the state of one record of a key in octets: phase, since, settles.
const RECORD: usize = 17;
/// Size of the rollover state of a key in octets: goal, rolled by hand, three records.
const LIFE: usize = 2 + 3 * RECORD;

impl ZoneKey {
    pub(super) fn value(&self) -> Secret<Vec<u8>> {
        let role = number_in(&ROLES, &self.role);
        let KeyUse {
            published,
            signs_keys,
            signs_zone,
            asks_ds,
        } = self.usage;
        let bits = [signs_keys, published, signs_zone, asks_ds];
        let bits = bits.iter().rev();
        let usage = bits.fold(0, |all, bit| all << 1 | u8::from(*bit));
        let form = match self.location {
            PrivateKeyLocation::Store => KEY_FORM,
            PrivateKeyLocation::Files { .. } => PAIR_FORM,
        };
        let mut value = vec![form, role, usage];
        value.extend(self.flags.to_be_bytes());
        value.extend(self.created.to_be_bytes());
        value.push(u8::from(self.life.is_some()));
        if let Some(life) = &self.life {
            put_life(life, &mut value);
        }
        match &self.location {
            PrivateKeyLocation::Store => value.extend(self.private.to_text().reveal().bytes()),
            PrivateKeyLocation::Files { path, .. } => value.extend(path.as_os_str().as_bytes()),
        }
        Secret::new(value)
    }

    pub(super) fn read(number: u32, value: &[u8]) -> Result<Self, ZoneKeysError> {
        let unknown = || ZoneKeysError::Form(number);
        match value.split_first() {
            Some((&FIRST_KEY_FORM, rest)) => read_first(number, rest),
            Some((&KEY_FORM, rest)) => {
                let head = CachedHead::read(rest).ok_or_else(unknown)?;
                let private = read_private(number, head.rest)?;
                Ok(head.key(number, private, PrivateKeyLocation::Store))
            }
            Some((&PAIR_FORM, rest)) => {
                let head = CachedHead::read(rest).ok_or_else(unknown)?;
                read_in_files(number, head, Path::new(OsStr::from_bytes(head.rest)))
            }
            _ => Err(unknown()),
        }
    }

    /// Reads a key whose files may have moved.
    pub(super) fn read_at(number: u32, value: &[u8], path: &Path) -> Result<Self, ZoneKeysError> {
        let head = value.strip_prefix(&[PAIR_FORM]).and_then(CachedHead::read);
        read_in_files(number, head.ok_or(ZoneKeysError::Form(number))?, path)
    }
}

/// A key in files, as far as the state store knows it.
pub(super) struct StoredPair {
    pub(super) number: u32,
    /// The path of its files without extensions.
    pub(super) path: PathBuf,
    pub(super) usage: KeyUse,
    /// None of its records is published.
    pub(super) is_unused: bool,
}

/// Checks whether a value is a key in files.
pub(super) fn is_pair(value: &[u8]) -> bool {
    value.first() == Some(&PAIR_FORM)
}

/// Reads the stored part of a key in files; `None` for one that is not in files.
pub(super) fn kept_pair(number: u32, value: &[u8]) -> Result<Option<StoredPair>, ZoneKeysError> {
    let Some(rest) = value.strip_prefix(&[PAIR_FORM]) else {
        return Ok(None);
    };
    let head = CachedHead::read(rest).ok_or(ZoneKeysError::Form(number))?;
    let is_hidden = head.life.is_none_or(|octets| {
        let life = read_life(octets, KeyState::new(number, (head.role, 0), 0));
        life.is_some_and(|life| life.is_hidden())
    });
    Ok(Some(StoredPair {
        number,
        path: PathBuf::from(OsStr::from_bytes(head.rest)),
        usage: head.usage,
        is_unused: head.usage == KeyUse::UNUSED && is_hidden,
    }))
}

fn read_in_files(number: u32, head: CachedHead<'_>, path: &Path) -> Result<ZoneKey, ZoneKeysError> {
    let file = read_pair(path)?;
    let location = PrivateKeyLocation::Files {
        path: path.to_path_buf(),
        times: file.times,
    };
    Ok(head.key(number, file.private, location))
}

fn read_private(number: u32, text: &[u8]) -> Result<PrivateKey, ZoneKeysError> {
    PrivateKey::from_text(text).map_err(|error| ZoneKeysError::Key { number, error })
}

fn read_first(number: u32, value: &[u8]) -> Result<ZoneKey, ZoneKeysError> {
    let (head, text) = value
        .split_first_chunk::<11>()
        .ok_or(ZoneKeysError::Form(number))?;
    let [usage, high, low, created @ ..] = *head;
    let flags = u16::from_be_bytes([high, low]);
    Ok(ZoneKey {
        number,
        flags,
        role: role_of(flags),
        usage: KeyUse::by_flags(flags, usage & 1 != 0, usage & 2 != 0),
        created: u64::from_be_bytes(created),
        life: None,
        private: read_private(number, text)?,
        location: PrivateKeyLocation::Store,
    })
}

/// All of a key except its private part.
#[derive(Clone, Copy)]
struct CachedHead<'v> {
    role: KeyRole,
    usage: KeyUse,
    flags: u16,
    created: u64,
    life: Option<&'v [u8; LIFE]>,
    rest: &'v [u8],
}

impl<'v> CachedHead<'v> {
    fn read(value: &'v [u8]) -> Option<Self> {
        let (head, rest) = value.split_first_chunk::<12>()?;
        let [role, usage, high, low, created @ ..] = *head;
        let role = *ROLES.get(usize::from(role))?;
        let (has_life, rest) = rest.split_first()?;
        let (life, rest) = match has_life {
            0 => (None, rest),
            _ => {
                let (life, rest) = rest.split_first_chunk::<LIFE>()?;
                read_life(life, KeyState::new(0, (role, 0), 0))?;
                (Some(life), rest)
            }
        };
        Some(CachedHead {
            role,
            usage: KeyUse {
                signs_keys: usage & 1 != 0,
                published: usage & 2 != 0,
                signs_zone: usage & 4 != 0,
                asks_ds: usage & 8 != 0,
            },
            flags: u16::from_be_bytes([high, low]),
            created: u64::from_be_bytes(created),
            life,
            rest,
        })
    }

    fn key(self, number: u32, private: PrivateKey, location: PrivateKeyLocation) -> ZoneKey {
        let kind = (self.role, private.algorithm());
        let new = KeyState::new(number, kind, self.created);
        ZoneKey {
            number,
            flags: self.flags,
            role: self.role,
            usage: self.usage,
            created: self.created,
            life: self.life.and_then(|octets| read_life(octets, new)),
            private,
            location,
        }
    }
}

/// Returns the number of a value: its position in a list.
fn number_in<T: PartialEq>(list: &[T], value: &T) -> u8 {
    let position = list.iter().position(|one| one == value);
    position.unwrap_or_default() as u8
}

/// Encodes the recorded state of a key in a database.
pub(crate) fn life_value(life: &KeyState, fingerprint: &[u8; 32]) -> Vec<u8> {
    let mut value = vec![LIFE_FORM, number_in(&ROLES, &life.role), life.algorithm];
    value.extend(life.created_at.to_be_bytes());
    put_life(life, &mut value);
    value.extend(fingerprint);
    value
}

/// Decodes the recorded state of a key in a database.
pub(crate) fn read_life_value(number: u32, value: &[u8]) -> Option<(KeyState, [u8; 32])> {
    let (&[form, role, algorithm], rest) = value.split_first_chunk::<3>()?;
    let (created, rest) = rest.split_first_chunk::<8>()?;
    let (life, fingerprint) = rest.split_first_chunk::<LIFE>()?;
    let kind = (*ROLES.get(usize::from(role))?, algorithm);
    let new = KeyState::new(number, kind, u64::from_be_bytes(*created));
    let life = read_life(life, new)?;
    let fingerprint = fingerprint.try_into().ok()?;
    (form == LIFE_FORM).then_some((life, fingerprint))
}

fn put_life(life: &KeyState, value: &mut Vec<u8>) {
    value.push(u8::from(life.goal == KeyGoal::Gone));
    value.push(u8::from(life.is_rolled_by_hand));
    for record in life.records() {
        put_record(record, value);
    }
}

fn put_record(record: &KeyRecordState, value: &mut Vec<u8>) {
    value.push(number_in(&PHASES, &record.phase));
    value.extend(record.since.to_be_bytes());
    // 0 means none: nothing settles in 1970.
    value.extend(record.settles_at.unwrap_or(0).to_be_bytes());
}

fn read_life(octets: &[u8; LIFE], new: KeyState) -> Option<KeyState> {
    let (head, records) = octets.split_first_chunk::<2>()?;
    let mut records = records.chunks_exact(RECORD).map(read_record);
    Some(KeyState {
        goal: match head[0] {
            0 => KeyGoal::Present,
            _ => KeyGoal::Gone,
        },
        is_rolled_by_hand: head[1] != 0,
        dnskey: records.next()??,
        zone_rrsig: records.next()??,
        ds: records.next()??,
        ..new
    })
}

fn read_record(octets: &[u8]) -> Option<KeyRecordState> {
    let (phase, times) = octets.split_first()?;
    let (since, settles_at) = times.split_first_chunk::<8>()?;
    let settles_at = u64::from_be_bytes(settles_at.try_into().ok()?);
    Some(KeyRecordState {
        phase: *PHASES.get(usize::from(*phase))?,
        since: u64::from_be_bytes(*since),
        settles_at: (settles_at != 0).then_some(settles_at),
    })
}

impl SigningSettings {
    pub(crate) fn value(&self) -> Vec<u8> {
        let denial = self.denial.word();
        let mut text = format!("{denial} {}", self.soa_edit.word());
        if let Some(managed) = &self.managed {
            let numbers: Vec<String> = managed
                .numbers(self.serial)
                .iter()
                .map(u64::to_string)
                .collect();
            text.push_str(&format!(" managed={}", numbers.join(",")));
            let servers = managed.parent.servers.iter();
            let servers: Vec<String> = servers.map(ToString::to_string).collect();
            text.push_str(&format!(" parent={}", servers.join(",")));
        } else if self.serial != SerialOffsetRaise::default() {
            let SerialOffsetRaise { offset, period } = self.serial;
            text.push_str(&format!(" serial={offset},{period}"));
        }
        [&[ZONE_FORM], text.as_bytes()].concat()
    }

    /// Decodes a value; an unknown one is replaced by the default method, which validates like any other.
    pub(crate) fn read(value: &[u8]) -> Self {
        let text = value.strip_prefix(&[ZONE_FORM]).unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let mut words = text.split(' ');
        let denial = words
            .next()
            .and_then(DenialSettings::read)
            .unwrap_or_default();
        let soa_edit = words.next().and_then(SoaEdit::read).unwrap_or_default();
        let word = words.next().unwrap_or_default();
        let numbers = |kind: &str| -> Option<Vec<u64>> {
            let numbers = word.strip_prefix(kind)?.split(',');
            numbers.map(|word| word.parse().ok()).collect()
        };
        let managed = numbers("managed=").and_then(|list| ManagedSettings::from_numbers(&list));
        let own = numbers("serial=").and_then(|list| SerialOffsetRaise::from_numbers(&list));
        let (mut managed, of_policy) = managed.unzip();
        let serial = of_policy.or(own).unwrap_or_default();
        let servers = words.next().and_then(|word| word.strip_prefix("parent="));
        if let (Some(managed), Some(servers)) = (&mut managed, servers) {
            let servers = servers.split(',').filter_map(|word| word.parse().ok());
            managed.parent.servers = servers.collect();
        }
        SigningSettings {
            denial,
            soa_edit,
            managed,
            serial,
        }
    }
}

impl ManagedSettings {
    fn numbers(&self, serial: SerialOffsetRaise) -> [u64; 19] {
        let (signatures, times) = (&self.signatures, &self.times);
        [
            signatures.validity.into(),
            signatures.refresh.into(),
            signatures.inception_offset.into(),
            signatures.jitter.into(),
            self.dnskey_ttl.into(),
            self.shows_cds.into(),
            self.asks_removal.into(),
            serial.offset.into(),
            serial.period,
            times.dnskey_ttl,
            times.zone_ttl,
            times.negative_ttl,
            times.zone_propagation,
            times.ds_ttl,
            times.parent_propagation,
            times.parent_registration,
            times.safety,
            times.purge_after,
            self.parent.interval,
        ]
    }

    fn from_numbers(numbers: &[u64]) -> Option<(Self, SerialOffsetRaise)> {
        let small = |at: usize| u32::try_from(*numbers.get(at)?).ok();
        let large = |at: usize| numbers.get(at).copied();
        let serial = SerialOffsetRaise {
            offset: small(7)?,
            period: large(8)?,
        };
        let managed = ManagedSettings {
            signatures: SignatureTimes {
                validity: small(0)?,
                refresh: small(1)?,
                inception_offset: small(2)?,
                jitter: small(3)?,
            },
            dnskey_ttl: small(4)?,
            shows_cds: large(5)? != 0,
            asks_removal: large(6)? != 0,
            times: RolloverTimes {
                dnskey_ttl: large(9)?,
                zone_ttl: large(10)?,
                negative_ttl: large(11)?,
                zone_propagation: large(12)?,
                ds_ttl: large(13)?,
                parent_propagation: large(14)?,
                parent_registration: large(15)?,
                safety: large(16)?,
                purge_after: large(17)?,
            },
            parent: ParentSettings {
                servers: Vec::new(),
                interval: large(18)?,
            },
        };
        Some((managed, serial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(life: Option<KeyState>) -> ZoneKey {
        ZoneKey {
            number: 7,
            flags: 257,
            role: KeyRole::Combined,
            usage: KeyUse::EVERYTHING,
            created: 1_800_000_000,
            life,
            private: PrivateKey::generate(13, 0).unwrap(),
            location: PrivateKeyLocation::Store,
        }
    }

    #[test]
    fn keys_round_trip() {
        let mut life = KeyState::in_use(7, (KeyRole::Combined, 13), 1_800_000_000);
        life.goal = KeyGoal::Gone;
        life.ds.phase = RecordPhase::Unretentive;
        life.dnskey.settles_at = Some(1_900_000_000);
        for written in [key(None), key(Some(life))] {
            let value = written.value();
            assert_eq!(ZoneKey::read(7, value.reveal()), Ok(written));
            for cut in 0..value.reveal().len() - 60 {
                assert!(ZoneKey::read(7, &value.reveal()[..cut]).is_err());
            }
        }
    }

    #[test]
    fn notes_about_a_database_key_round_trip() {
        let mut life = KeyState::in_use(7, (KeyRole::KeySigning, 15), 1_800_000_000);
        life.is_rolled_by_hand = true;
        life.zone_rrsig.settles_at = Some(1_900_000_000);
        let value = life_value(&life, &[3; 32]);
        assert_eq!(read_life_value(7, &value), Some((life, [3; 32])));
        for cut in 0..value.len() {
            assert_eq!(read_life_value(7, &value[..cut]), None);
        }
    }

    #[test]
    fn keys_of_the_first_version_do_what_their_flags_say() {
        let mut old = vec![1, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 9];
        old.extend(key(None).private.to_text().reveal().bytes());
        let read = ZoneKey::read(1, &old).unwrap();
        assert_eq!((read.flags, read.created), (257, 9));
        assert_eq!(read.usage, KeyUse::by_flags(257, true, true));
    }

    #[test]
    fn signing_methods_round_trip() {
        let numbers: Vec<u64> = (1..20).collect();
        let (mut managed, serial) = ManagedSettings::from_numbers(&numbers).unwrap();
        managed.asks_removal = false;
        managed.parent.servers = vec![
            "192.0.2.1:53".parse().unwrap(),
            "[::1]:5300".parse().unwrap(),
        ];
        for managed in [None, Some(managed)] {
            let terms = SigningSettings {
                denial: DenialSettings::read("compact").unwrap(),
                soa_edit: SoaEdit::Epoch,
                managed,
                serial,
            };
            assert_eq!(SigningSettings::read(&terms.value()), terms);
        }
        assert_eq!(SigningSettings::read(b"\x01nsec NONE").managed, None);
        assert_eq!(ManagedSettings::from_numbers(&numbers[..18]), None);
    }
}
