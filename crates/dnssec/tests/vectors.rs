//! Keys, tags, digests and signatures of the RFCs.

use data_encoding::{BASE64, HEXLOWER};
use nameward_dnssec::{
    CanonicalSet, KeyUse, Keys, Making, NoSignature, SignatureCache, Signing, SigningKey,
    SigningPolicy,
};
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, Type};
use proptest::prelude::*;
use std::sync::Arc;

const ACTIVE: KeyUse = KeyUse::EVERYTHING;

fn key(text: &str) -> SigningKey {
    SigningKey::read(text.as_bytes(), 257, ACTIVE).unwrap()
}

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

/// Public key, tag and DS digest.
fn check(key: &SigningKey, owner: &str, public: &str, tag: u16, digest: (u8, &str)) {
    assert_eq!(BASE64.encode(&key.dnskey()[4..]), public);
    assert_eq!(key.tag(), tag);
    let ds = key.ds(name(owner).as_name(), digest.0).unwrap();
    assert_eq!(HEXLOWER.encode(&ds[4..]), digest.1);
}

#[test]
fn ecdsa_keys_are_those_of_rfc_6605() {
    let p256 = key(
        "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
         PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n",
    );
    check(
        &p256,
        "example.net",
        "GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==",
        55648,
        (
            2,
            "b4c8c1fe2e7477127b27115656ad6256f424625bf5c1e2770ce6d6e37df61d17",
        ),
    );
    let p384 = key(
        "Private-key-format: v1.2\nAlgorithm: 14 (ECDSAP384SHA384)\n\
         PrivateKey: WURgWHCcYIYUPWgeLmiPY2DJJk02vgrmTfitxgqcL4vwW7BOrbawVmVe0d9V94SR\n",
    );
    check(
        &p384,
        "example.net",
        "xKYaNhWdGOfJ+nPrL8/arkwf2EY3MDJ+SErKivBVSum1w/egsXvSADtNJhyem5RCOpgQ6K8X1DRSEkrbYQ+OB+v8/uX45NBwY8rp65F6Glur8I/mlVNgF6W/qTI37m40",
        10771,
        (
            4,
            "72d7b62976ce06438e9c0bf319013cf801f09ecc84b8d7e9495f27e305c6a9b0563a9b5f4d288405c3008a946df983d6",
        ),
    );
}

const RFC8080: [(&str, &str, u16, &str, &str); 2] = [
    (
        "ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=",
        "l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=",
        3613,
        "3aa5ab37efce57f737fc1627013fee07bdf241bd10f3b1964ab55c78e79a304b",
        "oL9krJun7xfBOIWcGHi7mag5/hdZrKWw15jPGrHpjQeRAvTdszaPD+QLs3fx8A4M3e23mRZ9VrbpMngwcrqNAg==",
    ),
    (
        "DSSF3o0s0f+ElWzj9E/Osxw8hLpk55chkmx0LYN5WiY=",
        "zPnZ/QwEe7S8C5SPz2OfS5RR40ATk2/rYnE9xHIEijs=",
        35217,
        "401781b934e392de492ec77ae2e15d70f6575a1c0bc59c5275c04ebe80c6614c",
        "zXQ0bkYgQTEFyfLyi9QoiY6D8ZdYo4wyUhVioYZXFdT410QPRITQSqJSnzQoSm5poJ7gD7AQR0O7KuI5k2pcBg==",
    ),
];

#[test]
fn ed25519_keys_are_those_of_rfc_8080() {
    for (private, public, tag, digest, _) in RFC8080 {
        let text =
            format!("Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: {private}\n");
        check(&key(&text), "example.com", public, tag, (2, digest));
    }
}

/// RFC 8080 signs over fixed times, which we do not choose: what is compared is the form of what is signed.
#[test]
fn what_is_signed_is_in_canonical_form_and_order() {
    let mut records = Vec::new();
    for text in [
        "20 Mail.Example.COM.",
        "10 mail.example.com.",
        "10 MAIL.example.com.",
    ] {
        let mut rdata = Vec::new();
        parse_text(
            Type::MX,
            &mut Fields::new(text.as_bytes()),
            Name::ROOT,
            &mut rdata,
        )
        .unwrap();
        records.push(rdata);
    }
    let set = |records: &[Vec<u8>], owner: &str| {
        CanonicalSet::new(
            name(owner).as_name(),
            Type::MX,
            3600,
            records.iter().map(|rdata| &rdata[..]),
        )
    };
    let text = format!(
        "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: {}\n",
        RFC8080[0].0
    );
    let signing = |cache: &Arc<SignatureCache>| {
        let keys = Arc::new(Keys::new(vec![key(&text)]));
        let policy = Arc::new(SigningPolicy::default());
        Signing::new(name("example.com").as_name(), keys, policy, cache.clone())
    };
    let cache = Arc::new(SignatureCache::new(10));
    let mut making = Making::NOW;
    let mut sign = |records: &[Vec<u8>], owner: &str| {
        let rrsigs = signing(&cache).signatures(&set(records, owner), 1_700_000_000, &mut making);
        rrsigs.unwrap()[0].clone()
    };
    let first = sign(&records, "EXAMPLE.com");
    // Another order, other letters, a record twice: the same RRset, and the signature is there already.
    records.swap(0, 1);
    records.pop();
    assert_eq!(sign(&records, "example.com"), first);
    let wildcard = sign(&records, "*.example.com");
    assert_eq!((first[3], wildcard[3]), (2, 2), "labels");
    assert_ne!(first, wildcard);
    assert_eq!((making.take_made(), cache.len()), (2, 2));
    let (new, mut making) = (set(&records, "new.example.com"), Making::Never);
    let refused = signing(&cache).signatures(&new, 1_700_000_000, &mut making);
    assert_eq!(refused, Err(NoSignature::NotMade));
}

#[test]
fn keys_that_cannot_be_used_are_errors_that_do_not_show_the_key() {
    let secret = "GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=";
    for text in [
        String::new(),
        format!("Algorithm: 13\nPrivateKey: {secret}"),
        format!("Private-key-format: v2.0\nAlgorithm: 13\nPrivateKey: {secret}"),
        format!("Private-key-format: v1.2\nPrivateKey: {secret}"),
        format!("Private-key-format: v1.2\nAlgorithm: 16\nPrivateKey: {secret}"),
        format!("Private-key-format: v1.2\nAlgorithm: 14\nPrivateKey: {secret}x"),
        format!("Private-key-format: v1.2\nAlgorithm: 8\nPrivateKey: {secret}"),
        format!("Private-key-format: v1.2\nAlgorithm: 13\nPrivateKey: {}", "A".repeat(44)),
        "Private-key-format: v1.2\nAlgorithm: 13\nPrivateKey: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".into(),
        "Private-key-format: v1.2\nAlgorithm: 15\nPrivateKey: AAAA".into(),
        "Private-key-format: v1.2\nAlgorithm: 8\nModulus: AQAB\nPublicExponent: AQAB".into(),
        "x".repeat(100_000),
    ] {
        let error = SigningKey::read(text.as_bytes(), 257, ACTIVE).map(|_| ()).unwrap_err().to_string();
        assert!(!error.contains("GU6S"), "{error}");
    }
    let good = format!("Private-key-format: v1.2\nAlgorithm: 13\nPrivateKey: {secret}");
    assert!(SigningKey::read(good.as_bytes(), 0, ACTIVE).is_err());
    assert!(SigningKey::read(good.replace('\n', "\r\n").as_bytes(), 256, ACTIVE).is_ok());
}

#[test]
fn nothing_is_signed_when_a_key_is_broken() {
    let keys = Arc::new(Keys::broken());
    let cache = Arc::new(SignatureCache::new(1000));
    let signing = Signing::new(name("example").as_name(), keys, Arc::default(), cache);
    let set = CanonicalSet::new(
        name("example").as_name(),
        Type::A,
        1,
        [&[0u8; 4][..]].into_iter(),
    );
    assert!(signing.signatures(&set, 0, &mut { Making::NOW }).is_err());
}

const FIELDS: &[&str] = &[
    "Private-key-format",
    "Algorithm",
    "PrivateKey",
    "Modulus",
    "PublicExponent",
    "PrivateExponent",
    "Prime1",
    "Prime2",
    "Exponent1",
    "Exponent2",
    "Coefficient",
    "Created",
    "",
];

/// A line of a private key, likely to be nearly right.
fn line() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("v1.2".to_owned()),
        proptest::sample::select(&["5", "8", "10 (RSASHA512)", "13", "14", "15", "16", "x"][..])
            .prop_map(str::to_owned),
        proptest::collection::vec(any::<u8>(), 0..140).prop_map(|octets| BASE64.encode(&octets)),
        ".{0,40}",
    ];
    (proptest::sample::select(FIELDS), value).prop_map(|(name, value)| format!("{name}: {value}"))
}

proptest! {
    #[test]
    fn any_row_content_is_a_key_or_an_error(
        lines in proptest::collection::vec(line(), 0..14),
        flags in proptest::sample::select(&[0u16, 256, 257, 65535][..]),
        octets in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let text = format!("Private-key-format: v1.2\n{}", lines.join("\n"));
        for text in [text.as_bytes(), &octets] {
            if let Ok(key) = SigningKey::read(text, flags, ACTIVE) {
                // What was taken can be used.
                let keys = Arc::new(Keys::new(vec![key]));
                let apex = name("example");
                let signing = Signing::new(
                    apex.as_name(),
                    keys,
                    Arc::default(),
                    Arc::new(SignatureCache::new(1000)),
                );
                let set = CanonicalSet::new(apex.as_name(), Type::A, 1, [&[0u8; 4][..]].into_iter());
                prop_assert_eq!(signing.signatures(&set, 0, &mut { Making::NOW }).unwrap().len(), 1);
                prop_assert!(!signing.apex_records().is_empty());
            }
        }
    }
}
