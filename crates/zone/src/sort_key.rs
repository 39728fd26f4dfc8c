//! Keys of names whose plain order is the canonical order (RFC 4034 section 6.1).

use nameward_wire::name::{MAX_LABEL, MAX_LABELS, MAX_NAME};
use nameward_wire::{Name, NameBuf};

/// Writes bytes whose plain order is the canonical order of names: labels from the right in lower case, each terminated
/// by 0, with the octets 0 and 1 inside labels encoded as two.
pub(crate) fn sort_key(name: Name<'_>, out: &mut Vec<u8>) {
    out.clear();
    let mut offsets = [0u8; MAX_LABELS];
    let count = name.label_offsets(&mut offsets);
    let wire = name.as_wire();
    for &offset in offsets[..count].iter().rev() {
        let start = offset as usize + 1;
        for &byte in &wire[start..start + wire[start - 1] as usize] {
            match byte {
                0 | 1 => out.extend_from_slice(&[1, byte + 1]),
                _ => out.push(byte.to_ascii_lowercase()),
            }
        }
        out.push(0);
    }
}

/// Converts a key made by [`sort_key`] back to a name: labels from the right, each terminated by 0, with 0 and 1
/// encoded as two octets.
pub(crate) fn name_of_key(key: &[u8], apex: Name<'_>) -> Option<NameBuf> {
    let mut wire = [0; MAX_NAME];
    let mut start = wire.len();
    let mut label = [0; MAX_LABEL];
    let (mut len, mut octets) = (0, key.iter());
    while let Some(&octet) = octets.next() {
        let octet = match octet {
            0 => {
                let end = start;
                start = start.checked_sub(len + 1)?;
                wire[start] = len as u8;
                wire[start + 1..end].copy_from_slice(&label[..len]);
                len = 0;
                continue;
            }
            1 => octets.next()?.checked_sub(1)?,
            octet => octet,
        };
        *label.get_mut(len)? = octet;
        len += 1;
    }
    NameBuf::join(&wire[start..], apex).ok()
}
