//! The settings of DNSSEC policies, and their conversion to policies.

use std::path::Path;

use nameward_dnssec::{
    DenialSettings, SignatureTimes, algorithm_number,
    rollover::{KeyRole, KskRollover, PolicyKey, RolloverPolicy, RolloverTimes},
};
use nameward_keys::local::{KeyPlan, ParentSettings};
use nameward_keys::rollover::{DnssecPolicies, NO_POLICY};
use toml::{Spanned, de::DeValue};

use super::{
    Config,
    read::{Addresses, Count, Read, Wrong, keywords, words},
    setting::section,
};

words! {
    /// The keys of a zone.
    KeyScheme {
        /// One that signs everything.
        Combined = "csk",
        /// One that signs the keys and has a DS, one that signs the rest.
        Split = "ksk+zsk",
    }
}

keywords! {
    KskRollover {
        "double-signature" => KskRollover::DoubleSignature,
        "double-ds" => KskRollover::DoubleDs,
    }
}

section! {
    /// How zones are signed and their keys are rolled; zones refer to it by `dnssec_policy`. Times are in seconds. May be
    /// given several times. Changes take effect on reload; keys follow by rollovers.
    DnssecPolicySettings = "dnssec_policy" {
        /// Name of the policy.
        name: String = r#""""#;
        /// Key algorithm, by number or name: 8, 10, 13, 14 or 15. Changing it starts an algorithm rollover.
        algorithm: SigningAlgorithm = r#""ECDSAP256SHA256""#;
        /// Size of RSA keys in bits: 2048, 3072 or 4096.
        rsa_bits: RsaBits = "2048";
        /// Keys of a zone: one key that signs everything (csk), or a ksk, which the DS refers to, and a zsk for all other
        /// RRsets.
        keys: KeyScheme = r#""csk""#;
        /// Lifetime of a key with a DS (csk, ksk); 0 means until `nameward key rollover`.
        ksk_lifetime: Count<0, 3_153_600_000> = "0";
        /// Lifetime of a zsk; 0 means until `nameward key rollover`.
        zsk_lifetime: Count<0, 3_153_600_000> = "2592000";
        /// KSK rollover method (RFC 6781 section 4.1.2): with "double-signature" the new key is published and signs
        /// together with the old one until its DS has replaced the old DS; with "double-ds" (requires `keys = "ksk+zsk"`)
        /// the parent first publishes both DS records, then the key in the zone is replaced in one step, then the old DS
        /// is removed. An algorithm rollover always uses the first method.
        ksk_rollover: KskRollover = r#""double-signature""#;
        /// Denial of existence: an NSEC chain, an NSEC3 chain without salt or extra iterations (RFC 9276), with or
        /// without opt-out, or records generated for each answer (RFC 4470, RFC 9824).
        denial: DenialSettings = r#""nsec""#;
        /// Time from the renewal of a signature to its expiration.
        signature_validity: Count<4, 315_360_000> = "1209600";
        /// Minimum remaining validity of a signature that is served. Secondaries get new signatures when this time is
        /// left, so it must be longer than their delay.
        signature_refresh: Count<2, 315_360_000> = "604800";
        /// How far in the past signature inception is set, for validators with slow clocks.
        signature_inception_offset: Count<0, 31_536_000> = "3600";
        /// Time over which renewals are spread, so that signatures are not all generated, and do not all expire, at the
        /// same time.
        signature_jitter: Count<0, 31_536_000> = "43200";
        /// TTL of DNSKEY, CDS and CDNSKEY.
        dnskey_ttl: Count<0, 604_800> = "3600";
        /// Longest TTL in the zone, now or recently. A longer one found in the zone is used instead.
        zone_ttl_max: Count<0, 31_536_000> = "86400";
        /// Time until all servers of the zone have a new version.
        propagation_delay: Count<0, 31_536_000> = "3600";
        /// TTL of the DS at the parent.
        parent_ds_ttl: Count<0, 31_536_000> = "86400";
        /// Time until all servers of the parent have a new version.
        parent_propagation_delay: Count<0, 31_536_000> = "3600";
        /// Time the parent may take to act on CDS records or on a request. A rollover starts this much earlier, and the
        /// removal of a DS is not trusted before it has passed.
        parent_registration_delay: Count<0, 31_536_000> = "86400";
        /// Margin added to each delay.
        safety_margin: Count<0, 31_536_000> = "3600";
        /// Time after which a retired key is deleted.
        purge_after: Count<0, 3_153_600_000> = "7776000";
        /// Publish CDS and CDNSKEY to request the DS (RFC 7344) and its removal (RFC 8078) from the parent.
        cds: bool = "true";
        /// Servers of the parent to query for the DS; all of them must have it. "" uses the resolvers of `[recursor]`;
        /// without those, confirm the DS with `nameward key ds-seen`.
        parent_servers: Addresses = r#""""#;
        /// Interval between parent checks while a DS change is pending.
        parent_interval: Count<1, 31_536_000> = "3600";
    }
}

/// An algorithm that this server creates keys for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigningAlgorithm(pub u8);

impl Read for SigningAlgorithm {
    fn expected() -> String {
        "an algorithm such as 13 or \"ED25519\"".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let number = match value.get_ref() {
            DeValue::String(word) => algorithm_number(word),
            DeValue::Integer(number) => algorithm_number(number.as_str()),
            _ => None,
        };
        // RFC 8624 section 3.1: must not be used for new signatures.
        let number = number.filter(|number| !matches!(number, 5 | 7));
        number
            .map(Self)
            .ok_or_else(|| Wrong::expected(&Self::expected(), value))
    }
}

/// The size of RSA keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RsaBits(pub usize);

impl Read for RsaBits {
    fn expected() -> String {
        "2048, 3072 or 4096".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let bits = Count::<0, 65_536>::read(value, base).map(|bits| bits.get());
        match bits {
            Ok(bits @ (2048 | 3072 | 4096)) => Ok(Self(bits)),
            _ => Err(Wrong::expected(&Self::expected(), value)),
        }
    }
}

impl DnssecPolicySettings {
    /// Returns a setting that contradicts others, and why.
    pub fn contradiction(&self) -> Option<(&'static str, String)> {
        let (validity, refresh) = (self.signature_validity.get(), self.signature_refresh.get());
        let (jitter, delay) = (self.signature_jitter.get(), self.propagation_delay.get());
        if self.name.is_empty() || self.name == NO_POLICY {
            let message = format!("a dnssec_policy needs a name other than {NO_POLICY:?}");
            Some(("name", message))
        } else if (self.keys, self.ksk_rollover) == (KeyScheme::Combined, KskRollover::DoubleDs) {
            let message = "ksk_rollover = \"double-ds\" needs keys = \"ksk+zsk\": cached signatures of a CSK still \
                           need its DNSKEY, so the new key must be published next to it";
            Some(("ksk_rollover", message.into()))
        } else if refresh >= validity {
            let message = "signature_refresh must be shorter than signature_validity";
            Some(("signature_refresh", message.into()))
        } else if jitter + delay >= refresh {
            let message = "signature_refresh must be longer than signature_jitter and propagation_delay together, or \
                           signatures on secondaries would expire";
            Some(("signature_refresh", message.into()))
        } else {
            None
        }
    }

    fn plan(&self) -> KeyPlan {
        let lifetime = |seconds: usize| (seconds > 0).then_some(seconds as u64);
        let key = |role, lifetime| PolicyKey {
            role,
            algorithm: self.algorithm.0,
            lifetime,
        };
        let (ksk, zsk) = (
            lifetime(self.ksk_lifetime.get()),
            lifetime(self.zsk_lifetime.get()),
        );
        let short = |seconds: usize| seconds as u32;
        let long = |seconds: usize| seconds as u64;
        KeyPlan {
            rollover: RolloverPolicy {
                keys: match self.keys {
                    KeyScheme::Combined => vec![key(KeyRole::Combined, ksk)],
                    KeyScheme::Split => vec![
                        key(KeyRole::KeySigning, ksk),
                        key(KeyRole::ZoneSigning, zsk),
                    ],
                },
                ksk_rollover: self.ksk_rollover,
                times: RolloverTimes {
                    dnskey_ttl: long(self.dnskey_ttl.get()),
                    zone_ttl: long(self.zone_ttl_max.get()),
                    // Taken from the zone.
                    negative_ttl: 0,
                    zone_propagation: long(self.propagation_delay.get()),
                    ds_ttl: long(self.parent_ds_ttl.get()),
                    parent_propagation: long(self.parent_propagation_delay.get()),
                    parent_registration: long(self.parent_registration_delay.get()),
                    safety: long(self.safety_margin.get()),
                    purge_after: long(self.purge_after.get()),
                },
            },
            rsa_bits: self.rsa_bits.0,
            denial: self.denial.clone(),
            signatures: SignatureTimes {
                validity: short(self.signature_validity.get()),
                refresh: short(self.signature_refresh.get()),
                inception_offset: short(self.signature_inception_offset.get()),
                jitter: short(self.signature_jitter.get()),
            },
            dnskey_ttl: short(self.dnskey_ttl.get()),
            shows_cds: self.cds,
            parent: ParentSettings {
                servers: self.parent_servers.0.clone(),
                interval: long(self.parent_interval.get()),
            },
        }
    }
}

pub fn policies(config: &Config) -> DnssecPolicies {
    let settings = config.dnssec_policies.iter();
    let named = settings.map(|settings| (settings.name.clone(), settings.plan()));
    named.collect()
}
