//! Journals built by hand: read, truncated and damaged.

use super::*;

/// Encodes a record as in a journal.
fn record(owner: &[u8], rtype: u16, data: &[u8]) -> Vec<u8> {
    let fixed = [
        owner,
        &rtype.to_be_bytes(),
        &[0, 1, 0, 0, 0, 60],
        &(data.len() as u16).to_be_bytes(),
        data,
    ];
    let record = fixed.concat();
    [&(record.len() as u32).to_be_bytes()[..], &record].concat()
}

fn soa(serial: u32) -> Vec<u8> {
    let data = [&b"\0\0"[..], &serial.to_be_bytes(), &[0; 16]].concat();
    record(b"\x01a\0", 6, &data)
}

fn transaction(from: u32, to: u32, removed: &[Vec<u8>], added: &[Vec<u8>]) -> Vec<u8> {
    let count = 2 + removed.len() + added.len();
    let records = [&soa(from), &removed.concat(), &soa(to), &added.concat()];
    let records = records.map(|part| &part[..]).concat();
    let header = [records.len() as u32, count as u32, from, to].map(u32::to_be_bytes);
    [&header.concat()[..], &records].concat()
}

/// Encodes a journal with an index of two entries.
fn journal(first: u32, last: u32, transactions: &[Vec<u8>]) -> Vec<u8> {
    let begin = 64 + 16;
    let body = transactions.concat();
    let numbers = [first, begin, last, begin + body.len() as u32, 2, 0, 0].map(u32::to_be_bytes);
    let mut header = [&FORM[..], &numbers.concat()].concat();
    header.resize(begin as usize, 0);
    [header, body].concat()
}

fn sample() -> Vec<u8> {
    let a = |last| record(b"\x01w\x01a\0", 1, &[192, 0, 2, last]);
    journal(
        7,
        12,
        &[
            transaction(7, 8, &[], &[a(1)]),
            transaction(8, 9, &[a(1)], &[a(2), a(3)]),
            transaction(9, 12, &[a(2)], &[]),
        ],
    )
}

fn serials(octets: &[u8], from: u32) -> Result<Vec<(u32, u32)>, String> {
    let found = read(octets, Serial(from)).map_err(|error| error.to_string())?;
    let serials = found.iter().filter_map(Difference::serials);
    Ok(serials.map(|(from, to)| (from.0, to.0)).collect())
}

#[test]
fn changes_are_read_from_the_version_of_the_file_on() {
    let octets = sample();
    assert_eq!(serials(&octets, 7), Ok(vec![(7, 8), (8, 9), (9, 12)]));
    assert_eq!(serials(&octets, 9), Ok(vec![(9, 12)]));
    assert_eq!(serials(&octets, 12), Ok(vec![]));
    let found = read(&octets[..], Serial(8)).unwrap();
    assert_eq!((found[0].removed.len(), found[0].added.len()), (2, 3));
    let error = serials(&octets, 10).unwrap_err();
    assert_eq!(
        error,
        "it ends at serial 12, but does not contain serial 10 of the zone file"
    );
}

#[test]
fn octets_after_the_last_version_are_ignored() {
    let octets = [sample(), transaction(12, 13, &[], &[])].concat();
    assert_eq!(serials(&octets, 9), Ok(vec![(9, 12)]));
}

#[test]
fn an_incomplete_journal_is_refused() {
    let gap = journal(
        7,
        9,
        &[transaction(7, 8, &[], &[]), transaction(6, 9, &[], &[])],
    );
    assert!(
        serials(&gap, 7)
            .unwrap_err()
            .starts_with("a change starts at serial 6")
    );
    let other_end = journal(7, 10, &[transaction(7, 8, &[], &[])]);
    assert!(serials(&other_end, 7).is_err());
    let foreign = journal(7, 8, &[transaction(7, 8, &[], &[record(b"\0", 255, b"")])]);
    assert!(
        serials(&foreign, 7)
            .unwrap_err()
            .contains("is not allowed in a zone")
    );
    let malformed = journal(7, 8, &[transaction(7, 8, &[], &[record(b"\0", 1, b"xyz")])]);
    assert!(
        serials(&malformed, 7)
            .unwrap_err()
            .starts_with("invalid A record")
    );
    let mut old_form = sample();
    old_form[12..14].copy_from_slice(b"\n\0");
    assert_eq!(serials(&old_form, 7), Err("unknown format".into()));
    let mut large = sample();
    large[28] = 0x70;
    assert!(
        serials(&large, 7)
            .unwrap_err()
            .starts_with("larger than 64 MiB")
    );
}

#[test]
fn a_truncated_or_damaged_journal_never_panics() {
    let octets = sample();
    for length in 0..octets.len() {
        assert!(serials(&octets[..length], 7).is_err(), "{length}");
    }
    let mut damaged = octets.clone();
    for at in 16..octets.len() {
        for octet in [0, 1, 0x3f, 0x7f, 0xc0, 0xff] {
            damaged[at] = octet;
            let _ = serials(&damaged, 7);
        }
        damaged[at] = octets[at];
    }
}
