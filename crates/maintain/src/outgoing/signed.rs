//! A zone that is signed while it is served, as a whole with its signatures and its chain of NSEC or NSEC3.
//!
//! A secondary has only records, so it gets the chain over all names (RFC 4034 section 4, RFC 5155 section 7.1) even where
//! answers are made of white lies; it is the one that answers have where they come from a chain. Signatures come from the
//! cache or are made; how much of that is done at one time is the caller's concern (`pause`).

use nameward_dnssec::{CanonicalSet, Making, NoSignature, Proof, Signing, SoaEdit, ZonemdHash};
use nameward_wire::zonefile::Record;
use nameward_wire::{Name, Type};
use nameward_zone::node::flags;
use nameward_zone::{Node, Zone, ZoneBuilder};
use std::sync::Arc;

/// Why a zone has no signed copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignedCopyError {
    /// Its metadata says NSEC3NARROW.
    #[error(
        "its NSEC3 records are narrow, made for each answer: without NSEC3NARROW it has a chain that can be transferred"
    )]
    Narrow,
    /// A key cannot be used.
    #[error("a key of the zone cannot be used")]
    CannotSign,
    /// A hashed name does not fit before the name of the zone.
    #[error("the zone's name is too long for NSEC3")]
    TooLong,
    /// The copy is not a zone.
    #[error("the signed copy is not whole: {0}")]
    Invalid(String),
}

/// Returns the signed copy of a zone that is signed while it is served, and how many signatures were made for it. `now` is
/// in seconds since 1970; `pause` is called between signatures.
pub fn signed_copy(
    zone: &Zone,
    signing: &Signing,
    now: u32,
    pause: impl FnMut(),
) -> Result<(Zone, u32), SignedCopyError> {
    let (copy, mut making) = make_copy(zone, (signing, now), CopyDigests::Kept, pause)?;
    Ok((copy, making.take_made()))
}

/// As [`signed_copy`], with the digest of the copy (ZONEMD, RFC 8976 section 3) in the place of those that the zone has at its
/// apex: it has one, so that the chain tells of the type.
pub fn digested_copy(
    zone: &Zone,
    signing: &Signing,
    now: u32,
    pause: impl FnMut(),
) -> Result<(Zone, u32), SignedCopyError> {
    let (copy, mut making) = make_copy(zone, (signing, now), CopyDigests::LeftOut, pause)?;
    let (copy, apex) = (Arc::new(copy), zone.apex_name());
    let ttl = copy.soa().map_or(0, |soa| soa.ttl());
    let zonemd = copy.zonemd(ZonemdHash::Sha384);
    let set = CanonicalSet::new(apex, Type::ZONEMD, ttl, std::iter::once(&zonemd[..]));
    let made = signing.signatures(&set, now, &mut making);
    let rrsigs = made.map_err(|_| SignedCopyError::CannotSign)?;
    let mut records = vec![(Type::ZONEMD, zonemd)];
    records.extend(rrsigs.iter().map(|rrsig| (Type::RRSIG, rrsig.to_vec())));
    let digested = copy.with_digest(&records);
    let digested = digested.map_err(|error| SignedCopyError::Invalid(error.to_string()))?;
    Ok((digested, making.take_made()))
}

/// The fate of the ZONEMD records at the apex of a zone in its copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyDigests {
    Kept,
    LeftOut,
}

fn make_copy(
    zone: &Zone,
    (signing, now): (&Signing, u32),
    digests: CopyDigests,
    mut pause: impl FnMut(),
) -> Result<(Zone, Making), SignedCopyError> {
    if signing.is_narrow() {
        return Err(SignedCopyError::Narrow);
    }
    let mut copy = SignedCopy {
        signing,
        now,
        builder: ZoneBuilder::new(zone.apex_name()),
        denial_ttl: denial_ttl(zone),
        making: Making::NOW,
        digests,
    };
    for node in zone.nodes_in_order() {
        match zone.is_hidden(node.name()) {
            true => copy.add_unsigned(node),
            false => copy.add_node(node, zone)?,
        }
        pause();
    }
    copy.add_chain(zone, &mut pause)?;
    let making = copy.making;
    let (built, findings) = copy.builder.finish();
    let built = built.ok_or_else(|| {
        let first = findings.into_iter().next();
        SignedCopyError::Invalid(first.map_or_else(String::new, |finding| finding.message))
    })?;
    Ok((built, making))
}

/// RFC 9077: the lesser of the SOA's TTL and its minimum.
fn denial_ttl(zone: &Zone) -> u32 {
    zone.soa().map_or(0, nameward_zone::negative_ttl)
}

/// A copy in the making.
struct SignedCopy<'s> {
    signing: &'s Signing,
    now: u32,
    builder: ZoneBuilder,
    denial_ttl: u32,
    making: Making,
    digests: CopyDigests,
}

impl SignedCopy<'_> {
    fn add(&mut self, owner: Name<'_>, rtype: Type, ttl: u32, rdata: &[u8]) {
        self.builder.add(&Record::new(owner, rtype, ttl, rdata));
    }

    /// Adds the records of a name that is not signed.
    fn add_unsigned(&mut self, node: Node<'_>) {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                self.add(node.name(), rrset.rtype(), rrset.ttl(), record.rdata);
            }
        }
    }

    /// Adds the records of a name, and signatures of those that the zone is authoritative for.
    fn add_node(&mut self, node: Node<'_>, zone: &Zone) -> Result<(), SignedCopyError> {
        let is_cut = node.has(flags::CUT);
        let edit = self.signing.soa_edit();
        for rrset in node.rrsets() {
            let (rtype, ttl) = (rrset.rtype(), rrset.ttl());
            let is_digest = rtype == Type::ZONEMD && node.name() == zone.apex_name();
            if is_digest && self.digests == CopyDigests::LeftOut {
                continue;
            }
            let mut data: Vec<Vec<u8>> = rrset
                .records()
                .map(|record| record.rdata.to_vec())
                .collect();
            if rtype == Type::SOA && edit != SoaEdit::None {
                let shown = edit.serial(zone.serial().0, self.now);
                data.iter_mut().for_each(|rdata| set_serial(rdata, shown));
            }
            for rdata in &data {
                self.add(node.name(), rtype, ttl, rdata);
            }
            // RFC 4035 section 2.2: the NS and glue of a delegation are not signed, its DS is.
            if !is_cut || rtype == Type::DS {
                self.add_signatures(node.name(), rtype, ttl, &data)?;
            }
        }
        Ok(())
    }

    /// Adds the NSEC or NSEC3 records of all names.
    fn add_chain(&mut self, zone: &Zone, pause: &mut impl FnMut()) -> Result<(), SignedCopyError> {
        let chain = zone.chain_for(self.signing);
        let Some(hashing) = chain.hashing() else {
            for link in chain.nsec_links() {
                if let Some(node) = zone.node_of(link.name.as_name()) {
                    let types = node.types_of_denial();
                    let proof = self.signing.nsec_of_chain(node.name(), link.next, types);
                    self.add_proof(&proof)?;
                }
                pause();
            }
            return Ok(());
        };
        for link in chain.nsec3_links() {
            let node = zone.node_of(link.name.as_name());
            let types = node.into_iter().flat_map(|node| node.types_of_denial());
            let links = (&link.hash, &link.next);
            let proof = self.signing.nsec3_of_chain(hashing, links, types);
            self.add_proof(&proof.ok_or(SignedCopyError::TooLong)?)?;
            pause();
        }
        Ok(())
    }

    fn add_proof(&mut self, proof: &Proof) -> Result<(), SignedCopyError> {
        let (owner, ttl) = (proof.owner.as_name(), self.denial_ttl);
        self.add(owner, proof.rtype, ttl, &proof.rdata);
        let data = [proof.rdata.to_vec()];
        self.add_signatures(owner, proof.rtype, ttl, &data)
    }

    fn add_signatures(
        &mut self,
        owner: Name<'_>,
        rtype: Type,
        ttl: u32,
        data: &[Vec<u8>],
    ) -> Result<(), SignedCopyError> {
        let set = CanonicalSet::new(owner, rtype, ttl, data.iter().map(|rdata| &rdata[..]));
        let made = self.signing.signatures(&set, self.now, &mut self.making);
        let rrsigs = made.map_err(|error| match error {
            NoSignature::CannotSign | NoSignature::NotMade => SignedCopyError::CannotSign,
        })?;
        for rrsig in rrsigs {
            self.add(owner, Type::RRSIG, ttl, &rrsig);
        }
        Ok(())
    }
}

/// Puts a serial into the data of a SOA.
fn set_serial(rdata: &mut [u8], serial: u32) {
    if let Some(at) = rdata.len().checked_sub(20) {
        rdata[at..at + 4].copy_from_slice(&serial.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_dnssec::{KeyUse, Keys, SignatureCache, SigningKey, SigningPolicy};
    use nameward_wire::NameBuf;
    use nameward_wire::zonefile::{Options, parse_bytes};
    use std::process::Command;

    /// Ed25519 (RFC 8080 section 6.1).
    const KEY: &[u8] = b"Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
        PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";
    const TEXT: &str = "@ 3600 SOA ns1 host 7 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 60 A 192.0.2.1\n\
        deep.er.names 60 TXT \"x\"\n*.wild 60 A 192.0.2.2\nsub 60 NS ns.sub\nns.sub 60 A 192.0.2.3\n\
        safe 60 NS ns.other.\nsafe 60 DS 1 15 2 0000000000000000000000000000000000000000000000000000000000000000\n\
        moved 60 DNAME elsewhere.\nUpper 60 MX 10 Mail\n";

    /// BIND looks at the clock.
    fn now() -> u32 {
        let now = std::time::SystemTime::now();
        let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        since.as_secs() as u32
    }

    fn signing(metadata: &[(&str, &str)]) -> Arc<Signing> {
        let apex: NameBuf = "example.".parse().unwrap();
        let usage = KeyUse::EVERYTHING;
        let keys = Keys::new(vec![SigningKey::read(KEY, 257, usage).unwrap()]);
        let mut policy = SigningPolicy::default();
        for (kind, content) in metadata {
            policy.take(kind, content).unwrap();
        }
        let cache = Arc::new(SignatureCache::new(1000));
        let signing = Signing::new(apex.as_name(), Arc::new(keys), Arc::new(policy), cache);
        Arc::new(signing)
    }

    /// The zone as it is served: with the records at the apex that signing makes.
    fn zone(signing: &Signing) -> Zone {
        let origin: NameBuf = "example.".parse().unwrap();
        let mut builder = ZoneBuilder::new(origin.as_name());
        parse_bytes("zone", TEXT.as_bytes(), &Options::new(origin), &mut builder);
        for (rtype, rdata) in signing.apex_records() {
            builder.add(&Record::new(origin.as_name(), rtype, 300, &rdata));
        }
        builder.finish().0.expect("a zone")
    }

    fn print(zone: &Zone) -> String {
        let mut text = String::new();
        for node in zone.nodes_in_order() {
            for rrset in node.rrsets() {
                for record in rrset.records() {
                    let (owner, ttl, rtype) = (node.name(), rrset.ttl(), rrset.rtype());
                    let mut data = String::new();
                    nameward_wire::rdata::write_text(rtype, record.rdata, &mut data).unwrap();
                    text += &format!("{owner} {ttl} IN {rtype} {data}\n");
                }
            }
        }
        text
    }

    #[test]
    fn a_signed_copy_is_a_zone_that_bind_verifies() {
        for metadata in [
            &[][..],
            &[("NSEC3PARAM", "1 0 2 ab")],
            &[("NSEC3PARAM", "1 1 0 -")],
            &[("SOA-EDIT", "EPOCH")],
        ] {
            let (signing, now) = (signing(metadata), now());
            let zone = zone(&signing);
            let (copy, made) = signed_copy(&zone, &signing, now, || ()).unwrap();
            assert!(made > 10);
            let again = signed_copy(&zone, &signing, now, || ()).unwrap();
            assert_eq!(again.1, 0, "all are in the cache");
            let state = copy.stored_signatures();
            assert!(state.is_signed());
            assert_eq!(
                state.uses_nsec3(),
                metadata.iter().any(|item| item.0 == "NSEC3PARAM")
            );
            let is_edited = metadata.iter().any(|item| item.0 == "SOA-EDIT");
            assert_eq!(copy.serial().0, if is_edited { now } else { 7 });
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("zone");
            std::fs::write(&file, print(&copy)).unwrap();
            let output = Command::new("dnssec-verify")
                .args(["-z", "-o", "example.", "-E", ""])
                .arg(&file)
                .output()
                .unwrap_or_else(|error| panic!("dnssec-verify: {error}: run scripts/install-deps"));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success(),
                "{metadata:?}: {said}\n{}",
                print(&copy)
            );
        }
    }

    #[test]
    fn narrow_zones_and_broken_keys_have_no_copy() {
        let narrow = signing(&[("NSEC3PARAM", "1 0 0 -"), ("NSEC3NARROW", "1")]);
        let copied = signed_copy(&zone(&narrow), &narrow, now(), || ());
        assert_eq!(copied.err(), Some(SignedCopyError::Narrow));
        let apex: NameBuf = "example.".parse().unwrap();
        let (keys, policy) = (Arc::new(Keys::broken()), Arc::new(SigningPolicy::default()));
        let cache = Arc::new(SignatureCache::new(10));
        let broken = Signing::new(apex.as_name(), keys, policy, cache);
        let copied = signed_copy(&zone(&broken), &broken, now(), || ());
        assert_eq!(copied.err(), Some(SignedCopyError::CannotSign));
    }
}
