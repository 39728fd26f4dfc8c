//! Writes small databases in the MaxMind format (version 2.0), so that tests need no third-party files.
//!
//! The tree has one record per bit of an IPv6 address; IPv4 networks are below `::/96`.

use std::net::IpAddr;

/// A value in a database.
#[derive(Debug, Clone)]
pub enum GeoValue {
    /// UTF-8 text.
    Text(String),
    /// A floating-point number.
    Double(f64),
    /// A number of 16 bits.
    Short(u16),
    /// A number of 32 bits.
    Number(u32),
    /// A number of 64 bits.
    Long(u64),
    /// Values by name.
    Map(Vec<(&'static str, GeoValue)>),
    /// A list of values.
    List(Vec<GeoValue>),
}

impl From<&str> for GeoValue {
    fn from(text: &str) -> Self {
        GeoValue::Text(text.to_owned())
    }
}

impl GeoValue {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            GeoValue::Text(text) => {
                control(2, text.len(), out);
                out.extend_from_slice(text.as_bytes());
            }
            GeoValue::Double(number) => {
                control(3, 8, out);
                out.extend_from_slice(&number.to_be_bytes());
            }
            GeoValue::Short(number) => {
                control(5, 2, out);
                out.extend_from_slice(&number.to_be_bytes());
            }
            GeoValue::Long(number) => {
                control(9, 8, out);
                out.extend_from_slice(&number.to_be_bytes());
            }
            GeoValue::Number(number) => {
                control(6, 4, out);
                out.extend_from_slice(&number.to_be_bytes());
            }
            GeoValue::Map(entries) => {
                control(7, entries.len(), out);
                for (name, value) in entries {
                    GeoValue::from(*name).write(out);
                    value.write(out);
                }
            }
            GeoValue::List(values) => {
                control(11, values.len(), out);
                values.iter().for_each(|value| value.write(out));
            }
        }
    }
}

/// Writes the type and size in front of a value. Sizes are below 285.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (bits, extra) = match size {
        0..29 => (size as u8, None),
        _ => (29, Some((size - 29) as u8)),
    };
    match kind {
        1..8 => out.push(kind << 5 | bits),
        _ => out.extend([bits, kind - 7]),
    }
    out.extend(extra);
}

/// Returns a database with a value for each network.
///
/// # Panics
/// If a network is not valid, or one is inside another.
pub fn geo_database(kind: &str, networks: &[(&str, GeoValue)]) -> Vec<u8> {
    const EMPTY: u32 = u32::MAX;
    let mut nodes = vec![[EMPTY; 2]];
    let (mut data, mut leaves) = (Vec::new(), Vec::new());
    for (network, value) in networks {
        let (address, length) = network.split_once('/').expect("a network");
        let length: u32 = length.parse().expect("a length");
        let (bits, length) = match address.parse().expect("an address") {
            IpAddr::V4(address) => (u128::from(address.to_bits()), length + 96),
            IpAddr::V6(address) => (address.to_bits(), length),
        };
        let mut node = 0;
        for bit in 0..length {
            let side = (bits >> (127 - bit) & 1) as usize;
            if bit + 1 == length {
                assert_eq!(nodes[node][side], EMPTY, "{network} is taken");
                leaves.push((node, side, data.len() as u32));
            } else if nodes[node][side] == EMPTY {
                nodes[node][side] = nodes.len() as u32;
                node = nodes.len();
                nodes.push([EMPTY; 2]);
            } else {
                node = nodes[node][side] as usize;
            }
        }
        value.write(&mut data);
    }
    let count = nodes.len() as u32;
    let mut out = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        for (side, &next) in node.iter().enumerate() {
            let leaf = leaves.iter().find(|leaf| (leaf.0, leaf.1) == (index, side));
            let record = match (leaf, next) {
                // Data starts 16 octets after the tree, and its offsets count from the number of nodes.
                (Some((_, _, offset)), _) => count + 16 + offset,
                (None, EMPTY) => count,
                (None, next) => next,
            };
            out.extend_from_slice(&record.to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(&data);
    out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    GeoValue::Map(vec![
        ("binary_format_major_version", GeoValue::Short(2)),
        ("binary_format_minor_version", GeoValue::Short(0)),
        ("build_epoch", GeoValue::Long(1_700_000_000)),
        ("database_type", kind.into()),
        (
            "description",
            GeoValue::Map(vec![("en", "for tests".into())]),
        ),
        ("ip_version", GeoValue::Short(6)),
        ("languages", GeoValue::List(vec!["en".into()])),
        ("node_count", GeoValue::Number(count)),
        ("record_size", GeoValue::Short(32)),
    ])
    .write(&mut out);
    out
}
