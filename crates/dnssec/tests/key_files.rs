//! Keys of other servers' tools, and our keys in their hands.

use nameward_dnssec::{
    KeyError, KeyFile, KeyFileError, KeyTimes, KeyUse, Keys, PrivateKey, SigningKey,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool in a directory and returns what it printed.
fn run(directory: &Path, tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(directory)
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("{tool}: {error}; install bind9-dnsutils, bind9-utils, ldnsutils, knot, openssl")
    });
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {printed}{complaint}"
    );
    printed
}

fn read(directory: &Path, stem: &str) -> Result<KeyFile, KeyFileError> {
    let text = |end: &str| fs::read(directory.join(format!("{stem}.{end}"))).unwrap();
    KeyFile::read(&text("key"), &text("private"))
}

fn write(directory: &Path, file: &KeyFile) -> PathBuf {
    let path = directory.join(file.stem().unwrap());
    let end = |end: &str| PathBuf::from(format!("{}.{end}", path.display()));
    fs::write(end("key"), file.public_text().unwrap()).unwrap();
    fs::write(end("private"), file.private_text().reveal()).unwrap();
    path
}

/// The tag that the name of a key file says.
fn tag_of(stem: &str) -> u16 {
    stem.rsplit('+').next().unwrap().parse().unwrap()
}

fn check_against_its_name(file: &KeyFile, stem: &str) {
    assert_eq!(file.stem().unwrap(), stem);
    assert_eq!(file.key(KeyUse::UNUSED).unwrap().tag(), tag_of(stem));
    // What we write is what we read.
    let again = KeyFile::read(
        file.public_text().unwrap().as_bytes(),
        file.private_text().reveal().as_bytes(),
    );
    assert_eq!(&again.unwrap(), file);
    let (private, algorithm) = (&file.private, file.private.algorithm());
    let from_pem = PrivateKey::from_pem(private.to_pem().reveal().as_bytes(), algorithm);
    assert_eq!(&from_pem.unwrap(), private);
}

#[test]
fn keys_of_bind_are_read_with_their_times_and_bind_reads_ours() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (algorithm, more) in [
        ("8", &["-b", "1024"][..]),
        ("10", &["-b", "1024"]),
        (
            "13",
            &["-f", "KSK", "-I", "20300102030405", "-D", "20310102030405"],
        ),
        ("14", &[]),
        ("15", &["-P", "none", "-A", "none"]),
    ] {
        let arguments = [&["-q", "-a", algorithm][..], more, &["Example.org"]].concat();
        let stem = run(path, "dnssec-keygen", &arguments).trim().to_string();
        let file = read(path, &stem).unwrap();
        check_against_its_name(&file, &stem);
        let end = file.times.inactive;
        assert_eq!(end, (algorithm == "13").then_some(1_893_553_445));
        // BIND makes the same DS of our text, and finds the same times in it.
        let ours = tempfile::tempdir().unwrap();
        let written = write(ours.path(), &file);
        let written = written.to_str().unwrap();
        assert_eq!(
            run(path, "dnssec-dsfromkey", &[&stem]).to_ascii_lowercase(),
            run(path, "dnssec-dsfromkey", &[written]).to_ascii_lowercase()
        );
        let times = |stem: &str| run(path, "dnssec-settime", &["-up", "all", stem]);
        assert_eq!(times(&stem), times(written));
    }
}

#[test]
fn times_say_what_a_key_does() {
    let of = |publish, activate, inactive, delete| KeyTimes {
        created: Some(1),
        publish,
        activate,
        inactive,
        delete,
        ..KeyTimes::default()
    };
    let says = |times: KeyTimes, now| {
        let usage = times.usage(257, now);
        (usage.published, usage.is_active())
    };
    let whole = of(Some(10), Some(20), Some(30), Some(40));
    let phases = [5, 10, 20, 30, 40].map(|now| says(whole, now));
    assert_eq!(
        phases,
        [
            (false, false),
            (true, false),
            (true, true),
            (true, false),
            (false, false)
        ]
    );
    assert_eq!(says(KeyTimes::default(), 5), (true, true));
    assert_eq!(says(of(None, None, None, Some(3)), 2), (false, false));
    // `dnssec-keygen -G`: made for later.
    assert_eq!(says(of(None, None, None, None), 2), (false, false));
    // What is asked for is what the times say afterwards.
    for begin in [KeyTimes::default(), of(None, None, None, None), whole] {
        let mut times = begin;
        for (is_active, is_published) in [(true, true), (false, true), (true, true), (false, false)]
        {
            times.set_usage(257, KeyUse::by_flags(257, is_active, is_published), 25);
            assert_eq!(says(times, 25), (is_published, is_active), "{times:?}");
            assert_eq!(times.usage(257, 25).asks_ds, is_published);
        }
    }
    assert_eq!(
        [0, 10, 39, 40].map(|now| whole.next_after(now)),
        [Some(1), Some(20), Some(40), None]
    );
}

#[test]
fn keys_of_ldns_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for arguments in [
        &["-a", "RSASHA256", "-b", "1024", "example.org"][..],
        &["-a", "RSASHA512", "-b", "1024", "-k", "example.org"],
        &["-a", "ECDSAP256SHA256", "-k", "example.org"],
        &["-a", "ECDSAP384SHA384", "example.org"],
        &["-a", "ED25519", "-k", "example.org"],
    ] {
        let stem = run(path, "ldns-keygen", arguments).trim().to_string();
        check_against_its_name(&read(path, &stem).unwrap(), &stem);
    }
}

#[test]
fn knot_takes_our_keys_in_both_forms_with_their_tags() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for algorithm in [8, 13, 14, 15] {
        let file = KeyFile {
            owner: "example.org".parse().unwrap(),
            flags: 257,
            private: PrivateKey::generate(algorithm, 2048).unwrap(),
            times: KeyTimes {
                created: Some(1_790_000_000),
                ..KeyTimes::default()
            },
        };
        let stem = file.stem().unwrap();
        let tag = tag_of(&stem).to_string();
        let written = write(path, &file);
        let pem = path.join(format!("{algorithm}.pem"));
        fs::write(&pem, file.private.to_pem().reveal()).unwrap();
        run(
            path,
            "openssl",
            &["pkey", "-in", pem.to_str().unwrap(), "-noout"],
        );
        let number = format!("algorithm={algorithm}");
        for import in [
            &["import-bind", &format!("{}.private", written.display())][..],
            &["import-pem", pem.to_str().unwrap(), &number, "ksk=yes"],
        ] {
            let kasp = tempfile::tempdir().unwrap();
            let kasp = kasp.path().to_str().unwrap();
            let keymgr = |words: &[&str]| {
                let arguments = [&["-D", kasp, "example.org"][..], words].concat();
                run(path, "keymgr", &arguments)
            };
            keymgr(import);
            let listed = keymgr(&["list"]);
            assert!(
                listed.split_whitespace().any(|word| word == tag),
                "{tag}: {listed}"
            );
        }
    }
}

#[test]
fn pem_of_openssl_is_read_in_all_its_forms() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let made = |arguments: &[&str]| run(path, "openssl", arguments);
    let rsa = made(&[
        "genpkey",
        "-quiet",
        "-algorithm",
        "RSA",
        "-pkeyopt",
        "rsa_keygen_bits:2048",
    ]);
    let curve = made(&["ecparam", "-name", "prime256v1", "-genkey"]);
    let edwards = made(&["genpkey", "-algorithm", "ed25519"]);
    fs::write(path.join("rsa"), &rsa).unwrap();
    let traditional = made(&["pkey", "-in", "rsa", "-traditional"]);
    assert!(traditional.contains("BEGIN RSA PRIVATE KEY") && curve.contains("EC PARAMETERS"));
    let read = |text: &str, algorithm| PrivateKey::from_pem(text.as_bytes(), algorithm);
    assert_eq!(read(&rsa, 8), read(&traditional, 8));
    for (text, algorithm) in [(&rsa, 10), (&curve, 13), (&edwards, 15)] {
        let private = read(text, algorithm).unwrap();
        let key = SigningKey::new(&private, 256, KeyUse::UNUSED).unwrap();
        let again =
            SigningKey::read(private.to_text().reveal().as_bytes(), 256, KeyUse::UNUSED).unwrap();
        assert_eq!(key.tag(), again.tag());
        assert!(read(text, 14).is_err());
    }
    // As GnuTLS writes it: a number whose first bit is set, with a sign octet before it.
    let signed = "-----BEGIN PRIVATE KEY-----\nMIGUAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHoweAIBAQQhAPVNohsAPfl+Lz1Y\n\
                  5XDtvrzpzaYAgnDdW06Ts/PQWVNcoAoGCCqGSM49AwEHoUQDQgAEEGvEx0WSo4AN\nh02Em9XGNIACyO5nkEF0ZdUT/Iz01JrSV97Rnw2oc7x5ni3Uim7Ad5sDQHw6Cj9a\n\
                  DHk3N+LHKA==\n-----END PRIVATE KEY-----\n";
    let key = SigningKey::new(&read(signed, 13).unwrap(), 256, KeyUse::UNUSED).unwrap();
    assert_eq!(key.tag(), 46848);
    assert_eq!(read("no key", 13), Err(KeyError::NotPem));
    assert_eq!(read(&edwards, 16), Err(KeyError::Unsupported(16)));
}

#[test]
fn the_error_of_an_unusable_key_has_the_reason_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let make = |algorithm: &str| {
        let printed = run(
            path,
            "dnssec-keygen",
            &["-q", "-a", algorithm, "example.org"],
        );
        printed.trim().to_string()
    };
    let (one, other, unknown) = (make("13"), make("13"), make("16"));
    let public = fs::read(path.join(format!("{one}.key"))).unwrap();
    let private = fs::read(path.join(format!("{other}.private"))).unwrap();
    let mixed = KeyFile::read(&public, &private).unwrap_err();
    let (public_tag, private_tag) = (tag_of(&one), tag_of(&other));
    assert_eq!(
        mixed,
        KeyFileError::Mismatch {
            public: public_tag,
            private: private_tag
        }
    );
    let error = read(path, &unknown).unwrap_err().to_string();
    assert!(error.starts_with("unsupported algorithm 16"), "{error}");
    assert_eq!(
        KeyFile::read(b"; nothing\n", &private),
        Err(KeyFileError::NoRecord)
    );
    let shown = format!("{:?}", read(path, &one).unwrap());
    let secret = fs::read_to_string(path.join(format!("{one}.private"))).unwrap();
    let secret = secret.split("PrivateKey: ").nth(1).unwrap();
    assert!(!shown.contains(secret.split('\n').next().unwrap()));
}

proptest::proptest! {
    #[test]
    fn readers_reject_any_text_without_a_panic(text in proptest::collection::vec(0u8.., 0..300)) {
        let begin = b"-----BEGIN PRIVATE KEY-----\n";
        let body = data_encoding::BASE64.encode(&text);
        let pem = [&begin[..], body.as_bytes(), b"\n-----END PRIVATE KEY-----\n"].concat();
        for algorithm in [8, 13, 14, 15, 16] {
            let _ = PrivateKey::from_pem(&pem, algorithm);
            let _ = PrivateKey::from_pem(&text, algorithm);
        }
        let _ = KeyFile::read(&text, &text);
    }
}

#[test]
fn rsa_keys_of_the_sizes_in_old_zones_are_generated_and_sign() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (algorithm, bits) in [(5, 1024), (7, 1024), (8, 1024), (10, 1280), (8, 2048)] {
        let private = PrivateKey::generate(algorithm, bits).unwrap();
        let key = SigningKey::new(&private, 256, KeyUse::by_flags(256, true, true)).unwrap();
        let signature = key.sign(b"message").unwrap();
        assert_eq!(signature.len() * 8, bits, "algorithm {algorithm}");
        let pem = path.join("key.pem");
        fs::write(&pem, private.to_pem().reveal()).unwrap();
        let shown = run(
            path,
            "openssl",
            &["pkey", "-in", "key.pem", "-check", "-noout", "-text"],
        );
        assert!(shown.contains("Key is valid"), "{shown}");
        assert!(shown.contains(&format!("{bits} bit")), "{shown}");
    }
}

#[test]
fn the_size_of_a_new_rsa_key_is_refused_with_the_sizes_that_are_possible() {
    for bits in [0, 512, 1000, 2049, 4224, 70_000] {
        let error = PrivateKey::generate(8, bits).unwrap_err().to_string();
        let expected = format!(
            "cannot generate an RSA key of {bits} bits: the size must be a multiple of 128 from 1024 to 4096"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn keys_known_by_their_flags_alone_sign_everything_between_them() {
    let make = |flags, is_active, algorithm| {
        let private = PrivateKey::generate(algorithm, 0).unwrap();
        let usage = KeyUse::by_flags(flags, is_active, true);
        SigningKey::new(&private, flags, usage).unwrap()
    };
    let uses = |keys| -> Vec<(bool, bool, bool)> {
        let keys = Keys::by_flags(keys);
        let uses = keys.list().iter().map(SigningKey::usage);
        uses.map(|usage| (usage.signs_keys, usage.signs_zone, usage.asks_ds))
            .collect()
    };
    let split = vec![make(257, true, 13), make(256, true, 13)];
    assert_eq!(uses(split), [(true, false, true), (false, true, false)]);
    // One kind alone does the work of both; a key that does not sign does not begin to.
    let alone = vec![make(257, true, 13), make(256, false, 13)];
    assert_eq!(uses(alone), [(true, true, true), (false, false, false)]);
    assert_eq!(uses(vec![make(256, true, 13)]), [(true, true, true)]);
    // Each algorithm for itself (RFC 4035 section 2.2).
    let two = vec![make(257, true, 13), make(256, true, 15)];
    assert_eq!(uses(two), [(true, true, true), (true, true, false)]);
}

#[test]
fn a_curve_coordinate_without_leading_zeros_is_padded() {
    // A tool that writes numbers and not octets leaves zeros in front out, one time in 256.
    let with = |octets: &[u8]| {
        let number = data_encoding::BASE64.encode(octets);
        let text = format!("Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: {number}\n");
        PrivateKey::from_text(text.as_bytes())
    };
    let mut whole = [7; 32];
    whole[..2].fill(0);
    let short = with(&whole[2..]).unwrap();
    assert_eq!(short, with(&whole).unwrap());
    assert!(
        short
            .to_text()
            .reveal()
            .contains(&data_encoding::BASE64.encode(&whole))
    );
    assert_eq!(with(&[7; 33]), Err(KeyError::Length("PrivateKey", 32)));
}
