//! Keys of the HTTP API in a database that a fleet shares.
//!
//! As secrets of cookies they are rows of `tsigkeys`, which all servers on the database read, and for which no schema has to be
//! changed. The value of a key, in base64, is divided into pieces that fit the column: `1-2.3f9a01bc.api-keys.nameward` is
//! the first piece of two. No TSIG algorithm has the name of the algorithm, so PowerDNS does not use such a row.
//! A key with a missing piece is ignored.

use data_encoding::BASE64;
use nameward_sql::StoredTsigKey;
use nameward_sql::write::TSIG_SECRET_MAX;
use std::collections::BTreeMap;

/// The algorithm of a row.
const ALGORITHM: &str = "nameward-api-key";
/// The name of a row after its piece and the ID of the key.
const SUFFIX: &str = "api-keys.nameward";
/// Pieces of one key: a hundred zones with long names need fewer.
const PIECES_MAX: usize = 200;

/// A key as it is stored; what the value says is up to the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedApiKey {
    /// Its public ID: letters and digits.
    pub id: String,
    /// Its hash and its rights.
    pub value: Vec<u8>,
}

impl SharedApiKey {
    /// Checks whether a row of `tsigkeys` is meant as a piece of a key.
    pub fn is_row(row: &StoredTsigKey) -> bool {
        row.algorithm == ALGORITHM
    }

    /// Returns its rows.
    pub fn to_rows(&self) -> Vec<StoredTsigKey> {
        let text = BASE64.encode(&self.value);
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(TSIG_SECRET_MAX).collect();
        let rows = pieces.iter().enumerate().map(|(at, piece)| {
            let name = format!("{}-{}.{}.{SUFFIX}.", at + 1, pieces.len(), self.id);
            StoredTsigKey {
                name: name
                    .parse()
                    .expect("numbers, an ID and fixed labels are a name"),
                algorithm: ALGORITHM.into(),
                secret: String::from_utf8_lossy(piece).into_owned().into(),
            }
        });
        rows.collect()
    }

    /// Puts the keys of a database together, and describes rows that are not valid.
    pub fn from_rows(rows: &[StoredTsigKey]) -> (Vec<SharedApiKey>, Vec<String>) {
        let mut pieces: BTreeMap<(String, usize), BTreeMap<usize, &str>> = BTreeMap::new();
        let mut problems = Vec::new();
        for row in rows.iter().filter(|row| Self::is_row(row)) {
            match read_name(&row.name.to_string()) {
                Some((id, piece, count)) => {
                    let key = pieces.entry((id, count)).or_default();
                    key.insert(piece, row.secret.reveal());
                }
                None => problems.push(format!("API key {}: invalid row", row.name)),
            }
        }
        let mut keys = Vec::new();
        for ((id, count), pieces) in pieces {
            let text: String = pieces.values().copied().collect();
            match BASE64.decode(text.as_bytes()) {
                Ok(value) if pieces.len() == count => keys.push(SharedApiKey { id, value }),
                _ => problems.push(format!("API key {id}: invalid or incomplete rows")),
            }
        }
        (keys, problems)
    }
}

/// Reads the ID, the number of the piece and the number of pieces.
fn read_name(name: &str) -> Option<(String, usize, usize)> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let name = name.strip_suffix(SUFFIX)?.strip_suffix('.')?;
    let (numbers, id) = name.split_once('.')?;
    let (piece, count) = numbers.split_once('-')?;
    let (piece, count) = (piece.parse().ok()?, count.parse().ok()?);
    let is_valid = (1..=count).contains(&piece)
        && count <= PIECES_MAX
        && id.bytes().all(|octet| octet.is_ascii_alphanumeric());
    is_valid.then(|| (id.to_owned(), piece, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, octets: usize) -> SharedApiKey {
        SharedApiKey {
            id: id.into(),
            value: (0..octets).map(|at| at as u8).collect(),
        }
    }

    #[test]
    fn keys_round_trip() {
        let keys = [key("00aa11bb", 100), key("3f9a01bc", 5000)];
        let mut rows: Vec<_> = keys.iter().flat_map(SharedApiKey::to_rows).collect();
        assert_eq!(rows.len(), 1 + 27);
        assert!(rows.iter().all(SharedApiKey::is_row));
        assert!(
            rows.iter()
                .all(|row| row.secret.reveal().len() <= TSIG_SECRET_MAX)
        );
        rows.reverse();
        assert_eq!(SharedApiKey::from_rows(&rows), (keys.to_vec(), Vec::new()));
    }

    #[test]
    fn a_key_with_a_missing_piece_is_none() {
        let mut rows = key("3f9a01bc", 1000).to_rows();
        rows.remove(2);
        let (keys, problems) = SharedApiKey::from_rows(&rows);
        assert_eq!(keys, []);
        assert_eq!(problems, ["API key 3f9a01bc: invalid or incomplete rows"]);
    }

    #[test]
    fn rows_with_other_names_are_described() {
        for name in [
            "x.api-keys.nameward.",
            "0-1.aa.api-keys.nameward.",
            "2-1.aa.api-keys.nameward.",
            "1-201.aa.api-keys.nameward.",
            "1-1.a_a.api-keys.nameward.",
            "1-1.aa.nameward.",
        ] {
            let row = StoredTsigKey {
                name: name.parse().unwrap(),
                ..key("aa", 1).to_rows().remove(0)
            };
            let (keys, problems) = SharedApiKey::from_rows(&[row]);
            assert_eq!((keys.len(), problems.len()), (0, 1), "{name}");
        }
    }
}
