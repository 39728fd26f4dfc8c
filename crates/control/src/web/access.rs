//! Access to pages: the access list, the password, the API key and the form token.

use nameward_base::{secret::Secret, sync::Mutex};
use std::net::{IpAddr, Ipv6Addr};

use data_encoding::{BASE64, BASE64_NOPAD};
use ipnet::IpNet;
use subtle::ConstantTimeEq;

/// Checks whether the client is in the list. An IPv4 client on an IPv6 socket counts as an IPv4 client.
pub fn is_allowed(allow_from: &[IpNet], client: IpAddr) -> bool {
    let client = client.to_canonical();
    allow_from.iter().any(|net| net.contains(&client))
}

/// Returns the network that limits apply to, by its first address: an IPv4 address, or an IPv6 /64, because a client
/// usually has a whole /64 to choose addresses from.
pub fn client_network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Compares secrets in a time that depends on their lengths only.
pub fn same_secret(given: &str, secret: &str) -> bool {
    given.as_bytes().ct_eq(secret.as_bytes()).into()
}

/// A password as configured: plain, or `$scrypt$ln=..,p=..,r=..$salt$hash`.
pub struct Password {
    form: AccessForm,
    /// The last correct password: a page that refreshes does not pay for the hash each time.
    proven: Mutex<Option<Secret<String>>>,
}

enum AccessForm {
    Plain(Secret<String>),
    /// Compares with a hash, which is slow by design.
    Hashed(Box<dyn Fn(&str) -> bool + Send + Sync>),
}

/// An unusable password hash.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "invalid password hash: expected $scrypt$ln=10,p=1,r=8$SALT$HASH with base64 salt and hash, as `nameward hash-password` \
     prints it"
)]
pub struct BadHash;

/// Checks whether a configured password or API key is usable: a hash must be complete, everything else is plain text.
pub fn check_password(configured: &str) -> Result<(), BadHash> {
    Password::new(configured).map(drop)
}

impl Password {
    /// Reads the configured text; `None` if it is empty, which means that no password is required.
    pub fn new(configured: &str) -> Result<Option<Self>, BadHash> {
        let form = match configured.strip_prefix("$scrypt$") {
            _ if configured.is_empty() => return Ok(None),
            Some(hash) => parse_scrypt(hash).ok_or(BadHash)?,
            None => AccessForm::Plain(configured.to_owned().into()),
        };
        Ok(Some(Password {
            form,
            proven: Mutex::new(None),
        }))
    }

    /// Compares with the plain password, or with the last correct one. `None`: the hash must be computed.
    pub fn check_quickly(&self, given: &str) -> Option<bool> {
        match &self.form {
            AccessForm::Plain(password) => Some(same_secret(given, password.reveal())),
            AccessForm::Hashed(_) => {
                let proven = self.proven.lock();
                let is_proven = proven.as_ref();
                let is_proven = is_proven.is_some_and(|p| same_secret(given, p.reveal()));
                is_proven.then_some(true)
            }
        }
    }

    /// Compares with the hash. It is slow, so call it on a blocking thread, one at a time.
    pub fn check_slowly(&self, given: &str) -> bool {
        if let Some(is_right) = self.check_quickly(given) {
            return is_right;
        }
        let is_right = match &self.form {
            AccessForm::Plain(_) => false,
            AccessForm::Hashed(is_right) => is_right(given),
        };
        if is_right {
            let mut proven = self.proven.lock();
            *proven = Some(given.to_owned().into());
        }
        is_right
    }

    /// Creates a password that is checked by this function.
    #[cfg(test)]
    pub fn hashed(is_right: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Password {
            form: AccessForm::Hashed(Box::new(is_right)),
            proven: Mutex::new(None),
        }
    }
}

/// Hashes a password as PowerDNS does, in the format of [`Password::new`]; `None` if there is no randomness for the
/// salt.
pub fn hash_password(password: &str) -> Option<String> {
    // The cost parameters of PowerDNS: 1 MiB and some milliseconds per guess.
    let (ln, r, p) = (10, 8, 1);
    let (mut salt, mut hash) = ([0; 16], [0; 32]);
    aws_lc_rs::rand::fill(&mut salt).ok()?;
    let params = scrypt::Params::new(ln, r, p).ok()?;
    scrypt::scrypt(password.as_bytes(), &salt, &params, &mut hash).ok()?;
    let (salt, hash) = (BASE64.encode(&salt), BASE64.encode(&hash));
    Some(format!("$scrypt$ln={ln},p={p},r={r}${salt}${hash}"))
}

fn parse_scrypt(text: &str) -> Option<AccessForm> {
    let mut fields = text.split('$');
    let (costs, salt, hash) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    let cost = |name: &str| {
        let named = costs.split(',').find_map(|c| c.strip_prefix(name));
        named.and_then(|c| c.strip_prefix('=')?.parse::<u32>().ok())
    };
    let (ln, r, p) = (cost("ln")?, cost("r")?, cost("p")?);
    // More than this is a mistake that would cost gigabytes per guess.
    if ln > 20 || r > 32 || p > 16 {
        return None;
    }
    let params = scrypt::Params::new(ln as u8, r, p).ok()?;
    let (salt, hash) = (base64(salt)?, base64(hash)?);
    let usable = (16..=64).contains(&hash.len());
    let is_right = move |given: &str| {
        let mut out = vec![0; hash.len()];
        let computed = scrypt::scrypt(given.as_bytes(), &salt, &params, &mut out).is_ok();
        computed && bool::from(out.ct_eq(&hash))
    };
    usable.then(|| AccessForm::Hashed(Box::new(is_right)))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let bytes = text.trim_end_matches('=').as_bytes();
    BASE64_NOPAD.decode(bytes).ok()
}

/// Returns the password of `Basic <base64 of user:password>` (RFC 7617).
pub fn basic_password(authorization: &str) -> Option<Secret<String>> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = Secret::new(BASE64.decode(encoded.trim().as_bytes()).ok()?);
    let text = std::str::from_utf8(decoded.reveal()).ok()?;
    text.split_once(':')
        .map(|(_, password)| password.to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(credentials: &str) -> String {
        format!("Basic {}", BASE64.encode(credentials.as_bytes()))
    }

    fn accepts(password: &Password, authorization: &str) -> bool {
        basic_password(authorization).is_some_and(|given| password.check_slowly(given.reveal()))
    }

    fn password(configured: &str) -> Password {
        Password::new(configured)
            .expect("usable")
            .expect("a password")
    }

    #[test]
    fn an_ipv4_network_covers_mapped_addresses() {
        let list = ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        assert!(is_allowed(&list, "127.9.9.9".parse().unwrap()));
        assert!(is_allowed(&list, "::ffff:127.0.0.1".parse().unwrap()));
        assert!(is_allowed(&list, "::1".parse().unwrap()));
        assert!(!is_allowed(&list, "192.0.2.1".parse().unwrap()));
        assert!(!is_allowed(&list, "::2".parse().unwrap()));
        assert!(!is_allowed(&[], "127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_plain_password_is_accepted_with_any_user_name() {
        let password = password("se:cret");
        assert!(accepts(&password, &basic("anyone:se:cret")));
        assert!(accepts(&password, &basic(":se:cret")));
        for wrong in [
            basic("anyone:secret"),
            basic("se:cret"),
            "Basic !!".into(),
            "Bearer x".into(),
            String::new(),
        ] {
            assert!(!accepts(&password, &wrong), "{wrong}");
        }
    }

    #[test]
    fn a_scrypt_hash_accepts_its_password_repeatedly_and_no_other() {
        // The second test vector of RFC 7914 section 12, cut to 32 octets: "password", "NaCl", N=1024, r=8, p=16.
        let configured = format!(
            "$scrypt$ln=10,p=16,r=8${}${}",
            BASE64.encode(b"NaCl"),
            BASE64.encode(&data_encoding::HEXLOWER.decode(b"fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b3731622eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640").unwrap())
        );
        let password = password(&configured);
        assert!(!accepts(&password, &basic("x:Password")));
        assert!(accepts(&password, &basic("x:password")));
        assert_eq!(password.check_quickly("password"), Some(true));
        assert_eq!(password.check_quickly("Password"), None);
        assert!(accepts(&password, &basic("y:password")));
        assert!(!accepts(&password, &basic("x:passwor")));
    }

    #[test]
    fn a_generated_hash_accepts_its_password_and_differs_each_time() {
        let hashes = [
            hash_password("se cret").unwrap(),
            hash_password("se cret").unwrap(),
        ];
        assert_ne!(hashes[0], hashes[1]);
        for hash in &hashes {
            assert!(hash.starts_with("$scrypt$ln=10,p=1,r=8$"), "{hash}");
            assert!(password(hash).check_slowly("se cret"));
            assert!(!password(hash).check_slowly("secret"));
        }
    }

    #[test]
    fn unusable_hashes_are_refused_when_configured() {
        for text in [
            "$scrypt$",
            "$scrypt$ln=10,p=1,r=8$abc",
            "$scrypt$ln=99,p=1,r=8$AAAA$AAAAAAAAAAAAAAAAAAAAAAAA",
            "$scrypt$ln=10$AAAA$AAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert!(matches!(Password::new(text), Err(BadHash)), "{text}");
        }
        assert!(matches!(Password::new(""), Ok(None)));
    }
}
