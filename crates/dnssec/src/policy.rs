//! The signing policy of a zone, from its metadata.

use crate::made_types::MadeTypes;
use crate::nsec3::{Nsec3, Nsec3Param, Nsec3ParamError};
use crate::period::SignatureTimes;
use crate::soa_edit::SoaEdit;

/// The records that prove nonexistence.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Denial {
    /// NSEC.
    #[default]
    Nsec,
    /// NSEC3, with its hash parameters.
    Nsec3(Nsec3),
}

/// How much the denial records in an answer reveal about other names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DenialStyle {
    /// Records of the chain over all names: each is signed once, whatever is queried. A looked-up zone uses it if
    /// signing is slow or its metadata requests it, and white lies otherwise ([`crate::Signing::lists_live_names`]).
    #[default]
    Chain,
    /// Records made for the one answer, which only cover the names it is about (RFC 4470, RFC 7129 appendix B).
    WhiteLies,
    /// One NSEC for each negative answer (RFC 9824).
    Compact,
}

/// The denial settings of a zone, which an operator selects with one keyword.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DenialSettings {
    /// NSEC or NSEC3.
    pub denial: Denial,
    /// The chain, or records made for each answer.
    pub style: DenialStyle,
    /// Delegations without DS have no NSEC3 in the chain.
    pub is_opt_out: bool,
}

impl DenialSettings {
    /// The keywords, the default first.
    pub const WORDS: [&str; 5] = ["nsec", "nsec3", "nsec3-opt-out", "white-lies", "compact"];

    /// The metadata kinds that hold these settings in a database.
    pub const METADATA: [&str; 3] = ["NSEC3NARROW", "NSEC3PARAM", "X-NAMEWARD-DENIAL"];

    /// Returns the zone metadata for these settings, as in PowerDNS; `None` removes a kind.
    pub fn metadata(&self) -> [(&'static str, Option<&'static str>); 3] {
        let param = match (&self.denial, self.is_opt_out) {
            (Denial::Nsec, _) => None,
            // RFC 9276 section 3.1: no salt, no additional iterations.
            (Denial::Nsec3(_), false) => Some("1 0 0 -"),
            (Denial::Nsec3(_), true) => Some("1 1 0 -"),
        };
        let style = match self.style {
            // By default, looked-up zones use white lies.
            DenialStyle::Chain => "chain",
            DenialStyle::WhiteLies => "white-lies",
            DenialStyle::Compact => "compact",
        };
        let [narrow, nsec3, own] = Self::METADATA;
        [(narrow, None), (nsec3, param), (own, Some(style))]
    }

    /// Parses a keyword. NSEC3 has no salt and no additional iterations (RFC 9276).
    pub fn read(word: &str) -> Option<Self> {
        let nsec3 = |is_opt_out| DenialSettings {
            denial: Denial::Nsec3(Nsec3::default()),
            is_opt_out,
            ..DenialSettings::default()
        };
        let nsec = |style| DenialSettings {
            style,
            ..DenialSettings::default()
        };
        match word {
            "nsec" => Some(nsec(DenialStyle::Chain)),
            "nsec3" => Some(nsec3(false)),
            "nsec3-opt-out" => Some(nsec3(true)),
            "white-lies" => Some(nsec(DenialStyle::WhiteLies)),
            "compact" => Some(nsec(DenialStyle::Compact)),
            _ => None,
        }
    }

    /// Returns the keyword.
    pub fn word(&self) -> &'static str {
        match (&self.denial, self.style) {
            (Denial::Nsec3(_), _) if self.is_opt_out => "nsec3-opt-out",
            (Denial::Nsec3(_), _) => "nsec3",
            (Denial::Nsec, DenialStyle::Chain) => "nsec",
            (Denial::Nsec, DenialStyle::WhiteLies) => "white-lies",
            (Denial::Nsec, DenialStyle::Compact) => "compact",
        }
    }
}

/// The records that publish keys for the parent (RFC 7344, RFC 8078).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Publish<T> {
    /// No record.
    #[default]
    Nothing,
    /// A record that requests the removal of all DS records.
    Removal,
    /// The keys of the entry points.
    Keys(T),
}

/// How a zone is signed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SigningPolicy {
    /// NSEC or NSEC3.
    pub denial: Denial,
    /// The chain, or records made for each answer.
    pub style: DenialStyle,
    /// The style was set explicitly.
    pub is_style_explicit: bool,
    /// Delegations without DS have no NSEC3 in the chain (RFC 5155 section 6).
    pub is_opt_out: bool,
    /// NSEC3 records are only made for answers: there is no chain to transfer.
    pub is_narrow: bool,
    /// CDS, by digest types.
    pub cds: Publish<Vec<u8>>,
    /// Whether CDNSKEY is published.
    pub cdnskey: Publish<()>,
    /// How the served serial is derived.
    pub soa_edit: SoaEdit,
    /// Signatures are part of the zone data.
    pub is_presigned: bool,
    /// Validity and renewal of signatures; weekly by default.
    pub signatures: Option<SignatureTimes>,
    /// The TTL of DNSKEY, CDS and CDNSKEY; by default that of the SOA.
    pub dnskey_ttl: Option<u32>,
    /// The number added to the serial: one for each change of keys and signatures.
    pub serial_offset: u32,
}

/// A problem with a metadata item; the text says what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyItemError {
    /// The item is ignored, in whole or in part, and the zone is served: validators do not depend on it.
    #[error("{0}")]
    SkippedStatement(&'static str),
    /// Signing without the item would be signing in a way that was not requested.
    #[error("{0}")]
    Unusable(#[from] Nsec3ParamError),
}

impl DenialStyle {
    /// Parses the keyword.
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "chain" => Some(DenialStyle::Chain),
            "white-lies" => Some(DenialStyle::WhiteLies),
            "compact" => Some(DenialStyle::Compact),
            _ => None,
        }
    }
}

impl SigningPolicy {
    /// Returns the types that are made for a zone with this policy.
    pub fn made_types(&self) -> MadeTypes {
        MadeTypes {
            cds: self.cds != Publish::Nothing,
            cdnskey: self.cdnskey != Publish::Nothing,
        }
    }

    /// Applies one metadata item; kinds unrelated to signing are ignored.
    pub fn take(&mut self, kind: &str, content: &str) -> Result<(), PolicyItemError> {
        use PolicyItemError::SkippedStatement;
        let content = content.trim();
        match kind.to_ascii_uppercase().as_str() {
            "NSEC3PARAM" => {
                let param = Nsec3Param::read(content)?;
                self.denial = Denial::Nsec3(param.hashing);
                self.is_opt_out = param.opt_out;
            }
            "NSEC3NARROW" => self.is_narrow = content == "1",
            "PUBLISH-CDS" => {
                let (cds, is_read) = read_cds(content);
                self.cds = cds;
                if !is_read {
                    return Err(SkippedStatement(
                        "invalid PUBLISH-CDS: expected a list of digest types (1, 2, 4)",
                    ));
                }
            }
            // PowerDNS interprets any text except 0 as "publish".
            "PUBLISH-CDNSKEY" => {
                self.cdnskey = match content {
                    "" => Publish::Nothing,
                    "0" => Publish::Removal,
                    _ => Publish::Keys(()),
                };
            }
            // PowerDNS serves the serial unchanged if it does not know the keyword, such as those of its old versions.
            // An item without a keyword leaves the server's default in place.
            "SOA-EDIT" if content.is_empty() => {}
            "SOA-EDIT" => {
                self.soa_edit = SoaEdit::None;
                self.soa_edit = SoaEdit::read(content).ok_or(SkippedStatement(
                    "unknown SOA-EDIT: expected INCREMENT-WEEKS, INCEPTION-EPOCH, INCEPTION-INCREMENT, EPOCH or NONE; \
                     the serial is served unchanged",
                ))?;
            }
            // Nameward's own: PowerDNS reserves kinds with X- for others.
            "X-NAMEWARD-DENIAL" => {
                self.style = DenialStyle::read(content).ok_or(SkippedStatement(
                    "invalid X-NAMEWARD-DENIAL: expected chain, white-lies or compact",
                ))?;
                self.is_style_explicit = true;
            }
            "PRESIGNED" => self.is_presigned = content == "1",
            _ => {}
        }
        Ok(())
    }
}

/// Parses `2,4`: digest types; `0` requests removal. The second value is false if a part could not be read.
fn read_cds(content: &str) -> (Publish<Vec<u8>>, bool) {
    let words = content.split([',', ' ']).filter(|word| !word.is_empty());
    let numbers = words.map(|word| word.parse().ok().filter(|n| matches!(n, 0 | 1 | 2 | 4)));
    let numbers: Vec<Option<u8>> = numbers.collect();
    let is_read = numbers.iter().all(Option::is_some);
    let mut digests: Vec<u8> = numbers.into_iter().flatten().collect();
    digests.sort_unstable();
    digests.dedup();
    let publish = match digests.first() {
        None => Publish::Nothing,
        Some(0) => Publish::Removal,
        Some(_) => Publish::Keys(digests),
    };
    (publish, is_read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(items: &[(&str, &str)]) -> Result<SigningPolicy, PolicyItemError> {
        let mut policy = SigningPolicy::default();
        for (kind, content) in items {
            policy.take(kind, content)?;
        }
        Ok(policy)
    }

    #[test]
    fn metadata_of_pdnsutil_is_understood() {
        let read = policy(&[
            ("NSEC3PARAM", "1 1 500 ab0F"),
            ("NSEC3NARROW", "1"),
            ("PUBLISH-CDS", "4,2"),
            ("PUBLISH-CDNSKEY", "1"),
            ("ALSO-NOTIFY", "192.0.2.1"),
        ])
        .unwrap();
        let nsec3 = Nsec3 {
            iterations: 100,
            salt: vec![0xab, 0x0f],
        };
        assert_eq!(read.denial, Denial::Nsec3(nsec3));
        assert_eq!(read.cds, Publish::Keys(vec![2, 4]));
        assert_eq!(read.cdnskey, Publish::Keys(()));
        let read = policy(&[("PUBLISH-CDS", "0"), ("PUBLISH-CDNSKEY", "0")]).unwrap();
        assert_eq!(
            (read.cds, read.cdnskey),
            (Publish::Removal, Publish::Removal)
        );
    }

    #[test]
    fn denial_keywords_round_trip() {
        for word in DenialSettings::WORDS {
            assert_eq!(
                DenialSettings::read(word).map(|terms| terms.word()),
                Some(word)
            );
        }
        assert_eq!(DenialSettings::default().word(), DenialSettings::WORDS[0]);
        assert_eq!(DenialSettings::read("nsec5"), None);
        let compact = policy(&[("X-NAMEWARD-DENIAL", "compact")]).unwrap();
        assert_eq!(compact.style, DenialStyle::Compact);
        assert!(policy(&[("X-NAMEWARD-DENIAL", "none")]).is_err());
        let opt_out = policy(&[("NSEC3PARAM", "1 1 0 -")]).unwrap();
        assert!(opt_out.is_opt_out);
    }

    #[test]
    fn invalid_metadata_is_an_error_that_states_what_was_expected() {
        for content in ["2 0 0 -", "1 0 x -", "1 0 0 abc", ""] {
            let error = policy(&[("NSEC3PARAM", content)]).unwrap_err();
            assert!(
                matches!(&error, PolicyItemError::Unusable(text) if text.to_string().contains("expected"))
            );
        }
    }

    #[test]
    fn odd_values_that_powerdns_tolerates_are_ignored() {
        let mut odd = SigningPolicy::default();
        for (kind, content) in [("SOA-EDIT", "INCEPTION-WEEK"), ("PUBLISH-CDS", "2,x,9")] {
            let error = odd.take(kind, content).unwrap_err();
            assert!(
                matches!(error, PolicyItemError::SkippedStatement(text) if text.contains("expected"))
            );
        }
        assert_eq!(
            (odd.soa_edit, odd.cds),
            (SoaEdit::None, Publish::Keys(vec![2]))
        );
        let cdnskey = |content| policy(&[("PUBLISH-CDNSKEY", content)]).unwrap().cdnskey;
        assert_eq!(cdnskey("yes"), Publish::Keys(()));
        assert_eq!(cdnskey(""), Publish::Nothing);
        assert_eq!(
            policy(&[("PUBLISH-CDS", "")]).unwrap().cds,
            Publish::Nothing
        );
    }
}
