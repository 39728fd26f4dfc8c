//! DNS cookies (RFC 7873) with the interoperable server cookies of RFC 9018, so that all servers of
//! an anycast address that share a secret accept each other's cookies.
//!
//! ```text
//! option: client cookie (8) | version 1 | reserved (3) | timestamp (4) | SipHash-2-4 over all of it and the client address
//! ```
//! A client that returns our cookie receives what is sent to its address, so the address is not
//! forged. No state is stored per client.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::HEXLOWER_PERMISSIVE;
use nameward_base::secret::{Secret, Zeroize};
use nameward_wire::message::ReplyCookie;
use siphasher::sip::SipHasher24;

/// Octets of a secret.
const SECRET: usize = 16;
/// Age up to which a server cookie is accepted, in seconds (RFC 9018 section 4.3).
const AGE_MAX: i32 = 3600;
/// How far the timestamp of a cookie may be in the future, in seconds: clocks of other servers differ.
const AHEAD_MAX: i32 = 300;
/// Age from which a client gets a new cookie.
const RENEW_AGE: i32 = 1800;
/// The version and the reserved octets of our cookies.
const VERSION: [u8; 4] = [1, 0, 0, 0];

/// A secret that generates and verifies server cookies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieSecret(Secret<SipHashKey>);

/// The octets of a secret, on the heap: a move leaves no copy behind.
#[derive(Clone, PartialEq, Eq, Default)]
struct SipHashKey(Box<[u8; SECRET]>);

impl Zeroize for SipHashKey {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl CookieSecret {
    /// Generates a secret.
    pub fn random() -> Self {
        let mut secret = Secret::<SipHashKey>::default();
        let octets = &mut secret.reveal_mut().0;
        if aws_lc_rs::rand::fill(&mut octets[..]).is_err() {
            // Reads the kernel's random device; if that fails, the hash keys of the standard
            // library are as good.
            let word = || RandomState::new().hash_one(0u64).to_ne_bytes();
            octets[..8].copy_from_slice(&word());
            octets[8..].copy_from_slice(&word());
        }
        CookieSecret(secret)
    }

    /// Reads 32 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let octets = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        Self::from_octets(Secret::new(octets))
    }

    /// Creates a secret from 16 octets.
    pub fn from_octets(octets: Secret<Vec<u8>>) -> Option<Self> {
        let octets = octets.reveal().as_array::<SECRET>()?;
        let mut secret = Secret::<SipHashKey>::default();
        secret.reveal_mut().0.copy_from_slice(octets);
        Some(CookieSecret(secret))
    }

    /// Returns the octets.
    pub fn reveal(&self) -> &[u8] {
        &self.0.reveal().0[..]
    }

    /// Returns the keyed hash. It is not stored, because it contains a copy of the secret that is
    /// not overwritten.
    #[inline]
    fn hasher(&self) -> SipHasher24 {
        SipHasher24::new_with_key(&self.0.reveal().0)
    }
}

/// When a secret is used, in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedCookieSecret {
    /// The secret.
    pub secret: CookieSecret,
    /// Cookies are generated with it from this time on, until a later secret becomes active;
    /// `u32::MAX` means never.
    pub active_from: u32,
    /// Its cookies are accepted until this time.
    pub accepted_until: u32,
}

impl TimedCookieSecret {
    /// A secret that is always active.
    pub fn always(secret: CookieSecret) -> Self {
        TimedCookieSecret {
            secret,
            active_from: 0,
            accepted_until: u32::MAX,
        }
    }

    /// A secret whose cookies are accepted, but that generates none.
    pub fn accepted(secret: CookieSecret) -> Self {
        TimedCookieSecret {
            active_from: u32::MAX,
            ..Self::always(secret)
        }
    }
}

/// The secrets, and when clients need a valid cookie to be answered over UDP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CookieSettings {
    /// The one with the latest `active_from` that is not in the future generates cookies.
    pub secrets: Vec<TimedCookieSecret>,
    /// Requires a cookie from every client.
    pub require: bool,
    /// Requires a cookie above this many UDP queries per second; 0 means never.
    pub require_above: u32,
}

/// Generates and verifies server cookies.
pub struct Cookies {
    settings: CookieSettings,
    load: QueryRate,
}

impl Cookies {
    /// Creates the cookie state of a server.
    pub fn new(mut settings: CookieSettings) -> Self {
        // Latest first: the active secret is the first one that is not in the future.
        let secrets = &mut settings.secrets;
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.active_from));
        Cookies {
            settings,
            load: QueryRate::default(),
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &CookieSettings {
        &self.settings
    }

    /// Returns the position of the active secret.
    #[inline]
    pub fn active(&self, now: u32) -> Option<usize> {
        let mut secrets = self.settings.secrets.iter();
        secrets.position(|secret| secret.active_from <= now)
    }

    /// Verifies the COOKIE option of a request and returns the one for its reply. The parser has
    /// checked the length of the option.
    #[inline]
    pub(crate) fn answer(&self, option: &[u8], client: IpAddr, now: u32) -> Option<ReplyCookie> {
        let (sent, server) = option.split_first_chunk::<8>()?;
        let active = self.active(now)?;
        let maker = &self.settings.secrets[active].secret;
        let verified = self.verify(sent, server, client, (now, active));
        if let (Some(Verified::Current), Ok(octets)) = (verified, <[u8; 24]>::try_from(option)) {
            return Some(ReplyCookie {
                octets,
                is_verified: true,
            });
        }
        let mut octets = [0; 24];
        octets[..8].copy_from_slice(sent);
        octets[8..12].copy_from_slice(&VERSION);
        octets[12..16].copy_from_slice(&now.to_be_bytes());
        let hash = hash(maker, &octets, client);
        octets[16..].copy_from_slice(&hash);
        Some(ReplyCookie {
            octets,
            is_verified: verified.is_some(),
        })
    }

    #[inline]
    fn verify(
        &self,
        sent: &[u8; 8],
        server: &[u8],
        client: IpAddr,
        (now, active): (u32, usize),
    ) -> Option<Verified> {
        let server: &[u8; 16] = server.try_into().ok()?;
        if server[0] != VERSION[0] {
            return None;
        }
        let time = u32::from_be_bytes([server[4], server[5], server[6], server[7]]);
        // Serial number arithmetic: timestamps wrap in 2106 (RFC 9018 section 4.3).
        let age = now.wrapping_sub(time).cast_signed();
        if !(-AHEAD_MAX..=AGE_MAX).contains(&age) {
            return None;
        }
        let mut octets = [0; 24];
        octets[..8].copy_from_slice(sent);
        octets[8..].copy_from_slice(server);
        let is_made_by = |one: &TimedCookieSecret| {
            now <= one.accepted_until && is_equal(&hash(&one.secret, &octets, client), &server[8..])
        };
        let index = self.settings.secrets.iter().position(is_made_by)?;
        Some(if index == active && age < RENEW_AGE {
            Verified::Current
        } else {
            Verified::Renew
        })
    }

    /// Checks whether clients currently need a valid cookie, after `queries` more were received
    /// over UDP.
    #[inline]
    pub(crate) fn demands(&self, queries: usize, now: u32) -> bool {
        let above = self.settings.require_above;
        self.settings.require || above > 0 && self.load.add(queries as u32, now) > above
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verified {
    /// The cookie is returned as it is.
    Current,
    /// The cookie is old, or was generated with a secret that is being replaced.
    Renew,
}

#[inline]
fn hash(secret: &CookieSecret, cookie: &[u8; 24], client: IpAddr) -> [u8; 8] {
    let mut input = [0; 32];
    input[..16].copy_from_slice(&cookie[..16]);
    let len = match client.to_canonical() {
        IpAddr::V4(v4) => {
            input[16..20].copy_from_slice(&v4.octets());
            20
        }
        IpAddr::V6(v6) => {
            input[16..].copy_from_slice(&v6.octets());
            32
        }
    };
    secret.hasher().hash(&input[..len]).to_le_bytes()
}

/// Compares without revealing by its duration how many octets are equal.
#[inline]
fn is_equal(one: &[u8; 8], other: &[u8]) -> bool {
    let other = <[u8; 8]>::try_from(other).map(u64::from_ne_bytes);
    other.is_ok_and(|other| u64::from_ne_bytes(*one) ^ other == 0)
}

/// Queries in the current and the previous second, of all workers.
#[derive(Default)]
struct QueryRate {
    /// The second in the upper half, its queries in the lower.
    current: AtomicU64,
    previous: AtomicU64,
}

impl QueryRate {
    /// Adds queries; returns the larger number of the two seconds.
    fn add(&self, queries: u32, now: u32) -> u32 {
        let current = self.current.load(Ordering::Relaxed);
        if (current >> 32) as u32 == now {
            let counted = self.current.fetch_add(queries.into(), Ordering::Relaxed) as u32;
            let previous = self.previous.load(Ordering::Relaxed);
            let is_last_second = (previous >> 32) as u32 == now.wrapping_sub(1);
            return (counted + queries).max(if is_last_second { previous as u32 } else { 0 });
        }
        // When two workers race at the turn of a second, the queries of one batch are not counted.
        self.previous.store(current, Ordering::Relaxed);
        let next = u64::from(now) << 32 | u64::from(queries);
        self.current.store(next, Ordering::Relaxed);
        let is_last_second = (current >> 32) as u32 == now.wrapping_sub(1);
        queries.max(if is_last_second { current as u32 } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    fn cookies(secrets: &[&str]) -> Cookies {
        let mut secrets = secrets
            .iter()
            .map(|text| CookieSecret::from_hex(text).unwrap());
        let first = secrets.next().map(TimedCookieSecret::always);
        let others = secrets.map(TimedCookieSecret::accepted);
        Cookies::new(CookieSettings {
            secrets: first.into_iter().chain(others).collect(),
            ..CookieSettings::default()
        })
    }

    fn answer(cookies: &Cookies, sent: &str, client: &str, now: u32) -> (String, bool) {
        let option = HEXLOWER.decode(sent.as_bytes()).unwrap();
        let reply = cookies
            .answer(&option, client.parse().unwrap(), now)
            .unwrap();
        (HEXLOWER.encode(&reply.octets), reply.is_verified)
    }

    const SECRET_1: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    const CLIENT: &str = "198.51.100.100";
    const COOKIE: &str = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";
    const CREATED_AT: u32 = 1_559_731_985;

    #[test]
    fn cookies_are_those_of_rfc_9018_appendix_a() {
        let one = cookies(&[SECRET_1]);
        // A.1: a new server cookie.
        let received = answer(&one, "2464c4abcf10c957", CLIENT, CREATED_AT);
        assert_eq!(received, (COOKIE.into(), false));
        // A.2: a renewed one.
        let renewed = "2464c4abcf10c957010000005cf7a871d4a564a1442aca77";
        assert_eq!(
            answer(&one, COOKIE, CLIENT, 1_559_734_385),
            (renewed.into(), true)
        );
        // A.3: another client, whose cookie has reserved octets. It is older than an hour when it is replaced.
        let sent = "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5";
        assert!(answer(&one, sent, "203.0.113.203", 1_559_727_985 + 600).1);
        let renewed = "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e";
        let other = answer(&one, sent, "203.0.113.203", 1_559_734_700);
        assert_eq!(other, (renewed.into(), false));
        // A.4: IPv6, and a secret that is being replaced.
        let old = "dd3bdf9344b678b185a6f5cb60fca715";
        let new = "445536bcd2513298075a5d379663c962";
        let sent = "22681ab97d52c298010000005cf7c57926556bd0934c72f8";
        let renewed = "22681ab97d52c298010000005cf7c609a6bb79d16625507a";
        let client = "2001:db8:220:1:59de:d0f4:8769:82b8";
        let rolled = answer(&cookies(&[new, old]), sent, client, 1_559_741_961);
        assert_eq!(rolled, (renewed.into(), true));
        assert!(!answer(&cookies(&[new]), sent, client, 1_559_741_961).1);
    }

    #[test]
    fn a_secret_is_accepted_before_and_after_it_is_active() {
        let [old, new] = [SECRET_1, "445536bcd2513298075a5d379663c962"]
            .map(|text| CookieSecret::from_hex(text).unwrap());
        let roll = CREATED_AT + 300;
        let timed = |secret: &CookieSecret, active_from, accepted_until| TimedCookieSecret {
            secret: secret.clone(),
            active_from,
            accepted_until,
        };
        let rolled = Cookies::new(CookieSettings {
            secrets: vec![timed(&old, 1000, roll + 3900), timed(&new, roll, u32::MAX)],
            ..CookieSettings::default()
        });
        // A server that has read the new secret and whose clock is ahead.
        let ahead = cookies(&["445536bcd2513298075a5d379663c962"]);
        let (early, _) = answer(&ahead, "2464c4abcf10c957", CLIENT, roll);
        assert!(answer(&rolled, &early, CLIENT, roll - 200).1);
        // Before `roll` the old secret generates cookies, then the new one.
        assert_eq!(
            answer(&rolled, "2464c4abcf10c957", CLIENT, CREATED_AT),
            (COOKIE.into(), false)
        );
        let (renewed, is_verified) = answer(&rolled, COOKIE, CLIENT, roll);
        assert!(is_verified && renewed != COOKIE);
        assert!(answer(&ahead, &renewed, CLIENT, roll).1);
        // Cookies of the old one are accepted for as long as they are valid.
        let late = cookies(&[SECRET_1]);
        let (last, _) = answer(&late, "2464c4abcf10c957", CLIENT, roll);
        assert!(answer(&rolled, &last, CLIENT, roll + 3600).1);
        let (forged, _) = answer(&late, "2464c4abcf10c957", CLIENT, roll + 3901);
        assert!(!answer(&rolled, &forged, CLIENT, roll + 3901).1);
    }

    #[test]
    fn a_cookie_is_valid_for_an_hour_and_renewed_after_half_of_it() {
        let cookies = cookies(&[SECRET_1]);
        for (age, is_valid, is_same) in [
            (-301, false, false),
            (-300, true, true),
            (0, true, true),
            (1799, true, true),
            (1800, true, false),
            (3600, true, false),
            (3601, false, false),
        ] {
            let now = CREATED_AT.wrapping_add_signed(age);
            let (reply, is_verified) = answer(&cookies, COOKIE, CLIENT, now);
            assert_eq!((is_verified, reply == COOKIE), (is_valid, is_same), "{age}");
        }
    }

    #[test]
    fn a_cookie_of_another_client_version_length_or_hash_is_not_valid() {
        let cookies = cookies(&[SECRET_1]);
        let is_valid = |sent: &str, client: &str| answer(&cookies, sent, client, CREATED_AT).1;
        assert!(is_valid(COOKIE, CLIENT));
        assert!(is_valid(COOKIE, "::ffff:198.51.100.100"));
        assert!(!is_valid(COOKIE, "198.51.100.101"));
        assert!(!is_valid(&COOKIE[..16], CLIENT));
        assert!(!is_valid(&COOKIE[..46], CLIENT));
        assert!(!is_valid(&format!("{COOKIE}00"), CLIENT));
        for octet in 0..24 {
            let mut changed = HEXLOWER.decode(COOKIE.as_bytes()).unwrap();
            changed[octet] ^= 1;
            assert!(!is_valid(&HEXLOWER.encode(&changed), CLIENT), "{octet}");
        }
    }

    #[test]
    fn cookies_are_required_above_a_rate_and_no_longer_below_it() {
        let cookies = Cookies::new(CookieSettings {
            require_above: 100,
            ..CookieSettings::default()
        });
        assert!(!cookies.demands(32, 1000));
        assert!(cookies.demands(100, 1000));
        // The last second was above the rate.
        assert!(cookies.demands(1, 1001));
        assert!(cookies.demands(1, 1001));
        assert!(!cookies.demands(1, 1002));
        assert!(!cookies.demands(1, 2000));
    }
}
