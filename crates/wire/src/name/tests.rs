//! Names from text and from the wire, their order and their printed form.

use super::*;
use proptest::prelude::*;

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

#[test]
fn text_and_wire_agree() {
    assert_eq!(
        name("www.Example.org").as_name().as_wire(),
        b"\x03www\x07Example\x03org\0"
    );
    assert_eq!(name(r"a\.b\032c\\.x.").to_string(), r"a\.b\032c\\.x.");
    assert_eq!(name(".").to_string(), ".");
}

#[test]
fn limits_of_labels_and_names_hold() {
    let label = "a".repeat(63);
    assert!(format!("{label}.").parse::<NameBuf>().is_ok());
    assert_eq!(
        format!("{label}a.").parse::<NameBuf>(),
        Err(NameError::LongLabel)
    );
    let longest = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
    assert_eq!(
        longest
            .parse::<NameBuf>()
            .unwrap()
            .as_name()
            .as_wire()
            .len(),
        255
    );
    let longer = format!("{label}.{label}.{label}.{}.", "a".repeat(62));
    assert_eq!(longer.parse::<NameBuf>(), Err(NameError::LongName));
    assert_eq!("a..b".parse::<NameBuf>(), Err(NameError::EmptyLabel));
    assert_eq!(".a".parse::<NameBuf>(), Err(NameError::EmptyLabel));
    assert_eq!(r"a\256".parse::<NameBuf>(), Err(NameError::Escape));
    assert_eq!(r"a\".parse::<NameBuf>(), Err(NameError::Escape));
    let deepest = "a.".repeat(127);
    assert_eq!(
        deepest.parse::<NameBuf>().unwrap().as_name().label_count(),
        127
    );
    assert_eq!(
        "a.".repeat(128).parse::<NameBuf>(),
        Err(NameError::LongName)
    );
}

#[test]
fn canonical_order_is_that_of_rfc_4034_section_6_1() {
    let sorted = [
        "example.",
        "a.example.",
        "yljkjljk.a.example.",
        "Z.a.example.",
        "zABC.a.EXAMPLE.",
        "z.example.",
        r"\001.z.example.",
        "*.z.example.",
        r"\200.z.example.",
    ];
    for pair in sorted.windows(2) {
        let (a, b) = (name(pair[0]), name(pair[1]));
        assert_eq!(
            a.as_name().canonical_cmp(b.as_name()),
            Ordering::Less,
            "{pair:?}"
        );
    }
}

#[test]
fn compression_attacks_are_answered_by_a_bound() {
    // A self-referencing pointer, a forward pointer, two pointers to each other.
    assert_eq!(
        NameBuf::from_message(b"\xc0\x00", 0).unwrap_err(),
        NameError::Pointer
    );
    assert_eq!(
        NameBuf::from_message(b"\xc0\x02\x00", 0).unwrap_err(),
        NameError::Pointer
    );
    assert_eq!(
        NameBuf::from_message(b"\xc0\x02\xc0\x00", 2).unwrap_err(),
        NameError::Pointer
    );
    assert_eq!(
        NameBuf::from_message(b"\x01a\xc0\x00", 0).unwrap_err(),
        NameError::Pointer
    );
    // Too long through pointers: each 64-octet label points to the previous one.
    let mut message = vec![0];
    for i in 0..5u16 {
        let target = if i == 0 { 0 } else { 1 + (i - 1) * 66 };
        message.push(63);
        message.extend([b'a'; 63]);
        message.extend((0xc000 | target).to_be_bytes());
    }
    assert_eq!(
        NameBuf::from_message(&message, 1 + 4 * 66).unwrap_err(),
        NameError::LongName
    );
    assert!(NameBuf::from_message(&message, 1 + 2 * 66).is_ok());
    // Unknown label types (RFC 6891 section 5 retired 0x40).
    assert_eq!(
        NameBuf::from_message(b"\x41a\0", 0).unwrap_err(),
        NameError::LabelType
    );
}

proptest! {
    #[test]
    fn any_name_survives_text_and_back(labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..8)) {
        let mut wire = Vec::new();
        for label in &labels {
            wire.push(label.len() as u8);
            wire.extend(label);
        }
        wire.push(0);
        let name = Name::from_wire(&wire).unwrap();
        let back: NameBuf = name.to_string().parse().unwrap();
        prop_assert_eq!(back.as_name().as_wire(), &wire[..]);
    }

    #[test]
    fn arbitrary_bytes_never_panic(message in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
        if let Ok((name, end)) = NameBuf::from_message(&message, at) {
            prop_assert!(Name::from_wire(name.as_name().as_wire()).is_ok());
            prop_assert!(end <= message.len());
        }
        let _ = Name::split_from(&message);
        let _ = NameBuf::from_text(&message, Name::ROOT);
    }
}
