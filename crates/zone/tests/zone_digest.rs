//! Digests over whole zones: the examples of RFC 8976, and the rules of section 4 for records that do not match.

use nameward_dnssec::ZonemdHash;
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{DigestCheck, DigestFault, Zone, ZoneBuilder};

/// Appendix A.1.
const SIMPLE: &str = "@ 86400 SOA ns1 admin 2018031900 1800 900 604800 86400\n@ 86400 NS ns1\n@ 86400 NS ns2\n\
    @ 86400 ZONEMD 2018031900 1 1 c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3a1ddc0b9a87153b9a9713b3c9ae5cc27777f98b8e730044c\n\
    ns1 3600 A 203.0.113.63\nns2 3600 AAAA 2001:db8::63\n";

/// Appendix A.2, without the record outside the zone, which is an error in a zone file here.
const COMPLEX: &str = "@ 86400 SOA ns1 admin 2018031900 1800 900 604800 86400\n@ 86400 NS ns1\n@ 86400 NS ns2\n\
    @ 86400 ZONEMD 2018031900 1 1 a3b69bad980a3504e1cffcb0fd6397f93848071c93151f552ae2f6b1711d4bd2d8b39808226d7b9db71e34b72077f8fe\n\
    ns1 3600 A 203.0.113.63\nNS2 3600 AAAA 2001:db8::63\n\
    occluded.sub 7200 TXT \"I'm occluded but must be digested\"\nsub 7200 NS ns1\n\
    duplicate 300 TXT \"I must be digested just once\"\nduplicate 300 TXT \"I must be digested just once\"\n\
    UPPERCASE 3600 TXT \"canonicalize uppercase owner names\"\n* 777 PTR dont-forget-about-wildcards\n\
    mail 3600 MX 20 MAIL1\nmail 3600 MX 10 Mail2.Example.\nsortme 3600 AAAA 2001:db8::5:61\n\
    sortme 3600 AAAA 2001:db8::3:62\nsortme 3600 AAAA 2001:db8::4:63\nsortme 3600 AAAA 2001:db8::1:65\n\
    sortme 3600 AAAA 2001:db8::2:64\n\
    non-apex 900 ZONEMD 2018031900 1 1 616c6c6f776564206275742069676e6f7265642e20616c6c6f776564206275742069676e6f7265642e20616c6c6f7765\n";

/// Appendix A.3, with digests of both algorithms, and of an unknown algorithm and scheme.
const SEVERAL: &str = "@ 86400 SOA ns1 admin 2018031900 1800 900 604800 86400\n@ 86400 NS ns1\n@ 86400 NS ns2\n\
    @ 86400 ZONEMD 2018031900 1 1 62e6cf51b02e54b9b5f967d547ce43136792901f9f88e637493daaf401c92c279dd10f0edb1c56f8080211f8480ee306\n\
    @ 86400 ZONEMD 2018031900 1 2 08cfa1115c7b948c4163a901270395ea226a930cd2cbcf2fa9a5e6eb85f37c8a4e114d884e66f176eab121cb02db7d652e0cc4827e7a3204f166b47e5613fd27\n\
    @ 86400 ZONEMD 2018031900 1 240 e2d523f654b9422a96c5a8f44607bbee\n\
    @ 86400 ZONEMD 2018031900 241 240 e1846540e33a9e4189792d18d5d131f605fc283e\n\
    ns1 3600 A 203.0.113.63\nns2 86400 TXT \"This example has multiple digests\"\nNS2.EXAMPLE. 3600 AAAA 2001:db8::63\n";

fn zone(text: &str) -> Zone {
    let origin: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    let (zone, findings) = builder.finish();
    zone.unwrap_or_else(|| panic!("{:?} {findings:?}", report.diagnostics))
}

#[test]
fn the_example_digests_of_the_rfc_are_verified() {
    for text in [SIMPLE, COMPLEX, SEVERAL] {
        assert_eq!(
            zone(text).check_digest(),
            Ok(DigestCheck::Verified),
            "{text}"
        );
    }
    let several = zone(SEVERAL);
    let text = |hash| data_text(&several.zonemd(hash));
    assert!(SEVERAL.contains(&text(ZonemdHash::Sha384)));
    assert!(SEVERAL.contains(&text(ZonemdHash::Sha512)));
}

fn data_text(rdata: &[u8]) -> String {
    let digest: String = rdata[6..]
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    format!("2018031900 {} {} {digest}", rdata[4], rdata[5])
}

#[test]
fn one_matching_digest_is_enough_and_wrong_ones_are_distinguished() {
    let only = |kept: &str| {
        let lines = SEVERAL.lines();
        let kept = lines.filter(|line| !line.contains("@ 86400 ZONEMD") || line.contains(kept));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    let unknown = zone(&only(" 240 ")).check_digest();
    assert_eq!(unknown, Ok(DigestCheck::Unknown));
    assert_eq!(zone(&only("none")).check_digest(), Ok(DigestCheck::Missing));
    let half_right = SEVERAL.replace("62e6cf51", "62e6cf52");
    assert_eq!(zone(&half_right).check_digest(), Ok(DigestCheck::Verified));
    let wrong = SIMPLE.replace("c68090d9", "c68090d8");
    assert_eq!(
        zone(&wrong).check_digest(),
        Err(DigestFault::Mismatch(2018031900))
    );
    let changed = SIMPLE.replace("203.0.113.63", "203.0.113.64");
    assert_eq!(
        zone(&changed).check_digest(),
        Err(DigestFault::Mismatch(2018031900))
    );
    let ttl = SIMPLE.replace("ns1 3600 A", "ns1 3601 A");
    assert!(zone(&ttl).check_digest().is_err());
    let later = SIMPLE.replace("admin 2018031900", "admin 2018031901");
    let serials = DigestFault::Serial {
        zone: 2018031901,
        record: 2018031900,
    };
    assert_eq!(zone(&later).check_digest(), Err(serials));
    // A correct and a wrong one of the same algorithm: it is ambiguous which is meant.
    let line = SIMPLE.lines().find(|line| line.contains("ZONEMD")).unwrap();
    let twice = format!("{SIMPLE}{}\n", line.replace("c68090d9", "c68090d8"));
    assert_eq!(
        zone(&twice).check_digest(),
        Err(DigestFault::Repeated(2018031900))
    );
}
