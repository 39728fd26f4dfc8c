//! A zone that is signed while it is served, as a whole with its signatures and its chain of NSEC or NSEC3.
//!
//! A secondary has only records, so it gets the chain over all names (RFC 4034 section 4, RFC 5155 section 7.1) even where
//! answers are made of white lies; it is the one that answers have where they come from a chain. Signatures come from the
//! cache or are made, by several threads; how many these are and how much of the CPU they take is the caller's concern
//! ([`CopyThreads`]).

mod chunk;

use chunk::{CopyDigests, CopyWork};
use nameward_dnssec::{CanonicalSet, Making, Signing, ZonemdHash};
use nameward_wire::Type;
use nameward_zone::{Zone, ZoneBuilder};
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

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
    /// The system has no thread for it.
    #[error("no thread can be started to sign it: {0}")]
    NoThread(io::ErrorKind),
}

/// The threads that make the signatures of a copy.
#[derive(Clone, Copy)]
pub struct CopyThreads<'t> {
    /// How many there are.
    pub count: usize,
    /// Called by each thread when it begins. The function that it returns is called between two names, and may sleep.
    pub begin: &'t (dyn Fn() -> Box<dyn FnMut()> + Sync),
}

impl CopyThreads<'static> {
    /// One thread that never sleeps.
    pub fn one() -> Self {
        CopyThreads {
            count: 1,
            begin: &|| Box::new(|| ()),
        }
    }
}

/// Returns the signed copy of a zone that is signed while it is served, and how many signatures were made for it. `now` is
/// in seconds since 1970.
pub fn signed_copy(
    zone: &Zone,
    signing: &Signing,
    now: u32,
    threads: CopyThreads<'_>,
) -> Result<(Zone, u32), SignedCopyError> {
    make_copy(zone, (signing, now), CopyDigests::Kept, threads)
}

/// As [`signed_copy`], with the digest of the copy (ZONEMD, RFC 8976 section 3) in the place of those that the zone has at its
/// apex: it has one, so that the chain lists the type.
pub fn digested_copy(
    zone: &Zone,
    signing: &Signing,
    now: u32,
    threads: CopyThreads<'_>,
) -> Result<(Zone, u32), SignedCopyError> {
    let (copy, made) = make_copy(zone, (signing, now), CopyDigests::LeftOut, threads)?;
    let (copy, apex) = (Arc::new(copy), zone.apex_name());
    let ttl = copy.soa().map_or(0, |soa| soa.ttl());
    let zonemd = copy.zonemd(ZonemdHash::Sha384);
    let set = CanonicalSet::new(apex, Type::ZONEMD, ttl, std::iter::once(&zonemd[..]));
    let mut making = Making::NOW;
    let rrsigs = signing
        .signatures(&set, now, &mut making)
        .map_err(|_| SignedCopyError::CannotSign)?;
    let mut records = vec![(Type::ZONEMD, zonemd)];
    records.extend(rrsigs.iter().map(|rrsig| (Type::RRSIG, rrsig.to_vec())));
    let digested = copy.with_digest(&records);
    let digested = digested.map_err(|error| SignedCopyError::Invalid(error.to_string()))?;
    Ok((digested, made + making.take_made()))
}

/// Signs in chunks: threads take the next chunk each, and this one builds the copy of what they send. A chunk waits for room
/// when it is not taken, so the records of a few are in memory besides the copy.
fn make_copy(
    zone: &Zone,
    (signing, now): (&Signing, u32),
    digests: CopyDigests,
    threads: CopyThreads<'_>,
) -> Result<(Zone, u32), SignedCopyError> {
    if signing.is_narrow() {
        return Err(SignedCopyError::Narrow);
    }
    let work = CopyWork::new(zone, (signing, now), digests);
    let mut builder = ZoneBuilder::new(zone.apex_name());
    let count = threads.count.clamp(1, work.chunks().max(1));
    let (sender, receiver) = mpsc::sync_channel(count * 2);
    let mut made = 0;
    thread::scope(|scope| {
        for index in 0..count {
            let (sender, work) = (sender.clone(), &work);
            let run = move || work.run(&sender, (threads.begin)());
            let thread = thread::Builder::new().name(format!("sign-copy-{index}"));
            if let Err(error) = thread.spawn_scoped(scope, run) {
                // Fewer will do. The first one is needed.
                match index {
                    0 => return Err(SignedCopyError::NoThread(error.kind())),
                    _ => break,
                }
            }
        }
        drop(sender);
        // Threads end when nobody receives any more.
        for chunk in receiver {
            let chunk = chunk?;
            made += chunk.made;
            chunk.add_to(&mut builder);
        }
        Ok(())
    })?;
    let (built, findings) = builder.finish();
    let built = built.ok_or_else(|| {
        let first = findings.into_iter().next();
        SignedCopyError::Invalid(first.map_or_else(String::new, |finding| finding.message))
    })?;
    Ok((built, made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_dnssec::{KeyUse, Keys, SignatureCache, SigningKey, SigningPolicy};
    use nameward_wire::NameBuf;
    use nameward_wire::zonefile::{Options, Record, parse_bytes};
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
        zone_of(signing, "")
    }

    /// The same with more records.
    fn zone_of(signing: &Signing, more: &str) -> Zone {
        let origin: NameBuf = "example.".parse().unwrap();
        let mut builder = ZoneBuilder::new(origin.as_name());
        let text = format!("{TEXT}{more}");
        parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
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
            let (copy, made) = signed_copy(&zone, &signing, now, CopyThreads::one()).unwrap();
            assert!(made > 10);
            let again = signed_copy(&zone, &signing, now, CopyThreads::one()).unwrap();
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
    fn many_threads_make_the_copy_that_one_makes() {
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let begin = || {
            begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Box::new(|| ()) as Box<dyn FnMut()>
        };
        let threads = CopyThreads {
            count: 3,
            begin: &begin,
        };
        let now = now();
        for metadata in [&[][..], &[("NSEC3PARAM", "1 0 0 -")]] {
            let many: String = (0..3000)
                .map(|i| format!("n{i} 60 A 192.0.2.1\n"))
                .collect();
            let (one, other) = (signing(metadata), signing(metadata));
            let zone = zone_of(&one, &many);
            let (copy, made) = signed_copy(&zone, &one, now, CopyThreads::one()).unwrap();
            let (same, made_by_many) = signed_copy(&zone, &other, now, threads).unwrap();
            assert_eq!((made, print(&copy)), (made_by_many, print(&same)));
        }
        assert_eq!(begun.into_inner(), 6);
    }

    #[test]
    fn narrow_zones_and_broken_keys_have_no_copy() {
        let narrow = signing(&[("NSEC3PARAM", "1 0 0 -"), ("NSEC3NARROW", "1")]);
        let copied = signed_copy(&zone(&narrow), &narrow, now(), CopyThreads::one());
        assert_eq!(copied.err(), Some(SignedCopyError::Narrow));
        let apex: NameBuf = "example.".parse().unwrap();
        let (keys, policy) = (Arc::new(Keys::broken()), Arc::new(SigningPolicy::default()));
        let cache = Arc::new(SignatureCache::new(10));
        let broken = Signing::new(apex.as_name(), keys, policy, cache);
        let copied = signed_copy(&zone(&broken), &broken, now(), CopyThreads::one());
        assert_eq!(copied.err(), Some(SignedCopyError::CannotSign));
    }
}
