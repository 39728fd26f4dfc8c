//! Online signing of a zone: its keys, its policy, and the records made with them.

use crate::cache::{SignatureCache, SignedOctets};
use crate::key::{KeyUse, SigningKey};
use crate::made_types::MadeTypes;
use crate::period::{early_of, renewed_at, validity};
use crate::policy::{Denial, DenialStyle, Publish, SigningPolicy};
use crate::reused::ReusableBytes;
use crate::set::{CanonicalSet, RRSIG_FIXED};
use crate::soa_edit::SoaEdit;
use arrayvec::ArrayVec;
use nameward_wire::{Name, NameBuf, Type};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The keys of a zone.
#[derive(Default)]
pub struct Keys {
    list: Vec<SigningKey>,
    is_broken: bool,
}

impl Keys {
    /// Creates a list of keys in any order, each with its own tasks.
    pub fn new(list: Vec<SigningKey>) -> Self {
        Keys {
            list,
            is_broken: false,
        }
    }

    /// Creates a list of keys, in any order, whose tasks follow from their flags. RFC 4035 section 2.2: an algorithm
    /// that signs must sign everything, so if it only has keys of one kind, they also do the work of the other kind. In
    /// a zone without an entry point, every key counts as one (SEP is a hint, RFC 4034 section 2.1.1).
    pub fn by_flags(mut list: Vec<SigningKey>) -> Self {
        let mut algorithms: Vec<u8> = list.iter().map(SigningKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        for algorithm in algorithms {
            let mut own: Vec<&mut KeyUse> = list
                .iter_mut()
                .filter(|key| key.algorithm() == algorithm)
                .map(|key| &mut key.usage)
                .collect();
            let signs_keys = own.iter().any(|usage| usage.signs_keys);
            let signs_zone = own.iter().any(|usage| usage.signs_zone);
            for usage in own.iter_mut().filter(|usage| usage.is_active()) {
                usage.signs_keys |= !signs_keys;
                usage.signs_zone |= !signs_zone;
            }
        }
        if !list.iter().any(|key| key.usage.asks_ds) {
            let is_shown_entry = |key: &SigningKey| key.usage.published && key.is_entry_point();
            let has_entry = list.iter().any(is_shown_entry);
            for key in &mut list {
                key.usage.asks_ds = key.usage.published && (!has_entry || key.is_entry_point());
            }
        }
        Keys::new(list)
    }

    /// Returns a key list in which at least one key is unusable. Signing with the others could leave RRsets without a
    /// signature of an algorithm that the parent announces, so nothing is signed at all.
    pub fn broken() -> Self {
        Keys {
            list: Vec::new(),
            is_broken: true,
        }
    }

    /// Checks whether there is no key.
    pub fn is_empty(&self) -> bool {
        !self.is_broken && self.list.is_empty()
    }

    /// Checks whether there is a key that signs, or should.
    pub fn has_active(&self) -> bool {
        self.is_broken || self.list.iter().any(|key| key.usage.is_active())
    }

    /// Checks whether a key is unusable.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Returns the usable keys.
    pub fn list(&self) -> &[SigningKey] {
        &self.list
    }

    /// Returns the keys that sign RRsets of a type. CDS and CDNSKEY are signed by all (RFC 7344 section 4.1 requires a
    /// key in the parent's DS RRset).
    fn signers(&self, rtype: Type) -> impl Iterator<Item = &SigningKey> {
        self.list.iter().filter(move |key| match rtype {
            Type::CDS | Type::CDNSKEY => key.usage.is_active(),
            Type::DNSKEY => key.usage.signs_keys,
            _ => key.usage.signs_zone,
        })
    }
}

/// Maximum number of signatures per RRset: more than a zone has keys.
const RRSIGS_MAX: usize = 64;

/// The data of the RRSIGs of an RRset.
pub type Rrsigs = ArrayVec<Arc<[u8]>, RRSIGS_MAX>;

/// The reason why an RRset has no signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSignature {
    /// A key is unusable, or the library failed.
    #[error("the zone cannot be signed")]
    CannotSign,
    /// The signature is not cached, and the caller makes none.
    #[error("the signature is not in the cache yet")]
    NotMade,
}

/// Whether the caller makes signatures that are not cached: that takes up to a millisecond of CPU time each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// Signatures are made; `made` counts them.
    Now {
        /// Number of signatures made.
        made: u32,
    },
    /// Signatures are left to other threads.
    Never,
}

impl Making {
    /// Signatures are made; none so far.
    pub const NOW: Making = Making::Now { made: 0 };

    /// Returns the number made since the last call.
    #[inline]
    pub fn take_made(&mut self) -> u32 {
        match self {
            Making::Now { made } => std::mem::take(made),
            Making::Never => 0,
        }
    }
}

/// The number of the next signing state.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The signing state of a zone.
pub struct Signing {
    pub(crate) apex: NameBuf,
    keys: Arc<Keys>,
    policy: Arc<SigningPolicy>,
    cache: Arc<SignatureCache>,
    /// Seconds by which its signatures are renewed early.
    early: u32,
    /// Different for each signing state of this process, from 1.
    number: u64,
}

impl std::fmt::Debug for Signing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys of {}", self.keys.list.len(), self.apex)
    }
}

/// Covers everything that answers depend on, except the time.
impl Hash for Signing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.policy.hash(state);
        self.keys.is_broken.hash(state);
        for key in &self.keys.list {
            key.fingerprint().hash(state);
            key.usage.hash(state);
        }
    }
}

impl Signing {
    /// Creates the signing state of a zone with keys.
    pub fn new(
        apex: Name<'_>,
        keys: Arc<Keys>,
        policy: Arc<SigningPolicy>,
        cache: Arc<SignatureCache>,
    ) -> Self {
        let mut apex: NameBuf = apex.zone().into();
        apex.make_lowercase();
        Signing {
            early: early_of(apex.as_name()),
            apex,
            keys,
            policy,
            cache,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns a number that no other signing state of this process has, and how often the cache was flushed.
    #[inline]
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.number, self.cache.flushes())
    }

    /// Checks whether signatures are cached.
    pub fn caches_signatures(&self) -> bool {
        self.cache.is_on()
    }

    /// Returns the seconds, `now` among them, in which an RRset has the same signatures.
    pub fn served_times(&self, set: &CanonicalSet, now: u32) -> (u32, u32) {
        let until = match &self.policy.signatures {
            Some(times) => times.renewed_at(now, times.early(&set.records)),
            None => renewed_at(now, self.early),
        };
        (now, u32::try_from(until.saturating_sub(1)).unwrap_or(now))
    }

    /// Returns NSEC or NSEC3.
    #[inline]
    pub fn denial(&self) -> &Denial {
        &self.policy.denial
    }

    /// Returns how much the denial records reveal about other names. Compact denial with NSEC3 is not supported.
    #[inline]
    pub fn style(&self) -> DenialStyle {
        match (self.policy.style, self.denial()) {
            (_, Denial::Nsec3(_)) if self.policy.is_narrow => DenialStyle::WhiteLies,
            (DenialStyle::Compact, Denial::Nsec3(_)) => DenialStyle::WhiteLies,
            (style, _) => style,
        }
    }

    /// Checks whether the zone's names are listed for a chain even if its contents are looked up. Reading all names
    /// takes time and memory that white lies do not need; an RSA signature for each name in a flood takes more.
    pub fn lists_live_names(&self) -> bool {
        let is_slow = |key: &SigningKey| is_rsa(key.algorithm());
        self.style() == DenialStyle::Chain
            && self.signs()
            && !self.keys.is_broken
            && (self.policy.is_style_explicit || self.keys.signers(Type::NSEC).any(is_slow))
    }

    /// Checks whether delegations without DS have no NSEC3 in the chain.
    pub fn is_opt_out(&self) -> bool {
        self.policy.is_opt_out && matches!(self.denial(), Denial::Nsec3(_))
    }

    /// Checks whether the zone's metadata restricts NSEC3 records to answers.
    pub fn is_narrow(&self) -> bool {
        self.policy.is_narrow && matches!(self.denial(), Denial::Nsec3(_))
    }

    /// Returns how the served serial is derived.
    #[inline]
    pub fn soa_edit(&self) -> SoaEdit {
        self.policy.soa_edit
    }

    /// Returns the TTL of DNSKEY, CDS and CDNSKEY, if the zone's policy sets one.
    pub fn dnskey_ttl(&self) -> Option<u32> {
        self.policy.dnskey_ttl
    }

    /// Returns the number added to the zone's serial.
    pub fn serial_offset(&self) -> u32 {
        self.policy.serial_offset
    }

    /// Returns the time at which the first of the signatures served now expires.
    pub fn earliest_end(&self, now: u64) -> u64 {
        match &self.policy.signatures {
            Some(times) => times.earliest_end(now),
            None => u64::from(validity(now as u32, self.early).1),
        }
    }

    /// Checks whether there is a key that signs. Otherwise the keys are published, but nothing is signed or proven.
    pub fn signs(&self) -> bool {
        self.keys.has_active()
    }

    /// Checks whether a key is unusable, so that nothing can be signed.
    pub fn is_broken(&self) -> bool {
        self.keys.is_broken
    }

    /// Returns the types that are made here: such records in the zone data are not served.
    pub fn made_types(&self) -> MadeTypes {
        self.policy.made_types()
    }

    /// Returns the records that signing adds at the apex.
    pub fn apex_records(&self) -> Vec<(Type, Vec<u8>)> {
        let mut records = Vec::new();
        let published = || self.keys.list.iter().filter(|key| key.usage.published);
        records.extend(published().map(|key| (Type::DNSKEY, key.dnskey().to_vec())));
        let entry_points = || self.keys.list.iter().filter(|key| key.usage.asks_ds);
        match &self.policy.cds {
            Publish::Nothing => {}
            // RFC 8078 section 4.
            Publish::Removal => records.push((Type::CDS, vec![0, 0, 0, 0, 0])),
            Publish::Keys(digests) => records.extend(entry_points().flat_map(|key| {
                let all = digests
                    .iter()
                    .filter_map(|&of| key.ds(self.apex.as_name(), of));
                all.map(|ds| (Type::CDS, ds))
            })),
        }
        match &self.policy.cdnskey {
            Publish::Nothing => {}
            Publish::Removal => records.push((Type::CDNSKEY, vec![0, 0, 3, 0, 0])),
            Publish::Keys(()) => {
                records.extend(entry_points().map(|key| (Type::CDNSKEY, key.dnskey().to_vec())));
            }
        }
        if let Denial::Nsec3(nsec3) = self.denial() {
            records.push((Type::NSEC3PARAM, nsec3.param()));
        }
        records
    }

    /// Returns the types of [`Signing::apex_records`].
    pub fn apex_types(&self) -> ArrayVec<Type, 4> {
        let mut types = ArrayVec::new();
        if self.keys.list.iter().any(|key| key.usage.published) {
            types.push(Type::DNSKEY);
        }
        let has_entry_point = || self.keys.list.iter().any(|key| key.usage.asks_ds);
        let cds = &self.policy.cds;
        if *cds == Publish::Removal || matches!(cds, Publish::Keys(_)) && has_entry_point() {
            types.push(Type::CDS);
        }
        let cdnskey = &self.policy.cdnskey;
        if *cdnskey == Publish::Removal || *cdnskey == Publish::Keys(()) && has_entry_point() {
            types.push(Type::CDNSKEY);
        }
        if let Denial::Nsec3(_) = self.denial() {
            types.push(Type::NSEC3PARAM);
        }
        types
    }

    /// Returns the RRSIG data for an RRset, from the cache if possible; others are made as `making` allows.
    pub fn signatures(
        &self,
        set: &CanonicalSet,
        now: u32,
        making: &mut Making,
    ) -> Result<Rrsigs, NoSignature> {
        self.signatures_or_known(set, now, making, |_| None)
    }

    /// Like [`Signing::signatures`], but `known` is tried first: it gets the RRSIG data up to the signature, and
    /// returns the complete data if it has one over the same records.
    pub fn signatures_or_known<'k>(
        &self,
        set: &CanonicalSet,
        now: u32,
        making: &mut Making,
        known: impl Fn(&[u8]) -> Option<&'k [u8]>,
    ) -> Result<Rrsigs, NoSignature> {
        if self.keys.is_broken {
            return Err(NoSignature::CannotSign);
        }
        let mut all = Rrsigs::new();
        for key in self.keys.signers(set.rtype) {
            let head = self.rrsig_head(key, set, now);
            let rdata = &head[key.fingerprint().len()..];
            if let Some(rrsig) = known(rdata) {
                all.try_push(rrsig.into())
                    .map_err(|_| NoSignature::CannotSign)?;
                continue;
            }
            let octets = SignedOctets {
                head: &head,
                records: &set.records,
            };
            if let Some(rrsig) = self.cache.find(octets) {
                all.try_push(rrsig).map_err(|_| NoSignature::CannotSign)?;
                continue;
            }
            let Making::Now { made } = making else {
                return Err(NoSignature::NotMade);
            };
            let message = [rdata, &set.records[..]].concat();
            let signature = key.sign(&message).ok_or(NoSignature::CannotSign)?;
            *made += 1;
            let rrsig: Arc<[u8]> = [rdata, &signature[..]].concat().into();
            self.cache.insert(octets, rrsig.clone());
            all.try_push(rrsig).map_err(|_| NoSignature::CannotSign)?;
        }
        Ok(all)
    }

    /// Returns the fingerprint of the key, followed by the RRSIG data up to the signature (RFC 4034 section 3.1).
    fn rrsig_head(&self, key: &SigningKey, set: &CanonicalSet, now: u32) -> ReusableBytes {
        let (begins, ends) = match &self.policy.signatures {
            Some(times) => times.bounds(now, times.early(&set.records)),
            None => validity(now, self.early),
        };
        let apex = self.apex.as_name().as_wire();
        let mut head = ReusableBytes::take();
        head.reserve(key.fingerprint().len() + RRSIG_FIXED + apex.len());
        head.extend_from_slice(key.fingerprint());
        head.extend_from_slice(&set.rtype.0.to_be_bytes());
        head.extend_from_slice(&[key.algorithm(), set.labels]);
        head.extend_from_slice(&set.ttl.to_be_bytes());
        head.extend_from_slice(&ends.to_be_bytes());
        head.extend_from_slice(&begins.to_be_bytes());
        head.extend_from_slice(&key.tag().to_be_bytes());
        head.extend_from_slice(apex);
        head
    }
}

/// Checks for an RSA algorithm, with which signing takes ten times as long as with others.
fn is_rsa(algorithm: u8) -> bool {
    matches!(algorithm, 5 | 7 | 8 | 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
                           PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";
    const RSA: &str = include_str!("../../serve/tests/rsa2048.private");

    fn signing(key: &str, usage: KeyUse, metadata: &[(&str, &str)]) -> Signing {
        let key = SigningKey::read(key.as_bytes(), 257, usage).unwrap();
        let mut policy = SigningPolicy::default();
        for (kind, content) in metadata {
            policy.take(kind, content).unwrap();
        }
        Signing::new(
            Name::ROOT,
            Arc::new(Keys::new(vec![key])),
            Arc::new(policy),
            Arc::new(SignatureCache::new(0)),
        )
    }

    #[test]
    fn the_types_of_the_apex_are_those_of_its_records() {
        for usage in [KeyUse::EVERYTHING, KeyUse::UNUSED] {
            for metadata in [
                &[][..],
                &[("PUBLISH-CDS", "2,4"), ("PUBLISH-CDNSKEY", "1")],
                &[("PUBLISH-CDS", "0"), ("NSEC3PARAM", "1 0 0 -")],
                &[("PUBLISH-CDNSKEY", "0")],
            ] {
                let signing = signing(ED25519, usage, metadata);
                let mut types: Vec<Type> = signing.apex_records().iter().map(|r| r.0).collect();
                types.dedup();
                assert_eq!(types[..], signing.apex_types()[..], "{metadata:?}");
            }
        }
    }

    #[test]
    fn names_of_live_zones_are_listed_where_signing_is_slow_or_on_request() {
        let chain = ("X-NAMEWARD-DENIAL", "chain");
        let nsec3 = ("NSEC3PARAM", "1 0 0 -");
        for (key, usage, metadata, expected) in [
            (RSA, KeyUse::EVERYTHING, &[][..], true),
            (RSA, KeyUse::EVERYTHING, &[nsec3], true),
            (RSA, KeyUse::UNUSED, &[chain], false),
            (
                RSA,
                KeyUse::EVERYTHING,
                &[("X-NAMEWARD-DENIAL", "compact")],
                false,
            ),
            (
                RSA,
                KeyUse::EVERYTHING,
                &[nsec3, ("NSEC3NARROW", "1"), chain],
                false,
            ),
            (ED25519, KeyUse::EVERYTHING, &[], false),
            (ED25519, KeyUse::EVERYTHING, &[chain], true),
        ] {
            let signing = signing(key, usage, metadata);
            assert_eq!(signing.lists_live_names(), expected, "{metadata:?}");
        }
    }
}
