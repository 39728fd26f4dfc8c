//! How a zone is signed, as its metadata says.

use crate::nsec3::{Nsec3, Nsec3Param};
use crate::soa_edit::SoaEdit;

/// How it is proven that something does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Denial {
    /// NSEC, covering as little as can be (RFC 4470).
    #[default]
    Nsec,
    /// NSEC3, covering as little as can be.
    Nsec3(Nsec3),
}

/// Which records tell the parent about keys (RFC 7344, RFC 8078).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Publish<T> {
    /// None.
    #[default]
    Nothing,
    /// One that asks for the removal of all.
    Removal,
    /// Those of the entry points.
    Keys(T),
}

/// How a zone is signed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Policy {
    /// NSEC or NSEC3.
    pub denial: Denial,
    /// CDS, by types of digests.
    pub cds: Publish<Vec<u8>>,
    /// CDNSKEY.
    pub cdnskey: Publish<()>,
    /// The serial shown.
    pub soa_edit: SoaEdit,
    /// Signatures are part of the zone's data.
    pub is_presigned: bool,
}

impl Policy {
    /// Takes one item of metadata; others than those about signing are passed over. The error says what was expected.
    pub fn take(&mut self, kind: &str, content: &str) -> Result<(), String> {
        let content = content.trim();
        match kind.to_ascii_uppercase().as_str() {
            "NSEC3PARAM" => self.denial = Denial::Nsec3(Nsec3Param::read(content)?.hashing),
            "PUBLISH-CDS" => self.cds = read_cds(content)?,
            "PUBLISH-CDNSKEY" => {
                self.cdnskey = match content {
                    "0" => Publish::Removal,
                    "1" => Publish::Keys(()),
                    _ => return Err("expected PUBLISH-CDNSKEY 0 or 1, found something else".into()),
                };
            }
            "SOA-EDIT" => {
                self.soa_edit = SoaEdit::read(content).ok_or(
                    "expected SOA-EDIT INCREMENT-WEEKS, INCEPTION-EPOCH, INCEPTION-INCREMENT, \
                     EPOCH or NONE, found something else",
                )?;
            }
            "PRESIGNED" => self.is_presigned = content == "1",
            _ => {}
        }
        Ok(())
    }
}

/// `2,4`: digest types; `0` asks for removal.
fn read_cds(content: &str) -> Result<Publish<Vec<u8>>, String> {
    let numbers: Result<Vec<u8>, _> = content
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .map(str::parse)
        .collect();
    match numbers {
        Ok(numbers) if numbers.contains(&0) => Ok(Publish::Removal),
        Ok(mut numbers) if !numbers.is_empty() => {
            numbers.sort_unstable();
            numbers.dedup();
            Ok(Publish::Keys(numbers))
        }
        _ => Err("expected PUBLISH-CDS as a list of digest types, found something else".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(items: &[(&str, &str)]) -> Result<Policy, String> {
        let mut policy = Policy::default();
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
    fn metadata_that_means_nothing_is_an_error_that_says_what_was_expected() {
        for (kind, content) in [
            ("NSEC3PARAM", "2 0 0 -"),
            ("NSEC3PARAM", "1 0 x -"),
            ("NSEC3PARAM", "1 0 0 abc"),
            ("NSEC3PARAM", ""),
            ("PUBLISH-CDS", "x"),
            ("PUBLISH-CDNSKEY", "yes"),
            ("SOA-EDIT", "SOMEHOW"),
        ] {
            let error = policy(&[(kind, content)]).unwrap_err();
            assert!(error.starts_with("expected"), "{kind}: {error}");
        }
    }
}
