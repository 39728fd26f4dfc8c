//! The RRset versions that caches may have, and whether every combination of them validates.
//!
//! A cache has each RRset as a whole, as it was at one point in time. The DNSKEY RRset and the signatures of the zone
//! change when this server decides: the times at which states started put their versions in order. The parent changes
//! the DS RRset at any time, at once or piece by piece, so a DS in transition may or may not be present, independently
//! of the others.

use super::key_state::{KeyRecordState, KeyState, RecordPhase};

/// A set of keys, by their index in the ring: `MAX_KEYS` fit.
type KeyBits = u32;

fn bits(keys: &[KeyState], is_in: impl Fn(&KeyState) -> bool) -> KeyBits {
    let places = keys.iter().enumerate().filter(|(_, key)| is_in(key));
    places.fold(0, |set, (place, _)| set | 1 << place)
}

/// Checks whether the version created at `time` (`None`: the one before all) has the record.
fn is_in_version(record: &KeyRecordState, time: Option<u64>) -> bool {
    let has_begun = time.is_some_and(|time| time >= record.since);
    match record.phase {
        RecordPhase::Hidden => false,
        RecordPhase::Omnipresent => true,
        RecordPhase::Rumoured => has_begun,
        RecordPhase::Unretentive => !has_begun,
    }
}

/// Returns the versions of an RRset that changes when this server decides.
fn own_versions(keys: &[KeyState], record: impl Fn(&KeyState) -> &KeyRecordState) -> Vec<KeyBits> {
    let in_transit = keys.iter().map(&record).filter(|life| life.is_in_transit());
    let times = in_transit.map(|life| Some(life.since));
    let version = |time| bits(keys, |key| is_in_version(record(key), time));
    let mut versions: Vec<KeyBits> = std::iter::once(None).chain(times).map(version).collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

/// Returns representative versions of the DS RRset: the DS that are certainly present, alone and with each one in
/// transition. A set fails because an algorithm only has DS without a key; one of these DS, together with the certain
/// ones, fails for the same reason.
fn parent_versions(keys: &[KeyState]) -> Vec<KeyBits> {
    let certain = bits(keys, |key| key.ds.phase == RecordPhase::Omnipresent);
    let in_transit = keys.iter().enumerate();
    let in_transit = in_transit.filter(|(_, key)| key.ds.is_in_transit());
    let with_one = in_transit.map(|(place, _)| certain | 1 << place);
    std::iter::once(certain).chain(with_one).collect()
}

pub(super) fn every_combination_validates(keys: &[KeyState]) -> bool {
    let dnskeys = own_versions(keys, |key| &key.dnskey);
    let rrsigs = own_versions(keys, |key| &key.zone_rrsig);
    let parents = parent_versions(keys);
    // Without a DS the zone is insecure, and anything is allowed.
    let mut parents = parents.into_iter().filter(|&ds| ds != 0);
    parents.all(|ds| {
        dnskeys.iter().all(|&dnskey| {
            has_entry(keys, ds, dnskey)
                && rrsigs.iter().all(|&rrsig| is_signed(keys, dnskey, rrsig))
        })
    })
}

/// Checks that each algorithm in the DS RRset has a key that signs the DNSKEY RRset (RFC 4035 section 2.2). A validator
/// may accept one of them (RFC 6840 section 5.11), but some do not.
fn has_entry(keys: &[KeyState], ds: KeyBits, dnskey: KeyBits) -> bool {
    let entries = bits(keys, |key| key.role.signs_keys()) & ds & dnskey;
    algorithms(keys, ds) & !algorithms(keys, entries) == 0
}

/// Checks that each algorithm in the DNSKEY RRset signs it and everything else (RFC 4035 section 2.2).
fn is_signed(keys: &[KeyState], dnskey: KeyBits, rrsig: KeyBits) -> bool {
    let all = algorithms(keys, dnskey);
    let signs_keys = bits(keys, |key| key.role.signs_keys()) & dnskey;
    all & !algorithms(keys, signs_keys) == 0 && all & !algorithms(keys, dnskey & rrsig) == 0
}

/// Returns one bit for each algorithm in a set of keys.
fn algorithms(keys: &[KeyState], set: KeyBits) -> u128 {
    let members = keys.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
    // Numbers from 123 on are reserved (RFC 4034 appendix A.1, RFC 6014) except for private use, which share one bit
    // each.
    members.fold(0, |all, (_, key)| all | 1 << (key.algorithm % 128))
}
