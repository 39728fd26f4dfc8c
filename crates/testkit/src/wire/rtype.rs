//! Mnemonics of types, classes and response codes.

#[rustfmt::skip]
const TYPES: &[(u16, &str)] = &[
    (1, "A"), (2, "NS"), (3, "MD"), (4, "MF"), (5, "CNAME"), (6, "SOA"), (7, "MB"), (8, "MG"), (9, "MR"),
    (11, "WKS"), (12, "PTR"), (13, "HINFO"), (14, "MINFO"), (15, "MX"), (16, "TXT"), (17, "RP"),
    (18, "AFSDB"), (21, "RT"), (28, "AAAA"), (29, "LOC"), (33, "SRV"), (35, "NAPTR"), (36, "KX"),
    (39, "DNAME"), (41, "OPT"), (43, "DS"), (44, "SSHFP"), (46, "RRSIG"), (47, "NSEC"), (48, "DNSKEY"),
    (50, "NSEC3"), (51, "NSEC3PARAM"), (52, "TLSA"), (59, "CDS"), (60, "CDNSKEY"), (64, "SVCB"),
    (65, "HTTPS"), (99, "SPF"), (249, "TKEY"), (250, "TSIG"), (251, "IXFR"), (252, "AXFR"),
    (253, "MAILB"), (254, "MAILA"), (255, "ANY"), (256, "URI"), (257, "CAA"),
];

#[rustfmt::skip]
const RCODES: &[(u16, &str)] = &[
    (0, "NOERROR"), (1, "FORMERR"), (2, "SERVFAIL"), (3, "NXDOMAIN"), (4, "NOTIMP"), (5, "REFUSED"),
    (6, "YXDOMAIN"), (7, "YXRRSET"), (8, "NXRRSET"), (9, "NOTAUTH"), (10, "NOTZONE"), (16, "BADVERS"),
    (23, "BADCOOKIE"),
];

const CLASSES: &[(u16, &str)] = &[(1, "IN"), (3, "CH"), (4, "HS"), (254, "NONE"), (255, "ANY")];

fn text_of(table: &[(u16, &str)], code: u16, prefix: &str) -> String {
    match table.iter().find(|(number, _)| *number == code) {
        Some((_, text)) => (*text).to_string(),
        None => format!("{prefix}{code}"),
    }
}

fn code_of(table: &[(u16, &str)], text: &str, prefix: &str) -> Option<u16> {
    let upper = text.to_ascii_uppercase();
    let known = table
        .iter()
        .find(|(_, name)| *name == upper)
        .map(|(number, _)| *number);
    known.or_else(|| upper.strip_prefix(prefix)?.parse().ok())
}

/// Returns `A`, or `TYPE65280` if there is no mnemonic here.
pub fn type_text(code: u16) -> String {
    text_of(TYPES, code, "TYPE")
}

/// Returns the number of `A` or `TYPE1`.
pub fn type_from_text(text: &str) -> Option<u16> {
    code_of(TYPES, text, "TYPE")
}

/// Returns `NXDOMAIN`, or `RCODE11` if there is no mnemonic here.
pub fn rcode_text(code: u16) -> String {
    text_of(RCODES, code, "RCODE")
}

/// Returns the number of `NXDOMAIN`.
pub fn rcode_from_text(text: &str) -> Option<u16> {
    code_of(RCODES, text, "RCODE")
}

/// Returns `IN`, or `CLASS7` if there is no mnemonic here.
pub fn class_text(code: u16) -> String {
    text_of(CLASSES, code, "CLASS")
}

/// Returns the number of `IN` or `CLASS1`.
pub fn class_from_text(text: &str) -> Option<u16> {
    code_of(CLASSES, text, "CLASS")
}
